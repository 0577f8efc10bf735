// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

// Functions that object files of nvcc call before a launch. kernel_launch.cpp runs host bodies in place of device code.

using namespace cuota::simulator;

namespace {

struct call_configuration {
    dim3 grid, block;
    std::size_t shared_bytes;
    cudaStream_t stream;
};

thread_local std::vector<call_configuration> configurations;  // <<<...>>> pushes, the kernel's stub pops

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* no_image = nullptr;
    return &no_image;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, char const* address, char*, char const* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    note_kernel(address, name);
}
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, char const*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st* stream) {
    sanitizer::quiet quiet;
    configurations.push_back({grid, block, shared_bytes, stream});
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
    sanitizer::quiet quiet;
    if (configurations.empty()) return cudaErrorMissingConfiguration;
    auto const& c = configurations.back();
    *grid = c.grid;
    *block = c.block;
    *shared_bytes = c.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = c.stream;
    configurations.pop_back();
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host_function) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
    return cudaSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
