// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/callable_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::callable_dataset;
using cuota::element_type;
using asked = std::span<std::uint64_t const>;
using support::gathered;
using rooms = std::span<std::span<std::byte> const>;

constexpr auto nothing = [](asked, rooms) {};
static_assert(cuota::dataset<callable_dataset<decltype(nothing)>>);
static_assert(cuota::dataset<callable_dataset<void (*)(asked, rooms)>>);

template <class Fill>
concept fills = requires {
    typename callable_dataset<Fill>;
};
static_assert(!fills<int>);
static_assert(!fills<void (*)(asked)>);
struct changes_itself {
    void operator()(asked, rooms);
};
static_assert(!fills<changes_itself>);  // several threads call it concurrently

/// Samples are the square of their index and its low byte.
auto squares(std::uint64_t size) {
    return callable_dataset{
        "squares", size, {{"square", element_type::u64}, {"byte"}}, [](asked samples, rooms out) {
            for (std::size_t i = 0; i != samples.size(); ++i) {
                std::uint64_t const square = samples[i] * samples[i];
                std::memcpy(out[0].data() + 8 * i, &square, 8);
                out[1][i] = static_cast<std::byte>(samples[i]);
            }
        }};
}

}  // namespace

TEST_CASE("callable_dataset makes a dataset of a function", "[data][callable_dataset]") {
    auto const from = squares(1000);

    CHECK(from.size() == 1000);
    CHECK(from.name() == "squares");
    REQUIRE(from.fields().size() == 2);
    CHECK(from.fields()[0] == cuota::field{"square", element_type::u64});
    auto const copy = from;
    CHECK(gathered(copy, {3, 999, 0}) ==
          std::vector<std::string>{support::bytes_of(std::vector<std::uint64_t>{9, 998'001, 0}),
                                   std::string{"\3\xe7\0", 3}});
}

TEST_CASE("callable_dataset checks a gather before its function is called", "[data][callable_dataset]") {
    int calls = 0;
    callable_dataset const from{"counted", 10, {{"x"}}, [&](asked, rooms) { ++calls; }};
    std::vector<std::byte> memory(2);
    std::vector<std::span<std::byte>> const out{memory};

    REQUIRE_THROWS_AS(gathered(from, {10}), cuota::usage_error);
    REQUIRE_THROWS_AS(from.gather(support::first_samples(1), out), cuota::usage_error);
    REQUIRE_THROWS_AS(from.gather(support::first_samples(1), {}), cuota::usage_error);
    CHECK(calls == 0);
    (void)gathered(from, {9, 9});
    CHECK(calls == 1);
}

TEST_CASE("callable_dataset passes on exceptions of its function, and allocates nothing",
          "[data][callable_dataset]") {
    callable_dataset const broken{
        "broken", 10, {{"x"}}, [](asked, rooms) { throw std::out_of_range{"no such picture"}; }};
    CHECK(std::string{support::thrown<std::out_of_range>([&] { gathered(broken, {1}); }).what()} ==
          "no such picture");

    auto const from = squares(100);
    auto const samples = support::first_samples(100);
    std::vector<std::byte> first(800);
    std::vector<std::byte> second(100);
    std::vector<std::span<std::byte>> const out{first, second};
    support::heap_watch const watch;
    from.gather(samples, out);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
}

TEST_CASE("callable_dataset refuses missing, empty and oversized fields", "[data][callable_dataset]") {
    REQUIRE_THROWS_AS((callable_dataset{"x", 1, {}, nothing}), cuota::usage_error);
    auto const error = support::thrown<cuota::usage_error>([] {
        callable_dataset const from("x", 1, {{"a"}, {"b", element_type::f32, {2, 0}}}, nothing);
    });
    CHECK(support::mentions(error.what(), "x: field b f32[2, 0] is empty"));
    std::size_t const most = std::numeric_limits<std::size_t>::max();
    REQUIRE_THROWS_AS((callable_dataset{"x", 1, {{"a", element_type::f32, {most}}}, nothing}),
                      cuota::usage_error);
}
