// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/graphs.hpp"

// Allocation and free nodes: CUDA C++ Programming Guide, "Graph Memory Nodes"; the comments of cudaGraphAddMemAllocNode,
// cudaDeviceGraphMemTrim and cudaDeviceGetGraphMemAttribute in cuda_runtime_api.h.

using namespace conformance;

namespace {

/// Bytes that the device holds for graphs when its work has finished.
std::size_t reserved() {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return graph_memory_attribute(cudaGraphMemAttrReservedMemCurrent);
}

void* captured_block(cudaStream_t s, std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, bytes, s) == cudaSuccess);
    REQUIRE(p != nullptr);
    return p;
}

/// A captured allocation that is set to a value and, unless it stays, freed.
struct allocating_graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    void* block = nullptr;

    allocating_graph(cudaStream_t s, std::size_t bytes, bool is_freed = true, unsigned long long flags = 0) {
        begin_capture(s);
        block = captured_block(s, bytes);
        REQUIRE(cudaMemsetAsync(block, 7, bytes, s) == cudaSuccess);
        if (is_freed) REQUIRE(cudaFreeAsync(block, s) == cudaSuccess);
        graph = end_capture(s);
        REQUIRE(cudaGraphInstantiateWithFlags(&exec, graph, flags) == cudaSuccess);
    }
    allocating_graph(allocating_graph const&) = delete;
    allocating_graph& operator=(allocating_graph const&) = delete;
    ~allocating_graph() { end(); }
    void end() {
        if (exec) CHECK(cudaGraphExecDestroy(std::exchange(exec, nullptr)) == cudaSuccess);
        if (graph) CHECK(cudaGraphDestroy(std::exchange(graph, nullptr)) == cudaSuccess);
    }
    void launch(cudaStream_t s) const { REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess); }
};

struct graph_memory_bench {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);

    graph_memory_bench() {
        REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
        REQUIRE(reserved() == 0);
    }
    ~graph_memory_bench() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaDeviceGraphMemTrim(0) == cudaSuccess);
        for (auto const s : {a, b}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
    graph_memory_bench(graph_memory_bench const&) = delete;
    graph_memory_bench& operator=(graph_memory_bench const&) = delete;
};

}  // namespace

TEST_CASE("a graph takes memory for its allocations when it is first launched, and keeps it until a trim",
          "[simulator][graph_memory][memory]") {
    graph_memory_bench t;
    allocating_graph g{t.a, 64 * MiB};
    CHECK(reserved() == 0);
    g.launch(t.a);
    CHECK(reserved() == 64 * MiB);
    g.launch(t.a);
    CHECK(reserved() == 64 * MiB);
    CHECK(graph_memory_attribute(cudaGraphMemAttrUsedMemCurrent) == 64 * MiB);
    g.end();
    CHECK(reserved() == 64 * MiB);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
    CHECK(reserved() == 0);
    CHECK(graph_memory_attribute(cudaGraphMemAttrReservedMemHigh) >= 64 * MiB);
    std::uint64_t zero = 0;
    REQUIRE(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &zero) == cudaSuccess);
    CHECK(graph_memory_attribute(cudaGraphMemAttrReservedMemHigh) == 0);
}

TEST_CASE("an upload takes the memory, and a launch after a trim takes it again",
          "[simulator][graph_memory][memory]") {
    graph_memory_bench t;
    allocating_graph const g{t.a, 64 * MiB};
    REQUIRE(cudaGraphUpload(g.exec, t.a) == cudaSuccess);
    CHECK(reserved() == 64 * MiB);
    REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
    CHECK(reserved() == 0);
    g.launch(t.a);
    CHECK(reserved() == 64 * MiB);
}

TEST_CASE("executables that run on one stream share memory, and those of two streams do not",
          "[simulator][graph_memory][memory]") {
    graph_memory_bench t;
    allocating_graph const small{t.a, 64 * MiB};
    allocating_graph const large{t.a, 96 * MiB};
    small.launch(t.a);
    large.launch(t.a);
    CHECK(reserved() == 96 * MiB);
    small.launch(t.a);
    large.launch(t.b);
    CHECK(reserved() == 160 * MiB);
}

TEST_CASE("an allocation of a graph can be used between its node and the free node",
          "[simulator][graph_memory]") {
    graph_memory_bench t;
    constexpr std::size_t bytes = 1000;
    unsigned char* const host = pinned_memory(bytes);
    begin_capture(t.a);
    void* const block = captured_block(t.a, bytes);
    REQUIRE(cudaMemsetAsync(block, 7, bytes, t.a) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(host, block, bytes, cudaMemcpyDeviceToHost, t.a) == cudaSuccess);
    REQUIRE(cudaFreeAsync(block, t.a) == cudaSuccess);
    executable const e{end_capture(t.a)};
    for (int turn = 0; turn != 3; ++turn) {
        std::fill_n(host, bytes, static_cast<unsigned char>(0));
        e.launch(t.a);
        REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
        CHECK(std::all_of(host, host + bytes, [](unsigned char c) { return c == 7; }));
    }
    CHECK(cudaFreeHost(host) == cudaSuccess);
}

TEST_CASE("a block that a graph does not free must be freed before its next launch",
          "[simulator][graph_memory]") {
    graph_memory_bench t;
    allocating_graph g{t.a, 1000, false};
    g.launch(t.a);
    CHECK(contents(g.block, 1000) == std::vector<unsigned char>(1000, 7));
    CHECK(cudaGraphLaunch(g.exec, t.a) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaFreeAsync(g.block, t.b) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(t.b) == cudaSuccess);
    g.launch(t.a);
    CHECK(cudaFree(g.block) == cudaSuccess);
    g.launch(t.a);
    REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
    g.end();
    CHECK(cudaFree(g.block) == cudaSuccess);  // it outlives its graph
}

TEST_CASE("with AutoFreeOnLaunch a launch frees the block of the last one", "[simulator][graph_memory]") {
    graph_memory_bench t;
    allocating_graph g{t.a, 1000, false, cudaGraphInstantiateFlagAutoFreeOnLaunch};
    g.launch(t.a);
    g.launch(t.a);
    CHECK(contents(g.block, 1000) == std::vector<unsigned char>(1000, 7));
    g.end();
    CHECK(cudaFree(g.block) == cudaSuccess);
}

TEST_CASE("a graph with an allocation has one executable and no clone", "[simulator][graph_memory]") {
    graph_memory_bench t;
    allocating_graph g{t.a, 1000};
    cudaGraphExec_t second = nullptr;
    cudaGraph_t clone = nullptr;
    CHECK(cudaGraphInstantiate(&second, g.graph, 0) == cudaErrorNotSupported);
    CHECK(cudaGraphClone(&clone, g.graph) == cudaErrorNotSupported);
    (void)cudaGetLastError();
    cudaGraphExecUpdateResultInfo told{};
    CHECK(cudaGraphExecUpdate(g.exec, g.graph, &told) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(g.exec) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0) == cudaSuccess);
}

TEST_CASE("a capture frees allocations of graphs only, and each of them once", "[simulator][graph_memory]") {
    graph_memory_bench t;
    auto* const plain = device_memory(1000);
    void* pooled = nullptr;
    REQUIRE(cudaMallocAsync(&pooled, 1000, t.b) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(t.b) == cudaSuccess);
    begin_capture(t.a, cudaStreamCaptureModeRelaxed);
    auto* const block = static_cast<char*>(captured_block(t.a, 1000));
    CHECK(cudaFreeAsync(block + 256, t.a) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(block, t.b) == cudaErrorInvalidValue);  // outside
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(plain, t.a) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(pooled, t.a) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(nullptr, t.a) == cudaSuccess);
    CHECK(cudaFreeAsync(block, t.a) == cudaSuccess);
    CHECK(cudaFreeAsync(block, t.a) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(status_of(t.a) == cudaStreamCaptureStatusActive);
    auto* const g = end_capture(t.a);
    std::size_t nodes = 0;
    REQUIRE(cudaGraphGetNodes(g, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 2);
    REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(cudaFreeAsync(pooled, t.b) == cudaSuccess);
    CHECK(cudaFree(plain) == cudaSuccess);
}

TEST_CASE("an allocation in a capture that no device could serve fails, and the capture stays valid",
          "[simulator][graph_memory]") {
    graph_memory_bench t;
    begin_capture(t.a);
    void* p = nullptr;
    CHECK(cudaMallocAsync(&p, std::size_t{1} << 42, t.a) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&p, SIZE_MAX, t.a) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(cudaMallocAsync(&p, 0, t.a) == cudaSuccess);
    CHECK(status_of(t.a) == cudaStreamCaptureStatusActive);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
}

TEST_CASE("memory nodes tell their block and its size", "[simulator][graph_memory]") {
    graph_memory_bench t;
    cudaMemPool_t pool = nullptr;
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
    begin_capture(t.a);
    void* block = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&block, 4096, pool, t.a) == cudaSuccess);
    REQUIRE(cudaFreeAsync(block, t.a) == cudaSuccess);
    cudaPointerAttributes of{};
    REQUIRE(cudaPointerGetAttributes(&of, block) == cudaSuccess);
    CHECK(of.type == cudaMemoryTypeUnregistered);
    auto* const g = end_capture(t.a);
    cudaGraphNode_t nodes[2]{};
    std::size_t count = 2;
    REQUIRE(cudaGraphGetNodes(g, nodes, &count) == cudaSuccess);
    REQUIRE(count == 2);
    auto type = cudaGraphNodeTypeEmpty;
    REQUIRE(cudaGraphNodeGetType(nodes[0], &type) == cudaSuccess);
    CHECK(type == cudaGraphNodeTypeMemAlloc);
    REQUIRE(cudaGraphNodeGetType(nodes[1], &type) == cudaSuccess);
    CHECK(type == cudaGraphNodeTypeMemFree);
    cudaMemAllocNodeParams allocation{};
    REQUIRE(cudaGraphMemAllocNodeGetParams(nodes[0], &allocation) == cudaSuccess);
    CHECK(allocation.dptr == block);
    CHECK(allocation.bytesize >= 4096);
    CHECK(allocation.poolProps.location.id == 0);
    void* freed = nullptr;
    REQUIRE(cudaGraphMemFreeNodeGetParams(nodes[1], &freed) == cudaSuccess);
    CHECK(freed == block);
    CHECK(cudaGraphMemFreeNodeGetParams(nodes[0], &freed) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}
