// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Error checks of CUDA calls.
#pragma once

#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/rt/older_toolkits.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

/// Thin wrappers of CUDA for the library: each function makes one call or a few and checks the results.
namespace cuota::inline v0::rt {

/// Clears this thread's last error, which a library may have left.
inline void clear_last_error() noexcept { (void)cudaGetLastError(); }

/// Returns the exception for a failed call and clears CUDA's last error. Throws: std::bad_alloc.
[[nodiscard]] cuda_error error_of(cudaError_t code, char const* call, source_location where);

/// Throws error_of a failed call, as mps_terminated_error for that code.
[[noreturn, gnu::cold]] void throw_error_of(cudaError_t code, char const* call, source_location where);

/// Throws cuda_error if the call failed, and usage_error in a child of a process that had used CUDA.
void check(cudaError_t code, char const* call, source_location where = {});

/// Returns whether all later calls for the device fail too: according to CUDA, the error leaves "the process in an inconsistent state", or
/// the device is gone.
[[nodiscard]] bool is_for_good(cudaError_t code) noexcept;

namespace detail {

/// Reports the error. Returns whether to repeat the call.
[[nodiscard]] bool is_worth_repeating(cudaError_t code, char const* call) noexcept;

}  // namespace detail

/// Makes a deallocating call where throwing is impossible. A failure is reported, and the call is repeated once unless is_for_good. In a
/// child of a process that had used CUDA, no call is made. Returns whether the deallocation is known to have succeeded.
template <class Call>
bool give_back(char const* name, Call call) noexcept {
    if (cuota::detail::process_number::is_cuda_of_parent()) [[unlikely]]
        return false;
    cudaError_t code = call();
    if (code == cudaSuccess) return true;
    if (!detail::is_worth_repeating(code, name)) return false;
    code = call();
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess;
}

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/device_assert.hpp>

namespace cuota::inline v0::rt {

static_assert(cudaErrorCudartUnloading == cuota::detail::unloading_code);

CUOTA_INLINE cuda_error error_of(cudaError_t code, char const* call, source_location where) {
    (void)cudaGetLastError();
    if (auto* const capture = cuota::detail::capture_scope::here()) capture->note_error(code, call, where);
    std::string why = cuota::detail::message("{}: {}", {cudaGetErrorName(code), cudaGetErrorString(code)});
    if (is_simulated())
        if (char const* fault = cuota_simulator_fault(); *fault != '\0')
            cuota::detail::append_message(why, "; {}", {fault});
    if (std::string const stopped = device_assert_text(code); !stopped.empty())
        cuota::detail::append_message(why, "; a kernel stopped itself: {}", {stopped});
    return {static_cast<int>(code), call, why, where};
}

CUOTA_INLINE void throw_error_of(cudaError_t code, char const* call, source_location where) {
    cuda_error const failed = error_of(code, call, where);
    if (code == cudaErrorMpsClientTerminated) throw mps_terminated_error{failed};
    throw failed;
}

CUOTA_INLINE bool is_for_good(cudaError_t code) noexcept {
    switch (code) {
        case cudaErrorDevicesUnavailable:
        case cudaErrorECCUncorrectable:
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case cudaErrorMpsClientTerminated:
        case cudaErrorExternalDevice:
#if CUDART_VERSION >= 13000
        case cudaErrorContained:
        case cudaErrorTensorMemoryLeak:
#endif
            return true;
        default: return false;
    }
}

CUOTA_INLINE bool detail::is_worth_repeating(cudaError_t code, char const* call) noexcept {
    if (code == cudaErrorCudartUnloading)
        return false;  // the process is exiting, and the driver frees everything
    report_failure_of([&] { throw_error_of(code, call, {}); });
    return !is_for_good(code);
}

CUOTA_INLINE void check(cudaError_t code, char const* call, source_location where) {
    cuota::detail::process_number::note_cuda();
    if (cuota::detail::process_number::is_cuda_of_parent()) [[unlikely]]
        cuota::detail::throw_forked();
    if (code != cudaSuccess) throw_error_of(code, call, where);
}

}  // namespace cuota::inline v0::rt

#endif
