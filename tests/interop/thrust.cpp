// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/thrust.hpp>

#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/iterator_traits.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/managed_memory.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::thrust_range;

namespace {

using numbers = cuota::device_buffer<int>;

struct scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"thrust", 64_MiB}};
};

std::vector<int> scrambled(int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    for (int i = 0; i != count; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<int>(static_cast<unsigned>(i) * 7919u % 10007u);
    return all;
}

struct twice_and {
    int more;
    CUOTA_HOST_DEVICE int operator()(int x) const { return 2 * x + more; }
};

// Algorithms must not treat device elements as host elements.
static_assert(
    std::is_same_v<thrust::iterator_system<thrust_range<int>::iterator>::type, thrust::device_system_tag>);
static_assert(std::is_same_v<thrust::iterator_system<thrust_range<int const>::iterator>::type,
                             thrust::device_system_tag>);
static_assert(!std::is_constructible_v<thrust_range<int>, cuota::lease<int>>);
static_assert(!std::is_constructible_v<thrust_range<int const>, cuota::lease<int>>);
static_assert(std::is_constructible_v<thrust_range<int const>, cuota::lease<int> const&>);
static_assert(!std::is_constructible_v<thrust_range<int>, cuota::lease<int const> const&>);

}  // namespace

TEST_CASE("a lease is a range for Thrust", "[interop][thrust][gpu]") {
    scene on;
    numbers x{scrambled(5000), on.s, on.pool};
    {
        auto const all = x.write(on.s);
        thrust_range const r{all};
        CHECK(r.size() == 5000);
        CHECK(r.end() - r.begin() == 5000);
        cuota::run_thrust(on.s, on.pool,
                          [r](auto const& policy) { thrust::sort(policy, r.begin(), r.end()); });
    }
    auto expected = scrambled(5000);
    std::ranges::sort(expected);
    CHECK(x.to_vector(on.s) == expected);
}

TEST_CASE("several algorithms run in order, after earlier work of the stream", "[interop][thrust][gpu]") {
    scene on;
    numbers x{1000, on.s, on.pool, cuota::no_init};
    numbers y{1000, on.s, on.pool, cuota::no_init};
    {
        auto const source = x.write(on.s);
        auto const target = y.write(on.s);
        thrust_range const a{source};
        thrust_range const b{target};
        cuota::run_thrust(on.s, on.pool, [a, b](auto const& policy) {
            thrust::sequence(policy, a.begin(), a.end());
            thrust::transform(policy, a.begin(), a.end(), b.begin(), twice_and{3});
            thrust::inclusive_scan(policy, b.begin(), b.end(), b.begin());
            thrust::fill(policy, a.begin(), a.begin() + 10, -1);
        });
    }
    std::vector<int> expected(1000);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::transform(expected, expected.begin(), twice_and{3});
    std::inclusive_scan(expected.begin(), expected.end(), expected.begin());
    CHECK(y.to_vector(on.s) == expected);
    CHECK(x.to_vector(on.s)[9] == -1);
    CHECK(x.to_vector(on.s)[10] == 10);
}

TEST_CASE("a result of Thrust is returned after earlier work of the stream", "[interop][thrust][gpu]") {
    scene on;
    auto const host = scrambled(5000);
    numbers const x{host, on.s, on.pool};
    auto const all = x.read(on.s);
    thrust_range const r{all};
    int const sum = cuota::run_thrust(on.s, on.pool, [r](auto const& policy) {
        return thrust::reduce(policy, r.begin(), r.end(), 0, thrust::plus<int>{});
    });
    CHECK(sum == std::accumulate(host.begin(), host.end(), 0));
    double const squares = cuota::run_thrust(on.s, on.pool, [r](auto const& policy) {
        return thrust::inner_product(policy, r.begin(), r.end(), r.begin(), 0.0);
    });
    CHECK(squares == std::inner_product(host.begin(), host.end(), host.begin(), 0.0));
}

TEST_CASE("Thrust works on part of a buffer, on another stream than its home stream, and on empty ranges",
          "[interop][thrust][gpu]") {
    scene on;
    cuota::stream const other;
    numbers x{scrambled(100), on.s, on.pool};
    {
        auto const all = x.write(other);
        thrust_range const part{all.span().subspan(10, 50)};
        thrust_range const nothing{all.span().first(0)};
        cuota::run_thrust(other, on.pool, [part, nothing](auto const& policy) {
            thrust::sort(policy, part.begin(), part.end(), thrust::greater<int>{});
            thrust::sort(policy, nothing.begin(), nothing.end());
        });
    }
    auto expected = scrambled(100);
    std::sort(expected.begin() + 10, expected.begin() + 60, std::greater<>{});
    CHECK(x.to_vector(on.s) == expected);
}

TEST_CASE("scratch memory is allocated and freed in stream order, and charged", "[interop][thrust][gpu]") {
    scene on;
    cuota::scratch_allocator scratch{on.s, on.pool};
    char* const p = scratch.allocate(1000);
    CHECK(on.pool.stats().requested == 1000);
    scratch.deallocate(p, 1000);
    CHECK(on.pool.stats().requested == 0);
    char* const again = scratch.allocate(1000);
    CHECK(again == p);
    scratch.deallocate(again, 1000);
    CHECK(scratch == cuota::scratch_allocator{on.s, on.pool});
    CHECK_FALSE(scratch == cuota::scratch_allocator{on.s, cuota::managed_memory{}});
}
