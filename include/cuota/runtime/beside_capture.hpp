// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Calls that no capture could take in, made beside the one that goes on.
#pragma once

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {
class capture_scope;
}

namespace cuota::inline v0::rt {

/// While one lives, this thread's calls that no capture could take in, such as cudaMalloc, leave its capture alone: the library
/// makes them where they are no part of what is captured. Nothing where the thread captures nothing.
/// Threads: the one that made it.
/// Throws:  nothing; what fails makes the capture fail.
/// Cost:    a load; in a capture a CUDA call at its begin and one at its end.
class beside_capture {
public:
    beside_capture() noexcept;
    beside_capture(beside_capture const&) = delete;
    beside_capture& operator=(beside_capture const&) = delete;
    ~beside_capture();

private:
    // Asked for once more: a mode that stays would be the thread's after the capture.
    void swap() noexcept;

    cuota::detail::capture_scope* scope_;
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE

#include <exception>

#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/capture_scope.hpp>

namespace cuota::inline v0::rt {

CUOTA_INLINE beside_capture::beside_capture() noexcept : scope_{cuota::detail::capture_scope::here()} {
    if (scope_) [[unlikely]]
        swap();
}

CUOTA_INLINE beside_capture::~beside_capture() {
    if (scope_) [[unlikely]]
        swap();
}

[[gnu::noinline]] CUOTA_INLINE void beside_capture::swap() noexcept {
    cudaError_t const code = cudaThreadExchangeStreamCaptureMode(&mode_);
    if (code == cudaSuccess) return;
    bool const is_swapped = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
    (void)cudaGetLastError();
    try {
        throw cuda_error{static_cast<int>(code), "cudaThreadExchangeStreamCaptureMode",
                         cudaGetErrorName(code), place{}};
    } catch (...) { scope_->fail(std::current_exception()); }
    if (!is_swapped) scope_ = nullptr;
}

}  // namespace cuota::inline v0::rt

#endif
