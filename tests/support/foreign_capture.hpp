// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Stream capture that the library has not begun, as another library would begin it.
#pragma once

#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"

namespace support {

/// A non-blocking stream made by CUDA itself, which does not synchronize with the legacy default stream.
class native_stream {
public:
    native_stream() { REQUIRE(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking) == cudaSuccess); }
    native_stream(native_stream const&) = delete;
    native_stream& operator=(native_stream const&) = delete;
    ~native_stream() { (void)cudaStreamDestroy(native_); }
    operator cudaStream_t() const noexcept { return native_; }     ///< for CUDA calls
    operator cuota::stream_ref() const noexcept { return ref(); }  ///< for calls of the library
    cuota::stream_ref ref() const noexcept { return {native_}; }

private:
    cudaStream_t native_ = nullptr;
};

class native_graph {
public:
    explicit native_graph(cudaGraph_t captured) {
        REQUIRE(cudaGraphInstantiateWithFlags(&exec_, captured, 0) == cudaSuccess);
        REQUIRE(cudaGraphDestroy(captured) == cudaSuccess);
    }
    native_graph(native_graph const&) = delete;
    native_graph& operator=(native_graph const&) = delete;
    ~native_graph() { (void)cudaGraphExecDestroy(exec_); }
    void launch(cudaStream_t s) const { REQUIRE(cudaGraphLaunch(exec_, s) == cudaSuccess); }

private:
    cudaGraphExec_t exec_ = nullptr;
};

/// Captures a stream from construction until `end`, which requires that the capture has not been invalidated.
class foreign_capture {
public:
    explicit foreign_capture(cudaStream_t s, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal)
        : on_{s} {
        REQUIRE(cudaStreamBeginCapture(s, mode) == cudaSuccess);
    }
    foreign_capture(foreign_capture const&) = delete;
    foreign_capture& operator=(foreign_capture const&) = delete;
    ~foreign_capture() {
        if (!on_) return;
        cudaGraph_t captured = nullptr;
        if (cudaStreamEndCapture(on_, &captured) == cudaSuccess) (void)cudaGraphDestroy(captured);
        (void)cudaGetLastError();
    }
    [[nodiscard]] bool is_intact() const {
        cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
        return cudaStreamIsCapturing(on_, &now) == cudaSuccess && now == cudaStreamCaptureStatusActive;
    }
    [[nodiscard]] native_graph end() { return native_graph{end_captured()}; }
    /// The caller must destroy the graph.
    [[nodiscard]] cudaGraph_t end_captured() {
        cudaGraph_t captured = nullptr;
        REQUIRE(cudaStreamEndCapture(std::exchange(on_, nullptr), &captured) == cudaSuccess);
        return captured;
    }

private:
    cudaStream_t on_;
};

}  // namespace support
