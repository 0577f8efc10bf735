// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/graphs.hpp"

#include <chrono>
#include <memory>
#include <string>

// Memory of graphs: rules of driver 580 that CUDA's documents leave open, the simulator's accounts, and its reports.

using namespace control;

namespace {

std::uint64_t reserved() { return graph_memory_attribute(cudaGraphMemAttrReservedMemCurrent); }

/// A machine with a stream, and graphs of one allocation on it.
struct bench {
    machine m;
    cudaStream_t s = new_stream(cudaStreamNonBlocking);

    explicit bench(sim::options shape = {}) : m{shape} {}
    ~bench() { CHECK(cudaStreamDestroy(s) == cudaSuccess); }
    bench(bench const&) = delete;
    bench& operator=(bench const&) = delete;

    [[nodiscard]] cudaGraph_t capture(std::size_t bytes, void** block = nullptr, bool is_freed = true) const {
        void* p = nullptr;
        begin_capture(s);
        REQUIRE(cudaMallocAsync(&p, bytes, s) == cudaSuccess);
        REQUIRE(cudaMemsetAsync(p, 1, bytes, s) == cudaSuccess);
        if (is_freed) REQUIRE(cudaFreeAsync(p, s) == cudaSuccess);
        if (block) *block = p;
        return end_capture(s);
    }
};

sim::options small_device() { return {.capacity = 64 * MiB}; }

}  // namespace

TEST_CASE("a graph's memory counts as used on the device until it is trimmed", "[simulator][graph_memory]") {
    bench w;
    std::size_t const before = free_bytes();
    {
        executable const e{w.capture(3 * MiB)};
        CHECK(free_bytes() == before);
        e.launch(w.s);
        CHECK(free_bytes() == before - 4 * MiB);  // in pieces of 2 MiB
        REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    }
    CHECK(free_bytes() == before - 4 * MiB);
    CHECK(sim::live().device_allocations == 0);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
    CHECK(free_bytes() == before);
    CHECK(cudaDeviceGraphMemTrim(9) == cudaErrorInvalidDevice);
    std::uint64_t some = 5;
    CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &some) == cudaErrorInvalidValue);
    some = 0;
    CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &some) == cudaErrorInvalidValue);
    CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &some) == cudaSuccess);
    CHECK(graph_memory_attribute(cudaGraphMemAttrUsedMemHigh) == 0);
}

TEST_CASE("memory that one allocation frees serves the next allocation of the graph that comes after it",
          "[simulator][graph_memory]") {
    bench w;
    bool const is_in_order = GENERATE(true, false);
    auto const other = new_stream(cudaStreamNonBlocking);
    auto const forked = new_event(cudaEventDisableTiming), joined = new_event(cudaEventDisableTiming);
    void *p = nullptr, *q = nullptr;
    begin_capture(w.s);
    REQUIRE(cudaEventRecord(forked, w.s) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(other, forked, 0) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&p, 4 * MiB, w.s) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, w.s) == cudaSuccess);
    cudaStream_t const second = is_in_order ? w.s : other;
    REQUIRE(cudaMallocAsync(&q, 4 * MiB, second) == cudaSuccess);
    REQUIRE(cudaFreeAsync(q, second) == cudaSuccess);
    REQUIRE(cudaEventRecord(joined, other) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(w.s, joined, 0) == cudaSuccess);
    {
        executable const e{end_capture(w.s)};
        e.launch(w.s);
        CHECK(reserved() == (is_in_order ? 4 : 8) * MiB);
        REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    }
    for (auto const e : {forked, joined}) CHECK(cudaEventDestroy(e) == cudaSuccess);
    CHECK(cudaStreamDestroy(other) == cudaSuccess);
}

TEST_CASE("memory of a destroyed graph is not live after the program's work, although destroyed streams may "
          "still retire",
          "[simulator][graph_memory]") {
    bench w;
    auto e = std::make_unique<executable>(w.capture(4 * MiB));
    auto const other = new_stream(cudaStreamNonBlocking);
    REQUIRE(launch(other, "other", [] {}) == cudaSuccess);
    e->launch(w.s);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    sim::set_jitter(
        1, std::chrono::milliseconds{500});  // ThreadSanitizer's streams retire by an operation of their own
    CHECK(cudaStreamDestroy(other) == cudaSuccess);
    e.reset();
    CHECK(sim::live().device_allocations == 0);
    sim::set_jitter(0, std::chrono::microseconds{0});
}

TEST_CASE("a launch without room fails, keeps the part that it got, and succeeds with room",
          "[simulator][graph_memory]") {
    bench w{small_device()};
    executable const e{w.capture(32 * MiB)};
    auto* const block = device_memory(40 * MiB);
    std::size_t const before = free_bytes();
    CHECK(cudaGraphLaunch(e.get(), w.s) == cudaErrorMemoryAllocation);
    CHECK(cudaGraphUpload(e.get(), w.s) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(free_bytes() < 2 * MiB);
    CHECK(reserved() == before - free_bytes());
    REQUIRE(cudaFree(block) == cudaSuccess);
    e.launch(w.s);
    REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
    CHECK(graph_memory_attribute(cudaGraphMemAttrUsedMemCurrent) == 0);
    CHECK(reserved() == before / (2 * MiB) * (2 * MiB));  // the lost part
}

TEST_CASE("memory that graphs keep and do not use is taken back for cudaMalloc",
          "[simulator][graph_memory]") {
    bench w{small_device()};
    executable const e{w.capture(48 * MiB)};
    e.launch(w.s);
    REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    CHECK(free_bytes() < 32 * MiB);
    auto* const block = device_memory(32 * MiB);
    CHECK(reserved() == 0);
    CHECK(cudaGraphLaunch(e.get(), w.s) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(cudaFree(block) == cudaSuccess);
}

TEST_CASE("memory of executables that run is not trimmed, also after their destruction",
          "[simulator][graph_memory]") {
    bench w;
    bool const is_destroyed = GENERATE(true, false);
    {
        auto const stopped = std::make_unique<sim::hold>();
        auto e = std::make_unique<executable>(w.capture(4 * MiB));
        e->launch(w.s);
        if (is_destroyed) e.reset();
        REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
        CHECK(reserved() == 4 * MiB);
    }
    REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
    CHECK(reserved() == 0);
}

TEST_CASE("memory of a graph is valid between its allocation and its free only",
          "[simulator][graph_memory]") {
    bench w;
    void* block = nullptr;
    auto const g = w.capture(1000, &block);
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    CHECK(sim::live().device_allocations == 1);
    CHECK(sim::leaks().at(0).find("from cudaMallocAsync") != std::string::npos);
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(block, w.s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(sim::misuse().foreign_frees == 2);
    REQUIRE(cudaGraphLaunch(e, w.s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(e) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(sim::live().device_allocations == 0);
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("work on a graph's block after its free fails the device", "[simulator][graph_memory]") {
    machine m;
    auto const s = new_stream(cudaStreamNonBlocking);
    begin_capture(s);
    void* block = nullptr;
    REQUIRE(cudaMallocAsync(&block, 1000, s) == cudaSuccess);
    REQUIRE(cudaFreeAsync(block, s) == cudaSuccess);
    auto const g = end_capture(s);
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(e, s) == cudaSuccess);
    CHECK(cudaMemsetAsync(block, 0, 8, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
    CHECK(sim::misuse().illegal_accesses == 1);
    CHECK(cudaGraphExecDestroy(e) == cudaErrorIllegalAddress);  // the error persists, and it is destroyed
    CHECK(cudaGraphDestroy(g) == cudaErrorIllegalAddress);
    CHECK(cudaStreamDestroy(s) == cudaErrorIllegalAddress);
    (void)cudaGetLastError();
}

TEST_CASE("a launch of one graph frees the block that another graph keeps", "[simulator][graph_memory]") {
    bench w;
    void* block = nullptr;
    auto const first = w.capture(1000, &block, false);
    begin_capture(w.s);
    REQUIRE(cudaFreeAsync(block, w.s) == cudaSuccess);
    auto const second = end_capture(w.s);
    cudaGraphExec_t takes = nullptr, frees = nullptr;
    REQUIRE(cudaGraphInstantiate(&takes, first, 0) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&frees, second, 0) == cudaSuccess);
    CHECK(cudaGraphLaunch(frees, w.s) == cudaErrorInvalidValue);  // there is no block yet
    (void)cudaGetLastError();
    for (int turn = 0; turn != 2; ++turn) {
        CHECK(cudaGraphLaunch(takes, w.s) == cudaSuccess);
        CHECK(cudaGraphLaunch(frees, w.s) == cudaSuccess);
    }
    CHECK(cudaGraphLaunch(takes, w.s) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(takes) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(first) == cudaSuccess);
    CHECK(sim::live().device_allocations == 1);
    CHECK(cudaGraphLaunch(frees, w.s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(w.s) == cudaSuccess);
    CHECK(sim::live().device_allocations == 0);
    REQUIRE(cudaGraphExecDestroy(frees) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(second) == cudaSuccess);
}

TEST_CASE("an update needs the memory nodes of the executable", "[simulator][graph_memory]") {
    bench w;
    auto const g = w.capture(1000), other = w.capture(1000);
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    cudaGraphExecUpdateResultInfo told{};
    CHECK(cudaGraphExecUpdate(e, other, &told) == cudaErrorGraphExecUpdateFailure);
    CHECK(told.result == cudaGraphExecUpdateErrorParametersChanged);
    (void)cudaGetLastError();
    CHECK(cudaGraphExecUpdate(e, g, &told) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(e) == cudaSuccess);
    for (auto const one : {g, other}) REQUIRE(cudaGraphDestroy(one) == cudaSuccess);
}

TEST_CASE("a capture that is thrown away frees its blocks, and so does a reset of the device",
          "[simulator][graph_memory]") {
    bench w;
    begin_capture(w.s);
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 1000, w.s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(w.s) != cudaSuccess);  // invalidates the capture
    end_broken_capture(w.s);
    CHECK(sim::live().device_allocations == 0);

    auto const g = w.capture(1000, nullptr, false);
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(e, w.s) == cudaSuccess);
    REQUIRE(cudaDeviceReset() == cudaSuccess);
    CHECK(reserved() == 0);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    w.s = new_stream();
}
