// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuSOLVER's dense functions with workspaces from a memory resource.
#pragma once

#include <cusolverDn.h>

#include <cstddef>
#include <string>

#include <cuota/core/label.hpp>
#include <cuota/interop/libraries/library_handle.hpp>

namespace cuota::inline v0 {

namespace detail {

/// cuSOLVER's dense functions for library_handle.
struct cusolver_library {
    using native = cusolverDnHandle_t;
    [[nodiscard]] static std::string prefix() { return "cusolverDn"; }
    [[nodiscard]] static tag name() noexcept { return "cusolver"; }
    /// Measured on an H100 with cuSOLVER 12.
    [[nodiscard]] static constexpr std::size_t own_bytes() noexcept { return std::size_t{98} << 20; }
    static int create(native& h) { return cusolverDnCreate(&h); }
    static int destroy(native h) { return cusolverDnDestroy(h); }
    static int set_stream(native h, cudaStream_t s) { return cusolverDnSetStream(h, s); }
    [[nodiscard]] static bool lacks_memory(int status) noexcept {
        return status == CUSOLVER_STATUS_ALLOC_FAILED;
    }
    [[nodiscard]] static bool may_lack_memory(int status) noexcept {
        return status == CUSOLVER_STATUS_NOT_INITIALIZED || status == CUSOLVER_STATUS_INTERNAL_ERROR;
    }
    /// cuSOLVER has no texts.
    [[nodiscard]] static std::string text_of(int status) { return "status " + std::to_string(status); }
};

}  // namespace detail

/// A handle of cuSOLVER's dense functions. Operations get their workspace by `scope::workspace(bytes)`.
using cusolver_handle = library_handle<detail::cusolver_library>;

}  // namespace cuota::inline v0
