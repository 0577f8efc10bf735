// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/is_finite.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

static_assert(cuota::is_finite(cuota::half{1.0f}) && !cuota::is_finite(cuota::half{1e9f}));
static_assert(cuota::is_finite(0.0f) && !cuota::is_finite(std::numeric_limits<double>::infinity()));

TEMPLATE_TEST_CASE("is_finite of a 16-bit value equals std::isfinite of the value as a float",
                   "[core][finite]", cuota::half, cuota::bfloat16) {
    unsigned finite = 0;
    for (std::uint32_t bits = 0; bits != 0x10000; ++bits) {
        auto const x = std::bit_cast<TestType>(static_cast<std::uint16_t>(bits));
        if (cuota::is_finite(x) != std::isfinite(static_cast<float>(x))) FAIL("bits " << bits);
        finite += cuota::is_finite(x) ? 1u : 0u;
    }
    CHECK(finite < 0x10000);
    CHECK(finite > 0xf000);
}

TEMPLATE_TEST_CASE("is_finite is true up to the largest finite value and false for infinities and NaNs",
                   "[core][finite]", float, double) {
    using limits = std::numeric_limits<TestType>;
    for (TestType const x : {TestType{0}, -TestType{0}, limits::denorm_min(), limits::min(), limits::max(),
                             limits::lowest(), TestType{1}})
        CHECK(cuota::is_finite(x));
    for (TestType const x :
         {limits::infinity(), -limits::infinity(), limits::quiet_NaN(), -limits::quiet_NaN()})
        CHECK_FALSE(cuota::is_finite(x));
    // A NaN of whose fraction only the last bit is set.
    if constexpr (sizeof(TestType) == 4) CHECK_FALSE(cuota::is_finite(std::bit_cast<float>(0x7f80'0001u)));
    else CHECK_FALSE(cuota::is_finite(std::bit_cast<double>(std::uint64_t{0x7ff0'0000'0000'0001u})));
}
