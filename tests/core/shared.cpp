// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/shared.hpp>

#include <atomic>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

struct counted final : cuota::ref_counted {
    explicit counted(std::atomic<int>& alive) : alive_{alive} { ++alive_; }
    ~counted() { --alive_; }
    std::atomic<int>& alive_;
};
using owner = cuota::shared<counted>;

static_assert(sizeof(owner) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<owner> && std::is_nothrow_move_constructible_v<owner>);
static_assert(std::is_nothrow_copy_assignable_v<owner> && std::is_nothrow_move_assignable_v<owner>);
static_assert(!std::is_copy_constructible_v<counted> && !std::is_copy_assignable_v<counted>);

}  // namespace

TEST_CASE("the last owner deletes", "[core][shared]") {
    std::atomic<int> alive = 0;
    {
        owner a = owner::make(alive);
        {
            owner const b{a};
            REQUIRE(b == a);
            REQUIRE(a->owners() == 2);
        }
        REQUIRE(a->owners() == 1);
        owner const c{std::move(a)};
        REQUIRE(!a);
        REQUIRE(c->owners() == 1);
        REQUIRE(alive == 1);
    }
    REQUIRE(alive == 0);
}

TEST_CASE("assignment lets go of what was held", "[core][shared]") {
    std::atomic<int> alive = 0;
    owner a = owner::make(alive);
    owner b = owner::make(alive);
    REQUIRE(alive == 2);
    a = b;
    REQUIRE(alive == 1);
    REQUIRE(a->owners() == 2);
    owner& same = a;
    a = same;
    REQUIRE(a->owners() == 2);
    a = std::move(same);
    REQUIRE(a->owners() == 2);
    a = {};
    b = {};
    REQUIRE(alive == 0);
}

TEST_CASE("a detached count can be adopted again", "[core][shared]") {
    std::atomic<int> alive = 0;
    owner a = owner::make(alive);
    counted* const raw = a.detach();
    REQUIRE(!a);
    REQUIRE(alive == 1);
    owner const b = owner::adopt(raw);
    owner const c = owner::of(*raw);
    REQUIRE(b->owners() == 2);
}

TEST_CASE("nobody becomes an owner after the last one", "[core][shared]") {
    std::atomic<int> alive = 0;
    counted* const raw = owner::make(alive).detach();
    REQUIRE(raw->try_add_owner());
    REQUIRE(!raw->drop_owner());
    REQUIRE(raw->drop_owner());
    REQUIRE(!raw->try_add_owner());
    REQUIRE(raw->owners() == 0);
    delete raw;
}

TEST_CASE("threads may share and let go at once", "[core][shared]") {
    std::atomic<int> alive = 0;
    {
        owner const first = owner::make(alive);
        std::vector<std::thread> threads;
        for (int t = 0; t != 4; ++t)
            threads.emplace_back([mine = first] {
                for (int i = 0; i != 10'000; ++i) {
                    owner copy{mine};
                    owner const moved{std::move(copy)};
                }
            });
        for (std::thread& t : threads) t.join();
        threads.clear();
        REQUIRE(first->owners() == 1);
    }
    REQUIRE(alive == 0);
}

TEST_CASE("a sole owner deletes what it has when it is over, and when it takes over another's",
          "[core][shared]") {
    std::atomic<int> alive = 0;
    using sole = cuota::sole<counted>;
    static_assert(!std::is_copy_constructible_v<sole> && std::is_nothrow_move_constructible_v<sole>);
    {
        sole a = sole::make(alive);
        sole b{std::move(a)};
        CHECK(!a);
        REQUIRE(b);
        CHECK(&b->alive_ == &alive);
        CHECK(&(*b).alive_ == &alive);
        sole c = sole::make(alive);
        CHECK(alive == 2);
        c = std::move(b);
        CHECK(alive == 1);
        CHECK(!b);
    }
    CHECK(alive == 0);
}
