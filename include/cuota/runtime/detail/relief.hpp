// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Calls for which the driver needs memory of its own, such as the launch of a graph: if it has none, idle memory of pools and caches is
/// released, and the call is repeated.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0::detail {

/// A call that failed because the driver has no memory on the current device.
struct short_call {
    std::size_t bytes;  ///< that the call needs, as far as known
    label request;
    char const* name;
    cudaError_t (*again)(void* of);
    void* of;
};

/// Releases idle memory step by step and repeats the call while it returns cudaErrorMemoryAllocation; returns its last result. Adds to the
/// refusal the released bytes, and the device's figures. The resource layer sets it when the first holder of idle memory registers.
using relief_function = cudaError_t (*)(short_call const& what, refusal& told);

/// Holds the relief_function; null before the first holder registers.
struct CUOTA_PROCESS_STATE relief {
    static inline constinit std::atomic<relief_function> function = nullptr;
};

/// Throws: out_of_memory, cuda_error.
void repeat_with_relief(short_call const& what);

/// Makes a call that allocates memory of the driver's on the current device. Requires that this thread holds no lock of the library.
/// Throws: out_of_memory if it returns cudaErrorMemoryAllocation also after idle memory was released; cuda_error.
template <class Call>
void check_with_relief(std::size_t bytes, label const& request, char const* name, Call call) {
    cudaError_t const code = call();
    if (code == cudaErrorMemoryAllocation) [[unlikely]]
        return repeat_with_relief(
            {bytes, request, name, [](void* of) { return (*static_cast<Call*>(of))(); }, &call});
    rt::check(code, name, request.where);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <string>
#include <utility>

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void repeat_with_relief(short_call const& what) {
    rt::clear_last_error();
    refusal r;
    r.requested = r.charged = what.bytes;
    r.request = what.request;
    r.cause = std::string{what.name} + ": not enough free memory on the device";
    cudaError_t code = cudaErrorMemoryAllocation;
    if (relief_function const release = relief::function.load(std::memory_order_acquire))
        code = release(what, r);
    if (code != cudaErrorMemoryAllocation) return rt::check(code, what.name, what.request.where);
    rt::clear_last_error();
    throw out_of_memory{std::move(r)};
}

}  // namespace cuota::inline v0::detail

#endif
