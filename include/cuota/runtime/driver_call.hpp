// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How the driver is called: its functions are asked of the runtime by name, so nothing is linked to the driver's library.
/// For definitions, which alone read <cuda.h>.
#pragma once

#include <cuota/core/config.hpp>

#if CUOTA_DEFINE_MEMORY

#include <cuda.h>

#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/call.hpp>

/// The driver's own calls, which the runtime finds by name.
namespace cuota::inline v0::rt::driver {

// The driver numbers its errors as the runtime does, and the runtime has a text for each.
static_assert(static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY) == static_cast<int>(cudaErrorMemoryAllocation));
static_assert(static_cast<int>(CUDA_ERROR_ALREADY_MAPPED) == static_cast<int>(cudaErrorAlreadyMapped));
static_assert(static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS) == static_cast<int>(cudaErrorIllegalAddress));
static_assert(static_cast<int>(CUDA_ERROR_NOT_SUPPORTED) == static_cast<int>(cudaErrorNotSupported));
static_assert(static_cast<int>(CUDA_ERROR_UNKNOWN) == static_cast<int>(cudaErrorUnknown));

/// The same number, as an error of the runtime.
[[nodiscard]] constexpr cudaError_t as_runtime(CUresult code) noexcept {
    return static_cast<cudaError_t>(code);
}

/// The driver's function of that name, as of that version; null when the driver is older. Throws: cuda_error.
[[nodiscard]] inline void* found_call(char const* name, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status),
          "cudaGetDriverEntryPointByVersion");
    return status == cudaDriverEntryPointSuccess ? found : nullptr;
}

/// The same, as a function of that type; false when the driver is older. Throws: cuda_error.
template <class Call>
bool find_call(Call& call, char const* name, unsigned version) {
    call = reinterpret_cast<Call>(found_call(name, version));
    return call != nullptr;
}

/// As rt::check, of a call of the driver. Throws: cuda_error.
inline void check(CUresult code, char const* call) { rt::check(as_runtime(code), call); }

/// As rt::give_back, of a call of the driver.
template <class Call>
bool give_back(char const* name, Call call) noexcept {
    beside_capture const beside;
    return rt::give_back(name, [&] { return as_runtime(call()); });
}

}  // namespace cuota::inline v0::rt::driver

#endif
