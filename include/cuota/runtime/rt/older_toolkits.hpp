// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The oldest CUDA Toolkit that the library supports, and substitutes for functions that the headers of older toolkits lack.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>

/// Version of the oldest headers, encoded like CUDART_VERSION. CMake and the packages read it here.
#define CUOTA_OLDEST_CUDA 12000

// Including a file that does not exist ends the compilation.
#if CUDART_VERSION < CUOTA_OLDEST_CUDA
#error "cuota needs the headers of the CUDA Toolkit, 12.0 or later"
#include <the error above is the one to read>
#endif

namespace cuota::inline v0::rt {

/// cudaDevAttrHostNumaId, which CUDA 12.2 added. Returns cudaErrorInvalidValue with older headers, as an older driver does.
[[nodiscard]] cudaError_t host_numa_id(int* node, int device);

/// cudaGetDriverEntryPointByVersion, which CUDA 12.5 added.
[[nodiscard]] cudaError_t driver_entry_point(char const* name, void** found, unsigned version,
                                             cudaDriverEntryPointQueryResult* status);

/// cudaStreamGetDevice, which CUDA 12.8 added.
[[nodiscard]] cudaError_t device_of_stream(cudaStream_t s, int* device);

/// cudaFuncGetParamInfo, which CUDA 12.4 added. Returns cudaErrorNotSupported with older headers.
[[nodiscard]] cudaError_t parameter_info(void const* kernel, std::size_t index, std::size_t* offset,
                                         std::size_t* bytes);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuda.h>

namespace cuota::inline v0::rt {

#if CUDART_VERSION >= 12020
CUOTA_INLINE cudaError_t host_numa_id(int* node, int device) {
    return cudaDeviceGetAttribute(node, cudaDevAttrHostNumaId, device);
}
#else
CUOTA_INLINE cudaError_t host_numa_id(int*, int) { return cudaErrorInvalidValue; }
#endif

#if CUDART_VERSION >= 12040
CUOTA_INLINE cudaError_t parameter_info(void const* kernel, std::size_t index, std::size_t* offset,
                                        std::size_t* bytes) {
    return cudaFuncGetParamInfo(kernel, index, offset, bytes);
}
#else
CUOTA_INLINE cudaError_t parameter_info(void const*, std::size_t, std::size_t*, std::size_t*) {
    return cudaErrorNotSupported;
}
#endif

#if CUDART_VERSION >= 12050
CUOTA_INLINE cudaError_t driver_entry_point(char const* name, void** found, unsigned version,
                                            cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion(name, found, version, cudaEnableDefault, status);
}
#else
// cudaGetDriverEntryPoint returns the function of the runtime's version, which may have other parameters than that of `version`. The
// driver's cuGetProcAddress takes a version.
CUOTA_INLINE cudaError_t driver_entry_point(char const* name, void** found, unsigned version,
                                            cudaDriverEntryPointQueryResult* status) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#else
    constexpr cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
#endif
    using function = CUresult(char const*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    *found = nullptr;
    void* get_proc_address = nullptr;
    cudaError_t const code =
        cudaGetDriverEntryPoint("cuGetProcAddress", &get_proc_address, cudaEnableDefault, status);
    if (code != cudaSuccess || *status != cudaDriverEntryPointSuccess) return code;
    CUdriverProcAddressQueryResult result{};
    CUresult const looked_up =
        reinterpret_cast<function*>(get_proc_address)(name, found, static_cast<int>(version), flags, &result);
    *status = static_cast<cudaDriverEntryPointQueryResult>(result);
    return looked_up == CUDA_ERROR_NOT_FOUND ? cudaSuccess : static_cast<cudaError_t>(looked_up);
}
#endif

#if CUDART_VERSION >= 12080
CUOTA_INLINE cudaError_t device_of_stream(cudaStream_t s, int* device) {
    return cudaStreamGetDevice(s, device);
}
#else
namespace driver {

/// Looks functions up until one is missing.
struct finder {
    cudaError_t code = cudaSuccess;  ///< of the first function that was not found

    template <class Call>
    void find(Call*& call, char const* name, unsigned version) {
        if (code != cudaSuccess) return;
        void* found = nullptr;
        cudaDriverEntryPointQueryResult status{};
        code = driver_entry_point(name, &found, version, &status);
        if (code == cudaSuccess && !found) code = cudaErrorNotSupported;
        call = reinterpret_cast<Call*>(found);
    }
};

}  // namespace driver

// A stream belongs to a context, and a context to a device.
CUOTA_INLINE cudaError_t device_of_stream(cudaStream_t s, int* device) {
    CUresult (*stream_context)(CUstream, CUcontext*) = nullptr;
    CUresult (*push)(CUcontext) = nullptr;
    CUresult (*pop)(CUcontext*) = nullptr;
    CUresult (*current_device)(CUdevice*) = nullptr;
    driver::finder calls;
    calls.find(stream_context, "cuStreamGetCtx", 9020);
    calls.find(push, "cuCtxPushCurrent", 4000);
    calls.find(pop, "cuCtxPopCurrent", 4000);
    calls.find(current_device, "cuCtxGetDevice", 2000);
    if (calls.code != cudaSuccess) return calls.code;
    CUcontext context = nullptr;
    if (CUresult const code = stream_context(s, &context); code != CUDA_SUCCESS)
        return static_cast<cudaError_t>(code);
    if (CUresult const code = push(context); code != CUDA_SUCCESS) return static_cast<cudaError_t>(code);
    CUresult const code = current_device(device);
    CUresult const restored = pop(&context);
    return static_cast<cudaError_t>(code != CUDA_SUCCESS ? code : restored);
}
#endif

}  // namespace cuota::inline v0::rt

#endif
