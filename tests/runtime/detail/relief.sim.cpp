// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/relief.hpp>

#include <cstddef>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
namespace sim = cuota::simulator;

namespace {

cuota::graph_exec graph_that_allocates(cuota::stream const& s, std::size_t bytes) {
    return cuota::capture(s, [&] {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, bytes, s.get()) == cudaSuccess);
        REQUIRE(cudaMemsetAsync(p, 0, bytes, s.get()) == cudaSuccess);
        REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess);
    });
}

void leave_idle(cuota::scoped_pool& pool, cuota::stream const& s, std::size_t bytes) {
    pool.deallocate(s, pool.allocate(s, bytes), bytes);
    s.synchronize();
}

}  // namespace

TEST_CASE("a launch without room gets the idle memory of pools", "[runtime][relief]") {
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 48_MiB}};
    auto graph = graph_that_allocates(s, 40_MiB);
    leave_idle(pool, s, 40_MiB);
    graph.launch(s);
    s.synchronize();
    CHECK(pool.stats().reserved <= 24_MiB);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
}

TEST_CASE("a launch without room is refused with the figures of the device", "[runtime][relief]") {
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 48_MiB}};
    auto graph = graph_that_allocates(s, 40_MiB);
    auto* const held = pool.allocate(s, 40_MiB);
    auto const refused = support::thrown<cuota::out_of_memory>([&] { graph.launch(s); });
    CHECK(refused.info().requested == 40_MiB);
    CHECK(support::has(refused.what(), "cudaGraphLaunch: not enough free memory on the device"));
    CHECK(support::has(refused.what(), "relief.sim.cpp"));
    REQUIRE(refused.info().device);
    CHECK(refused.info().device->total == 64_MiB);
    CHECK(support::last_error() == cudaSuccess);
    pool.deallocate(s, held, 40_MiB);
    s.synchronize();
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);  // the driver keeps the part that it got
    graph.launch(s);
    s.synchronize();
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
}

TEST_CASE("an instantiation without room is repeated after idle memory was released", "[runtime][relief]") {
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 48_MiB}};
    bool const has_idle = GENERATE(true, false);
    if (has_idle) leave_idle(pool, s, 40_MiB);
    sim::fail_call("cudaGraphInstantiateWithFlags", 1, cudaErrorMemoryAllocation);
    if (has_idle) {
        graph_that_allocates(s, 1_MiB).launch(s);
        s.synchronize();
        REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
        CHECK(pool.stats().reserved < 40_MiB);
    } else {
        auto const refused =
            support::thrown<cuota::out_of_memory>([&] { (void)graph_that_allocates(s, 1_MiB); });
        CHECK(support::has(refused.what(), "cudaGraphInstantiateWithFlags"));
        CHECK(support::last_error() == cudaSuccess);
    }
    CHECK(sim::faults_injected() == 1);
}

TEST_CASE("other errors of such a call are CUDA errors", "[runtime][relief]") {
    support::machine const machine;
    cuota::stream const s;
    auto graph = graph_that_allocates(s, 1_MiB);
    sim::fail_call("cudaGraphLaunch", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(graph.launch(s), cuota::cuda_error);
}
