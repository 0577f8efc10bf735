// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_scalar.hpp>

#include <optional>
#include <type_traits>
#include <utility>

#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

using number = cuota::device_scalar<double>;

static_assert(!std::is_copy_constructible_v<number> && std::is_nothrow_move_constructible_v<number>);
static_assert(std::is_nothrow_move_assignable_v<number> && std::is_nothrow_swappable_v<number>);
static_assert(!std::is_constructible_v<number, cuota::stream_ref, cuota::pinned_memory>);
static_assert(!std::is_constructible_v<number, double, cuota::stream_ref, cuota::pinned_memory>);

struct pair {
    int a;
    float b;
};

}  // namespace

TEST_CASE("a device_scalar is zero or has its initial value until set changes it",
          "[buffer][device_scalar]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    { number const dirty{-1.0, stream, pool}; }
    number zero{stream, pool, "loss"};
    cuota::device_scalar<bool> const yes{true, stream, pool};
    cuota::device_scalar<pair> two{pair{1, 2.5f}, stream, pool};

    CHECK(zero.get() == 0.0);
    CHECK(yes.get(stream));
    CHECK(two.get().b == 2.5f);
    zero.set(1.5, stream);
    CHECK(zero.get(stream) == 1.5);
    two.set({7, 1.0f}, stream);
    CHECK(two.get().a == 7);
}

TEST_CASE("a kernel reads and writes a device_scalar through leases", "[buffer][device_scalar][gpu]") {
    cuota::stream const stream;
    cuota::stream const other;
    cuota::device_scalar<support::word> total{stream, cuota::device_memory{}};

    for (int i = 0; i != 20; ++i) {
        cuota::stream const& s = i % 2 == 0 ? stream : other;
        auto const to = total.write(s);
        cuota::for_each_index(s, 1, support::add_word{to.span().data(), 1}, "add");
    }

    CHECK(total.get(other) == 20);
    CHECK(total.read().size() == 1);
}

TEST_CASE("set_async and get_async of a device_scalar work in stream order without a wait of the host",
          "[buffer][device_scalar]") {
    cuota::stream const stream;
    cuota::staging_ring ring{2, 64};
    number some{stream, cuota::device_memory{}};
    cuota::pinned_buffer<double> slot{1};

    some.set_async(2.5, ring, stream);
    auto first = some.get_async(std::move(slot), stream);
    some.set_async(3.5, ring, stream);
    auto const second = some.get_async(stream);

    CHECK(first.get()[0] == 2.5);
    CHECK(second.get()[0] == 3.5);
    slot = std::move(first).take();
    CHECK(slot.size() == 1);
}

TEST_CASE("set_async refuses a ring whose slots are smaller than the value", "[buffer][device_scalar]") {
    cuota::stream const stream;
    cuota::staging_ring ring{2, 4};
    number some{1.0, stream, cuota::device_memory{}};

    CHECK(has(thrown<cuota::usage_error>([&] {
                  some.set_async(2.0, ring, stream, {"train.cpp", 3});
              }).what(),
              "train.cpp:3"));

    CHECK(some.get() == 1.0);
}

TEST_CASE("a moved-from device_scalar is empty: only set may be called, and it allocates the value again",
          "[buffer][device_scalar]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    cuota::staging_ring ring{1, 64};
    number first{1.0, stream, pool};

    number second{std::move(first)};

    CHECK(first.is_empty());
    CHECK_FALSE(second.is_empty());
    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)first.get(stream, {"train.cpp", 3});
              }).what(),
              "moved from (train.cpp:3)"));
    CHECK_THROWS_AS((void)first.get(), cuota::usage_error);
    CHECK_THROWS_AS((void)first.read(), cuota::usage_error);
    CHECK_THROWS_AS((void)first.write(stream), cuota::usage_error);
    CHECK_THROWS_AS((void)first.get_async(stream), cuota::usage_error);
    CHECK_THROWS_AS(first.set_async(1.0, ring, stream), cuota::usage_error);
    CHECK(pool.stats().live_blocks == 1);

    first.set(4.0, stream);
    CHECK(first.get() == 4.0);
    CHECK(first.memory() == cuota::any_resource{pool});
    CHECK(second.get() == 1.0);
    std::swap(first, second);
    CHECK(first.get() == 1.0);
    second = std::move(first);
    CHECK(second.get() == 1.0);
    CHECK(pool.stats().live_blocks == 1);
}

TEST_CASE("a device_scalar outlives its stream object", "[buffer][device_scalar]") {
    support::captured_errors errors;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    {
        std::optional<cuota::stream> home{std::in_place};
        number some{1.0, *home, pool};
        home.reset();
        CHECK(some.get(other) == 1.0);
        CHECK(some.get() == 1.0);
    }
    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a refused device_scalar allocates nothing", "[buffer][device_scalar]") {
    cuota::budget budget{"test", 4};
    cuota::stream const stream;
    cuota::any_resource const pinned = cuota::pinned_memory{};

    CHECK_THROWS_AS((number{1.0, stream, cuota::budgeted{budget, cuota::device_memory{}}}),
                    cuota::budget_exceeded);
    CHECK_THROWS_AS((number{stream, pinned}), cuota::usage_error);

    CHECK(budget.held() == 0);
}
