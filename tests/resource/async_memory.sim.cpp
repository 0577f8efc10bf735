// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/driver_suite.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

using namespace cuota::literals;

TEST_CASE("async_memory fulfils the contract of driver memory", "[resource][async_memory]") {
    support::behaves_as_driver_memory<cuota::async_memory>("cudaMallocAsync");
}

TEST_CASE("async_memory refuses a stream of another device", "[resource][async_memory]") {
    support::machine const sim{{2, 64_MiB}};
    cuota::stream const elsewhere;  // on device 0
    cuota::async_memory memory{cuota::device{1}};
    REQUIRE_THROWS_AS(memory.allocate(elsewhere, 1_MiB), cuota::usage_error);
    REQUIRE(cuota::detail::taken_on(cuota::device{1}) == 0);
}

TEST_CASE("async_memory does not wait for the device", "[resource][async_memory]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::async_memory memory;
    {
        cuota::simulator::hold const nothing_runs;
        void* const p = memory.allocate(s, 1_MiB);
        support::detail::write({p, 1_MiB, 1}, s);
        memory.deallocate(s, p, 1_MiB);
    }
    s.synchronize();
    REQUIRE(cuota::detail::taken_on(cuota::device{0}) == 0);
}
