// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/detail/int8_codec.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::block_code;
using cuota::detail::divisor_code;
using cuota::detail::signed_code;

static_assert(block_code<127>::scale(0) == 0 && block_code<127>::scale(127) == 1);

namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Returns random magnitudes and hard ones: near the midpoint of two codes, and at the ends of the range.
std::vector<float> magnitudes_up_to(float most, unsigned codes, std::mt19937& random) {
    std::uint32_t const top = std::bit_cast<std::uint32_t>(most);
    std::vector<float> all{0, most, float_of(top == 0 ? 0 : top - 1), float_of(top == 0 ? 0 : 1u)};
    for (int i = 0; i != 30; ++i) {
        all.push_back(
            float_of(top == 0 ? 0 : static_cast<std::uint32_t>(random() % (std::uint64_t{top} + 1))));
        double const half_way = (static_cast<double>(random() % codes) + 0.5) * most / codes;
        auto const near = std::bit_cast<std::uint32_t>(static_cast<float>(half_way));
        for (std::uint32_t bits = near < 2 ? 0 : near - 2; bits <= std::min(near + 2, top); ++bits)
            all.push_back(float_of(bits));
    }
    return all;
}

std::vector<float> maxima(std::mt19937& random) {
    std::vector<float> all{std::numeric_limits<float>::max(), std::numeric_limits<float>::min(), 1.0f, 127.0f,
                           254.0f};
    // n * codes, where the scale is exactly n, and the adjacent floats.
    for (std::uint32_t n = 0x10000; n < 0x20000; n += 97)
        for (std::uint32_t const codes : {127u, 254u})
            for (int d = -1; d != 2; ++d)
                all.push_back(float_of(std::bit_cast<std::uint32_t>(static_cast<float>(n * codes)) +
                                       static_cast<std::uint32_t>(d)));
    for (int i = 0; i != 5000; ++i)
        all.push_back(float_of(static_cast<std::uint32_t>(0x0080'0000u + random() % 0x7f00'0000u)));
    return all;
}

// Returns the error minus its bound, times 2 * Codes. Exact in double: a difference of 24 bits times a factor of 8 bits.
template <unsigned Codes>
double error_over_bound(float x, float most) {
    float const scale = block_code<Codes>::scale(most);
    unsigned const code = block_code<Codes>::nearest(x, scale);
    float const back = block_code<Codes>::value(code, scale);
    if (code > Codes) FAIL(x << " of " << most << " has the code " << code);
    if (static_cast<double>(back) != static_cast<double>(code) * static_cast<double>(scale))
        FAIL("code " << code << " of " << most << " is not exact");
    return std::fabs(static_cast<double>(x) - static_cast<double>(back)) * 2 * Codes -
           static_cast<double>(most);
}

template <unsigned Codes>
void expect_bound() {
    std::mt19937 random{11};
    for (float const most : maxima(random))
        for (float const x : magnitudes_up_to(most, Codes, random))
            if (error_over_bound<Codes>(x, most) > 0)
                FAIL(x << " of " << most << " with " << Codes << " codes");
}

template <unsigned Codes>
void expect_bound_of_denormals() {
    std::mt19937 random{12};
    double const slack = 2 * Codes * 0x1p-150;
    for (std::uint32_t bits = 0; bits < 0x0080'0000u; bits += bits < 3000 ? 1 : 1009)
        for (float const x : magnitudes_up_to(float_of(bits), Codes, random))
            if (error_over_bound<Codes>(x, float_of(bits)) > slack)
                FAIL("denormal " << std::bit_cast<std::uint32_t>(x) << " of " << bits);
}

}  // namespace

TEST_CASE("codes and scales are two allocations, each rounded up", "[training][block_code]") {
    CHECK(cuota::detail::coded_bytes(0, 256, 512) == 0);
    CHECK(cuota::detail::coded_bytes(1, 256, 1) == 5);
    CHECK(cuota::detail::coded_bytes(256, 256, 1) == 260);
    CHECK(cuota::detail::coded_bytes(257, 256, 1) == 265);
    CHECK(cuota::detail::coded_bytes(257, 256, 512) == 1024);
    CHECK(cuota::detail::coded_bytes(513, 1, 512) == 1024 + 2560);
    CHECK(cuota::detail::coded_bytes(cuota::unlimited, 256, 1) == cuota::unlimited);
    CHECK(cuota::detail::coded_bytes(cuota::unlimited / 2, 1, 1) == cuota::unlimited);
}

TEST_CASE("the error of every code is at most half of its block's maximum over the number of codes",
          "[training][block_code]") {
    expect_bound<127>();
    expect_bound<254>();
}

TEST_CASE("for denormals, the error exceeds the bound by at most half the smallest denormal",
          "[training][block_code]") {
    expect_bound_of_denormals<127>();
    expect_bound_of_denormals<254>();
    // Up to 127 times the smallest denormal, values are exact.
    for (std::uint32_t bits = 0; bits != 128; ++bits)
        CHECK(block_code<127>::value(
                  block_code<127>::nearest(float_of(bits), block_code<127>::scale(float_of(127))),
                  block_code<127>::scale(float_of(127))) == float_of(bits));
}

TEST_CASE("signed codes keep the sign, and encode numbers that are not finite as NaN",
          "[training][block_code]") {
    float const scale = signed_code::code::scale(2.0f);
    CHECK(signed_code::of(2.0f, scale) == 127);
    CHECK(signed_code::of(-2.0f, scale) == -127);
    CHECK(signed_code::value(-127, scale) == -signed_code::value(127, scale));
    CHECK(signed_code::of(-0.0f, scale) == 0);
    CHECK(signed_code::of(0, 0) == 0);
    for (float const x : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
        CHECK(std::isnan(signed_code::value(signed_code::of(x, scale), scale)));
}

TEST_CASE("a divisor that is not 0 is never encoded as 0", "[training][block_code]") {
    float const scale = divisor_code::code::scale(1.0f);
    CHECK(divisor_code::of(0, scale) == 0);
    for (float const x : {std::numeric_limits<float>::denorm_min(), 1e-20f, scale * 0.49f, scale})
        CHECK(divisor_code::of(x, scale) == 1);
    CHECK(divisor_code::of(1.0f, scale) == 254);
    CHECK(std::isnan(
        divisor_code::value(divisor_code::of(std::numeric_limits<float>::infinity(), scale), scale)));
    CHECK(divisor_code::value(254, scale) <= 1.0f);
}

TEST_CASE("a number that is not finite does not count as a maximum", "[training][block_code]") {
    float most = 0;
    for (float const x :
         {1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 0.5f})
        most = cuota::detail::finite_max(most, x);
    CHECK(most == 1.0f);
    CHECK(cuota::detail::magnitude(-3.0f) == 3.0f);
    CHECK(std::bit_cast<std::uint32_t>(cuota::detail::magnitude(-0.0f)) == 0);
}

namespace {

// Computes the scale by division in double, then truncation. Rounding of the quotient does not matter: 53 bits distinguish any two such
// numbers.
template <unsigned Codes>
float scale_by_double(float most) {
    auto const bits = std::bit_cast<std::uint32_t>(most);
    if (bits < 0x0080'0000u) return float_of((bits + Codes - 1) / Codes);
    auto const part = std::bit_cast<std::uint64_t>(static_cast<double>(most) / Codes);
    std::uint64_t const cut = part & ~((std::uint64_t{1} << (53 - block_code<Codes>::kept_bits)) - 1);
    return static_cast<float>(std::bit_cast<double>(cut));
}
unsigned nearest_by_double(float magnitude, float scale) {
    if (scale == 0) return 0;
    return static_cast<unsigned>(
        std::floor(static_cast<double>(magnitude) / static_cast<double>(scale) + 0.5));
}

template <unsigned Codes>
void expect_steps_of_doubles() {
    auto const expect = [](std::uint32_t bits) {
        if (block_code<Codes>::scale(float_of(bits)) != scale_by_double<Codes>(float_of(bits)))
            FAIL("the scale of " << float_of(bits) << " with " << Codes << " codes");
    };
    for (std::uint32_t fraction = 0; fraction < 0x0080'0000u; fraction += 3)  // every third of one binade
        expect(0x3f80'0000u + fraction);
    for (std::uint32_t bits = 0; bits < 0x7f80'0000u; bits += 997) expect(bits);
    for (std::uint32_t exponent = 1; exponent != 255; ++exponent)  // around each power of two
        for (std::uint32_t d = 0; d != 200; ++d) {
            expect((exponent << 23) + d);
            expect((exponent << 23) + 0x7f'ffffu - d);
        }
}

template <unsigned Codes>
void expect_codes_of_doubles() {
    std::mt19937 random{13};
    for (float const most : maxima(random)) {
        float const scale = block_code<Codes>::scale(most);
        typename block_code<Codes>::encoder const by{scale};
        for (float const x : magnitudes_up_to(most, Codes, random))
            if (by.nearest(x) != nearest_by_double(x, scale)) FAIL(x << " by scales of " << scale);
        for (unsigned code = 0; code != Codes; ++code) {  // midpoints of two codes and the adjacent floats
            auto const bits =
                std::bit_cast<std::uint32_t>(static_cast<float>((code + 0.5) * static_cast<double>(scale)));
            for (float const x : {float_of(bits - 1), float_of(bits), float_of(bits + 1)})
                if (x <= most && by.nearest(x) != nearest_by_double(x, scale))
                    FAIL(x << " by scales of " << scale);
        }
    }
}

}  // namespace

TEST_CASE("scales and codes equal those that are computed by division in double", "[training][block_code]") {
    expect_steps_of_doubles<127>();
    expect_steps_of_doubles<254>();
    expect_codes_of_doubles<127>();
    expect_codes_of_doubles<254>();
    CHECK(block_code<127>::nearest(0, 0) == 0);
}
