// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

// An ordinary file of a program compiled by nvcc, independent of the simulator.
namespace kernels {

struct line {
    double slope;
    char sign;
    float offset;
};

__global__ void scale(float* x, float by, unsigned n) {
    unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

__global__ void apply(line f, float const* x, float* y, unsigned n) {
    unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (f.sign == '-' ? -1.f : 1.f) * (static_cast<float>(f.slope) * x[i] + f.offset);
}

__global__ void nothing() {}

namespace {

template <class T>
__global__ void fill(T* x, T value, unsigned n) {
    unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

unsigned blocks(unsigned n) { return (n + 255) / 256; }

}  // namespace

void const* address_of_fill() { return reinterpret_cast<void const*>(&fill<int>); }

cudaError_t call_scale(float* x, float by, unsigned n, cudaStream_t s) {
    scale<<<blocks(n), 256, 0, s>>>(x, by, n);
    by = 0;  // the launch has its own copy
    return cudaGetLastError();
}

cudaError_t call_apply(line f, float const* x, float* y, unsigned n, cudaStream_t s) {
    apply<<<blocks(n), 256, 0, s>>>(f, x, y, n);
    return cudaGetLastError();
}

cudaError_t call_apply_by_configuration(line f, float const* x, float* y, unsigned n, cudaStream_t s) {
    cudaLaunchConfig_t c{};
    c.gridDim = blocks(n);
    c.blockDim = 256;
    c.stream = s;
    return cudaLaunchKernelEx(&c, apply, f, x, y, n);
}

cudaError_t call_fill(int* x, int value, unsigned n, cudaStream_t s) {
    fill<<<dim3{blocks(n), 1, 1}, dim3{32, 8, 1}, 64, s>>>(x, value, n);
    return cudaGetLastError();
}

cudaError_t call_nothing() {
    nothing<<<1, 1>>>();
    return cudaGetLastError();
}

cudaError_t call_nothing_with_too_many_threads() {
    nothing<<<1, 1025>>>();
    return cudaGetLastError();
}

}  // namespace kernels
