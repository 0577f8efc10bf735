// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/converted_dataset.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::bfloat16;
using cuota::converted_dataset;
using cuota::element_type;
using cuota::half;
using cuota::memory_dataset;
using support::mentions;
using support::thrown;

namespace {

template <class T, cuota::dataset S>
std::vector<T> numbers_of(S const& from, std::vector<std::uint64_t> const& samples) {
    std::string const bytes = support::gathered(from, samples).at(0);
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

template <class T>
double as_double(T x) {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(x);
    else return static_cast<float>(x);
}

template <class T>
T as(double x) {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(x);
    else return T{static_cast<float>(x)};
}

// Returns numbers that differ in every byte.
template <class T>
std::vector<T> some() {
    std::vector<T> values;
    for (int i = -20; i != 20; ++i)
        if (i >= 0 || std::is_signed_v<T> || !std::is_arithmetic_v<T>) values.push_back(as<T>(i * 3.0));
    if constexpr (std::is_integral_v<T>) {
        values.push_back(std::numeric_limits<T>::max());
        values.push_back(std::numeric_limits<T>::min());
    }
    return values;
}

template <class From, class To>
void expect_converted() {
    std::vector<From> const values = some<From>();
    converted_dataset const plain{memory_dataset{"x", values}, {{"x", cuota::element_of<To>()}}};
    REQUIRE(plain.fields()[0].type == cuota::element_of<To>());
    auto const got = numbers_of<To>(plain, support::first_samples(values.size()));
    for (std::size_t i = 0; i != values.size(); ++i) {
        To const wanted = as<To>(as_double(values[i]));
        if (std::memcmp(&got[i], &wanted, sizeof wanted) != 0)
            FAIL(as_double(values[i]) << " became " << as_double(got[i]));
    }
}

template <class From>
void expect_converted_to_all() {
    expect_converted<From, half>();
    expect_converted<From, bfloat16>();
    expect_converted<From, float>();
    expect_converted<From, double>();
}

}  // namespace

TEST_CASE("converted_dataset converts every type to every floating type", "[data][converted_dataset]") {
    expect_converted_to_all<std::uint8_t>();
    expect_converted_to_all<std::int8_t>();
    expect_converted_to_all<std::uint16_t>();
    expect_converted_to_all<std::int16_t>();
    expect_converted_to_all<std::uint32_t>();
    expect_converted_to_all<std::int32_t>();
    expect_converted_to_all<std::uint64_t>();
    expect_converted_to_all<std::int64_t>();
    expect_converted_to_all<half>();
    expect_converted_to_all<bfloat16>();
    expect_converted_to_all<float>();
    expect_converted_to_all<double>();
}

TEST_CASE("converted_dataset scales and shifts", "[data][converted_dataset]") {
    memory_dataset const pixels{"pixels", std::vector<std::uint8_t>{0, 51, 255, 128}, {2}};
    converted_dataset const scaled{pixels, {{"pixels", element_type::f32, 2.0 / 255, -1}}};
    CHECK(cuota::field_text(scaled.fields()[0]) == "pixels f32[2]");
    auto const got = numbers_of<float>(scaled, {1, 0});
    CHECK(got == std::vector<float>{255 * static_cast<float>(2.0 / 255) - 1,
                                    128 * static_cast<float>(2.0 / 255) - 1, -1.0f,
                                    51 * static_cast<float>(2.0 / 255) - 1});
}

TEST_CASE("converted_dataset leaves other fields unchanged, and keeps the fields of a sample together",
          "[data][converted_dataset]") {
    // Larger than the scratch buffer, so that a gather needs several passes, and of an odd size.
    constexpr std::size_t width = 50'001;
    constexpr std::size_t samples = 7;
    std::vector<float> values(samples * width);
    for (std::size_t i = 0; i != values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    cuota::zip_dataset const both{
        memory_dataset{"labels", std::vector<std::int32_t>{10, 11, 12, 13, 14, 15, 16}},
        memory_dataset{"x", values, {width}}};
    converted_dataset const from{both, {{"x", element_type::f16}}};
    CHECK(from.size() == samples);
    CHECK(from.name() == both.name());
    CHECK(from.fields()[0] == both.fields()[0]);
    CHECK(from.fields()[1].bytes() == both.fields()[1].bytes() / 2);
    std::vector<std::uint64_t> const asked{6, 0, 3, 3, 5};
    auto const got = support::gathered(from, asked);
    for (std::size_t i = 0; i != asked.size(); ++i) {
        std::int32_t label = 0;
        std::memcpy(&label, got[0].data() + i * sizeof label, sizeof label);
        CHECK(label == 10 + static_cast<std::int32_t>(asked[i]));
        for (std::size_t k = 0; k != width; ++k) {
            half x;
            std::memcpy(&x, got[1].data() + (i * width + k) * sizeof x, sizeof x);
            if (static_cast<float>(x) != values[asked[i] * width + k])
                FAIL("sample " << asked[i] << " at " << k);
        }
    }
    CHECK(support::gathered(from, {}) == std::vector<std::string>{"", ""});
}

TEST_CASE("converted_dataset allocates scratch memory only in the first gather",
          "[data][converted_dataset]") {
    converted_dataset const from{memory_dataset{"x", std::vector<float>(64, 1.0f), {4}},
                                 {{"x", element_type::bf16}}};
    std::array<std::uint64_t, 8> const asked{3, 4, 0, 15, 1, 1, 2, 9};
    std::array<std::byte, 64> room{};
    std::span<std::byte> const out = room;
    from.gather(asked, {&out, 1});
    support::heap_watch const watch;
    for (int i = 0; i != 5; ++i) from.gather(asked, {&out, 1});
    CHECK(watch.allocations() == 0);
}

TEST_CASE("threads convert concurrently, each with its own scratch memory", "[data][converted_dataset]") {
    std::vector<std::int16_t> values(3000);
    for (std::size_t i = 0; i != values.size(); ++i) values[i] = static_cast<std::int16_t>(i);
    converted_dataset const from{memory_dataset{"x", values, {3}}, {{"x", element_type::f32, 0.5}}};
    std::array<bool, 4> right{};
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t != right.size(); ++t)
            threads.emplace_back([&, t] {
                bool is_right = true;
                for (std::uint64_t i = 0; i != 200; ++i) {
                    auto const got = numbers_of<float>(from, {(i * 7 + t) % 1000});
                    is_right = is_right && got[1] == static_cast<float>(((i * 7 + t) % 1000) * 3 + 1) / 2;
                }
                right[t] = is_right;
            });
    }
    CHECK(right == std::array<bool, 4>{true, true, true, true});
}

TEST_CASE("converted_dataset refuses invalid conversions and names the field", "[data][converted_dataset]") {
    memory_dataset const from{"x", std::vector<float>{1, 2}, {2}};
    auto const refused = [&](std::vector<cuota::conversion> const& wanted) {
        return std::string{thrown<cuota::usage_error>([&] { (void)converted_dataset{from, wanted}; }).what()};
    };
    CHECK(mentions(refused({{"y", element_type::f16}}), "x: cannot convert field y: no such field"));
    CHECK(mentions(refused({{"x", element_type::u8}}),
                   "field x f32[2]: cannot convert to u8; supported: f16, bf16, f32, f64"));
    CHECK(mentions(refused({{"x", element_type::f16}, {"x", element_type::f64}}),
                   "field x has more than one conversion"));
    converted_dataset const good{from, {{"x", element_type::f16}}};
    CHECK_THROWS_AS(support::gathered(good, {1}), cuota::usage_error);
}
