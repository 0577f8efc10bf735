// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuBLAS with workspaces from a memory resource. Requires cuBLAS 11.2 or later.
#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/interop/libraries/library_handle.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

/// Returns the size of workspace that NVIDIA's documentation of cublasSetWorkspace recommends, in bytes: 32 MiB from compute capability 9.0
/// to 11.x, 12 MiB for 12.x, and 4 MiB before. With less, cuBLAS may choose slower algorithms.
[[nodiscard]] inline std::size_t cublas_workspace_bytes(device on) {
    int const major = on.compute_capability_major();
    constexpr std::size_t mib = std::size_t{1} << 20;
    return (major < 9 ? 4 : major == 12 ? 12 : 32) * mib;
}

namespace detail {

/// cuBLAS for library_handle.
struct cublas_library {
    using native = cublasHandle_t;
    [[nodiscard]] static std::string prefix() { return "cublas"; }
    [[nodiscard]] static tag name() noexcept { return "cublas"; }
    /// Measured on an H100 with cuBLAS 13.0. It does not become less with a workspace.
    [[nodiscard]] static constexpr std::size_t own_bytes() noexcept { return std::size_t{66} << 20; }
    [[nodiscard]] static std::size_t usual_workspace(device on) { return cublas_workspace_bytes(on); }
    static int create(native& h) { return cublasCreate(&h); }
    static int destroy(native h) { return cublasDestroy(h); }
    static int set_stream(native h, cudaStream_t s) { return cublasSetStream(h, s); }
    static int set_workspace(native h, void* p, std::size_t bytes) { return cublasSetWorkspace(h, p, bytes); }
    /// The library's own workspace becomes that of the handle again.
    static int forget_workspace(native h, cudaStream_t s) { return cublasSetStream(h, s); }
    [[nodiscard]] static std::string set_workspace_name() { return "cublasSetWorkspace"; }
    [[nodiscard]] static std::string forget_workspace_name() { return "cublasSetStream"; }
    [[nodiscard]] static bool lacks_memory(int status) noexcept {
        return status == CUBLAS_STATUS_ALLOC_FAILED;
    }
    [[nodiscard]] static bool may_lack_memory(int status) noexcept {
        return status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_INTERNAL_ERROR;
    }
    [[nodiscard]] static std::string text_of(int status) {
        return cublasGetStatusString(static_cast<cublasStatus_t>(status));
    }
};

}  // namespace detail

/// A cuBLAS handle. Its scopes set the stream and a workspace (cublasSetWorkspace).
using cublas_handle = library_handle<detail::cublas_library>;

}  // namespace cuota::inline v0
