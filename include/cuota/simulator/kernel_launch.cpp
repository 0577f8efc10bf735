// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include "host_kernel.hpp"  // after it: its CUDA header makes these definitions visible

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include <cxxabi.h>

// Launches of kernels that nvcc has compiled. Without a host body, the error is also printed once, because few programs check for errors
// after <<<>>>.
namespace cuota::inline v0::simulator {
namespace {

/// Outlives static objects.
struct kernel_book {
    std::map<void const*, std::string> names;
    std::map<void const*, std::shared_ptr<host_kernel>> bodies;
    std::set<void const*> told;  // their failed launch was printed
};

kernel_book& book() {
    static auto* const the_one = new kernel_book;
    return *the_one;
}

std::string demangled(char const* name) {
    int status = 0;
    std::unique_ptr<char, decltype(&std::free)> const plain{
        abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free};
    return plain ? plain.get() : name;
}

std::string name_of_kernel(void const* address) {
    auto const found = book().names.find(address);
    return found == book().names.end() ? "an unnamed kernel" : found->second;
}

cudaError_t refuse(void const* address) {
    std::string const line = this_call() + " launches " + name_of_kernel(address) +
                             ", which has no body for the host, so nothing ran: register one with "
                             "run_on_host, or link CUDA's runtime";
    note_misuse(the_machine().misuse.device_kernels, line);
    if (book().told.insert(address).second) {
        std::fprintf(stderr, "cuota simulator: %s\n", call_sites::resolved(line).c_str());
        std::fflush(stderr);
    }
    return cudaErrorInvalidDeviceFunction;
}

/// After <<<>>> few programs check for errors.
cudaError_t refuse_shape(void const* address, launch_shape const& shape, cudaError_t code) {
    auto const text = [](dim3 d) {
        return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
    };
    note_misuse(the_machine().misuse.bad_launches,
                this_call() + " launches " + name_of_kernel(address) + " with " + text(shape.grid) +
                    " blocks of " + text(shape.block) + " threads and " + in_bytes(shape.shared_bytes) +
                    " of dynamic shared memory, which the device does not support");
    return code;
}

/// The caller's arguments may be destroyed before the launch runs.
struct prepared {
    std::shared_ptr<host_kernel> kernel;
    launch_shape shape;
    std::unique_ptr<std::byte[]> bytes;
    std::vector<void*> arguments;

    static void run(void* self) {
        auto& p = *static_cast<prepared*>(self);
        p.kernel->body(p.shape, p.arguments.data());
    }
    static void drop(void* self) { delete static_cast<prepared*>(self); }
};

std::unique_ptr<prepared> prepare(std::shared_ptr<host_kernel> kernel, launch_shape const& shape,
                                  void* const* arguments) {
    std::size_t room = 0;
    for (auto const& p : kernel->parameters) room += p.bytes + p.alignment;
    auto made = std::make_unique<prepared>();
    made->bytes = std::make_unique<std::byte[]>(room);
    void* at = made->bytes.get();
    for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
        auto const& p = kernel->parameters[i];
        std::align(p.alignment, p.bytes, at, room);
        std::memcpy(at, arguments[i], p.bytes);
        made->arguments.push_back(at);
        at = static_cast<std::byte*>(at) + p.bytes;
        room -= p.bytes;
    }
    made->kernel = std::move(kernel);
    made->shape = shape;
    return made;
}

/// The program may pass the pointer of a lease on another stream: the kernel accesses the leased bytes on its own stream.
std::vector<pointer_argument> pointers_of(host_kernel const& kernel, void* const* arguments) {
    std::vector<pointer_argument> all;
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
        auto const& p = kernel.parameters[i];
        if (p.is_pointer) all.push_back({*static_cast<void* const*>(arguments[i]), p.writes});
    }
    return all;
}

bool possible(device const& d, launch_shape const& shape) {
    auto const within = [&d](unsigned n, cudaDeviceAttr most) {
        return n != 0 && n <= static_cast<unsigned>(attribute_of(d, most));
    };
    auto const &grid = shape.grid, &block = shape.block;
    return within(grid.x, cudaDevAttrMaxGridDimX) && within(grid.y, cudaDevAttrMaxGridDimY) &&
           within(grid.z, cudaDevAttrMaxGridDimZ) && within(block.x, cudaDevAttrMaxBlockDimX) &&
           within(block.y, cudaDevAttrMaxBlockDimY) && within(block.z, cudaDevAttrMaxBlockDimZ) &&
           within(block.x * block.y * block.z, cudaDevAttrMaxThreadsPerBlock);
}

cudaError_t launch(guard& lock, void const* address, launch_shape const& shape, void* const* arguments,
                   cudaStream_t stream) {
    auto const found = book().bodies.find(address);
    if (found == book().bodies.end()) return refuse(address);
    if (!possible(current_device(), shape))
        return refuse_shape(address, shape, cudaErrorInvalidConfiguration);
    if (shape.shared_bytes > static_cast<std::size_t>(dynamic_shared_of(address)))
        return refuse_shape(address, shape, cudaErrorInvalidValue);
    if (!arguments && !found->second->parameters.empty()) return cudaErrorInvalidValue;
    auto made = prepare(found->second, shape, arguments);
    auto const result = enqueue_kernel(lock, stream, name_of_kernel(address).c_str(), &prepared::run,
                                       &prepared::drop, made.get(), pointers_of(*found->second, arguments));
    if (result == cudaSuccess) (void)made.release();
    return result;
}

cudaError_t launch(function f, void const* address, launch_shape const& shape, void* const* arguments,
                   cudaStream_t stream) {
    return api(f, [&](guard& lock) { return launch(lock, address, shape, arguments, stream); });
}

/// Kernels of a stream never overlap here.
bool changes_nothing(cudaLaunchAttribute const& a) {
    switch (a.id) {
        case cudaLaunchAttributeIgnore:
        case cudaLaunchAttributeAccessPolicyWindow:
        case cudaLaunchAttributeCooperative:
        case cudaLaunchAttributeClusterDimension:
        case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        case cudaLaunchAttributeProgrammaticStreamSerialization:
        case cudaLaunchAttributePriority:
        case cudaLaunchAttributeMemSyncDomainMap:
#if CUDART_VERSION >= 12050
        case cudaLaunchAttributePreferredSharedMemoryCarveout:
#endif
        case cudaLaunchAttributeMemSyncDomain: return true;
        default: return false;
    }
}

cudaError_t launch_as_configured(cudaLaunchConfig_t const* c, void const* address, void* const* arguments,
                                 cudaStream_t stream) {
    return api(function::cudaLaunchKernelExC, [&](guard& lock) {
        if (!c || (c->numAttrs != 0 && !c->attrs)) return cudaErrorInvalidValue;
        if (!std::all_of(c->attrs, c->attrs + c->numAttrs, changes_nothing)) return cudaErrorNotSupported;
        return launch(lock, address, {c->gridDim, c->blockDim, c->dynamicSmemBytes}, arguments, stream);
    });
}

}  // namespace

void note_kernel(void const* address, char const* mangled_name) {
    book().names.insert_or_assign(address, demangled(mangled_name));
}

void run_on_host(void const* kernel, host_kernel what) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    if (!what.body) book().bodies.erase(kernel);
    else book().bodies.insert_or_assign(kernel, std::make_shared<host_kernel>(std::move(what)));
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t s) {
    return launch(function::cudaLaunchKernel, kernel, {grid, block, shared_bytes}, arguments, s);
}

cudaError_t cudaLaunchCooperativeKernel(void const* kernel, dim3 grid, dim3 block, void** arguments,
                                        size_t shared_bytes, cudaStream_t s) {
    return launch(function::cudaLaunchCooperativeKernel, kernel, {grid, block, shared_bytes}, arguments, s);
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* c, void const* kernel, void** arguments) {
    return launch_as_configured(c, kernel, arguments, c ? c->stream : nullptr);
}

#pragma GCC visibility push(default)
extern "C" {

// With CUDA 13, <<<>>> calls these functions with the result of __cudaGetKernel.
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t bytes,
                               cudaStream_t s) {
    return cudaLaunchKernel(kernel, grid, block, arguments, bytes, s);
}

// For CUDA_API_PER_THREAD_DEFAULT_STREAM.
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t bytes, cudaStream_t s) {
    return cudaLaunchKernel(kernel, grid, block, arguments, bytes, s ? s : cudaStreamPerThread);
}
cudaError_t cudaLaunchKernel_ptsz(void const* kernel, dim3 grid, dim3 block, void** arguments, size_t bytes,
                                  cudaStream_t s) {
    return cudaLaunchKernel(kernel, grid, block, arguments, bytes, s ? s : cudaStreamPerThread);
}
cudaError_t cudaLaunchCooperativeKernel_ptsz(void const* kernel, dim3 grid, dim3 block, void** arguments,
                                             size_t bytes, cudaStream_t s) {
    return cudaLaunchCooperativeKernel(kernel, grid, block, arguments, bytes, s ? s : cudaStreamPerThread);
}
cudaError_t cudaLaunchKernelExC_ptsz(cudaLaunchConfig_t const* c, void const* kernel, void** arguments) {
    return launch_as_configured(c, kernel, arguments, c && c->stream ? c->stream : cudaStreamPerThread);
}

}  // extern "C"
#pragma GCC visibility pop
