// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#include <stdexcept>
#include <string>
#include <vector>

using namespace control;

TEST_CASE("the machine has the requested shape", "[simulator][machine]") {
    machine m{{.devices = 3, .capacity = 640 * KiB}};
    int count = 0;
    CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
    CHECK(count == 3);
    REQUIRE(cudaSetDevice(2) == cudaSuccess);
    CHECK(free_bytes() == 640 * KiB);
    CHECK(cudaSetDevice(3) == cudaErrorInvalidDevice);
    CHECK(sim::shape().devices == 3);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("a machine can have no devices", "[simulator][machine]") {
    machine m{{.devices = 0}};
    int count = -1;
    void* p = nullptr;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
    CHECK(count == 0);
    CHECK(cudaGetDevice(&count) == cudaErrorNoDevice);
    CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
    CHECK(cudaMalloc(&p, 16) == cudaErrorNoDevice);
    CHECK(cudaGetLastError() == cudaErrorNoDevice);
}

TEST_CASE("the shape cannot change while memory is live", "[simulator][machine]") {
    machine m;
    auto* const d = device_memory(100);
    CHECK_THROWS_AS(sim::reset({.devices = 2}), std::logic_error);
    CHECK_THROWS_AS(sim::reset({.devices = -1}), std::invalid_argument);
    CHECK_THROWS_AS(sim::reset({.devices = 17}), std::invalid_argument);
    CHECK_NOTHROW(sim::reset());
    CHECK(sim::live().device_allocations == 1);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK_NOTHROW(sim::reset({.devices = 2}));
}

TEST_CASE("each device's host node can be queried", "[simulator][machine]") {
    auto const said_by = [](int device) {
        int node = -7;
        CHECK(cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device) == cudaSuccess);
        cudaDeviceProp p{};
        CHECK(cudaGetDeviceProperties(&p, device) == cudaSuccess);
        CHECK(p.hostNumaId == node);
        return node;
    };
    machine m{{.devices = 2, .host_nodes = {1, 0}}};
    CHECK(said_by(0) == 1);
    CHECK(said_by(1) == 0);
    CHECK(sim::shape().host_nodes == std::vector{1, 0});
    sim::reset({.devices = 2, .host_nodes = {3}});
    CHECK(said_by(1) == 3);
    CHECK_THROWS_AS(sim::reset({.devices = 3, .host_nodes = {0, 1}}), std::invalid_argument);
    CHECK_THROWS_AS(sim::reset({.host_nodes = {-2}}), std::invalid_argument);
    auto* const d = device_memory(100);
    CHECK_THROWS_AS(sim::reset({.devices = 2, .host_nodes = {1}}), std::logic_error);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(said_by(0) == 3);
    sim::reset({.devices = 2});
    CHECK(said_by(0) == -1);
}

TEST_CASE("a machine can lack peer access and mappings for RDMA", "[simulator][machine]") {
    machine m{{.devices = 2, .has_peer_access = false, .maps_for_rdma = false}};
    int can = 1;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
    CHECK(can == 0);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
    CHECK(cudaGetLastError() == cudaErrorPeerAccessUnsupported);
    CHECK_FALSE(sim::shape().has_peer_access);
    CHECK_FALSE(sim::shape().maps_for_rdma);
    sim::reset({.devices = 2});
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
    CHECK(can == 1);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    CHECK(sim::shape().maps_for_rdma);
}

TEST_CASE("a reset clears faults, counters, peaks and other programs", "[simulator][machine]") {
    machine m;
    CHECK(cudaFree(device_memory(100)) == cudaSuccess);
    (void)cudaSetDevice(9);
    sim::fail_call(nullptr, 1);
    sim::set_other_programs(0, 1000 * KiB);
    sim::reset();
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(sim::calls() == 0);
    CHECK(sim::peak_device_bytes() == 0);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(free_bytes() == sim::shape().capacity);
}

TEST_CASE("memory is counted in units of 512 bytes", "[simulator][machine]") {
    machine m{{.capacity = 1024}};
    auto* const a = device_memory(1);
    CHECK(free_bytes() == 512);
    auto* const b = device_memory(512);
    CHECK(free_bytes() == 0);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 1) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(a) == cudaSuccess);
    CHECK(cudaFree(b) == cudaSuccess);
    CHECK(free_bytes() == 1024);
}

TEST_CASE("other programs reduce the free memory", "[simulator][machine]") {
    machine m{{.capacity = 64 * KiB}};
    sim::set_other_programs(0, 60 * KiB);
    CHECK(free_bytes() == 4 * KiB);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 5 * KiB) == cudaErrorMemoryAllocation);
    REQUIRE(cudaMalloc(&p, 4 * KiB) == cudaSuccess);
    sim::set_other_programs(0, 100 * KiB);
    CHECK(free_bytes() == 0);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(free_bytes() == 0);
    sim::set_other_programs(0, 0);
    CHECK(free_bytes() == 64 * KiB);
    CHECK_THROWS_AS(sim::set_other_programs(1, 1), std::invalid_argument);
}

TEST_CASE("plain and stream-ordered memory share the device's capacity", "[simulator][machine]") {
    machine m{{.capacity = 64 * KiB}};
    auto* const d = device_memory(40 * KiB);
    void* p = nullptr;
    CHECK(cudaMallocAsync(&p, 30 * KiB, nullptr) == cudaErrorMemoryAllocation);
    REQUIRE(cudaMallocAsync(&p, 24 * KiB, nullptr) == cudaSuccess);
    CHECK(free_bytes() == 0);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeAsync(p, nullptr) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(free_bytes() == 64 * KiB);
}

TEST_CASE("freed stream-ordered memory is available to its stream at once, to others after the free",
          "[simulator][machine]") {
    machine m{{.capacity = 64 * KiB}};
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    void *first = nullptr, *second = nullptr;
    REQUIRE(cudaMallocAsync(&first, 40 * KiB, a) == cudaSuccess);
    gate closed{a};
    REQUIRE(cudaFreeAsync(first, a) == cudaSuccess);
    CHECK(free_bytes() == 24 * KiB);  // the free has not run
    SECTION("the same stream") {
        REQUIRE(cudaMallocAsync(&second, 40 * KiB, a) == cudaSuccess);
        CHECK(cudaFreeAsync(second, a) == cudaSuccess);
    }
    SECTION("another stream waits for the free") {
        REQUIRE(cudaMallocAsync(&second, 40 * KiB, b) == cudaSuccess);
        CHECK(cudaStreamQuery(b) == cudaErrorNotReady);
        closed.open();
        CHECK(cudaStreamSynchronize(b) == cudaSuccess);
        CHECK(cudaFreeAsync(second, b) == cudaSuccess);
    }
    SECTION("another stream fails when its pool may not wait") {
        cudaMemPool_t pool = nullptr;
        int no = 0;
        REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
        REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no) == cudaSuccess);
        CHECK(cudaMallocAsync(&second, 40 * KiB, b) == cudaErrorMemoryAllocation);
    }
    SECTION("a plain allocation fails") { CHECK(cudaMalloc(&second, 40 * KiB) == cudaErrorMemoryAllocation); }
    closed.open();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(sim::peak_device_bytes() <= 64 * KiB);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("new memory is filled with a recognisable pattern", "[simulator][machine]") {
    machine m;
    sim::set_memory_checks(sim::memory_checks::heap);
    auto const bytes = GENERATE(std::size_t{1}, std::size_t{5000}, std::size_t{5} << 20);
    auto* const d = device_memory(bytes);
    auto const seen = contents(d, bytes);
    CHECK(seen.front() == 0xcd);
    CHECK(seen.back() == 0xcd);
    auto* const pinned = pinned_memory(bytes);
    CHECK(pinned[bytes - 1] == 0xcd);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("stream-ordered memory is filled with the pattern when its stream reaches the allocation",
          "[simulator][machine]") {
    machine m;
    sim::set_memory_checks(sim::memory_checks::heap);
    auto const s = new_stream();
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 100, s) == cudaSuccess);
    CHECK(all_are(contents(p, 100), 0xcd));
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("using stream-ordered memory before its allocation or after its free fails the device",
          "[simulator][machine]") {
    machine m;
    sim::set_race_checks(sim::race_checks::report);  // the device fails with or without a race
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    void* p = nullptr;
    SECTION("before its allocation has been reached") {
        gate closed{a};
        closed.wait_until_reached();
        REQUIRE(cudaMallocAsync(&p, 100, a) == cudaSuccess);
        REQUIRE(cudaMemsetAsync(p, 1, 100, b) == cudaSuccess);
        CHECK(cudaStreamSynchronize(b) == cudaErrorIllegalAddress);
        CHECK(std::string{cuota_simulator_fault()}.find("before") != std::string::npos);
        closed.open();
        (void)cudaFreeAsync(p, a);
        CHECK(sim::misuse().races == 1);  // with the allocation; the host waited before the free
    }
    SECTION("after its free") {
        REQUIRE(cudaMallocAsync(&p, 100, a) == cudaSuccess);
        gate closed{b};
        REQUIRE(cudaMemsetAsync(p, 1, 100, b) == cudaSuccess);
        REQUIRE(cudaFreeAsync(p, a) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
        closed.open();
        CHECK(cudaStreamSynchronize(b) == cudaErrorIllegalAddress);
        CHECK(std::string{cuota_simulator_fault()}.find("freed") != std::string::npos);
        CHECK(sim::misuse().races == 2);  // with the allocation and with the free
    }
    (void)cudaStreamDestroy(a);
    (void)cudaStreamDestroy(b);
}

TEST_CASE("events, kernels and pools belong to one device", "[simulator][machine]") {
    machine m{{.devices = 2}};
    auto const e = new_event();
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    auto const s = new_stream(), other = new_stream();
    auto const mine = new_event();
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    float ms = 0;
    REQUIRE(cudaEventRecord(mine, s) == cudaSuccess);
    REQUIRE(cudaEventRecord(e, nullptr) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(cudaEventRecord(e, s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventElapsedTime(&ms, e, mine) == cudaErrorInvalidResourceHandle);
    CHECK(launch(s, "k", [] {}) == cudaErrorInvalidResourceHandle);
    CHECK(cudaStreamWaitEvent(s, e, 0) == cudaSuccess);  // allowed across devices
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    cudaMemPool_t pool = nullptr;
    void* p = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    CHECK(cudaDeviceSetMemPool(1, pool) == cudaErrorInvalidValue);
    auto const device_of = [](void* memory) {
        cudaPointerAttributes where{};
        REQUIRE(cudaPointerGetAttributes(&where, memory) == cudaSuccess);
        return where.device;
    };
    REQUIRE(cudaMallocFromPoolAsync(&p, 16, pool, s) == cudaSuccess);  // in a stream of any device
    CHECK(device_of(p) == 0);
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&p, 16, s) == cudaSuccess);  // from the stream's device, not the current one
    CHECK(device_of(p) == 1);
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    unsigned long long default_here = 0, default_there = 0;
    REQUIRE(cudaStreamGetId(nullptr, &default_here) == cudaSuccess);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    REQUIRE(cudaStreamGetId(nullptr, &default_there) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    CHECK(default_here != default_there);
    for (auto const x : {s, other}) CHECK(cudaStreamDestroy(x) == cudaSuccess);
    for (auto const x : {e, mine}) CHECK(cudaEventDestroy(x) == cudaSuccess);
}

TEST_CASE("memory can be copied between devices", "[simulator][machine]") {
    machine m{{.devices = 2}};
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
    CHECK(can == 1);
    CHECK(cudaDeviceCanAccessPeer(&can, 0, 0) == cudaSuccess);
    CHECK(can == 0);
    auto* const here = device_memory(100);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    auto* const there = device_memory(100);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(cudaMemset(here, 3, 100) == cudaSuccess);
    CHECK(cudaMemcpyPeerAsync(there, 0, here, 0, 100, nullptr) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyPeerAsync(there, 2, here, 0, 100, nullptr) == cudaErrorInvalidDevice);
    CHECK(cudaMemcpyPeerAsync(there, 1, here, 0, 100, nullptr) == cudaSuccess);
    CHECK(all_are(contents(there, 100), 3));
    CHECK(cudaFree(here) == cudaSuccess);
    CHECK(cudaFree(there) == cudaSuccess);
}
