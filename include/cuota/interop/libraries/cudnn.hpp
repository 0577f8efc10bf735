// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuDNN with workspaces from a memory resource. Requires cuDNN 8 or later.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <string>

#include <cuota/core/label.hpp>
#include <cuota/interop/libraries/library_handle.hpp>

namespace cuota::inline v0 {

namespace detail {

/// cuDNN for library_handle.
struct cudnn_library {
    using native = cudnnHandle_t;
    [[nodiscard]] static std::string prefix() { return "cudnn"; }
    [[nodiscard]] static tag name() noexcept { return "cudnn"; }
    /// Measured on an H100 with cuDNN 9, for the first handle of a process.
    [[nodiscard]] static constexpr std::size_t own_bytes() noexcept { return std::size_t{10} << 20; }
    static int create(native& h) { return cudnnCreate(&h); }
    static int destroy(native h) { return cudnnDestroy(h); }
    static int set_stream(native h, cudaStream_t s) { return cudnnSetStream(h, s); }
    [[nodiscard]] static bool lacks_memory(int status) noexcept {
#if CUDNN_MAJOR >= 9
        return status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
               status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
#else
        return status == CUDNN_STATUS_ALLOC_FAILED;
#endif
    }
    [[nodiscard]] static bool may_lack_memory(int status) noexcept {
        return status == CUDNN_STATUS_NOT_INITIALIZED || status == CUDNN_STATUS_INTERNAL_ERROR;
    }
    [[nodiscard]] static std::string text_of(int status) {
        return cudnnGetErrorString(static_cast<cudnnStatus_t>(status));
    }
};

}  // namespace detail

/// A cuDNN handle. Operations get their workspace by `scope::workspace(bytes)`.
using cudnn_handle = library_handle<detail::cudnn_library>;

}  // namespace cuota::inline v0
