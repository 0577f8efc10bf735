// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

// Compiled with --default-stream per-thread: stream 0 is the calling thread's own.
namespace kernels {

__global__ void add(int* x, int value) { *x += value; }

cudaError_t call_add(int* x, int value) {
    add<<<1, 1>>>(x, value);
    return cudaGetLastError();
}

cudaError_t call_add_by_configuration(int* x, int value) {
    cudaLaunchConfig_t c{};
    c.gridDim = 1;
    c.blockDim = 1;
    return cudaLaunchKernelEx(&c, add, x, value);
}

}  // namespace kernels
