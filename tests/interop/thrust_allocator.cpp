// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/thrust_allocator.hpp>

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/iterator/iterator_traits.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::thrown;

namespace {

using allocator = cuota::thrust_allocator<int>;
using vector = thrust::device_vector<int, allocator>;

struct scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"vectors", 64_MiB}};
    allocator const ours{s, pool, "keys"};
};

int sum_of(vector const& v, cuota::stream const& s, cuota::any_resource const& scratch) {
    return cuota::run_thrust(s, scratch, [first = v.begin(), last = v.end()](auto const& on) {
        return thrust::reduce(on, first, last, 0, thrust::plus<int>{});
    });
}

struct counted {
    int value = 3;  // no trivial default constructor
};
struct value_of {
    CUOTA_HOST_DEVICE int operator()(counted c) const { return c.value; }
};

// Algorithms must not treat device elements as host elements.
static_assert(std::is_same_v<vector::pointer, thrust::device_ptr<int>>);
static_assert(std::is_same_v<thrust::iterator_system<vector::iterator>::type, thrust::device_system_tag>);
static_assert(
    std::is_same_v<thrust::iterator_system<vector::const_iterator>::type, thrust::device_system_tag>);
static_assert(!std::is_convertible_v<vector::pointer, int*>);
// Stream and budget must be given explicitly.
static_assert(!std::is_default_constructible_v<allocator>);
static_assert(std::is_nothrow_copy_constructible_v<allocator>);

}  // namespace

TEST_CASE("a device_vector allocates from its resource under its tag, and frees there",
          "[interop][thrust][gpu]") {
    cuota::stream const s;
    cuota::measured memory{cuota::async_memory{}};
    {
        vector const v(1000, 7, allocator{s, memory, "keys"});
        CHECK(sum_of(v, s, memory) == 7000);
        CHECK(memory.report().live.at(0).bytes == cuota::round_up(4000, memory.granularity()));
        CHECK(memory.report().live.at(0).name == cuota::tag{"keys"});
    }
    CHECK(memory.report().live.empty());
}

TEST_CASE("elements of a device_vector without a value are value-initialised", "[interop][thrust][gpu]") {
    scene on;
    { vector const soiled(1000, -1, on.ours); }
    vector const v(1000, on.ours);
    CHECK(sum_of(v, on.s, on.pool) == 0);

    thrust::device_vector<counted, cuota::thrust_allocator<counted>> const own(10, on.ours);
    int const third = cuota::run_thrust(on.s, on.pool, [first = own.begin()](auto const& policy) {
        return thrust::transform_reduce(policy, first, first + 10, value_of{}, 0, thrust::plus<int>{});
    });
    CHECK(third == 30);
}

TEST_CASE("work on a device_vector runs in stream order, before its memory is freed",
          "[interop][thrust][gpu]") {
    scene on;
    int sum = 0;
    {
        vector v(5000, on.ours);
        cuota::run_thrust(on.s, on.pool, [first = v.begin(), last = v.end()](auto const& policy) {
            thrust::sequence(policy, first, last, 5000, -1);
            thrust::sort(policy, first, last);
        });
        sum = sum_of(v, on.s, on.pool);
        cuota::run_thrust(on.s, on.pool, [first = v.begin(), last = v.end()](auto const& policy) {
            thrust::sequence(policy, first, last);
        });
    }  // destroyed while the work may still run
    CHECK(sum == 5000 * 5001 / 2);
    vector const next(5000, 1, on.ours);
    CHECK(sum_of(next, on.s, on.pool) == 5000);
}

TEST_CASE("a device_vector keeps its allocator when it is moved, swapped and assigned",
          "[interop][thrust][gpu]") {
    cuota::stream const s;
    cuota::measured first{
        cuota::managed_memory{}};  // Thrust may copy elements of managed memory on either side
    cuota::measured second{cuota::managed_memory{}};
    {
        vector a(100, 1, allocator{s, first});
        vector b(50, 2, allocator{s, second});
        CHECK_FALSE(a.get_allocator() == b.get_allocator());
        swap(a, b);
        CHECK(sum_of(a, s, first) == 100);
        CHECK(sum_of(b, s, first) == 100);
        a = std::move(b);
        CHECK(a.size() == 100);
        CHECK(a.get_allocator() == allocator{s, first});
        CHECK(second.report().live.empty());
        vector const copy = a;
        CHECK(copy.get_allocator() == a.get_allocator());
        CHECK(sum_of(copy, s, first) == 100);
    }
    CHECK(first.report().live.empty());
}

TEST_CASE("a device_vector beyond the budget is refused, and a failed resize changes nothing",
          "[interop][thrust][gpu]") {
    cuota::stream const s;
    cuota::budget const small{"small", 8_KiB};
    cuota::budgeted<cuota::managed_memory> const memory{small};
    unsigned const line = __LINE__ + 1;
    allocator const ours{s, memory, "keys"};
    auto const error = thrown<cuota::budget_exceeded>([&] { vector const v(3000, ours); });
    CHECK(error.info().requested == 12000);
    CHECK(error.info().request.name == cuota::tag{"keys"});
    CHECK(error.info().request.where.line == line);
    CHECK(small.held() == 0);

    vector v(1000, 7, ours);
    CHECK_THROWS_AS(v.resize(2000), cuota::budget_exceeded);
    CHECK(v.size() == 1000);
    CHECK(sum_of(v, s, cuota::async_memory{}) == 7000);
}

TEST_CASE("a count is refused if its size in bytes overflows", "[interop][thrust][gpu]") {
    scene on;
    allocator ours = on.ours;
    CHECK_THROWS_AS((void)ours.allocate(std::numeric_limits<std::size_t>::max() / 2), cuota::out_of_memory);
    CHECK_THROWS_AS(vector(std::numeric_limits<std::size_t>::max() / 2, on.ours), cuota::out_of_memory);
    CHECK(on.pool.stats().requested == 0);
}

TEST_CASE("no memory is allocated for zero elements", "[interop][thrust][gpu]") {
    scene on;
    vector const none(0, on.ours);
    CHECK(none.empty());
    CHECK(on.pool.stats().requested == 0);
    allocator ours = on.ours;
    allocator::pointer const p = ours.allocate(0);
    CHECK(p.get() == nullptr);
    ours.deallocate(p, 0);
}

TEST_CASE("an allocator with host memory is refused", "[interop][thrust][gpu]") {
    cuota::stream const s;
    cuota::any_resource const erased{cuota::pinned_memory{}};
    CHECK_THROWS_AS((allocator{s, erased}), cuota::usage_error);
}

TEST_CASE("allocators are equal if their streams and resources are, for all element types",
          "[interop][thrust][gpu]") {
    scene on;
    cuota::stream const other;
    CHECK(on.ours == allocator{on.s, on.pool});
    CHECK(on.ours == cuota::thrust_allocator<double>{on.ours});
    CHECK_FALSE(on.ours == allocator{other, on.pool});
    CHECK_FALSE(on.ours == allocator{on.s, cuota::managed_memory{}});
}

TEST_CASE("a container keeps its stream and its resource alive", "[interop][thrust][gpu]") {
    cuota::budget const budget{"vectors", 64_MiB};
    {
        vector const v = [&] {
            cuota::stream const short_lived;
            return vector(100, 4, allocator{short_lived, cuota::budgeted<cuota::async_memory>{budget}});
        }();
        cuota::stream const s;
        CHECK(sum_of(v, s, cuota::async_memory{}) == 400);
        CHECK(budget.held() != 0);
    }
    CHECK(budget.held() == 0);
}
