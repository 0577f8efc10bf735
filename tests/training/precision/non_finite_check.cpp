// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/non_finite_check.hpp>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/training/precision/loss_scaler.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::device_buffer;
using cuota::non_finite_check;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<non_finite_check> &&
              std::is_nothrow_move_constructible_v<non_finite_check>);

namespace {

constexpr float an_infinity = std::numeric_limits<float>::infinity();
constexpr float a_nan = std::numeric_limits<float>::quiet_NaN();

struct check_scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 8_MiB}};
    non_finite_check check{s, pool};

    template <class T>
    [[nodiscard]] device_buffer<T> of(std::vector<float> const& values) {
        std::vector<T> host;
        for (float const x : values) host.push_back(static_cast<T>(x));
        return {std::span<T const>{host}, s, pool};
    }
};

template <class T>
std::vector<float> as_floats(device_buffer<T> const& from, cuota::stream_ref s) {
    std::vector<float> all;
    for (T const x : from.to_vector(s)) all.push_back(static_cast<float>(x));
    return all;
}

}  // namespace

TEMPLATE_TEST_CASE("one number that is not finite is found at any position",
                   "[training][non_finite_check][gpu]", float, cuota::half, cuota::bfloat16) {
    check_scene on;
    CHECK_FALSE(on.check.found(on.s));
    for (std::size_t const size : {1u, 2u, 300u, 1000u}) {
        for (float const bad : {an_infinity, -an_infinity, a_nan}) {
            for (std::size_t const at : {std::size_t{0}, size / 2, size - 1}) {
                std::vector<float> values(size, -1.5f);
                auto const good = on.of<TestType>(values);
                on.check.check(on.s, good.read(on.s));
                CHECK_FALSE(on.check.found(on.s));
                values[at] = bad;
                auto const spoilt = on.of<TestType>(values);
                on.check.check(on.s, spoilt.read(on.s));
                on.check.check(on.s, good.read(on.s));  // does not clear the flag
                CHECK(on.check.found(on.s));
                CHECK(on.check.found(on.s));
                on.check.reset(on.s);
                CHECK_FALSE(on.check.found(on.s));
            }
        }
    }
}

TEST_CASE("every thread of a kernel may set the flag", "[training][non_finite_check][gpu]") {
    check_scene on;
    auto const spoilt = on.of<float>(std::vector<float>(100'000, a_nan));
    on.check.check(on.s, spoilt.read(on.s));
    CHECK(on.check.found(on.s));
}

TEST_CASE("nothing is found in an empty buffer", "[training][non_finite_check][gpu]") {
    check_scene on;
    device_buffer<float> none{0, on.s, on.pool};
    on.check.check(on.s, none.read(on.s));
    on.check.unscale(on.s, none.write(on.s), 0.5);
    CHECK_FALSE(on.check.found(on.s));
}

TEST_CASE("a number that was found on one stream is reported on every stream",
          "[training][non_finite_check][gpu]") {
    check_scene on;
    cuota::stream const other;
    auto const spoilt = on.of<float>({1, an_infinity});
    auto const good = on.of<float>({1, 2});
    on.check.check(other, spoilt.read(other));
    on.check.check(on.s, good.read(on.s));
    CHECK(on.check.found(on.s));
    on.check.reset(other);
    CHECK_FALSE(on.check.found(on.s));
}

TEMPLATE_TEST_CASE("gradients are unscaled and checked in one pass", "[training][non_finite_check][gpu]",
                   float, cuota::half, cuota::bfloat16) {
    check_scene on;
    cuota::loss_scaler scaler{{.initial_scale = 8, .interval = 1}};
    auto g = on.of<TestType>({8, -16, 0, 4, 24});
    on.check.unscale(on.s, g.write(on.s), scaler.unscale());
    CHECK(as_floats(g, on.s) == std::vector<float>{1, -2, 0, 0.5f, 3});
    bool const found = on.check.found(on.s);
    CHECK_FALSE(found);
    CHECK(scaler.update(found));

    auto bad = on.of<TestType>({8, an_infinity});
    on.check.unscale(on.s, bad.write(on.s), scaler.unscale());
    CHECK_FALSE(scaler.update(on.check.found(on.s)));
    CHECK(scaler.scale() == 8);
}

TEST_CASE("a gradient that overflows when it is multiplied is found", "[training][non_finite_check][gpu]") {
    check_scene on;
    auto g = on.of<cuota::half>({1, 60000});
    on.check.unscale(on.s, g.write(on.s), 2.0);
    CHECK(on.check.found(on.s));
    CHECK(as_floats(g, on.s) == std::vector<float>{2, an_infinity});
}

TEST_CASE("a product with an inverse of type double is rounded once", "[training][non_finite_check][gpu]") {
    check_scene on;
    double const inverse = 1.0 / 3.0f;
    std::vector<float> const values{1, 3, 1e-3f, 7e8f, 5.5f, 1e-44f};
    auto g = on.of<float>(values);
    on.check.unscale(on.s, g.write(on.s), inverse);
    std::vector<float> expected;
    for (float const x : values) expected.push_back(static_cast<float>(static_cast<double>(x) * inverse));
    CHECK(g.to_vector(on.s) == expected);
    CHECK_FALSE(on.check.found(on.s));
}

TEST_CASE("an invalid inverse scale is refused, and nothing is multiplied",
          "[training][non_finite_check][gpu]") {
    check_scene on;
    auto g = on.of<float>({1, 2});
    for (double const inverse : {0.0, -1.0, static_cast<double>(an_infinity), static_cast<double>(a_nan)})
        CHECK(has(thrown<cuota::usage_error>([&] { on.check.unscale(on.s, g.write(on.s), inverse); }).what(),
                  "inverse scale must be finite and positive, got "));
    CHECK(g.to_vector(on.s) == std::vector<float>{1, 2});
}

TEST_CASE("a non_finite_check allocates 4 bytes, which a budget may refuse",
          "[training][non_finite_check][gpu]") {
    cuota::stream const s;
    cuota::budget none{"none", 0};
    cuota::budgeted<> const memory{none};
    CHECK(has(thrown<cuota::budget_exceeded>([&] {
                  (void)non_finite_check{s, memory, "flag"};
              }).what(),
              "cannot allocate 4 B"));
    CHECK(none.held() == 0);
}

TEST_CASE("a non_finite_check that was moved from refuses use", "[training][non_finite_check][gpu]") {
    check_scene on;
    auto const g = on.of<float>({1});
    non_finite_check const moved = std::move(on.check);
    CHECK_FALSE(moved.found(on.s));
    CHECK(has(thrown<cuota::usage_error>([&] { on.check.check(on.s, g.read(on.s)); }).what(), "moved from"));
}

TEST_CASE("a captured check reads the current numbers at each launch", "[training][non_finite_check][gpu]") {
    check_scene on;
    auto g = on.of<float>({1, an_infinity, 3});
    auto looks = cuota::capture(on.s, [&] { on.check.check(on.s, g.read(on.s)); });
    looks.launch(on.s);
    CHECK(on.check.found(on.s));
    g.copy_from(std::vector<float>{1, 2, 3}, on.s);
    on.check.reset(on.s);
    looks.launch(on.s);
    CHECK_FALSE(on.check.found(on.s));
}

TEMPLATE_TEST_CASE("numbers at any alignment are checked and unscaled, and those beside them are not",
                   "[training][non_finite_check][gpu]", float, cuota::half, cuota::bfloat16) {
    check_scene on;
    for (std::size_t const at : {0u, 1u, 2u, 3u, 7u})
        for (std::size_t const count : {1u, 7u, 8u, 9u, 100u, 5000u}) {
            std::vector<float> values(at + count + 1, 8.0f);
            values.front() = at == 0 ? 8.0f : an_infinity;
            values.back() = an_infinity;
            auto g = on.of<TestType>(values);
            {
                auto const part = g.write(on.s);
                on.check.check(on.s, part.span().subspan(at, count));
                on.check.unscale(on.s, part.span().subspan(at, count), 0.5);
            }
            CHECK_FALSE(on.check.found(on.s));
            for (std::size_t i = at; i != at + count; ++i) values[i] = 4;
            CHECK(as_floats(g, on.s) == values);
        }
}
