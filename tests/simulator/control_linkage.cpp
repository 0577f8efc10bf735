// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

// Names that compilers write into object files: those of nvcc for kernels, and those that the header's macro for per-thread default streams
// renames.

using namespace control;

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void** arguments, size_t shared_bytes, cudaStream_t);
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t s);
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t s);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t s);
}

TEST_CASE("an object file of nvcc links, and its kernels are refused with an error", "[simulator][linkage]") {
    machine m;
    auto** const image = __cudaRegisterFatBinary(nullptr);
    __cudaRegisterFatBinaryEnd(image);
    CHECK(__cudaPushCallConfiguration({2, 1, 1}, {32, 1, 1}, 64, nullptr) == 0);
    dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = cudaStreamLegacy;
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) == cudaSuccess);
    CHECK(grid.x == 2);
    CHECK(block.x == 32);
    CHECK(shared_bytes == 64);
    CHECK(stream == nullptr);
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) != cudaSuccess);
    cudaKernel_t kernel = nullptr;
    REQUIRE(__cudaGetKernel(&kernel, &kernel) == cudaSuccess);
    CHECK(__cudaLaunchKernel(kernel, grid, block, nullptr, 0, stream) == cudaErrorInvalidDeviceFunction);
    CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
    CHECK(sim::misuse().device_kernels == 1);
    __cudaUnregisterFatBinary(image);
}

TEST_CASE("with per-thread default streams, stream 0 is the thread's own", "[simulator][linkage]") {
    machine m;
    auto* const d = device_memory(4);
    gate closed{cudaStreamPerThread};
    REQUIRE(cudaMemsetAsync_ptsz(d, 3, 4, nullptr) == cudaSuccess);
    CHECK(cudaStreamQuery_ptsz(nullptr) == cudaErrorNotReady);
    CHECK(std::async(std::launch::async, [] { return cudaStreamSynchronize_ptsz(nullptr); }).get() ==
          cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    unsigned char host[4] = {};
    CHECK(cudaMemcpy_ptds(host, d, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(host[3] == 3);
    CHECK(cudaFree(d) == cudaSuccess);
}
