// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/offset_users.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "support/catch.hpp"

using cuota::detail::offset_users;

TEST_CASE("offset_users returns the latest user of an offset", "[pool][offset_users]") {
    std::mt19937_64 random{3};
    offset_users users{200};
    std::map<std::size_t, std::uint32_t> spots, expected;
    while (spots.size() != 200) {
        std::size_t const offset = random() % 5'000 * 256;
        std::uint32_t const spot = users.enter(offset);
        if (spots.count(offset) != 0) CHECK(spots[offset] == spot);
        spots[offset] = spot;
        expected[offset] = offset_users::no_user;
    }
    for (std::uint32_t i = 0; i != 1'000; ++i) {
        std::size_t const offset = random() % 5'000 * 256;
        auto const spot = spots.find(offset);
        if (spot != spots.end()) {
            expected[offset] = random() % 3 == 0 ? offset_users::no_user : i;
            users.set(spot->second, expected[offset]);
        }
        REQUIRE(users.of(offset) == (spot == spots.end() ? offset_users::no_user : expected[offset]));
    }
    for (auto const& [offset, who] : expected) {
        CHECK(users.of(offset) == who);
        CHECK(users.of(offset + 1) == offset_users::no_user);  // not an entered offset
    }
}

TEST_CASE("offset_users of no offsets has no users", "[pool][offset_users]") {
    offset_users const users{0};
    CHECK(users.of(0) == offset_users::no_user);
    CHECK(users.of(cuota::unlimited) == offset_users::no_user);
}
