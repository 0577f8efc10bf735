// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/thrust_allocator.hpp>

#include <thrust/device_vector.h>
#include <thrust/reduce.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <thread>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

using namespace cuota::literals;

namespace {

using allocator = cuota::thrust_allocator<int>;
using vector = thrust::device_vector<int, allocator>;

int sum_of(vector const& v, cuota::stream const& s) {
    return cuota::run_thrust(s, cuota::async_memory{}, [first = v.begin(), last = v.end()](auto const& on) {
        return thrust::reduce(on, first, last);
    });
}

}  // namespace

// Two of these do not fit into the only page of the pool.
constexpr std::size_t most_of_it = 300'000;

TEST_CASE("destroying a device_vector does not wait, and its memory is reused after its stream's work",
          "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"vectors", 2_MiB}};
    cuota::device_buffer<int> seen{1, 0, s, pool};
    {
        auto v = std::make_unique<vector>(most_of_it, 1, allocator{s, pool});
        int const* const at = v->data().get();
        auto const result = seen.write(s);
        support::gate const gate{s};
        cuota::run_thrust(s, pool,
                          [first = v->begin(), last = v->end(), to = result.span().data()](auto const& on) {
                              *to = thrust::reduce(on, first, last);
                          });
        v.reset();
        CHECK_FALSE(cuota::stream_ref{s}.is_idle());
        cuota::device_buffer<int> next{most_of_it, 5, other, pool};
        auto const borrowed = next.write(other);
        CHECK(borrowed.span().data() == at);
        support::let_ready_work_run();
        CHECK_FALSE(cuota::stream_ref{other}.is_idle());
    }
    CHECK(seen.to_vector(s).front() == static_cast<int>(most_of_it));
}

TEST_CASE("memory of a new device_vector can be used on every stream at once", "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"vectors", 2_MiB}};
    allocator ours{s, pool};
    support::gate gate{s};
    { cuota::device_buffer<int> const x{most_of_it, s, pool}; }  // set to zero, and freed in order of s
    std::thread opener{[&] { gate.open(); }};
    allocator::pointer const p = ours.allocate(most_of_it);
    opener.join();
    cuota::rt::fill_bytes(p.get(), 2, most_of_it * sizeof(int), other, {});
    other.synchronize();
    CHECK(cuota::simulator::misuse().races == 0);  // in either order
    ours.deallocate(p, most_of_it);

    vector const v(most_of_it, 2, ours);
    CHECK(sum_of(v, other) == static_cast<int>(2 * most_of_it));
}

TEST_CASE("elements of a device_vector are on its resource's device, even if another device is current",
          "[interop][thrust]") {
    support::machine const machine{{.devices = 2}};
    cuota::device_scope const second{cuota::device{1}};
    cuota::stream const s;
    allocator const ours{s, cuota::async_memory{cuota::device{1}}};
    cuota::device_scope const first{cuota::device{0}};
    vector const v(10, 3, ours);
    CHECK(sum_of(v, s) == 30);
}

TEST_CASE("a device_vector leaks nothing when any CUDA call fails", "[interop][thrust]") {
    support::machine machine;
    bool const in_stream_order = GENERATE(true, false);
    auto const turn = [in_stream_order] {
        cuota::stream const s;
        cuota::any_resource const memory = in_stream_order ? cuota::any_resource{cuota::async_memory{}}
                                                           : cuota::any_resource{cuota::device_memory{}};
        vector const v(100, 7, allocator{s, memory});
        int const sum = sum_of(v, s);
        REQUIRE(sum == 700);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("in a child, a device_vector is destroyed without a CUDA call, and no algorithm runs",
          "[interop][thrust][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"vectors", 8_MiB}};
    std::optional<vector> v{std::in_place, 1000, 1, allocator{s, pool}};
    std::optional<cuota::scratch_allocator> scratch{std::in_place, s, cuota::any_resource{pool}};
    char* const bytes = scratch->allocate(1000);
    int const ends = support::status_of_ends_in_child([&] {
        v.reset();
        scratch->deallocate(bytes, 1000);
        scratch.reset();
    });
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("another device_vector", [&] { vector const more(1000, 1, allocator{s, pool}); });
        ask.refuses("scratch_allocator::allocate", [&] { (void)scratch->allocate(1000); });
        ask.refuses("run_thrust", [&] { (void)sum_of(*v, s); });
    });
    CHECK(requests == 0);
    scratch->deallocate(bytes, 1000);
}
