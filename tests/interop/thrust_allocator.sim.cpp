// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/thrust_allocator.hpp>

#include <memory>
#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/reduce.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

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

TEST_CASE("a device_vector's end does not wait, and what its stream still does with it is done first",
          "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::budget const budget{"vectors", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::device_buffer<int> seen{1, 0, s, pool};
    {
        auto v = std::make_unique<vector>(1000, 1, allocator{s, pool});
        auto const result = seen.write(s);
        support::gate const gate{s};
        cuota::run_thrust(s, pool,
                          [first = v->begin(), last = v->end(), to = result.span().data()](auto const& on) {
                              *to = thrust::reduce(on, first, last);
                          });
        v.reset();
        CHECK_FALSE(cuota::stream_ref{s}.is_idle());
        cuota::device_buffer<int> const next{1000, 5, other, pool};
    }
    CHECK(seen.to_vector(s).front() == 1000);
}

TEST_CASE("a device_vector's memory is free of what used it before, on every stream", "[interop][thrust]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"vectors", 64_MiB}};
    {
        cuota::device_buffer<int> x{1000, 1, s, pool};
        auto const all = x.write(s);
        cuota::run_thrust(s, pool, [r = cuota::thrust_range{all}](auto const& on) {
            thrust::fill(on, r.begin(), r.end(), 9);
        });
    }  // its bytes are free in order of s
    vector const v(1000, 2, allocator{s, pool});
    CHECK(sum_of(v, other) == 2000);
}

TEST_CASE("a device_vector of another device than the current one has its elements there",
          "[interop][thrust]") {
    support::machine const machine{{.devices = 2}};
    cuota::device_scope const second{cuota::device{1}};
    cuota::stream const s;
    allocator const ours{s, cuota::async_memory{cuota::device{1}}};
    cuota::device_scope const first{cuota::device{0}};
    vector const v(10, 3, ours);
    CHECK(sum_of(v, s) == 30);
}

TEST_CASE("a device_vector survives every failing call", "[interop][thrust]") {
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
