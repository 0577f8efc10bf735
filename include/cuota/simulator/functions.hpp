// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>

/// The CUDA functions that the simulator defines, each with a trait:
///   plain     needs a working device
///   free_of   needs no device
///   allocates its planned fault is "out of memory"
///   releases  still frees when the device has failed
///   waits     still waits when the device has failed: no work runs concurrently with the caller afterwards
///   about     reports errors: not counted in "any", never fails, permitted everywhere
#define CUOTA_SIMULATOR_FUNCTIONS(X)                                                                         \
    X(cudaGetLastError, about)                                                                               \
    X(cudaPeekAtLastError, about)                                                                            \
    X(cudaGetErrorName, about)                                                                               \
    X(cudaGetErrorString, about)                                                                             \
    X(cudaGetDeviceCount, free_of)                                                                           \
    X(cudaGetDevice, free_of)                                                                                \
    X(cudaSetDevice, free_of)                                                                                \
    X(cudaInitDevice, free_of)                                                                               \
    X(cudaDriverGetVersion, free_of)                                                                         \
    X(cudaRuntimeGetVersion, free_of)                                                                        \
    X(cudaGetDeviceProperties, free_of)                                                                      \
    X(cudaDeviceGetAttribute, free_of)                                                                       \
    X(cudaDeviceCanAccessPeer, free_of)                                                                      \
    X(cudaDeviceGetStreamPriorityRange, plain)                                                               \
    X(cudaDeviceSynchronize, waits)                                                                          \
    X(cudaDeviceGetDefaultMemPool, plain)                                                                    \
    X(cudaDeviceGetMemPool, plain)                                                                           \
    X(cudaDeviceSetMemPool, plain)                                                                           \
    X(cudaMemGetInfo, plain)                                                                                 \
    X(cudaStreamCreate, plain)                                                                               \
    X(cudaStreamCreateWithFlags, plain)                                                                      \
    X(cudaStreamCreateWithPriority, plain)                                                                   \
    X(cudaStreamDestroy, releases)                                                                           \
    X(cudaStreamSynchronize, waits)                                                                          \
    X(cudaStreamQuery, plain)                                                                                \
    X(cudaStreamWaitEvent, plain)                                                                            \
    X(cudaStreamGetId, plain)                                                                                \
    X(cudaStreamGetFlags, plain)                                                                             \
    X(cudaStreamGetPriority, plain)                                                                          \
    X(cudaStreamGetDevice, plain)                                                                            \
    X(cudaStreamIsCapturing, plain)                                                                          \
    X(cudaLaunchHostFunc, plain)                                                                             \
    X(cudaEventCreate, plain)                                                                                \
    X(cudaEventCreateWithFlags, plain)                                                                       \
    X(cudaEventDestroy, releases)                                                                            \
    X(cudaEventRecord, plain)                                                                                \
    X(cudaEventRecordWithFlags, plain)                                                                       \
    X(cudaEventQuery, plain)                                                                                 \
    X(cudaEventSynchronize, waits)                                                                           \
    X(cudaEventElapsedTime, plain)                                                                           \
    X(cudaMalloc, allocates)                                                                                 \
    X(cudaMallocManaged, allocates)                                                                          \
    X(cudaMallocHost, allocates)                                                                             \
    X(cudaHostAlloc, allocates)                                                                              \
    X(cudaFree, releases)                                                                                    \
    X(cudaFreeHost, releases)                                                                                \
    X(cudaHostRegister, plain)                                                                               \
    X(cudaHostUnregister, releases)                                                                          \
    X(cudaHostGetDevicePointer, plain)                                                                       \
    X(cudaHostGetFlags, plain)                                                                               \
    X(cudaPointerGetAttributes, plain)                                                                       \
    X(cudaMemcpy, plain)                                                                                     \
    X(cudaMemcpyAsync, plain)                                                                                \
    X(cudaMemcpyPeerAsync, plain)                                                                            \
    X(cudaMemset, plain)                                                                                     \
    X(cudaMemsetAsync, plain)                                                                                \
    X(cudaMallocAsync, allocates)                                                                            \
    X(cudaMallocFromPoolAsync, allocates)                                                                    \
    X(cudaFreeAsync, releases)                                                                               \
    X(cudaMemPoolCreate, plain)                                                                              \
    X(cudaMemPoolDestroy, releases)                                                                          \
    X(cudaMemPoolGetAttribute, plain)                                                                        \
    X(cudaMemPoolSetAttribute, plain)                                                                        \
    X(cudaMemPoolTrimTo, plain)                                                                              \
    X(cudaMemGetDefaultMemPool, plain)                                                                       \
    X(cudaMemcpyPeer, plain)                                                                                 \
    X(cudaMemcpy2D, plain)                                                                                   \
    X(cudaMemcpy2DAsync, plain)                                                                              \
    X(cudaMemset2D, plain)                                                                                   \
    X(cudaMemset2DAsync, plain)                                                                              \
    X(cudaMemcpyBatchAsync, plain)                                                                           \
    X(cudaDeviceEnablePeerAccess, plain)                                                                     \
    X(cudaDeviceDisablePeerAccess, plain)                                                                    \
    X(cudaMemPoolSetAccess, plain)                                                                           \
    X(cudaMemPoolGetAccess, plain)                                                                           \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, plain)                                                  \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, plain)                                         \
    X(cudaFuncGetAttributes, plain)                                                                          \
    X(cudaFuncGetParamInfo, plain)                                                                           \
    X(cudaFuncSetAttribute, plain)                                                                           \
    X(cudaStreamAddCallback, plain)                                                                          \
    X(cudaMemPrefetchAsync, plain)                                                                           \
    X(cudaMemAdvise, plain)                                                                                  \
    X(cudaMemRangeGetAttribute, plain)                                                                       \
    X(cudaGetDriverEntryPoint, free_of)                                                                      \
    X(cudaGetDriverEntryPointByVersion, free_of)                                                             \
    X(cuGetProcAddress, free_of)                                                                             \
    X(cuGetErrorName, about)                                                                                 \
    X(cuGetErrorString, about)                                                                               \
    X(cuInit, free_of)                                                                                       \
    X(cuDriverGetVersion, free_of)                                                                           \
    X(cuDeviceGet, free_of)                                                                                  \
    X(cuDeviceGetCount, free_of)                                                                             \
    X(cuDeviceGetAttribute, free_of)                                                                         \
    X(cuStreamGetCtx, plain)                                                                                 \
    X(cuCtxGetDevice, plain)                                                                                 \
    X(cuCtxPushCurrent, free_of)                                                                             \
    X(cuCtxPopCurrent, free_of)                                                                              \
    X(cuDevicePrimaryCtxGetState, free_of)                                                                   \
    X(cuDevicePrimaryCtxRetain, free_of)                                                                     \
    X(cuDevicePrimaryCtxRelease, free_of)                                                                    \
    X(cuMemGetAllocationGranularity, plain)                                                                  \
    X(cuMemAddressReserve, plain)                                                                            \
    X(cuMemAddressFree, releases)                                                                            \
    X(cuMemCreate, allocates)                                                                                \
    X(cuMemRelease, releases)                                                                                \
    X(cuMemMap, plain)                                                                                       \
    X(cuMemUnmap, releases)                                                                                  \
    X(cuMemSetAccess, plain)                                                                                 \
    X(cuMemGetAccess, plain)                                                                                 \
    X(cuMemRetainAllocationHandle, plain)                                                                    \
    X(cuMemGetAllocationPropertiesFromHandle, plain)                                                         \
    X(cuMemsetD8Async, plain)                                                                                \
    X(cuMemsetD16Async, plain)                                                                               \
    X(cuMemsetD32Async, plain)                                                                               \
    X(cudaStreamBeginCapture, plain)                                                                         \
    X(cudaStreamEndCapture, releases)                                                                        \
    X(cudaStreamGetCaptureInfo, plain)                                                                       \
    X(cudaStreamUpdateCaptureDependencies, plain)                                                            \
    X(cudaThreadExchangeStreamCaptureMode, free_of)                                                          \
    X(cudaGraphCreate, plain)                                                                                \
    X(cudaGraphDestroy, releases)                                                                            \
    X(cudaGraphClone, plain)                                                                                 \
    X(cudaGraphGetNodes, plain)                                                                              \
    X(cudaGraphGetRootNodes, plain)                                                                          \
    X(cudaGraphGetEdges, plain)                                                                              \
    X(cudaGraphNodeGetType, plain)                                                                           \
    X(cudaGraphNodeGetDependencies, plain)                                                                   \
    X(cudaGraphNodeGetDependentNodes, plain)                                                                 \
    X(cudaGraphDebugDotPrint, plain)                                                                         \
    X(cudaGraphInstantiate, plain)                                                                           \
    X(cudaGraphInstantiateWithFlags, plain)                                                                  \
    X(cudaGraphInstantiateWithParams, plain)                                                                 \
    X(cudaGraphExecUpdate, plain)                                                                            \
    X(cudaGraphExecGetFlags, plain)                                                                          \
    X(cudaGraphUpload, plain)                                                                                \
    X(cudaGraphLaunch, plain)                                                                                \
    X(cudaGraphExecDestroy, releases)                                                                        \
    X(cudaDeviceGraphMemTrim, releases)                                                                      \
    X(cudaDeviceGetGraphMemAttribute, plain)                                                                 \
    X(cudaDeviceSetGraphMemAttribute, plain)                                                                 \
    X(cudaGraphMemAllocNodeGetParams, plain)                                                                 \
    X(cudaGraphMemFreeNodeGetParams, plain)                                                                  \
    X(cudaDeviceReset, releases)                                                                             \
    X(cudaMemGetMemPool, plain)                                                                              \
    X(cudaMemSetMemPool, plain)                                                                              \
    X(cudaStreamAttachMemAsync, plain)                                                                       \
    X(cuPointerGetAttribute, plain)                                                                          \
    X(cudaLaunchKernel, plain)                                                                               \
    X(cudaLaunchKernelExC, plain)                                                                            \
    X(cudaLaunchCooperativeKernel, plain)                                                                    \
    X(cuota_simulator_launch, plain)

namespace cuota::inline v0::simulator {

enum class function : std::size_t {
#define X(name, trait) name,
    CUOTA_SIMULATOR_FUNCTIONS(X)
#undef X
};

enum class trait { plain, free_of, allocates, releases, waits, about };

inline constexpr const char* function_names[] = {
#define X(name, trait) #name,
    CUOTA_SIMULATOR_FUNCTIONS(X)
#undef X
};

inline constexpr trait function_traits[] = {
#define X(name, kind) trait::kind,
    CUOTA_SIMULATOR_FUNCTIONS(X)
#undef X
};

inline constexpr std::size_t function_count = std::size(function_names);

inline constexpr const char* name_of(function f) { return function_names[static_cast<std::size_t>(f)]; }
inline constexpr trait trait_of(function f) { return function_traits[static_cast<std::size_t>(f)]; }

}  // namespace cuota::inline v0::simulator
