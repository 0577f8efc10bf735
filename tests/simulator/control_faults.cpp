// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#include <stdexcept>

using namespace control;

TEST_CASE("the n-th call of a function fails, once", "[simulator][faults]") {
    machine m;
    sim::fail_call("cudaMalloc", 2);
    void* p[3] = {};
    CHECK(cudaMalloc(&p[0], 16) == cudaSuccess);
    CHECK(cudaMalloc(&p[1], 16) == cudaErrorMemoryAllocation);
    CHECK(p[1] == nullptr);
    CHECK(cudaMalloc(&p[2], 16) == cudaSuccess);
    CHECK(sim::faults_injected() == 1);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaFree(p[0]) == cudaSuccess);
    CHECK(cudaFree(p[2]) == cudaSuccess);
}

TEST_CASE("a fault can remain until it is cleared", "[simulator][faults]") {
    machine m;
    sim::fail_call("cudaDeviceSynchronize", 2, cudaErrorECCUncorrectable, sim::fault_kind::until_cleared);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (int i = 0; i < 3; ++i) CHECK(cudaDeviceSynchronize() == cudaErrorECCUncorrectable);
    sim::clear_faults();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(sim::faults_injected() == 3);
}

TEST_CASE("any call can fail, except those that report errors", "[simulator][faults]") {
    machine m;
    sim::fail_call(nullptr, 2);
    int device = 0;
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaGetLastError() != cudaErrorUnknown);
    CHECK(cudaPeekAtLastError() != cudaErrorUnknown);
    (void)cudaGetErrorName(cudaSuccess);
    (void)cudaGetErrorString(cudaSuccess);
    CHECK(cudaGetDevice(&device) == cudaErrorUnknown);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(sim::calls() == 3);
}

TEST_CASE("a failing call has no other effect", "[simulator][faults]") {
    machine m;
    auto* const d = device_memory(16);
    auto* const pinned = pinned_memory(16);
    auto const s = new_stream();
    auto const e = new_event();
    sim::fail_call(nullptr, 1, cudaErrorUnknown, sim::fault_kind::until_cleared);
    auto const before = sim::live();
    CHECK(cudaFree(d) == cudaErrorUnknown);
    CHECK(cudaFreeHost(pinned) == cudaErrorUnknown);
    CHECK(cudaStreamDestroy(s) == cudaErrorUnknown);
    CHECK(cudaEventDestroy(e) == cudaErrorUnknown);
    CHECK(cudaMemsetAsync(d, 3, 16, s) == cudaErrorUnknown);
    CHECK(sim::live().total() == before.total());
    sim::clear_faults();
    CHECK_FALSE(all_are(contents(d, 16), 3));
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
}

TEST_CASE("several faults can be planned at once", "[simulator][faults]") {
    machine m;
    sim::fail_call("cudaGetDevice", 1, cudaErrorNotReady);
    sim::fail_call("cudaGetDevice", 3, cudaErrorNotSupported);
    sim::fail_call("cudaDeviceSynchronize", 1);
    int device = 0;
    CHECK(cudaGetDevice(&device) == cudaErrorNotReady);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaErrorUnknown);
    CHECK(cudaGetDevice(&device) == cudaErrorNotSupported);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
}

TEST_CASE("the fault of an allocation is out of memory by default", "[simulator][faults]") {
    machine m;
    void* p = nullptr;
    sim::fail_call(nullptr, 1, cudaSuccess, sim::fault_kind::until_cleared);
    CHECK(cudaMallocHost(&p, 16) == cudaErrorMemoryAllocation);
    CHECK(cudaHostAlloc(&p, 16, 0) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocManaged(&p, 16, cudaMemAttachGlobal) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&p, 16, nullptr) == cudaErrorMemoryAllocation);
    CHECK(cudaDeviceSynchronize() == cudaErrorUnknown);
}

TEST_CASE("a fault that can never occur is refused", "[simulator][faults]") {
    machine m;
    CHECK_THROWS_AS(sim::fail_call("cudaMallocc", 1), std::invalid_argument);
    CHECK_THROWS_AS(sim::fail_call("cudaMalloc", 0), std::invalid_argument);
    CHECK_THROWS_AS(sim::fail_call("cudaGetLastError", 1), std::invalid_argument);
    CHECK_THROWS_AS(sim::calls("nothing"), std::invalid_argument);
}
