// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/device.hpp>

#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"

TEST_CASE("device_scope changes the current device of its own thread and restores it", "[runtime][device]") {
    support::machine const sim{{3, std::size_t{1} << 20}};
    cuota::device const first{0};
    {
        cuota::device_scope const two{cuota::device{2}};
        REQUIRE(cuota::device::current().ordinal() == 2);
        {
            cuota::device_scope const one{cuota::device{1}};
            REQUIRE(cuota::device::current().ordinal() == 1);
            std::thread{[&] {
                if (!(cuota::device::current() == first)) std::terminate();
            }}.join();
        }
        REQUIRE(cuota::device::current().ordinal() == 2);
    }
    REQUIRE(cuota::device::current() == first);
}

TEST_CASE("device_scope restores the device when an exception is thrown", "[runtime][device]") {
    support::machine const sim{{2, std::size_t{1} << 20}};
    try {
        cuota::device_scope const one{cuota::device{1}};
        throw 1;
    } catch (int) {}
    REQUIRE(cuota::device::current().ordinal() == 0);
}

TEST_CASE("device_scope on the current device makes no call to change it", "[runtime][device]") {
    support::machine const sim;
    { cuota::device_scope const same{cuota::device{0}}; }
    REQUIRE(cuota::simulator::calls("cudaSetDevice") == 0);
}

TEST_CASE("querying a device's memory leaves the current device unchanged", "[runtime][device]") {
    support::machine const sim{{2, std::size_t{64} << 20}};
    cuota::simulator::set_other_programs(1, std::size_t{16} << 20);
    REQUIRE(cuota::device{1}.memory().free == std::size_t{48} << 20);
    REQUIRE(cuota::device{0}.memory().free == std::size_t{64} << 20);
    REQUIRE(cuota::device{1}.memory().total == std::size_t{64} << 20);
    REQUIRE(cuota::device{1}.name() == "simulated");
    cuota::device{1}.synchronize();
    REQUIRE(cuota::device::current().ordinal() == 0);
}

TEST_CASE("host_numa_node is the node that the driver reports, or empty", "[runtime][device]") {
    if (CUDART_VERSION < 12020) CUOTA_SKIP("these headers have no attribute for it");
    {
        support::machine const sim{{.devices = 2, .host_nodes = {1, -1}}};
        CHECK(cuota::device{0}.host_numa_node() == 1);
        CHECK(!cuota::device{1}.host_numa_node());
        cuota::simulator::fail_call("cudaDeviceGetAttribute", 1, cudaErrorInvalidValue);  // an older driver
        CHECK(!cuota::device{0}.host_numa_node());
        CHECK(support::last_error() == cudaSuccess);
        cuota::simulator::fail_call("cudaDeviceGetAttribute", 1, cudaErrorUnknown);
        CHECK_THROWS_AS(cuota::device{0}.host_numa_node(), cuota::cuda_error);
        CHECK(support::last_error() == cudaSuccess);
    }
    support::machine const none;
    CHECK(!cuota::device{0}.host_numa_node());
}

TEST_CASE("count is 0 without an error on a machine without devices", "[runtime][device]") {
    {
        support::machine const sim{{0, std::size_t{1} << 20}};
        REQUIRE(cuota::device::count() == 0);
        REQUIRE(support::last_error() == cudaSuccess);
        REQUIRE_THROWS_AS(cuota::device::current(), cuota::cuda_error);
    }
    support::machine const as_before;
    REQUIRE(cuota::device::count() == 1);
}

TEST_CASE("functions of a device report the failure of any CUDA call", "[runtime][device]") {
    support::machine sim{{2, std::size_t{1} << 20}};
    auto const seen = support::survives_every_failure(sim, [] {
        (void)cuota::device{1}.memory();
        cuota::device{1}.synchronize();
        (void)cuota::device::count();
    });
    REQUIRE(seen.silent == 0);
    REQUIRE(seen.reported > 0);  // the reset to the previous device
    REQUIRE(cuota::device::current().ordinal() == 0);
}

TEST_CASE("on a device with the host's memory, page cache is free", "[runtime][device]") {
    constexpr std::size_t mib = std::size_t{1} << 20;
    support::machine const sim{{.capacity = 64 * mib, .is_integrated = true}};
    cuota::device const here{0};
    REQUIRE(here.uses_host_memory());
    cuota::simulator::set_page_cache(0, 40 * mib);
    cuota::simulator::set_other_programs(0, 8 * mib);
    REQUIRE(here.memory().driver_free == 16 * mib);
    REQUIRE(here.memory().free == 56 * mib);
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 50 * mib) == cudaSuccess);  // the kernel drops the page cache
    REQUIRE(here.memory().driver_free == 0);
    REQUIRE(here.memory().free == 6 * mib);
    void* pinned = nullptr;
    REQUIRE(cudaMallocHost(&pinned, 2 * mib) == cudaSuccess);
    REQUIRE(here.memory().free == 4 * mib);
    REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
    REQUIRE(cudaFree(p) == cudaSuccess);
}

TEST_CASE("on a device with memory of its own, free is what the driver reports", "[runtime][device]") {
    support::machine const sim{{1, std::size_t{64} << 20}};
    cuota::device const here{0};
    REQUIRE(!here.uses_host_memory());
    cuota::simulator::set_other_programs(0, std::size_t{8} << 20);
    REQUIRE(here.memory().free == here.memory().driver_free);
}
