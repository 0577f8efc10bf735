// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Fake libcuda.so.1 for KvikIO, which opens it by name: the driver calls that KvikIO makes, implemented on the simulated runtime. Its
// pinned memory is ordinary memory and its streams are the threads' own, because KvikIO keeps both after the tests whose live objects the
// simulator counts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace {

CUresult as_driver(cudaError_t error) { return static_cast<CUresult>(error); }  // the error numbers are equal
void* address(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

// The only context of a device.
CUcontext context_of(int device) {
    return reinterpret_cast<CUcontext>(static_cast<std::intptr_t>(device) + 1);
}
int device_of(CUcontext context) { return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1; }
thread_local std::vector<int> pushed;  // devices that were current

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, char const** text) {
    *text = cudaGetErrorName(static_cast<cudaError_t>(error));
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, char const** text) {
    *text = cudaGetErrorString(static_cast<cudaError_t>(error));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) { return as_driver(cudaGetDeviceCount(count)); }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
    return as_driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(which), device));
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    *context = context_of(device);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

CUresult cuCtxGetDevice(CUdevice* device) { return as_driver(cudaGetDevice(device)); }
CUresult cuCtxGetCurrent(CUcontext* context) {
    int device = 0;
    cudaError_t const error = cudaGetDevice(&device);
    *context = context_of(device);
    return as_driver(error);
}
CUresult cuCtxPushCurrent(CUcontext context) {
    int device = 0;
    if (cudaError_t const error = cudaGetDevice(&device); error != cudaSuccess) return as_driver(error);
    pushed.push_back(device);
    return as_driver(cudaSetDevice(device_of(context)));
}
CUresult cuCtxPopCurrent(CUcontext* context) {
    if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) (void)cuCtxGetCurrent(context);
    int const device = pushed.back();
    pushed.pop_back();
    return as_driver(cudaSetDevice(device));
}
CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuCtxCreate_v4(CUcontext*, CUctxCreateParams*, unsigned, CUdevice) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuCtxDestroy(CUcontext) { return CUDA_ERROR_NOT_SUPPORTED; }

// Takes the place of the simulator's function of this name in the whole program; adds the attribute that only KvikIO queries.
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr pointer) {
    static auto const of_simulator =
        reinterpret_cast<decltype(&cuPointerGetAttribute)>(dlsym(RTLD_NEXT, "cuPointerGetAttribute"));
    if (which != CU_POINTER_ATTRIBUTE_CONTEXT) return of_simulator(value, which, pointer);
    int device = 0;
    CUresult const found = of_simulator(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    if (found == CUDA_SUCCESS) *static_cast<CUcontext*>(value) = context_of(device);
    return found;
}
// For memory that CUDA did not allocate, all attributes are zero and the call succeeds.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** values,
                                CUdeviceptr pointer) {
    for (unsigned i = 0; i != count; ++i) {
        bool const is_word =
            which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        std::memset(values[i], 0, is_word ? sizeof(unsigned) : sizeof(void*));
        (void)cuPointerGetAttribute(values[i], which[i], pointer);
    }
    return CUDA_SUCCESS;
}
// Reports each pointer as an allocation of its own: KvikIO uses only the pointer's offset in one.
CUresult cuMemGetAddressRange(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr pointer) {
    if (begin) *begin = pointer;
    if (bytes) *bytes = std::size_t{1} << 40;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    constexpr std::size_t page = 4096;
    *pointer = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void* pointer) {
    std::free(pointer);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void*, std::size_t, unsigned) { return CUDA_SUCCESS; }
CUresult cuMemHostUnregister(void*) { return CUDA_SUCCESS; }

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(address(to), address(from), bytes, cudaMemcpyDefault, stream));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, void const* from, std::size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(address(to), from, bytes, cudaMemcpyHostToDevice, stream));
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    return as_driver(cudaMemcpyAsync(to, address(from), bytes, cudaMemcpyDeviceToHost, stream));
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes, std::size_t count,
                               CUmemcpyAttributes*, std::size_t*, std::size_t, CUstream stream) {
    for (std::size_t i = 0; i != count; ++i)
        if (CUresult const error = cuMemcpyAsync(to[i], from[i], bytes[i], stream); error != CUDA_SUCCESS)
            return error;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
    *stream = cudaStreamPerThread;
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream stream) { return as_driver(cudaStreamSynchronize(stream)); }
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn run, void* data) {
    return as_driver(cudaLaunchHostFunc(stream, run, data));
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
    return as_driver(cudaEventCreateWithFlags(event, flags));
}
CUresult cuEventDestroy(CUevent event) { return as_driver(cudaEventDestroy(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return as_driver(cudaEventRecord(event, stream)); }
CUresult cuEventSynchronize(CUevent event) { return as_driver(cudaEventSynchronize(event)); }
CUresult cuEventQuery(CUevent event) { return as_driver(cudaEventQuery(event)); }
}
