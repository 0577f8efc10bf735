// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/fill.hpp>

#include <cstdint>
#include <cstring>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"

namespace {

template <class T>
struct pair_of {
    T first, second;
};

// Fills the elements after the first of three; returns whether all bytes are as they should be.
template <class T>
bool fills(T const& value) {
    cuota::stream const s;
    cuota::device_buffer<T> x{3, s, cuota::device_memory{}};
    {
        auto const mine = x.write(s);
        cuota::detail::fill<T>(mine.data() + 1, 2, value, s, {});
    }
    std::vector<T> const read = x.to_vector(s);
    T const zero{};
    return std::memcmp(&read[0], &zero, sizeof zero) == 0 &&
           std::memcmp(&read[1], &value, sizeof value) == 0 &&
           std::memcmp(&read[2], &value, sizeof value) == 0;
}

}  // namespace

TEST_CASE("values of every size are repeated", "[buffer][fill]") {
    CHECK(fills(std::uint8_t{200}));
    CHECK(fills(std::uint16_t{60'000}));
    CHECK(fills(1.5f));
    CHECK(fills(1.5));                                 // 8 bytes, two different words
    CHECK(fills(std::uint64_t{0x11111111'11111111}));  // one word twice
    CHECK(fills(pair_of<double>{1.5, -2.5}));
    CHECK(fills(pair_of<std::uint32_t>{7, 7}));
    struct three {
        std::uint8_t r, g, b;
    };
    CHECK(fills(three{1, 2, 3}));
}
