// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How CUDA is called: every result is looked at, once, here.
#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/process.hpp>
#include <cuota/runtime/simulated.hpp>

/// The thin door to CUDA: each function one call or a few, its result looked at. Raw pointers, no accounts; for the library.
namespace cuota::inline v0::rt {

/// The error for a failed call. Clears CUDA's last error, so that nobody else meets it as theirs.
/// Throws: std::bad_alloc.
[[nodiscard]] cuda_error error_of(cudaError_t code, char const* call, place where);

/// Throws cuda_error unless the call succeeded, and misuse in a child of a process that used CUDA, which CUDA does not support.
void check(cudaError_t code, char const* call, place where = {});

/// True for an error after which all further calls for the device fail alike, and nothing that they gave back can be given back
/// again: of these codes CUDA documents that they leave "the process in an inconsistent state", or that there is no device.
[[nodiscard]] bool is_for_good(cudaError_t code) noexcept;

namespace detail {

/// Reports the error of a release to the error sink. Returns true when the release should be tried once more.
[[nodiscard]] bool is_worth_repeating(cudaError_t code, char const* call) noexcept;

}  // namespace detail

/// Makes a call that gives something back, where throwing is impossible. A failure goes to the error sink and the
/// call is made once more: what fails for a passing reason must not leave a leak. Not on a device that has failed for
/// good, which may have taken it back all the same; and in a child of a process that used CUDA no call is made at all. True when it is
/// known to be given back.
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

#include <cuota/runtime/capture_scope.hpp>
#include <cuota/runtime/kernel_misuse.hpp>

namespace cuota::inline v0::rt {

static_assert(cudaErrorCudartUnloading == cuota::detail::unloading_code);

CUOTA_INLINE cuda_error error_of(cudaError_t code, char const* call, place where) {
    (void)cudaGetLastError();
    if (auto* const capture = cuota::detail::capture_scope::here()) capture->note_error(code, call, where);
    std::string why = cuota::detail::message("{}: {}", {cudaGetErrorName(code), cudaGetErrorString(code)});
    if (is_simulated())
        if (char const* fault = cuota_simulator_fault(); *fault != '\0')
            cuota::detail::append_message(why, "; {}", {fault});
    if (std::string const stopped = why_a_kernel_stopped(code); !stopped.empty())
        cuota::detail::append_message(why, "; a kernel stopped itself: {}", {stopped});
    return {static_cast<int>(code), call, why, where};
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
        return false;  // the process ends and the driver takes everything back
    report_failure_of([&] { throw error_of(code, call, {}); });
    return !is_for_good(code);
}

CUOTA_INLINE void check(cudaError_t code, char const* call, place where) {
    cuota::detail::process_number::note_cuda();
    if (cuota::detail::process_number::is_cuda_of_parent()) [[unlikely]]
        cuota::detail::throw_forked();
    if (code != cudaSuccess) throw error_of(code, call, where);
}

}  // namespace cuota::inline v0::rt

#endif
