// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "simulator/conformance.hpp"

/// Shared by the tests of captures and graphs. Uses CUDA alone.
namespace conformance {

inline void begin_capture(cudaStream_t s, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    REQUIRE(cudaStreamBeginCapture(s, mode) == cudaSuccess);
}

inline cudaGraph_t end_capture(cudaStream_t s) {
    cudaGraph_t g = nullptr;
    REQUIRE(cudaStreamEndCapture(s, &g) == cudaSuccess);
    REQUIRE(g != nullptr);
    return g;
}

/// Ends a capture that must have failed, and returns its error.
inline cudaError_t end_broken_capture(cudaStream_t s) {
    cudaGraph_t g = nullptr;
    auto const error = cudaStreamEndCapture(s, &g);
    CHECK(error != cudaSuccess);
    CHECK(g == nullptr);
    (void)cudaGetLastError();
    return error;
}

/// Returns a figure of the first device's memory of graphs, in bytes.
inline std::uint64_t graph_memory_attribute(cudaGraphMemAttributeType which) {
    std::uint64_t value = 0;
    REQUIRE(cudaDeviceGetGraphMemAttribute(0, which, &value) == cudaSuccess);
    return value;
}

inline cudaStreamCaptureStatus status_of(cudaStream_t s) {
    auto status = cudaStreamCaptureStatusNone;
    REQUIRE(cudaStreamIsCapturing(s, &status) == cudaSuccess);
    return status;
}

class executable {
public:
    /// Takes ownership of the graph.
    explicit executable(cudaGraph_t g) {
        REQUIRE(cudaGraphInstantiate(&exec_, g, 0) == cudaSuccess);
        REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
    }
    ~executable() { CHECK(cudaGraphExecDestroy(exec_) == cudaSuccess); }
    executable(executable const&) = delete;
    executable& operator=(executable const&) = delete;

    void launch(cudaStream_t s) const { REQUIRE(cudaGraphLaunch(exec_, s) == cudaSuccess); }
    [[nodiscard]] cudaGraphExec_t get() const { return exec_; }

private:
    cudaGraphExec_t exec_ = nullptr;
};

/// Two independent streams, one that waits for the default stream, events, and memory.
struct capture_bench {
    static constexpr std::size_t bytes = 64;

    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    cudaStream_t blocking = new_stream();
    cudaEvent_t forked = new_event(cudaEventDisableTiming), joined = new_event(cudaEventDisableTiming);
    unsigned char* device = static_cast<unsigned char*>(device_memory(bytes));
    unsigned char* pinned = pinned_memory(bytes);

    capture_bench() {
        REQUIRE(cudaMemset(device, 0, bytes) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // the memset itself does not wait
    }
    ~capture_bench() {
        (void)cudaGetLastError();
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(device) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
        for (auto const e : {forked, joined}) CHECK(cudaEventDestroy(e) == cudaSuccess);
        for (auto const s : {a, b, blocking}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
    capture_bench(capture_bench const&) = delete;
    capture_bench& operator=(capture_bench const&) = delete;

    void set(int value, cudaStream_t s) const {
        REQUIRE(cudaMemsetAsync(device, value, bytes, s) == cudaSuccess);
    }
    void fork() const {
        REQUIRE(cudaEventRecord(forked, a) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(b, forked, 0) == cudaSuccess);
    }
    void join() const {
        REQUIRE(cudaEventRecord(joined, b) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(a, joined, 0) == cudaSuccess);
    }
};

}  // namespace conformance
