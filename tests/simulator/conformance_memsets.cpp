// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The driver's memsets, which write words of 1, 2 and 4 bytes in stream order.
#include <cstdint>
#include <vector>

#include "simulator/virtual_memory.hpp"

using namespace conformance;

namespace {

struct memsets {
    driver const d{};
    decltype(cuMemsetD8Async)* of_8 = entry_point<decltype(cuMemsetD8Async)>("cuMemsetD8Async");
    decltype(cuMemsetD16Async)* of_16 = entry_point<decltype(cuMemsetD16Async)>("cuMemsetD16Async");
    decltype(cuMemsetD32Async)* of_32 = entry_point<decltype(cuMemsetD32Async)>("cuMemsetD32Async");
};

struct target {
    static constexpr std::size_t bytes = 1000;
    cudaStream_t s = nullptr;
    void* memory = nullptr;

    target() {
        REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
        REQUIRE(cudaMalloc(&memory, bytes) == cudaSuccess);
        REQUIRE(cudaMemset(memory, 0x55, bytes) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    ~target() {
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
        CHECK(cudaFree(memory) == cudaSuccess);
    }
    [[nodiscard]] CUdeviceptr at(std::size_t byte = 0) const {
        return reinterpret_cast<CUdeviceptr>(memory) + byte;
    }
    [[nodiscard]] std::vector<std::uint8_t> read() const {
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        std::vector<std::uint8_t> all(bytes);
        REQUIRE(cudaMemcpy(all.data(), memory, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
        return all;
    }
};

// Returns whether `word` is repeated `words` times from `first` on, and all other bytes are 0x55.
bool holds(std::vector<std::uint8_t> const& all, std::size_t first, std::vector<std::uint8_t> const& word,
           std::size_t words) {
    for (std::size_t i = 0; i != all.size(); ++i) {
        bool const is_set = i >= first && i < first + word.size() * words;
        if (all[i] != (is_set ? word[(i - first) % word.size()] : 0x55)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("the driver sets words of one, two and four bytes", "[simulator][memsets]") {
    memsets const set;
    target const t;
    SECTION("of one byte") {
        CHECK(set.of_8(t.at(3), 0xa1, 500, t.s) == CUDA_SUCCESS);
        CHECK(holds(t.read(), 3, {0xa1}, 500));
    }
    SECTION("of two bytes, the lower byte first") {
        CHECK(set.of_16(t.at(2), 0xa1b2, 499, t.s) == CUDA_SUCCESS);
        CHECK(holds(t.read(), 2, {0xb2, 0xa1}, 499));
    }
    SECTION("of four bytes, the lowest byte first") {
        CHECK(set.of_32(t.at(4), 0xa1b2c3d4u, 249, t.s) == CUDA_SUCCESS);
        CHECK(holds(t.read(), 4, {0xd4, 0xc3, 0xb2, 0xa1}, 249));
    }
    SECTION("zero words") {
        CHECK(set.of_32(t.at(), 1, 0, t.s) == CUDA_SUCCESS);
        CHECK(set.of_16(t.at(), 1, 0, t.s) == CUDA_SUCCESS);
        CHECK(holds(t.read(), 0, {1}, 0));
    }
}

TEST_CASE("a memset of the driver runs in stream order", "[simulator][memsets]") {
    memsets const set;
    target const t;
    gate closed{t.s};
    CHECK(set.of_32(t.at(), 7, 250, t.s) == CUDA_SUCCESS);  // does not wait
    CHECK(cudaStreamQuery(t.s) == cudaErrorNotReady);
    (void)cudaGetLastError();
    closed.open();
    CHECK(holds(t.read(), 0, {7, 0, 0, 0}, 250));
}

TEST_CASE("a memset of the driver beyond its memory is refused", "[simulator][memsets]") {
    memsets const set;
    target const t;
    // More memory of the driver's granularity may follow an allocation, so this goes far beyond it.
    CHECK(set.of_32(t.at(), 1, std::size_t{1} << 40, t.s) == CUDA_ERROR_INVALID_VALUE);
    CHECK(set.of_16(0, 1, 4, t.s) == CUDA_ERROR_INVALID_VALUE);
    CHECK(holds(t.read(), 0, {1}, 0));
}

TEST_CASE("words of two and four bytes at misaligned addresses are refused", "[simulator][memsets]") {
    memsets const set;
    target const t;
    CHECK(set.of_16(t.at(1), 1, 4, t.s) == CUDA_ERROR_INVALID_VALUE);
    CHECK(set.of_32(t.at(2), 1, 4, t.s) == CUDA_ERROR_INVALID_VALUE);
    CHECK(holds(t.read(), 0, {1}, 0));
}

TEST_CASE("a memset of the driver is a node of a graph", "[simulator][memsets]") {
    memsets const set;
    target const t;
    REQUIRE(cudaStreamBeginCapture(t.s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(set.of_32(t.at(), 0x01020304, 250, t.s) == CUDA_SUCCESS);
    CHECK(set.of_16(t.at(), 0x0506, 1, t.s) == CUDA_SUCCESS);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(t.s, &graph) == cudaSuccess);
    CHECK(holds(t.read(), 0, {1}, 0));  // nothing has run

    std::size_t count = 2;
    cudaGraphNode_t nodes[2]{};
    REQUIRE(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess);
    CHECK(count == 2);
    for (auto const& node : nodes) {
        cudaGraphNodeType type{};
        CHECK(cudaGraphNodeGetType(node, &type) == cudaSuccess);
        CHECK(type == cudaGraphNodeTypeMemset);
    }
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, t.s) == cudaSuccess);
    auto const all = t.read();
    CHECK(all[0] == 6);
    CHECK(all[1] == 5);
    CHECK(all[2] == 2);
    CHECK(all[3] == 1);
    CHECK(all[999] == 1);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("stream 0 of the driver's memsets is the default stream of the requested entry point",
          "[simulator][memsets]") {
    target const t;
    auto const found = [](unsigned long long flags) {
        void* f = nullptr;
        REQUIRE(cudaGetDriverEntryPointByVersion("cuMemsetD32Async", &f, 12000, flags, nullptr) ==
                cudaSuccess);
        REQUIRE(f != nullptr);
        return reinterpret_cast<decltype(cuMemsetD32Async)*>(f);
    };
    auto* const legacy = found(cudaEnableLegacyStream);
    auto* const own = found(cudaEnablePerThreadDefaultStream);
    CHECK(legacy != own);
    gate closed{cudaStreamPerThread};
    CHECK(own(t.at(), 1, 250, nullptr) == CUDA_SUCCESS);
    CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
    (void)cudaGetLastError();
    closed.open();
    CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
    CHECK(holds(t.read(), 0, {1, 0, 0, 0}, 250));
    CHECK(legacy(t.at(), 2, 250, nullptr) == CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
    CHECK(holds(t.read(), 0, {2, 0, 0, 0}, 250));
}
