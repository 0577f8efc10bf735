// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The one kernel launch that runs everywhere: f(0) … f(n - 1), in stream order, in parallel.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

// How to launch an F on a GPU: null where nvcc compiled no file of the program that launches one. Of a program that two
// compilers made the linker keeps one for_each_index of each F, and either must find what nvcc made.
template <class F>
using launcher = void (*)(stream_ref s, std::size_t n, F const& f, char const* name, place where);
template <class F>
inline constinit std::atomic<launcher<F>> launcher_by_nvcc = nullptr;

#if defined(__CUDACC__)
template <class F>
__global__ void for_each_index_kernel(std::size_t n, F f) {
    std::size_t const step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        f(i);
}

template <class F>
void launch_on_device(stream_ref s, std::size_t n, F const& f, char const* name, place where) {
    constexpr std::size_t threads = 256;
    constexpr std::size_t most_blocks = 1u << 16;  // the loop in the kernel covers the rest
    std::size_t const blocks = (n - 1) / threads + 1;
    auto const grid = static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
    // cudaLaunchKernel returns the result of this launch. After <<<>>> only the thread's last error could be read, and that may
    // be an older one, which another library left.
    void* arguments[] = {&n, const_cast<void*>(static_cast<void const*>(std::addressof(f)))};
    rt::check(cudaLaunchKernel(for_each_index_kernel<F>, dim3{grid}, dim3{static_cast<unsigned>(threads)},
                               arguments, 0, s.get()),
              name, where);
}

template <class F>
inline bool const is_launcher_known = [] {
    launcher_by_nvcc<F> = &launch_on_device<F>;
    return true;
}();
template <class F>
[[nodiscard]] launcher<F> device_launcher() noexcept {
    (void)&is_launcher_known<F>;  // for the other text of this, from when the program's statics are made
    return &launch_on_device<F>;
}
#else
template <class F>
[[nodiscard]] launcher<F> device_launcher() noexcept {
    return launcher_by_nvcc<F>.load(std::memory_order_relaxed);
}
#endif

template <class F>
void launch_on_simulator(stream_ref s, std::size_t n, F&& f, char const* name, place where) {
    struct job {
        std::size_t n;
        std::decay_t<F> f;
    };
    sole<job> body{new job{n, std::forward<F>(f)}};
    rt::on_behalf_of(where);
    rt::check(cuota_simulator_launch(
                  s.get(), name,
                  [](void* p) {
                      job& j = *static_cast<job*>(p);
                      for (std::size_t i = 0; i != j.n; ++i) j.f(i);
                  },
                  [](void* p) { delete static_cast<job*>(p); }, body.get()),
              name, where);
    (void)body.detach();  // the simulator's now
}

// A lambda that is __device__ only has no host side to simulate with, and a program without kernels to simulate is asked
// for none.
template <class F>
inline constexpr bool has_host_side =
#if !CUOTA_SIMULATED_KERNELS
    false;
#elif defined(__CUDACC_EXTENDED_LAMBDA__)
    !__nv_is_extended_device_lambda_closure_type(F);
#else
    true;
#endif

}  // namespace detail

namespace rt {

/// True when for_each_index can run an F in this program: nvcc has compiled it, or it is simulated.
template <class F>
[[nodiscard]] bool can_run() noexcept {
    return is_simulated() ? cuota::detail::has_host_side<F> : cuota::detail::device_launcher<F>() != nullptr;
}

}  // namespace rt

/// Enqueues f(i) for every i < n. f is copied; it must be trivially copyable and hold no reference to the host.
///
/// Under nvcc this is a CUDA kernel; on the simulator the same body runs on a stream's own thread, so mark it
/// CUOTA_KERNEL. Order among indices is not defined: results must not depend on it.
/// Order:   on s, of whichever device. Returns before the work is done. n = 0 enqueues nothing.
/// Threads: any.
/// Throws:  cuda_error (name, place); misuse when the program can run it on neither side. Nothing is enqueued then.
/// Cost:    a launch, whatever n is.
/// Example: examples/mistake.cpp
template <class F>
void for_each_index(stream_ref s, std::size_t n, F f, char const* name = "for_each_index",
                    place where = place::here()) {
#if !defined(__CUDACC__)  // nvcc's host pass wraps lambdas in a type that is not trivially copyable
    static_assert(std::is_trivially_copyable_v<F>,
                  "a kernel's body travels to the device byte by byte: of a lease "
                  "capture its device_span, not the lease");
#endif
    if (n == 0) return;
    device_scope const here{s.device()};  // a launch wants its stream's device to be current
    if (!is_simulated()) {
        auto const launch = detail::device_launcher<F>();
        if (!launch)
            throw misuse{std::string{name} +
                             ": compiled without nvcc, so it can run on the simulator only, but the program "
                             "is linked to the real CUDA runtime",
                         where};
        return launch(s, n, f, name, where);
    }
    if constexpr (detail::has_host_side<F>) detail::launch_on_simulator(s, n, std::move(f), name, where);
    else
        throw misuse{std::string{name} + ": a body without a host side cannot run on the simulator; mark it "
                                         "CUOTA_KERNEL, and do not set CUOTA_SIMULATED_KERNELS to 0",
                     where};
}

}  // namespace cuota::inline v0
