// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/thrust.hpp>

#include <thrust/fill.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::thrust_range;
using support::has;
using support::thrown;

TEST_CASE("an algorithm runs in stream order, and the host does not wait", "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::device_buffer<int> x{100, s, cuota::device_memory{}};
    {
        support::gate gate{s};
        auto const all = x.write(s);
        cuota::run_thrust(s, cuota::device_memory{}, [r = thrust_range{all}](auto const& on) {
            thrust::fill(on, r.begin(), r.end(), 7);
        });
        CHECK_FALSE(cuota::stream_ref{s}.is_idle());
    }
    CHECK(x.to_vector(s) == std::vector<int>(100, 7));
}

TEST_CASE("an algorithm of Thrust on a lease is recorded as a use of the buffer", "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::device_buffer<int> x{100, s, cuota::device_memory{}};
    {
        auto const all = x.write(s);
        cuota::run_thrust(s, cuota::device_memory{}, [r = thrust_range{all}](auto const& on) {
            thrust::fill(on, r.begin(), r.end(), 7);
        });
    }
    auto const before = cuota::simulator::misuse().races;
    CHECK(x.to_vector(other) == std::vector<int>(100, 7));  // ordered by the leases
    CHECK(cuota::simulator::misuse().races == before);
}

TEST_CASE("a refusal of scratch memory passes through Thrust unchanged and leaks nothing",
          "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::budget const small{"small", 1_KiB};
    cuota::scratch_allocator scratch{s, cuota::budgeted<cuota::pinned_memory>{small}};
    std::vector<int> some(5000);
    std::iota(some.rbegin(), some.rend(), 0);
    auto const before = some;
    auto const error = thrown<cuota::budget_exceeded>(
        [&] { thrust::stable_sort(thrust::cpp::par(scratch), some.begin(), some.end()); });
    CHECK(error.info().requested >= 5000 * sizeof(int));
    CHECK(small.held() == 0);
    CHECK(some == before);

    cuota::budget const enough{"enough", 1_MiB};
    cuota::scratch_allocator more{s, cuota::budgeted<cuota::pinned_memory>{enough}};
    thrust::stable_sort(thrust::cpp::par(more), some.begin(), some.end());
    CHECK(std::ranges::is_sorted(some));
    CHECK(enough.peak() >= 5000 * sizeof(int));
    CHECK(enough.held() == 0);
}

TEST_CASE("an exception in an algorithm makes the device fail, with the exception's text",
          "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    auto const error = thrown<cuota::cuda_error>([&] {
        (void)cuota::run_thrust(s, cuota::device_memory{},
                                [](auto const&) -> int { throw std::runtime_error{"no such key"}; });
    });
    CHECK(has(error.what(), "no such key"));
    cuota::simulator::reset();
}

TEST_CASE("Thrust on a lease leaks nothing when any CUDA call fails", "[interop][thrust]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::device_buffer<int> x{100, 3, s, cuota::device_memory{}};
        auto const all = x.write(s);
        thrust_range const r{all};
        cuota::run_thrust(s, cuota::device_memory{},
                          [r](auto const& on) { thrust::fill(on, r.begin(), r.end(), 7); });
        int const sum = cuota::run_thrust(s, cuota::device_memory{}, [r](auto const& on) {
            return thrust::reduce(on, r.begin(), r.end());
        });
        REQUIRE(sum == 700);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}
