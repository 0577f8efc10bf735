// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Checks of every resource that allocates directly from one device's driver.
#pragma once

#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/resource/pinned_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

namespace support {

/// Runs sections in a test case of the resource R, which allocates by the CUDA function `call`.
template <class R>
void behaves_as_driver_memory(char const* call) {
    using namespace cuota::literals;

    SECTION("it leaves nothing behind") {
        machine const sim;
        behaves_as_a_resource(R{});
    }
    SECTION("it survives every failure of its calls") {
        machine sim;
        cuota::stream const s;
        R memory;
        auto const seen = survives_every_failure(sim, [&] {
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
        // If the allocation fails while the driver's own pool caches memory, the pool is trimmed and the call is retried.
        REQUIRE(seen.silent <= (std::string_view{call} == "cudaMallocAsync" ? 1U : 0U));
    }
    SECTION("it is of the device it was made for") {
        machine const sim{{2, 64_MiB}};
        R first;
        R second{cuota::device{1}};
        REQUIRE(first.device().ordinal() == 0);
        REQUIRE(!(first == second));
        void* const p = second.allocate_sync(1_MiB);
        cudaPointerAttributes found{};
        REQUIRE(cudaPointerGetAttributes(&found, p) == cudaSuccess);
        REQUIRE(found.device == 1);
        REQUIRE(cuota::device::current().ordinal() == 0);
        second.deallocate_sync(p, 1_MiB);
    }
    SECTION("it goes when the stream of another device is done with it") {
        machine const sim{{2, 64_MiB}};
        R memory;
        cuota::device_scope const elsewhere{cuota::device{1}};
        cuota::stream const peer;
        cuota::simulator::set_jitter(1, std::chrono::milliseconds{20});
        void* const p = memory.allocate_sync(1000);
        std::vector<unsigned char> const sevens(1000, 7);
        cuota::pinned_memory host;
        void* const copy = host.allocate_sync(1000);
        cuota::rt::copy_to_device(p, sevens.data(), 1000, peer);
        for (int i = 0; i != 5; ++i) cuota::rt::copy_to_host(copy, p, 1000, peer);
        bool const is_owned = GENERATE(true, false);
        memory.deallocate(is_owned ? cuota::stream_ref{peer} : cuota::stream_ref{peer.get()}, p, 1000);
        CHECK_NOTHROW(peer.synchronize());
        CHECK(std::memcmp(copy, sevens.data(), 1000) == 0);
        CHECK(cuota::simulator::misuse().total() == 0);
        host.deallocate_sync(copy, 1000);
    }
    SECTION("it frees in stream order, or waits for the stream first: cudaFree need not wait") {
        machine const sim{{2, 64_MiB}};
        cuota::stream const mine;
        R memory;
        auto const before = cuota::simulator::calls("cudaStreamSynchronize");
        memory.deallocate(mine, memory.allocate(mine, 1000), 1000);
        bool const is_in_stream_order = std::string{call} == "cudaMallocAsync";
        CHECK(cuota::simulator::calls("cudaStreamSynchronize") - before == (is_in_stream_order ? 0 : 1));
    }
    SECTION("it refuses without a call what no machine has") {
        machine const sim;
        R memory;
        auto const before = cuota::simulator::calls(call);
        auto const refused =
            thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync((std::size_t{1} << 47) + 1); });
        CHECK(refused.info().requested == (std::size_t{1} << 47) + 1);
        CHECK(cuota::simulator::calls(call) == before);
    }
    SECTION("it refuses with the driver's numbers") {
        machine const sim{{1, 64_MiB}};
        cuota::simulator::set_other_programs(0, 10_MiB);
        R memory;
        void* const p = memory.allocate_sync(4_MiB);
        auto const before = cuota::device{0}.memory().free;
        cuota::simulator::fail_call(call, 1, cudaErrorMemoryAllocation);
        auto const refused = thrown<cuota::out_of_memory>([&] {
            (void)memory.allocate_sync(70_MiB + 1, 256, {"weights", {"train.cpp", 17}});
        });
        cuota::refusal const& facts = refused.info();
        REQUIRE(facts.requested == 70_MiB + 1);
        REQUIRE(facts.charged == 70_MiB + 512);
        REQUIRE(facts.budgets.empty());
        REQUIRE(facts.device);
        REQUIRE(facts.device->name == "simulated");
        REQUIRE(facts.device->total == 64_MiB);
        REQUIRE(facts.device->free == before);
        REQUIRE(facts.device->own == 4_MiB);
        REQUIRE(facts.max_fit == before);
        REQUIRE(has(refused.what(),
                    std::string{"cause      "} + call + ": not enough free memory on the device"));
        memory.deallocate_sync(p, 4_MiB);
    }
    SECTION("it refuses as ever when the driver does not even answer, and reports that") {
        machine sim;
        R memory;
        cuota::simulator::fail_call(call, 1, cudaErrorMemoryAllocation);
        cuota::simulator::fail_call("cudaMemGetInfo", 1, cudaErrorUnknown);
        auto const refused = thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync(1_MiB); });
        REQUIRE(!refused.info().device);
        REQUIRE(sim.errors.take().size() == 1);
    }
}

}  // namespace support
