// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Declarations that the headers of older CUDA Toolkits lack. export.hpp includes this header, with default visibility.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12010
using cudaKernel_t = struct CUkern_st*;
#endif

#if CUDART_VERSION < 12030
struct cudaGraphEdgeData {};
#endif

extern "C" {
#if CUDART_VERSION < 12040
cudaError_t cudaFuncGetParamInfo(void const* kernel, std::size_t index, std::size_t* offset,
                                 std::size_t* bytes);
#endif
#if CUDART_VERSION < 12050
cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** out, unsigned int version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status);
#endif
#if CUDART_VERSION < 12080
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
#endif
}
