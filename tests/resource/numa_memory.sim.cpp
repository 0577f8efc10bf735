// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/numa_memory.hpp>

#include <cstddef>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/numa.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
namespace sim = cuota::simulator;

TEST_CASE("numa_memory reports the failure of any CUDA call and leaks nothing", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    support::machine on;
    cuota::stream const s;
    cuota::numa_memory memory{cuota::numa_nodes().at(0)};
    auto const seen = support::survives_every_failure(on, [&] {
        CHECK(support::placed_mappings() == 0);
        void* const p = memory.allocate(s, 1000);
        try {
            void* const q = memory.allocate_sync(3000);
            memory.deallocate_sync(q, 3000);
        } catch (...) {
            memory.deallocate(s, p, 1000);
            throw;
        }
        memory.deallocate(s, p, 1000);
    });
    CHECK(seen.thrown > 0);
    CHECK(seen.reported > 0);
    CHECK(seen.silent == 0);
    CHECK(support::placed_mappings() == 0);
}

TEST_CASE("numa_memory that cannot be page-locked is refused with the figures of its node",
          "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    support::machine const on;
    cuota::numa_memory memory{cuota::numa_nodes().at(0)};
    sim::fail_call("cudaHostRegister", 1, cudaErrorMemoryAllocation);
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)memory.allocate_sync(3_MiB + 1, 256, {"slots", {"train.cpp", 17}});
    });
    CHECK(refused.info().requested == 3_MiB + 1);
    CHECK(refused.info().charged == 3_MiB + memory.granularity());
    CHECK(refused.info().max_fit == 0);  // unknown, because the node did not lack memory
    CHECK(std::string{refused.what()}.find(
              "cudaHostRegister could not page-lock that much memory; NUMA node ") != std::string::npos);
    CHECK(support::last_error() == cudaSuccess);
    CHECK(support::placed_mappings() == 0);
}

TEST_CASE("memory near a device is on the host NUMA node of the device", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    for (cuota::numa_node const node : cuota::numa_nodes()) {
        support::machine const on{{.devices = 2, .host_nodes = {-1, node.number()}}};
        auto const near = cuota::device{1}.host_numa_node();
        REQUIRE(near);
        cuota::numa_memory memory{cuota::numa_node{*near}};
        void* const p = memory.allocate_sync(1_MiB);
        CHECK(support::lies_on(node.number(), p, 1_MiB));
        CHECK(sim::calls("cudaHostRegister") == 1);
        memory.deallocate_sync(p, 1_MiB);
        CHECK(sim::calls("cudaHostUnregister") == 1);
    }
}
