// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Calls of the CUDA driver, looked up by name: its library is not linked. Only definitions include this header and cuda.h.
#pragma once

#include <cuota/core/config.hpp>

#if CUOTA_DEFINE_MEMORY

#include <cuda.h>

#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/older_toolkits.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

/// Driver functions, by name.
namespace cuota::inline v0::rt::driver {

// The runtime has texts for the driver's errors.
static_assert(static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY) == static_cast<int>(cudaErrorMemoryAllocation));
static_assert(static_cast<int>(CUDA_ERROR_ALREADY_MAPPED) == static_cast<int>(cudaErrorAlreadyMapped));
static_assert(static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS) == static_cast<int>(cudaErrorIllegalAddress));
static_assert(static_cast<int>(CUDA_ERROR_NOT_SUPPORTED) == static_cast<int>(cudaErrorNotSupported));
static_assert(static_cast<int>(CUDA_ERROR_UNKNOWN) == static_cast<int>(cudaErrorUnknown));

[[nodiscard]] constexpr cudaError_t as_runtime(CUresult code) noexcept {
    return static_cast<cudaError_t>(code);
}

/// Returns the driver's function of that version, or null. Throws: cuda_error.
[[nodiscard]] inline void* found_call(char const* name, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    check(driver_entry_point(name, &found, version, &status), "cudaGetDriverEntryPointByVersion");
    return status == cudaDriverEntryPointSuccess ? found : nullptr;
}

/// Returns whether the function was found. Throws: cuda_error.
template <class Call>
bool find_call(Call& call, char const* name, unsigned version) {
    call = reinterpret_cast<Call>(found_call(name, version));
    return call != nullptr;
}

/// Throws: cuda_error.
inline void check(CUresult code, char const* call) { rt::check(as_runtime(code), call); }

template <class Call>
bool give_back(char const* name, Call call) noexcept {
    relaxed_capture_mode const beside;
    return rt::give_back(name, [&] { return as_runtime(call()); });
}

}  // namespace cuota::inline v0::rt::driver

#endif
