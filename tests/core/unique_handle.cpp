// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/unique_handle.hpp>

#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

std::vector<int> closed;

struct traits {
    using type = int;
    static type none() noexcept { return -1; }
    static void close(type handle) noexcept { closed.push_back(handle); }
};
using handle = cuota::unique_handle<traits>;

static_assert(!std::is_copy_constructible_v<handle> && !std::is_copy_assignable_v<handle>);
static_assert(std::is_nothrow_move_constructible_v<handle> && std::is_nothrow_move_assignable_v<handle>);
static_assert(!std::is_convertible_v<int, handle>);  // ownership must be explicit
static_assert(sizeof(handle) == sizeof(int));

}  // namespace

TEST_CASE("a unique_handle closes its handle once, at the end of its scope", "[core][handle]") {
    closed.clear();
    {
        handle const h{7};
        REQUIRE(h.get() == 7);
        REQUIRE(h);
    }
    REQUIRE(closed == std::vector{7});
}

TEST_CASE("an empty unique_handle closes nothing", "[core][handle]") {
    closed.clear();
    {
        handle const h;
        REQUIRE(!h);
    }
    REQUIRE(closed.empty());
}

TEST_CASE("a unique_handle that was moved from is empty", "[core][handle]") {
    closed.clear();
    {
        handle a{1};
        handle b{std::move(a)};
        REQUIRE(!a);
        handle c{2};
        c = std::move(b);  // closes 2
        REQUIRE(closed == std::vector{2});
        REQUIRE(c.get() == 1);
        handle& same = c;
        c = std::move(same);
        REQUIRE(c.get() == 1);
    }
    REQUIRE(closed == std::vector{2, 1});
}

TEST_CASE("release returns the handle without closing it", "[core][handle]") {
    closed.clear();
    handle h{5};
    REQUIRE(h.release() == 5);
    REQUIRE(!h);
    h.reset(6);
    h.reset(6);  // resetting to the same value does not close it
    REQUIRE(closed.empty());
    h.reset();
    REQUIRE(closed == std::vector{6});
}
