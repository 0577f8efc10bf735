// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Calls that CUDA forbids in stream captures, made so that no capture is invalidated.
#pragma once

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::rt {

/// Sets the stream capture mode of the calling thread to relaxed, and restores it.
///
/// CUDA calls some functions potentially unsafe, as cudaMalloc and cudaEventQuery: each of them invalidates a capture of its own
/// thread, and a capture in global mode of any thread, unless the mode of the calling thread is relaxed. It cannot be asked
/// whether another thread captures, so the library makes every such call in relaxed mode. What the calls do is no part of any graph.
/// Calls on a stream that is captured, and on events recorded in a capture, are forbidden in every mode.
/// Threads: the one that made it. May be nested.
/// Throws:  nothing. A failure is reported, unless there is no driver or no device, and the call is made once more; when that fails as
///          well, the mode stays as it is.
/// Cost:    two CUDA calls, about 10 ns each. Hot paths make none of the calls that need it.
class beside_capture {
public:
    beside_capture() noexcept { swap(); }
    beside_capture(beside_capture const&) = delete;
    beside_capture& operator=(beside_capture const&) = delete;
    ~beside_capture() {
        if (is_swapped_) swap();
    }

private:
    void swap() noexcept;

    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool is_swapped_ = false;
};

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/call.hpp>

namespace cuota::inline v0::rt {

CUOTA_INLINE void beside_capture::swap() noexcept {
    if (cuota::detail::process_number::is_cuda_of_parent()) return;
    cudaError_t const code = cudaThreadExchangeStreamCaptureMode(&mode_);
    if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice)
        return;  // so says the call that follows
    is_swapped_ = code == cudaSuccess || cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
    if (code == cudaSuccess) return;
    report_failure_of([&] { throw error_of(code, "cudaThreadExchangeStreamCaptureMode", {}); });
}

}  // namespace cuota::inline v0::rt

#endif
