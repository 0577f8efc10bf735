// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

// What object files made by nvcc ask of the runtime, so that one object links with the real runtime and with
// this one. Code for a device does not run on a host: a launch of it is refused, and the program is told by
// the usual error.

using namespace cuota::simulator;

namespace {

struct call_configuration {
    dim3 grid, block;
    std::size_t shared_bytes;
    cudaStream_t stream;
};

thread_local std::vector<call_configuration> configurations;  // <<<...>>> pushes, the kernel's stub pops

cudaError_t refuse_launch() {
    return api(function::cudaLaunchKernel, [](guard&) {
        note_misuse(the_machine().misuse.device_kernels,
                    this_call() + " launches a kernel that exists for a device only");
        return cudaErrorInvalidDeviceFunction;
    });
}

}  // namespace

cudaError_t cudaLaunchKernel(void const*, dim3, dim3, void**, size_t, cudaStream_t) {
    return refuse_launch();
}

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void*) {
    static void* no_image = nullptr;
    return &no_image;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, char const*, char*, char const*, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {}
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

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
    return refuse_launch();
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
    return refuse_launch();
}
cudaError_t cudaLaunchKernel_ptsz(void const*, dim3, dim3, void**, size_t, cudaStream_t) {
    return refuse_launch();
}

}  // extern "C"
#pragma GCC visibility pop
