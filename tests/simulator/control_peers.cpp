// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

using namespace control;

namespace {

struct on {
    explicit on(int index) { REQUIRE(cudaSetDevice(index) == cudaSuccess); }
    on(on const&) = delete;
    on& operator=(on const&) = delete;
    ~on() { (void)cudaSetDevice(0); }
};

void* memory_of(int index, std::size_t bytes) {
    on there{index};
    return device_memory(bytes);
}

}  // namespace

TEST_CASE("peer access is enabled once and in one direction", "[simulator][peers]") {
    machine m{{.devices = 2}};
    CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
    CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
    CHECK(cudaDeviceEnablePeerAccess(2, 0) == cudaErrorInvalidDevice);
    CHECK(cudaDeviceEnablePeerAccess(1, 1) == cudaErrorInvalidValue);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
    {
        on other{1};
        CHECK(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
    }
    CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    sim::reset({.devices = 2});
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
}

TEST_CASE("a pool is accessible to its own device, and to others as configured", "[simulator][peers]") {
    machine m{{.devices = 2}};
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    auto const access = [&](int index) {
        cudaMemLocation where{cudaMemLocationTypeDevice, index};
        auto flags = cudaMemAccessFlagsProtRead;
        REQUIRE(cudaMemPoolGetAccess(&flags, pool, &where) == cudaSuccess);
        return flags;
    };
    CHECK(access(0) == cudaMemAccessFlagsProtReadWrite);
    CHECK(access(1) == cudaMemAccessFlagsProtNone);
    cudaMemAccessDesc wanted{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    REQUIRE(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaSuccess);
    CHECK(access(1) == cudaMemAccessFlagsProtReadWrite);
    wanted.flags = cudaMemAccessFlagsProtNone;
    REQUIRE(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaSuccess);
    CHECK(access(1) == cudaMemAccessFlagsProtNone);
    wanted.location.id = 0;
    CHECK(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaErrorInvalidValue);
    wanted.location.id = 5;
    CHECK(cudaMemPoolSetAccess(pool, &wanted, 1) == cudaErrorInvalidDevice);
    CHECK(cudaMemPoolSetAccess(nullptr, &wanted, 1) == cudaErrorInvalidValue);
}

TEST_CASE("a copy between devices is ordered after earlier work of both and before later work",
          "[simulator][peers]") {
    machine m{{.devices = 2}};
    auto *const here = memory_of(0, 256), *const there = memory_of(1, 256);
    cudaStream_t s = nullptr;
    {
        on other{1};
        s = new_stream(cudaStreamNonBlocking);
        REQUIRE(cudaMemset(there, 1, 256) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    {
        gate closed{s};
        REQUIRE(cudaMemsetAsync(there, 7, 256, s) == cudaSuccess);
        REQUIRE(cudaMemcpyPeer(here, 0, there, 1, 256) == cudaSuccess);
        on other{1};
        REQUIRE(cudaMemset(there, 9, 256) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds{5});  // time to go wrong
    }
    CHECK(all_are(contents(here, 256), 7));
    CHECK(sim::misuse().races == 0);
    CHECK(cudaMemcpyPeer(here, 1, there, 0, 256) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyPeer(here, 0, there, 3, 256) == cudaErrorInvalidDevice);
    {
        on other{1};
        CHECK(all_are(contents(there, 256), 9));
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
        CHECK(cudaFree(there) == cudaSuccess);
    }
    CHECK(cudaFree(here) == cudaSuccess);
}
