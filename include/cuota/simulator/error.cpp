// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

using namespace cuota::simulator;

namespace {

struct error_text {
    cudaError_t code;
    char const* name;
    char const* text;
};

#define E(code, text)                                                                                        \
    { code, #code, text }
constexpr error_text known[] = {
    E(cudaSuccess, "no error"),
    E(cudaErrorInvalidValue, "invalid argument"),
    E(cudaErrorMemoryAllocation, "out of memory"),
    E(cudaErrorInitializationError, "initialization error"),
    E(cudaErrorCudartUnloading, "driver shutting down"),
    E(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    E(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    E(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    E(cudaErrorInvalidTexture, "invalid texture reference"),
    E(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    E(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    E(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    E(cudaErrorInvalidDeviceFunction, "invalid device function"),
    E(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    E(cudaErrorInvalidDevice, "invalid device ordinal"),
    E(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    E(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    E(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    E(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    E(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    E(cudaErrorSymbolNotFound, "named symbol not found"),
    E(cudaErrorNotReady, "device not ready"),
    E(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    E(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    E(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    E(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    E(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    E(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    E(cudaErrorAssert, "device-side assert triggered"),
    E(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    E(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    E(cudaErrorMisalignedAddress, "misaligned address"),
    E(cudaErrorLaunchFailure, "unspecified launch failure"),
    E(cudaErrorNotPermitted, "operation not permitted"),
    E(cudaErrorNotSupported, "operation not supported"),
    E(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    E(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    E(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    E(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    E(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    E(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    E(cudaErrorStreamCaptureImplicit,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    E(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    E(cudaErrorStreamCaptureWrongThread,
      "attempt to terminate a thread-local capture sequence from another thread"),
    E(cudaErrorTimeout, "wait operation timed out"),
    E(cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which "
                                       "violated constraints specific to instantiated graph update"),
    E(cudaErrorUnknown, "unknown error"),
};
#undef E

error_text const& describe(cudaError_t code) {
    static constexpr error_text stranger{cudaErrorUnknown, "unrecognized error code",
                                         "unrecognized error code"};
    for (auto const& e : known)
        if (e.code == code) return e;
    return stranger;
}

/// Returns the device's failure, which is permanent, or the thread's last error.
cudaError_t last_error() {
    auto& m = the_machine();
    if (m.devices > 0)
        if (auto const failure = failure_of(current_device()); failure != cudaSuccess) return failure;
    return caller.last_error_epoch == m.epoch ? caller.last_error : cudaSuccess;
}

}  // namespace

char const* cuota::simulator::text_of(cudaError_t code) { return ::describe(code).text; }

// These four functions do not use `api`, because they must not set the last error.

cudaError_t cudaGetLastError() {
    sanitizer::quiet quiet;
    admit(function::cudaGetLastError);
    auto const error = last_error();
    caller.last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() {
    sanitizer::quiet quiet;
    admit(function::cudaPeekAtLastError);
    return last_error();
}

char const* cudaGetErrorName(cudaError_t code) {
    sanitizer::quiet quiet;
    admit(function::cudaGetErrorName);
    return describe(code).name;
}

char const* cudaGetErrorString(cudaError_t code) {
    sanitizer::quiet quiet;
    admit(function::cudaGetErrorString);
    return describe(code).text;
}
