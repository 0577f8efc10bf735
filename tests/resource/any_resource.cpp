// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/any_resource.hpp>

#include <type_traits>
#include <utility>

#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"

static_assert(sizeof(cuota::any_resource) == 16);
static_assert(std::is_nothrow_copy_constructible_v<cuota::any_resource> &&
              std::is_nothrow_copy_assignable_v<cuota::any_resource>);
static_assert(!std::is_default_constructible_v<cuota::any_resource>);  // never empty
static_assert(std::is_convertible_v<cuota::device_memory, cuota::any_resource>);
static_assert(!std::is_constructible_v<cuota::any_resource, int>);

namespace {

int alive = 0;
int copied = 0;

// Counts its objects; `Padding` bytes larger than an int.
template <std::size_t Padding>
struct counting {
    explicit counting(int number) : name{number} { ++alive; }
    counting(counting const& other) noexcept : name{other.name} { ++alive, ++copied; }
    counting& operator=(counting const&) noexcept = default;
    ~counting() { --alive; }

    void* allocate(cuota::stream_ref, std::size_t, std::size_t) { return this; }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t, std::size_t) { return this; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    std::size_t granularity() const { return 64; }
    cuota::memory_kind kind() const { return cuota::memory_kind::managed; }
    bool operator==(counting const& other) const { return name == other.name; }

    int name;
    char padding[Padding] = {};
};
using small = counting<4>;
using large = counting<400>;

void* where_it_is(cuota::any_resource& r) { return r.allocate_sync(1, 1); }
bool is_inside(void const* p, cuota::any_resource const& r) {
    auto const* const first = reinterpret_cast<char const*>(&r);
    return p >= first && p < first + sizeof r;
}

}  // namespace

TEST_CASE("any_resource behaves as a resource", "[resource][any_resource]") {
    SECTION("device") { support::behaves_as_a_resource(cuota::any_resource{cuota::device_memory{}}); }
    SECTION("async") { support::behaves_as_a_resource(cuota::any_resource{cuota::async_memory{}}); }
    SECTION("managed") { support::behaves_as_a_resource(cuota::any_resource{cuota::managed_memory{}}); }
    SECTION("pinned") { support::behaves_as_a_resource(cuota::any_resource{cuota::pinned_memory{}}); }
}

TEST_CASE("any_resource has the kind and the granularity of its resource", "[resource][any_resource]") {
    cuota::any_resource const device{cuota::device_memory{}};
    cuota::any_resource const pinned{cuota::pinned_memory{}};
    cuota::any_resource const other{large{1}};
    REQUIRE(device.kind() == cuota::memory_kind::device);
    REQUIRE(pinned.kind() == cuota::memory_kind::pinned);
    REQUIRE(other.kind() == cuota::memory_kind::managed);
    REQUIRE(device.granularity() == 512);
    REQUIRE(pinned.granularity() == 1);
    REQUIRE(other.granularity() == 64);
}

TEST_CASE("any_resource stores a resource of eight bytes inline", "[resource][any_resource]") {
    {
        cuota::any_resource a{small{1}};
        REQUIRE(is_inside(where_it_is(a), a));
        copied = 0;
        cuota::any_resource b{a};
        REQUIRE(copied == 1);
        REQUIRE(is_inside(where_it_is(b), b));
        REQUIRE(a == b);
    }
    REQUIRE(alive == 0);
}

TEST_CASE("copies of any_resource share a larger resource", "[resource][any_resource]") {
    {
        cuota::any_resource a{large{1}};
        REQUIRE(!is_inside(where_it_is(a), a));
        copied = 0;
        cuota::any_resource b{a};
        cuota::any_resource const c{std::move(a)};
        b = c;
        REQUIRE(copied == 0);
        REQUIRE(alive == 1);
        REQUIRE(b == c);
        REQUIRE(where_it_is(b) == where_it_is(a));  // a move is a copy, so it is never empty
    }
    REQUIRE(alive == 0);
}

TEST_CASE("any_resource may be assigned a copy, and a resource of another type", "[resource][any_resource]") {
    {
        cuota::any_resource a{small{1}};
        cuota::any_resource const& same = a;
        a = same;
        REQUIRE(a == cuota::any_resource{small{1}});
        a = large{2};
        REQUIRE(a == a);
        REQUIRE(alive == 1);
        a = small{3};
        REQUIRE(alive == 1);
        REQUIRE(a == cuota::any_resource{small{3}});
    }
    REQUIRE(alive == 0);
}

TEST_CASE("any_resources are equal if their resources are equal", "[resource][any_resource]") {
    REQUIRE(cuota::any_resource{small{1}} == cuota::any_resource{small{1}});
    REQUIRE(!(cuota::any_resource{small{1}} == cuota::any_resource{small{2}}));
    REQUIRE(cuota::any_resource{large{1}} == cuota::any_resource{large{1}});
    REQUIRE(!(cuota::any_resource{small{1}} == cuota::any_resource{large{1}}));
    REQUIRE(!(cuota::any_resource{cuota::pinned_memory{}} == cuota::any_resource{cuota::device_memory{}}));
}

TEST_CASE("memory allocated by any_resource can be freed by an equal resource", "[resource][any_resource]") {
    cuota::device_memory memory;
    cuota::any_resource any{memory};
    std::size_t const before = cuota::detail::taken_on(memory.device());
    void* const p = any.allocate_sync(1000);
    REQUIRE(cuota::detail::taken_on(memory.device()) == before + 1024);
    memory.deallocate_sync(p, 1000);
    REQUIRE(cuota::detail::taken_on(memory.device()) == before);
}
