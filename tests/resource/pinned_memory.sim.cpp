// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/pinned_memory.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

using namespace cuota::literals;

TEST_CASE("pinned_memory leaks nothing", "[resource][pinned_memory]") {
    support::machine const sim;
    support::behaves_as_a_resource(cuota::pinned_memory{});
}

TEST_CASE("pinned_memory reports the failure of any CUDA call and leaks nothing",
          "[resource][pinned_memory]") {
    support::machine sim;
    cuota::stream const s;
    cuota::pinned_memory memory;
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

TEST_CASE("the refusal of pinned_memory has the request", "[resource][pinned_memory]") {
    support::machine const sim;
    cuota::pinned_memory memory;
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)memory.allocate_sync(70_MiB + 1, 256, {"slots", {"train.cpp", 17}});
    });
    REQUIRE(refused.info().charged == 70_MiB + 1);
    REQUIRE(!refused.info().device);
    REQUIRE(std::string{refused.what()} ==
            "cuota::out_of_memory: cannot allocate 70.0 MiB for slots at train.cpp:17\n"
            "  cause      cudaHostAlloc could not page-lock that much memory");
}

TEST_CASE("freeing pinned_memory in stream order waits for the stream", "[resource][pinned_memory]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::pinned_memory memory;
    void* const p = memory.allocate(s, 1000);
    memory.deallocate(s, p, 1000);
    REQUIRE(cuota::simulator::calls("cudaStreamSynchronize") == 1);
    void* const q = memory.allocate_sync(1000);
    memory.deallocate_sync(q, 1000);
    REQUIRE(cuota::simulator::calls("cudaStreamSynchronize") == 1);
}
