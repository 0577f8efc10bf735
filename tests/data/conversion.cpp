// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/conversion.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::converted;
using cuota::detail::wide_enough;

// wide_enough represents the values of both types.
static_assert(std::is_same_v<wide_enough<std::uint16_t, float>, float>);
static_assert(std::is_same_v<wide_enough<std::int32_t, float>, double>);
static_assert(std::is_same_v<wide_enough<float, cuota::half>, float>);
static_assert(std::is_same_v<wide_enough<float, double>, double>);

TEST_CASE("a number is scaled and shifted in a type that is wide enough to represent it",
          "[data][conversion]") {
    CHECK(converted<float>(std::uint8_t{255}, 2.0f, 1.0f, false) == 511.0f);
    CHECK(converted<float>(std::uint8_t{255}, 2.0f, 1.0f, true) == 255.0f);
    // 2^24 + 1 is not a float: in float arithmetic the difference would vanish before scaling.
    CHECK(converted<float>(std::int32_t{16'777'217}, 1.0, -16'777'216.0, false) == 1.0f);
    CHECK(converted<double>(std::int64_t{1} << 40, 0.5, 0.25, false) == 0x1p39 + 0.25);
    CHECK(converted<cuota::half>(70'000.0f, 0.5f, 0.0f, false) == cuota::half{35'000.0f});
    CHECK(converted<cuota::bfloat16>(cuota::half{1.5f}, 1.0f, 0.0f, true) == cuota::bfloat16{1.5f});
}

TEST_CASE("convert_fields changes the types of converted fields and of no others", "[data][conversion]") {
    using enum cuota::element_type;
    std::vector<cuota::field> fields{{"a", u8, {2}}, {"b", i32, {}}, {"c", f64, {3}}};
    std::vector<cuota::conversion> const wanted{{"c", f16, 2, 3}, {"a", f32}};
    auto const steps = cuota::detail::convert_fields(fields, wanted, "x");
    CHECK(cuota::fields_text(fields) == "a f32[2], b i32, c f16[3]");
    REQUIRE(steps.size() == 3);
    CHECK((steps[0] && steps[0]->scale == 1));
    CHECK_FALSE(steps[1]);
    CHECK((steps[2] && steps[2]->scale == 2 && steps[2]->offset == 3));
}
