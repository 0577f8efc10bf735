// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA calls that are forbidden during stream captures.
#pragma once

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::rt {

/// Sets the calling thread's stream capture mode to relaxed, and restores it.
///
/// In other modes, functions such as cudaMalloc and cudaEventQuery ("potentially unsafe" in CUDA's terms) invalidate captures of the
/// calling thread and global-mode captures of any thread, which cannot be queried. Calls on a captured stream, and on events recorded in a
/// capture, are forbidden in every mode.
/// Threads: the one that constructed it. Nests.
/// Throws:  nothing. Unless driver or device is missing, a failure is reported and the call repeated once; if that fails too, the mode
///          stays.
/// Cost:    two CUDA calls, about 10 ns each.
class relaxed_capture_mode {
public:
    relaxed_capture_mode() noexcept { swap(); }
    relaxed_capture_mode(relaxed_capture_mode const&) = delete;
    relaxed_capture_mode& operator=(relaxed_capture_mode const&) = delete;
    ~relaxed_capture_mode() {
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
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0::rt {

CUOTA_INLINE void relaxed_capture_mode::swap() noexcept {
    if (cuota::detail::process_number::is_cuda_of_parent()) return;
    cudaError_t const code = cudaThreadExchangeStreamCaptureMode(&mode_);
    if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice)
        return;  // the next CUDA call reports it
    is_swapped_ = code == cudaSuccess || cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
    if (code == cudaSuccess) return;
    report_failure_of([&] { throw error_of(code, "cudaThreadExchangeStreamCaptureMode", {}); });
}

}  // namespace cuota::inline v0::rt

#endif
