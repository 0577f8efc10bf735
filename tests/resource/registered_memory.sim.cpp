// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/registered_memory.hpp>

#include <cstddef>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
namespace sim = cuota::simulator;

TEST_CASE("registered_memory unregisters all pages that it registered", "[resource][registered_memory]") {
    support::machine const on;
    support::behaves_as_a_resource(cuota::registered_memory{});
    CHECK(sim::calls("cudaHostRegister") == sim::calls("cudaHostUnregister"));
    CHECK(sim::calls("cudaHostAlloc") == 0);
}

TEST_CASE("registered_memory reports the failure of any CUDA call and leaks nothing",
          "[resource][registered_memory]") {
    support::machine on;
    cuota::stream const s;
    cuota::registered_memory memory;
    auto const seen = support::survives_every_failure(on, [&] {
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
}

TEST_CASE("the refusal of registered_memory has the request", "[resource][registered_memory]") {
    support::machine const on;
    cuota::registered_memory memory;
    sim::fail_call("cudaHostRegister", 1, cudaErrorMemoryAllocation);
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)memory.allocate_sync(3_MiB + 1, 256, {"slots", {"train.cpp", 17}});
    });
    CHECK(refused.info().requested == 3_MiB + 1);
    CHECK(refused.info().charged == 3_MiB + memory.granularity());
    CHECK(std::string{refused.what()}.find(
              "cause      cudaHostRegister could not page-lock that much memory") != std::string::npos);
    CHECK(support::last_error() == cudaSuccess);

    auto const endless =
        support::thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync(cuota::unlimited / 2); });
    CHECK(std::string{endless.what()}.find("cause      not enough free host memory") != std::string::npos);
    CHECK_THROWS_AS(memory.allocate_sync(cuota::unlimited), cuota::out_of_memory);
}

TEST_CASE("the simulator reports misuse of registered_memory with its label",
          "[resource][registered_memory]") {
    support::machine const on;
    cuota::registered_memory memory;
    std::size_t const bytes = memory.granularity();
    void* const p = memory.allocate_sync(bytes, 256, {"slots", {"train.cpp", 17}});
    CHECK(cudaMemset(p, 0, bytes + 1) == cudaErrorInvalidValue);
    auto const told = sim::misuse_reports();
    REQUIRE(told.size() == 1);
    CHECK(told[0].find("\"slots\", registered memory") != std::string::npos);
    CHECK(told[0].find("train.cpp:17") != std::string::npos);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    memory.deallocate_sync(p, bytes);
}

TEST_CASE("freeing registered_memory in stream order waits for the stream", "[resource][registered_memory]") {
    support::machine const on;
    cuota::stream const s;
    cuota::registered_memory memory;
    void* const p = memory.allocate(s, 1000);
    memory.deallocate(s, p, 1000);
    CHECK(sim::calls("cudaStreamSynchronize") == 1);
    void* const q = memory.allocate_sync(1000);
    CHECK(sim::calls("cudaHostRegister") == 2);
    memory.deallocate_sync(q, 1000);
    CHECK(sim::calls("cudaStreamSynchronize") == 1);
    CHECK(sim::calls("cudaHostUnregister") == 2);
}
