// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

using namespace control;

namespace {

std::vector<bool> failures_of(std::uint64_t seed, int calls) {
    sim::clear_faults();
    sim::fail_randomly("cudaDeviceSynchronize", 0.25, seed);
    std::vector<bool> failed;
    for (int i = 0; i < calls; ++i) failed.push_back(cudaDeviceSynchronize() != cudaSuccess);
    return failed;
}

}  // namespace

TEST_CASE("calls fail at random, and reproducibly for the same seed", "[simulator][faults]") {
    machine m;
    auto const first = failures_of(1, 1000);
    auto const injected = sim::faults_injected();
    CHECK(injected > 150);
    CHECK(injected < 350);
    CHECK(failures_of(1, 1000) == first);
    CHECK(failures_of(2, 1000) != first);
    CHECK(sim::calls("cudaDeviceSynchronize") == 3000);
}

TEST_CASE("random faults do not affect other functions", "[simulator][faults]") {
    machine m;
    sim::fail_randomly("cudaMalloc", 1, 7);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 16) == cudaErrorMemoryAllocation);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    sim::fail_randomly(nullptr, 1, 7, cudaErrorECCUncorrectable);
    CHECK(cudaDeviceSynchronize() == cudaErrorECCUncorrectable);
    (void)cudaGetErrorName(cudaSuccess);
    sim::clear_faults();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    sim::fail_randomly(nullptr, 0, 7);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("an invalid probability is refused", "[simulator][faults]") {
    machine m;
    CHECK_THROWS_AS(sim::fail_randomly("cudaMallocc", 0.5, 1), std::invalid_argument);
    CHECK_THROWS_AS(sim::fail_randomly("cudaGetLastError", 0.5, 1), std::invalid_argument);
    CHECK_THROWS_AS(sim::fail_randomly(nullptr, 1.5, 1), std::invalid_argument);
    CHECK_THROWS_AS(sim::fail_randomly(nullptr, std::numeric_limits<double>::quiet_NaN(), 1),
                    std::invalid_argument);
}

TEST_CASE("allocations of every kind beyond a size fail", "[simulator][faults]") {
    machine m;
    sim::fail_larger_than(64 * KiB);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 64 * KiB + 1) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&p, 64 * KiB + 1, nullptr) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocHost(&p, 64 * KiB + 1) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocManaged(&p, 64 * KiB + 1, cudaMemAttachGlobal) == cudaErrorMemoryAllocation);
    CHECK(sim::faults_injected() == 4);
    REQUIRE(cudaMalloc(&p, 64 * KiB) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    sim::clear_faults();
    REQUIRE(cudaMalloc(&p, 64 * KiB + 1) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
}

TEST_CASE("the capacity can be reduced while the program runs", "[simulator][faults]") {
    machine m{{.devices = 1, .capacity = 1024 * KiB}};
    auto* const p = device_memory(256 * KiB);
    sim::set_other_programs(0, 512 * KiB);
    CHECK(free_bytes() == 256 * KiB);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 512 * KiB) == cudaErrorMemoryAllocation);
    sim::set_other_programs(0, 4096 * KiB);
    CHECK(free_bytes() == 0);
    CHECK(cudaMalloc(&more, 1) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(free_bytes() == 0);
    sim::set_other_programs(0, 0);
    CHECK(free_bytes() == 1024 * KiB);
}

TEST_CASE("a lost device fails every call until the reset, but frees memory", "[simulator][faults]") {
    machine m{{.devices = 2}};
    auto* const p = device_memory(256);
    auto const s = new_stream();
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    sim::lose_device(0);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 16) == cudaErrorDevicesUnavailable);
    CHECK(cudaMemsetAsync(p, 0, 256, s) == cudaErrorDevicesUnavailable);
    CHECK(cudaStreamSynchronize(s) == cudaErrorDevicesUnavailable);
    CHECK(cudaDeviceSynchronize() == cudaErrorDevicesUnavailable);
    CHECK(cudaGetLastError() == cudaErrorDevicesUnavailable);
    CHECK(std::string{cuota_simulator_fault()} == "the device was lost");

    REQUIRE(cudaSetDevice(1) == cudaSuccess);  // the other device still works
    REQUIRE(cudaMalloc(&more, 16) == cudaSuccess);
    CHECK(cudaFree(more) == cudaSuccess);
    CHECK(cudaMemsetAsync(p, 0, 256, s) == cudaErrorDevicesUnavailable);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);

    CHECK(cudaFree(p) == cudaErrorDevicesUnavailable);
    CHECK(cudaStreamDestroy(s) == cudaErrorDevicesUnavailable);
    CHECK(sim::live().total() == 0);
    sim::reset({.devices = 2});
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK_THROWS_AS(sim::lose_device(2), std::invalid_argument);
}

TEST_CASE("work of a lost device is discarded", "[simulator][faults]") {
    machine m;
    auto const s = new_stream();
    bool ran = false;
    {
        sim::hold closed;
        REQUIRE(launch(s, "late", [&] { ran = true; }) == cudaSuccess);
        sim::lose_device(0);
    }
    CHECK(cudaStreamSynchronize(s) == cudaErrorDevicesUnavailable);
    CHECK_FALSE(ran);
    sim::reset();
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
