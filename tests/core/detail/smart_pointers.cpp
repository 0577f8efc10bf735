// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/smart_pointers.hpp>

#include <atomic>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

struct counted final : cuota::detail::ref_counted {
    explicit counted(std::atomic<int>& alive) : alive_{alive} { ++alive_; }
    ~counted() { --alive_; }
    std::atomic<int>& alive_;
};
using owner = cuota::detail::intrusive_ptr<counted>;

static_assert(sizeof(owner) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<owner> && std::is_nothrow_move_constructible_v<owner>);
static_assert(std::is_nothrow_copy_assignable_v<owner> && std::is_nothrow_move_assignable_v<owner>);
static_assert(!std::is_copy_constructible_v<counted> && !std::is_copy_assignable_v<counted>);

}  // namespace

TEST_CASE("the last owner deletes the object", "[core][shared]") {
    std::atomic<int> alive = 0;
    {
        owner a = owner::make(alive);
        {
            owner const b{a};
            REQUIRE(b == a);
            REQUIRE(a->ref_count() == 2);
        }
        REQUIRE(a->ref_count() == 1);
        owner const c{std::move(a)};
        REQUIRE(!a);
        REQUIRE(c->ref_count() == 1);
        REQUIRE(alive == 1);
    }
    REQUIRE(alive == 0);
}

TEST_CASE("assignment drops the previous object", "[core][shared]") {
    std::atomic<int> alive = 0;
    owner a = owner::make(alive);
    owner b = owner::make(alive);
    REQUIRE(alive == 2);
    a = b;
    REQUIRE(alive == 1);
    REQUIRE(a->ref_count() == 2);
    owner& same = a;
    a = same;
    REQUIRE(a->ref_count() == 2);
    a = std::move(same);
    REQUIRE(a->ref_count() == 2);
    a = {};
    b = {};
    REQUIRE(alive == 0);
}

// In a template, clang 14 does not destroy the argument of an operator= that takes it by value, if it is written in braces.
template <class Pointer>
void assign_nothing(Pointer& to) {
    to = {};
}

TEST_CASE("a pointer that is assigned {} in a template drops its object", "[core][shared]") {
    std::atomic<int> alive = 0;
    owner counted_owner = owner::make(alive);
    assign_nothing(counted_owner);
    REQUIRE(alive == 0);
    auto only = cuota::detail::light_unique_ptr<counted>::make(alive);
    assign_nothing(only);
    REQUIRE(alive == 0);
    auto shared = cuota::detail::light_shared_ptr<owner>::make(owner::make(alive));
    assign_nothing(shared);
    REQUIRE(alive == 0);
    auto array = cuota::detail::light_unique_array<owner>::make(2);
    array[1] = owner::make(alive);
    assign_nothing(array);
    REQUIRE(alive == 0);
}

TEST_CASE("a detached reference can be adopted", "[core][shared]") {
    std::atomic<int> alive = 0;
    owner a = owner::make(alive);
    counted* const raw = a.detach();
    REQUIRE(!a);
    REQUIRE(alive == 1);
    owner const b = owner::adopt(raw);
    owner const c = owner::of(*raw);
    REQUIRE(b->ref_count() == 2);
}

TEST_CASE("try_add_ref fails after the last reference was dropped", "[core][shared]") {
    std::atomic<int> alive = 0;
    counted* const raw = owner::make(alive).detach();
    REQUIRE(raw->try_add_ref());
    REQUIRE(!raw->drop_ref());
    REQUIRE(raw->drop_ref());
    REQUIRE(!raw->try_add_ref());
    REQUIRE(raw->ref_count() == 0);
    delete raw;
}

TEST_CASE("threads may copy and destroy owners at the same time", "[core][shared]") {
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
        REQUIRE(first->ref_count() == 1);
    }
    REQUIRE(alive == 0);
}

TEST_CASE("a light_unique_ptr deletes its object when it is destroyed or assigned to", "[core][shared]") {
    std::atomic<int> alive = 0;
    using sole = cuota::detail::light_unique_ptr<counted>;
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

TEST_CASE("a light_unique_ptr to a derived type converts to one of its base", "[core][shared]") {
    struct base {
        virtual ~base() = default;
    };
    struct derived final : base {
        explicit derived(std::atomic<int>& alive) : alive_{alive} { ++alive_; }
        derived(derived const&) = delete;
        derived& operator=(derived const&) = delete;
        ~derived() override { --alive_; }
        std::atomic<int>& alive_;
    };
    static_assert(!std::is_convertible_v<cuota::detail::light_unique_ptr<base>,
                                         cuota::detail::light_unique_ptr<derived>>);
    std::atomic<int> alive = 0;
    {
        cuota::detail::light_unique_ptr<derived> narrow =
            cuota::detail::light_unique_ptr<derived>::make(alive);
        cuota::detail::light_unique_ptr<base> const wide{std::move(narrow)};
        CHECK(!narrow);
        CHECK(wide.get() != nullptr);
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
    cuota::detail::light_unique_ptr<base> const none = nullptr;
    CHECK(!none);
}

TEST_CASE("a light_unique_ptr does not delete an object that was detached", "[core][shared]") {
    std::atomic<int> alive = 0;
    cuota::detail::light_unique_ptr<counted> one = cuota::detail::light_unique_ptr<counted>::make(alive);
    counted* const mine = one.detach();
    CHECK(!one);
    CHECK(alive == 1);
    delete mine;
}

TEST_CASE("a light_unique_array initializes its elements and deletes them all", "[core][shared]") {
    static int alive = 0;
    struct element {
        element() { ++alive; }
        element(element const&) = delete;
        element& operator=(element const&) = delete;
        ~element() { --alive; }
        int value = 7;
    };
    using array = cuota::detail::light_unique_array<element>;
    static_assert(!std::is_copy_constructible_v<array> && std::is_nothrow_move_constructible_v<array>);
    {
        array a = array::make(3);
        CHECK(a[2].value == 7);
        a[2].value = 8;
        array b{std::move(a)};
        CHECK(!a);
        CHECK(b.get()[2].value == 8);
        array c = array::make(2);
        CHECK(alive == 5);
        c = std::move(b);
        CHECK(alive == 3);
        CHECK(!array{});
    }
    CHECK(alive == 0);
    CHECK(cuota::detail::light_unique_array<int>::make(4)[3] == 0);
}

TEST_CASE("the last owner of a light_shared_ptr deletes the object", "[core][shared]") {
    using value = cuota::detail::light_shared_ptr<counted>;
    static_assert(std::is_nothrow_copy_constructible_v<value> && std::is_nothrow_move_constructible_v<value>);
    std::atomic<int> alive = 0;
    {
        value a = value::make(alive);
        value const b{a};
        CHECK(b.get() == a.get());
        CHECK(&a->alive_ == &alive);
        CHECK(&(*b).alive_ == &alive);
        value c{std::move(a)};
        CHECK(a.get() == b.get());  // a move is a copy
        CHECK(c.get() == b.get());
        value d = value::make(alive);
        CHECK(alive == 2);
        d = c;
        CHECK(alive == 1);
        value& same = d;
        d = same;
        CHECK(d.get() == b.get());
        c = nullptr;
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
}

TEST_CASE("a light_shared_ptr may be of an incomplete type where it does not create the object",
          "[core][shared]") {
    struct unknown;
    cuota::detail::light_shared_ptr<unknown> const none;
    cuota::detail::light_shared_ptr<unknown> const copy{none};
    CHECK(!copy);

    std::atomic<int> alive = 0;
    cuota::detail::light_shared_ptr<counted> whole = cuota::detail::light_shared_ptr<counted>::make(alive);
    cuota::detail::light_shared_ptr<counted const> constant = whole;
    cuota::detail::light_shared_ptr<void const> nameless = constant;
    static_assert(!std::is_convertible_v<cuota::detail::light_shared_ptr<counted const>,
                                         cuota::detail::light_shared_ptr<counted>>);
    CHECK(nameless.get() == whole.get());
    whole = nullptr;
    constant = nullptr;
    CHECK(alive == 1);
    nameless = nullptr;
    CHECK(alive == 0);
}

TEST_CASE("threads may copy and destroy a light_shared_ptr at the same time", "[core][shared]") {
    std::atomic<int> alive = 0;
    {
        auto const first = cuota::detail::light_shared_ptr<counted>::make(alive);
        std::vector<std::thread> threads;
        for (int i = 0; i != 4; ++i)
            threads.emplace_back([&] {
                for (int k = 0; k != 1000; ++k) cuota::detail::light_shared_ptr<counted> const mine{first};
            });
        for (std::thread& t : threads) t.join();
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
}
