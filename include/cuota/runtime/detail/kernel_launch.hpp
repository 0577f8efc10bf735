// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Kernel launches, by nvcc or on the simulator.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// One thread of a kernel, the only one on the simulator.
struct kernel_thread {
    std::size_t index;  ///< 0 to count - 1
    std::size_t count;  ///< threads of the grid
};

struct kernel_grid {
    static constexpr std::size_t threads = 256;  ///< per block

    std::size_t blocks = 0;    ///< for one iteration per thread (or warp); not 0
    bool is_resident = false;  ///< at most those that the device runs concurrently

    [[nodiscard]] static constexpr kernel_grid of(std::size_t count, bool is_resident) noexcept {
        return {count / threads + (count % threads != 0 ? 1 : 0), is_resident};
    }
};

// A kernel's body is a copyable object that each thread calls once, for all of its iterations.
//
// Launches a body on a GPU; null if nvcc compiled no file that launches it. In a program built by two compilers, the linker keeps one
// launch_kernel for each body, and either one must find nvcc's launcher.
template <class Body>
using launcher = void (*)(stream_ref s, device on, kernel_grid grid, Body const& body, char const* name,
                          source_location where);
template <class Body>
inline constinit std::atomic<launcher<Body>> launcher_by_nvcc = nullptr;

struct kernel_info {
    static constexpr int devices = 16;

    std::atomic<unsigned> resident_blocks[devices]{};  ///< 0: unknown yet
    std::atomic<bool> has_one_layout = false;          ///< equal sizes in host and device code
};

/// Returns how many blocks a device runs concurrently. Throws: cuda_error.
[[nodiscard]] std::size_t resident_blocks(void const* kernel, kernel_info& facts, device on,
                                          source_location where);

struct kernel_body {
    void* at;
    std::size_t bytes;
};

/// Launches a kernel on the current device, which must be the stream's.
/// Throws: cuda_error; usage_error if the body's size differs in device code, which would read wrong offsets.
void launch_on_device(void const* kernel, kernel_info& facts, stream_ref s, device on, kernel_grid grid,
                      kernel_body body, char const* name, source_location where);

/// Minimum of resident blocks per multiprocessor, which bounds the registers of a thread: 32 for 8 blocks, 64 for 4.
template <class Body>
inline constexpr unsigned least_resident = 1;

#if defined(__CUDACC__)
/// Blocks of 256 threads that fit on a multiprocessor; nvcc accepts no more.
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
                    source_location where) {
    static constinit kernel_info facts{};
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
    // Registers the launcher during static initialization.
    (void)&is_launcher_known<Body>;
    return &launch_by_nvcc<Body>;
}
#else
template <class Body>
[[nodiscard]] launcher<Body> device_launcher() noexcept {
    return launcher_by_nvcc<Body>.load(std::memory_order_relaxed);
}
#endif

/// Enqueues job() as a kernel of one thread, which each launch of a graph calls.
template <class Job>
void enqueue_on_simulator(stream_ref s, Job job, char const* name, source_location where) {
    light_unique_ptr<Job> work{new Job{std::move(job)}};
    rt::set_call_site(where);
    rt::check(cuota_simulator_launch(
                  s.get(), name, [](void* p) { (*static_cast<Job*>(p))(); },
                  [](void* p) { delete static_cast<Job*>(p); }, work.get()),
              name, where);
    (void)work.detach();  // owned by the simulator now
}

template <class Body>
void launch_on_simulator(stream_ref s, Body body, char const* name, source_location where) {
    auto const job = [body = std::move(body)] {
        Body mine = body;  // each launch of a graph starts with the original arguments
        mine(kernel_thread{0, 1});
    };
    enqueue_on_simulator(s, job, name, where);
}

/// Whether a body has host code for the simulator.
template <class Body>
inline constexpr bool has_host_side = CUOTA_SIMULATED_KERNELS != 0;

[[noreturn]] void refuse_launch_without_nvcc(char const* name, source_location where);
[[noreturn]] void refuse_launch_on_simulator(char const* name, source_location where);

/// Enqueues a kernel on s, on any device.
/// Throws: cuda_error; usage_error if the kernel has neither device nor host code. Nothing is enqueued.
template <class Body>
void launch_kernel(stream_ref s, kernel_grid grid, Body body, char const* name, source_location where) {
    s.check_reachable(where);
    device const on = s.device();
    device_scope const here{on};  // as a launch requires
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

CUOTA_INLINE std::size_t resident_blocks(void const* kernel, kernel_info& facts, device on,
                                         source_location where) {
    bool const is_kept = on.ordinal() < kernel_info::devices;
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

// Host and device layouts of [[no_unique_address]] members differ.
CUOTA_INLINE void refuse_other_layout(void const* kernel, kernel_info& facts, std::size_t bytes,
                                      char const* name, source_location where) {
    std::size_t offset = 0;
    std::size_t on_device = bytes;
    cudaError_t const code = rt::parameter_info(kernel, 0, &offset, &on_device);
    if (code == cudaErrorNotSupported) (void)cudaGetLastError();  // an older driver
    else rt::check(code, "cudaFuncGetParamInfo", where);
    if (on_device != bytes)
        throw_usage_error(
            where,
            "{}: cannot launch a kernel with a body of {} bytes in host code and {} in device code; "
            "do not use [[no_unique_address]] in it, nor in its members",
            {name, bytes, on_device});
    facts.has_one_layout.store(true, std::memory_order_relaxed);
}

CUOTA_INLINE void launch_on_device(void const* kernel, kernel_info& facts, stream_ref s, device on,
                                   kernel_grid grid, kernel_body body, char const* name,
                                   source_location where) {
    if (!facts.has_one_layout.load(std::memory_order_relaxed)) [[unlikely]]
        refuse_other_layout(kernel, facts, body.bytes, name, where);
    constexpr std::size_t most_blocks = 1u << 16;  // beyond that, threads run several iterations
    std::size_t const limit = grid.is_resident ? resident_blocks(kernel, facts, on, where) : most_blocks;
    auto const blocks = static_cast<unsigned>(std::min(grid.blocks, limit));
    // After <<<>>> only the thread's last error is available.
    rt::check(cudaLaunchKernel(kernel, dim3{blocks}, dim3{static_cast<unsigned>(kernel_grid::threads)},
                               &body.at, 0, s.get()),
              name, where);
}

CUOTA_INLINE void refuse_launch_without_nvcc(char const* name, source_location where) {
    throw_usage_error(
        where,
        "{}: compiled without nvcc, so it can run on the simulator only, but the program is linked "
        "to the real CUDA runtime",
        {name});
}

CUOTA_INLINE void refuse_launch_on_simulator(char const* name, source_location where) {
    throw_usage_error(
        where,
        "{}: a body without a host side cannot run on the simulator; mark it CUOTA_KERNEL, and do "
        "not set CUOTA_SIMULATED_KERNELS to 0",
        {name});
}

}  // namespace cuota::inline v0::detail

#endif
