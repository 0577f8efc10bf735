// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How kernels are launched: on a GPU as nvcc has compiled them, on the simulator as work of the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// One of the threads that run a kernel. On the simulator a kernel has one thread.
struct kernel_thread {
    std::size_t index;  ///< 0 to count - 1
    std::size_t count;  ///< threads of the whole grid
};

/// How many blocks of threads a kernel is launched with.
struct kernel_grid {
    static constexpr std::size_t threads = 256;  ///< of a block

    std::size_t blocks = 0;    ///< of which every thread has something to do; not 0
    bool is_resident = false;  ///< launch no more blocks than the device runs at the same time

    /// A grid for `count` turns, of which a thread does one or several.
    [[nodiscard]] static constexpr kernel_grid of(std::size_t count, bool is_resident) noexcept {
        return {count / threads + (count % threads != 0 ? 1 : 0), is_resident};
    }
};

// A kernel's body is a copyable object that each thread calls with its kernel_thread: it does all turns of that thread.
//
// How to launch one on a GPU: null where nvcc compiled no file of the program that launches it. Of a program that two compilers
// made the linker keeps one launch_kernel of each body, and either must find what nvcc made.
template <class Body>
using launcher = void (*)(stream_ref s, device on, kernel_grid grid, Body const& body, char const* name,
                          place where);
template <class Body>
inline constinit std::atomic<launcher<Body>> launcher_by_nvcc = nullptr;

/// What is known of a kernel on each device, of the first few.
struct kernel_facts {
    static constexpr int devices = 16;

    std::atomic<unsigned> resident_blocks[devices]{};  ///< that run at the same time; 0: not known yet
    std::atomic<bool> has_one_layout = false;          ///< its body has the same size in host and device code
};

/// Blocks of a kernel that a device runs at the same time. Throws: cuda_error.
[[nodiscard]] std::size_t resident_blocks(void const* kernel, kernel_facts& facts, device on, place where);

/// A kernel's body, as host code passes it.
struct kernel_body {
    void* at;
    std::size_t bytes;
};

/// Launches a kernel on the current device, which is the stream's.
/// Throws: cuda_error; misuse when device code takes a body of another size: it would read members where they are not.
void launch_on_device(void const* kernel, kernel_facts& facts, stream_ref s, device on, kernel_grid grid,
                      kernel_body body, char const* name, place where);

/// How many blocks of a kernel a multiprocessor is to run at the same time at the least: a bound to what registers a thread takes.
/// Of 8 it has 32, of 4 it has 64, on devices of 65,536 registers a multiprocessor, which today's all have.
template <class Body>
inline constexpr unsigned least_resident = 1;

#if defined(__CUDACC__)
/// Blocks of 256 threads that a multiprocessor has room for: nvcc takes no larger bound.
inline constexpr unsigned most_resident =
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    4;
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 ||    \
    __CUDA_ARCH__ == 1030
    8;
#else
    6;
#endif
template <class Body>
inline constexpr unsigned resident_bound =
    least_resident<Body> < most_resident ? least_resident<Body> : most_resident;

template <class Body>
__global__ void __launch_bounds__(kernel_grid::threads, resident_bound<Body>) for_each_kernel(Body body) {
    body(kernel_thread{static_cast<std::size_t>(blockIdx.x) * kernel_grid::threads + threadIdx.x,
                       static_cast<std::size_t>(gridDim.x) * kernel_grid::threads});
}

template <class Body>
void launch_by_nvcc(stream_ref s, device on, kernel_grid grid, Body const& body, char const* name,
                    place where) {
    static constinit kernel_facts facts{};
    launch_on_device(reinterpret_cast<void const*>(&for_each_kernel<Body>), facts, s, on, grid,
                     {const_cast<void*>(static_cast<void const*>(std::addressof(body))), sizeof(Body)}, name,
                     where);
}

template <class Body>
inline bool const is_launcher_known = [] {
    launcher_by_nvcc<Body> = &launch_by_nvcc<Body>;
    return true;
}();
template <class Body>
[[nodiscard]] launcher<Body> device_launcher() noexcept {
    (void)&is_launcher_known<Body>;  // for the other text of this, from when the program's statics are made
    return &launch_by_nvcc<Body>;
}
#else
template <class Body>
[[nodiscard]] launcher<Body> device_launcher() noexcept {
    return launcher_by_nvcc<Body>.load(std::memory_order_relaxed);
}
#endif

/// Enqueues job() on the simulator, as the only thread of a kernel. A launch of a graph calls the same job again.
template <class Job>
void enqueue_on_simulator(stream_ref s, Job job, char const* name, place where) {
    sole<Job> work{new Job{std::move(job)}};
    rt::on_behalf_of(where);
    rt::check(cuota_simulator_launch(
                  s.get(), name, [](void* p) { (*static_cast<Job*>(p))(); },
                  [](void* p) { delete static_cast<Job*>(p); }, work.get()),
              name, where);
    (void)work.detach();  // the simulator's now
}

template <class Body>
void launch_on_simulator(stream_ref s, Body body, char const* name, place where) {
    auto const job = [body = std::move(body)] {
        Body mine = body;  // a launch of a graph has the arguments anew
        mine(kernel_thread{0, 1});
    };
    enqueue_on_simulator(s, job, name, where);
}

/// Whether the simulator can run a body: none in a program without kernels to simulate.
template <class Body>
inline constexpr bool has_host_side = CUOTA_SIMULATED_KERNELS != 0;

/// Throws: misuse.
[[noreturn]] void refuse_launch_without_nvcc(char const* name, place where);
[[noreturn]] void refuse_launch_on_simulator(char const* name, place where);

/// Enqueues a kernel on s, of whichever device. Returns before the work is done.
/// Throws: cuda_error; misuse when the program can run it on neither side. Nothing is enqueued then.
template <class Body>
void launch_kernel(stream_ref s, kernel_grid grid, Body body, char const* name, place where) {
    s.refuse_elsewhere(where);
    device const on = s.device();
    device_scope const here{on};  // a launch wants its stream's device to be current
    if (!is_simulated()) {
        auto const launch = device_launcher<Body>();
        if (!launch) refuse_launch_without_nvcc(name, where);
        return launch(s, on, grid, body, name, where);
    }
    if constexpr (has_host_side<Body>) launch_on_simulator(s, std::move(body), name, where);
    else refuse_launch_on_simulator(name, where);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t resident_blocks(void const* kernel, kernel_facts& facts, device on, place where) {
    bool const is_kept = on.ordinal() < kernel_facts::devices;
    auto* const known = is_kept ? &facts.resident_blocks[on.ordinal()] : nullptr;
    if (known)
        if (unsigned const blocks = known->load(std::memory_order_relaxed); blocks != 0) return blocks;
    int of_each = 0;
    int processors = 0;
    rt::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, kernel,
                                                            static_cast<int>(kernel_grid::threads), 0),
              "cudaOccupancyMaxActiveBlocksPerMultiprocessor", where);
    rt::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, on.ordinal()),
              "cudaDeviceGetAttribute", where);
    auto const blocks = static_cast<unsigned>(std::max(1, of_each * processors));
    if (known) known->store(blocks, std::memory_order_relaxed);
    return blocks;
}

// nvcc compiles a body twice, and lays out members that are [[no_unique_address]] in two ways.
CUOTA_INLINE void refuse_other_layout(void const* kernel, kernel_facts& facts, std::size_t bytes,
                                      char const* name, place where) {
    std::size_t offset = 0;
    std::size_t on_device = bytes;
    cudaError_t const code = cudaFuncGetParamInfo(kernel, 0, &offset, &on_device);
    if (code == cudaErrorNotSupported) (void)cudaGetLastError();  // an older driver
    else rt::check(code, "cudaFuncGetParamInfo", where);
    if (on_device != bytes)
        throw_misuse(where,
                     "{}: cannot launch a kernel whose body has {} bytes in host code and {} in device code; "
                     "do not use [[no_unique_address]] in it, nor in its members",
                     {name, bytes, on_device});
    facts.has_one_layout.store(true, std::memory_order_relaxed);
}

CUOTA_INLINE void launch_on_device(void const* kernel, kernel_facts& facts, stream_ref s, device on,
                                   kernel_grid grid, kernel_body body, char const* name, place where) {
    if (!facts.has_one_layout.load(std::memory_order_relaxed)) [[unlikely]]
        refuse_other_layout(kernel, facts, body.bytes, name, where);
    constexpr std::size_t most_blocks = 1u << 16;  // threads do several turns beyond that
    std::size_t const limit = grid.is_resident ? resident_blocks(kernel, facts, on, where) : most_blocks;
    auto const blocks = static_cast<unsigned>(std::min(grid.blocks, limit));
    // cudaLaunchKernel returns the result of this launch. After <<<>>> only the thread's last error could be read, and that may
    // be an older one, which another library left.
    rt::check(cudaLaunchKernel(kernel, dim3{blocks}, dim3{static_cast<unsigned>(kernel_grid::threads)},
                               &body.at, 0, s.get()),
              name, where);
}

CUOTA_INLINE void refuse_launch_without_nvcc(char const* name, place where) {
    throw_misuse(where,
                 "{}: compiled without nvcc, so it can run on the simulator only, but the program is linked "
                 "to the real CUDA runtime",
                 {name});
}

CUOTA_INLINE void refuse_launch_on_simulator(char const* name, place where) {
    throw_misuse(where,
                 "{}: a body without a host side cannot run on the simulator; mark it CUOTA_KERNEL, and do "
                 "not set CUOTA_SIMULATED_KERNELS to 0",
                 {name});
}

}  // namespace cuota::inline v0::detail

#endif
