// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/device_memory.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

using namespace cuota::literals;

TEST_CASE("device_memory leaves nothing behind", "[resource][device_memory]") {
    support::machine const sim;
    support::behaves_as_a_resource(cuota::device_memory{});
}

TEST_CASE("device_memory survives every failure of its calls", "[resource][device_memory]") {
    support::machine sim;
    cuota::stream const s;
    cuota::device_memory memory;
    auto const seen = support::survives_every_failure(sim, [&] {
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
    REQUIRE(seen.thrown > 0);
    REQUIRE(seen.reported > 0);
    REQUIRE(seen.silent == 0);
}

TEST_CASE("device_memory is of the device it was made for", "[resource][device_memory]") {
    support::machine const sim{{2, 64_MiB}};
    cuota::device_memory first;
    cuota::device_memory second{cuota::device{1}};
    REQUIRE(first.device().ordinal() == 0);
    REQUIRE(!(first == second));
    void* const p = second.allocate_sync(1_MiB);
    cudaPointerAttributes found{};
    REQUIRE(cudaPointerGetAttributes(&found, p) == cudaSuccess);
    REQUIRE(found.device == 1);
    REQUIRE(cuota::device::current().ordinal() == 0);
    second.deallocate_sync(p, 1_MiB);
}

TEST_CASE("device_memory refuses with the driver's numbers", "[resource][device_memory]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::simulator::set_other_programs(0, 10_MiB);
    cuota::device_memory memory;
    void* const p = memory.allocate_sync(4_MiB);
    auto const before = cuota::device{0}.memory().free;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)memory.allocate_sync(70_MiB + 1, 256, {"weights", {"train.cpp", 17}});
    });
    cuota::refusal const& facts = refused.facts();
    REQUIRE(facts.asked == 70_MiB + 1);
    REQUIRE(facts.charged == 70_MiB + 512);
    REQUIRE(facts.budgets.empty());
    REQUIRE(facts.device);
    REQUIRE(facts.device->name == "simulated");
    REQUIRE(facts.device->total == 64_MiB);
    REQUIRE(facts.device->free == before);
    REQUIRE(facts.device->ours == 4_MiB);
    REQUIRE(facts.would_fit == before);
    REQUIRE(support::has(refused.what(), "because   cudaMalloc found too little memory on the device"));
    memory.deallocate_sync(p, 4_MiB);
}

TEST_CASE("device_memory refuses as ever when the driver does not even answer, and reports that",
          "[resource][device_memory]") {
    support::machine sim;
    cuota::device_memory memory;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
    cuota::simulator::fail_call("cudaMemGetInfo", 1, cudaErrorUnknown);
    auto const refused = support::thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync(1_MiB); });
    REQUIRE(!refused.facts().device);
    REQUIRE(sim.errors.take().size() == 1);
}
