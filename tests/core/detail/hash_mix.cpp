// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/hash_mix.hpp>

#include <cstdint>

#include "support/catch.hpp"

using cuota::detail::mix64;

TEST_CASE("mix64 yields the published numbers of SplitMix64 with seed 1234567", "[core][scatter]") {
    std::uint64_t state = 1'234'567;
    for (std::uint64_t const number :
         {6'457'827'717'110'365'317u, 3'203'168'211'198'807'973u, 9'817'491'932'198'370'423u})
        CHECK(mix64(state += 0x9e37'79b9'7f4a'7c15u) == number);
    CHECK(mix64(0) == 0);
}

TEST_CASE("mix64 of equidistant numbers has no long ascending runs", "[core][scatter]") {
    std::uint64_t const distance = GENERATE(1u, 256u, 1u << 21, 1u << 26, 3u << 20, 1'731'840u);
    // In a random permutation of 50,000 numbers the longest ascending run is 7 or 8; with a pattern it is thousands.
    int longest = 0;
    int run = 0;
    for (std::uint64_t i = 1; i != 50'000; ++i) {
        run = mix64(i * distance) > mix64((i - 1) * distance) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    CHECK(longest < 16);
}
