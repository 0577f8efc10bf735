// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/element.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace {

using cuota::element_of;
using cuota::element_type;

static_assert(element_of<std::uint8_t>() == element_type::u8);
static_assert(element_of<std::byte>() == element_type::u8);
static_assert(element_of<bool>() == element_type::u8);
static_assert(element_of<signed char>() == element_type::i8);
static_assert(element_of<std::int16_t>() == element_type::i16);
static_assert(element_of<std::uint16_t>() == element_type::u16);
static_assert(element_of<std::int32_t const>() == element_type::i32);
static_assert(element_of<std::uint32_t>() == element_type::u32);
static_assert(element_of<std::int64_t>() == element_type::i64);
static_assert(element_of<long long>() == element_type::i64);
static_assert(element_of<std::uint64_t>() == element_type::u64);
static_assert(element_of<float>() == element_type::f32);
static_assert(element_of<double const>() == element_type::f64);
static_assert(element_of<cuota::half>() == element_type::f16);
static_assert(element_of<cuota::bfloat16>() == element_type::bf16);

template <class T>
concept has_element = requires {
    element_of<T>();
};
static_assert(has_element<int>);
static_assert(!has_element<long double>);
static_assert(!has_element<int*>);
static_assert(!has_element<std::string>);

}  // namespace

TEST_CASE("element types have a size and a name", "[data][element]") {
    CHECK(cuota::element_bytes(element_type::u8) == 1);
    CHECK(cuota::element_bytes(element_type::i8) == 1);
    CHECK(cuota::element_bytes(element_type::i16) == 2);
    CHECK(cuota::element_bytes(element_type::u16) == 2);
    CHECK(cuota::element_bytes(element_type::f16) == 2);
    CHECK(cuota::element_bytes(element_type::i32) == 4);
    CHECK(cuota::element_bytes(element_type::u32) == 4);
    CHECK(cuota::element_bytes(element_type::f32) == 4);
    CHECK(cuota::element_bytes(element_type::i64) == 8);
    CHECK(cuota::element_bytes(element_type::u64) == 8);
    CHECK(cuota::element_bytes(element_type::f64) == 8);
    CHECK(std::string{cuota::element_name(element_type::u8)} == "u8");
    CHECK(std::string{cuota::element_name(element_type::u64)} == "u64");
    CHECK(std::string{cuota::element_name(element_type::f16)} == "f16");
    CHECK(std::string{cuota::element_name(element_type::f64)} == "f64");
    CHECK(cuota::element_bytes(element_type::bf16) == 2);
    CHECK(std::string{cuota::element_name(element_type::bf16)} == "bf16");
}

TEST_CASE("field counts the elements and bytes of one sample", "[data][field]") {
    cuota::field const image{"image", element_type::f32, {3, 32, 32}};
    CHECK(image.count() == 3072);
    CHECK(image.bytes() == 12288);
    CHECK(cuota::field_text(image) == "image f32[3, 32, 32]");

    cuota::field const label{"label", element_type::i64};
    CHECK(label.count() == 1);
    CHECK(label.bytes() == 8);
    CHECK(cuota::field_text(label) == "label i64");

    CHECK(cuota::field{"nothing", element_type::u8, {4, 0}}.bytes() == 0);
}

TEST_CASE("field refuses a shape whose product overflows", "[data][field]") {
    std::size_t const huge = std::size_t{1} << 33;

    REQUIRE_THROWS_AS((cuota::field{"x", element_type::u8, {huge, huge}}.count()), cuota::usage_error);
    cuota::field const only_bytes_overflow{"x", element_type::f64, {std::size_t{1} << 62}};
    CHECK(only_bytes_overflow.count() == std::size_t{1} << 62);
    REQUIRE_THROWS_AS(only_bytes_overflow.bytes(), cuota::usage_error);
}
