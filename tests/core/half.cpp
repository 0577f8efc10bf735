// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/half.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/catch.hpp"

using cuota::bfloat16;
using cuota::half;

static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half> &&
              std::is_trivially_default_constructible_v<half>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);
static_assert(half{1.0f}.bits == 0x3c00 && static_cast<float>(half{-2.5f}) == -2.5f);
static_assert(bfloat16{1.0f}.bits == 0x3f80 && static_cast<float>(bfloat16{-2.5f}) == -2.5f);

namespace {

// Finds the nearest 16-bit number by binary search over all of them; ties are rounded to even.
template <class T>
std::uint16_t nearest(float value) {
    float const magnitude = std::fabs(value);
    std::uint16_t low = 0;
    std::uint16_t high = T{std::numeric_limits<float>::infinity()}.bits;
    while (low + 1 < high) {
        auto const middle = static_cast<std::uint16_t>((low + high) / 2);
        (static_cast<float>(std::bit_cast<T>(middle)) <= magnitude ? low : high) = middle;
    }
    double const below = static_cast<float>(std::bit_cast<T>(low));
    // Numbers above the largest finite one are rounded as if the exponent had no limit.
    double const step =
        below -
        static_cast<double>(static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(low - 1))));
    bool const is_last = high == T{std::numeric_limits<float>::infinity()}.bits;
    double const above = is_last ? below + step : static_cast<float>(std::bit_cast<T>(high));
    double const to_low = magnitude - below;
    double const to_high = above - magnitude;
    bool const is_up = to_high < to_low || (to_high == to_low && (low & 1) == 1);
    return static_cast<std::uint16_t>((std::signbit(value) ? 0x8000 : 0) | (is_up ? high : low));
}

template <class T>
void expect_nearest(float value) {
    std::uint16_t const got = T{value}.bits;
    if (got != nearest<T>(value)) FAIL(value << " became " << got << ", not " << nearest<T>(value));
}

}  // namespace

TEMPLATE_TEST_CASE("every 16-bit value is unchanged by conversion to float and back", "[core][half]", half,
                   bfloat16) {
    for (std::uint32_t bits = 0; bits != 0x10000; ++bits) {
        auto const x = std::bit_cast<TestType>(static_cast<std::uint16_t>(bits));
        auto const wide = static_cast<float>(x);
        TestType const back{wide};
        bool const is_same = std::isnan(wide) ? std::isnan(static_cast<float>(back)) &&
                                                    std::signbit(wide) == ((bits & 0x8000) != 0)
                                              : back == x;
        if (!is_same) FAIL(bits << " became " << back.bits);
    }
}

TEMPLATE_TEST_CASE("a float is converted to the nearest 16-bit value, ties to even", "[core][half]", half,
                   bfloat16) {
    // Checks all numbers and the midpoints between neighbors, each with the adjacent floats.
    for (std::uint32_t bits = 1; bits != TestType{std::numeric_limits<float>::infinity()}.bits; ++bits) {
        auto const here = static_cast<float>(std::bit_cast<TestType>(static_cast<std::uint16_t>(bits)));
        auto const before = static_cast<float>(std::bit_cast<TestType>(static_cast<std::uint16_t>(bits - 1)));
        float const middle = before + (here - before) / 2;
        for (float const at : {here, middle})
            for (float const value :
                 {at, std::nextafter(at, 0.0f), std::nextafter(at, std::numeric_limits<float>::max())}) {
                expect_nearest<TestType>(value);
                expect_nearest<TestType>(-value);
            }
    }
    std::uint32_t random = 1;
    for (int i = 0; i != 200'000; ++i) {
        random = random * 1664525 + 1013904223;
        auto const value = std::bit_cast<float>(random);
        if (!std::isnan(value) && !std::isinf(value)) expect_nearest<TestType>(value);
    }
}

TEST_CASE("floats outside of the range of a 16-bit type become infinity or zero, and NaN stays NaN",
          "[core][half]") {
    float const infinite = std::numeric_limits<float>::infinity();
    CHECK(half{65504.0f}.bits == 0x7bff);
    CHECK(half{65519.996f}.bits == 0x7bff);
    CHECK(half{65520.0f}.bits == 0x7c00);
    CHECK(half{1e30f}.bits == 0x7c00);
    CHECK(half{-infinite}.bits == 0xfc00);
    CHECK(half{0x1p-25f}.bits == 0);  // a tie: rounded to even
    CHECK(half{0x1.000002p-25f}.bits == 1);
    CHECK(half{-1e-30f}.bits == 0x8000);
    CHECK(half{-0.0f}.bits == 0x8000);
    CHECK(bfloat16{std::numeric_limits<float>::max()}.bits == 0x7f80);
    CHECK(bfloat16{infinite}.bits == 0x7f80);
    for (std::uint32_t const nan : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7f802000u}) {
        CHECK(std::isnan(static_cast<float>(half{std::bit_cast<float>(nan)})));
        CHECK(std::isnan(static_cast<float>(bfloat16{std::bit_cast<float>(nan)})));
    }
}
