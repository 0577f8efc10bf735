// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/stop_signal.hpp>

#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

// Sources are on the heap: for one on the stack, g++ 12 at -Og warns that it may be uninitialized.

using cuota::stop_signal;

static_assert(sizeof(stop_signal) == sizeof(std::stop_token));
static_assert(std::is_convertible_v<std::stop_token, stop_signal>);
static_assert(std::is_nothrow_copy_constructible_v<stop_signal> &&
              std::is_nothrow_move_constructible_v<stop_signal>);
static_assert(std::is_nothrow_copy_assignable_v<stop_signal> &&
              std::is_nothrow_move_assignable_v<stop_signal>);

TEST_CASE("a stop_signal without a token is never stopped", "[core][stop_signal]") {
    stop_signal const nobodys;

    CHECK_FALSE(nobodys.stop_requested());
    CHECK_FALSE(nobodys.token().stop_possible());
}

TEST_CASE("a stop_signal and its copies are stopped by a request to the source of its token",
          "[core][stop_signal]") {
    auto source = std::make_unique<std::stop_source>();
    stop_signal const first = source->get_token();
    stop_signal const second{first};
    stop_signal third;
    third = second;
    REQUIRE_FALSE(third.stop_requested());

    source->request_stop();

    CHECK(first.stop_requested());
    CHECK(second.stop_requested());
    CHECK(third.stop_requested());
    CHECK(third.token() == source->get_token());
}

TEST_CASE("moving a stop_signal leaves both objects with the same token", "[core][stop_signal]") {
    auto source = std::make_unique<std::stop_source>();
    stop_signal first = source->get_token();
    stop_signal second{std::move(first)};
    stop_signal third = std::stop_source{}.get_token();
    third = std::move(second);

    source->request_stop();

    CHECK(first.stop_requested());
    CHECK(second.stop_requested());
    CHECK(third.stop_requested());
}

TEST_CASE("a stop_signal keeps the stop state of its token only as long as it lives", "[core][stop_signal]") {
    std::stop_token last;
    {
        auto source = std::make_unique<std::stop_source>();
        stop_signal const held = source->get_token();
        stop_signal const& same = held;
        stop_signal assigned = held;
        assigned = same;
        assigned = static_cast<stop_signal const&>(assigned);
        last = assigned.token();
        CHECK(last.stop_possible());
    }
    CHECK_FALSE(last.stop_possible());  // the source is destroyed and no stop was requested
}
