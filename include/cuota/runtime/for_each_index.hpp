// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The one kernel launch that runs everywhere: f(0) … f(n - 1), in stream order, in parallel.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/kernel_launch.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

template <class F>
struct each_index {
    std::size_t n;
    F f;
    CUOTA_NO_EXEC_CHECK
    CUOTA_KERNEL void operator()(kernel_thread t) {
        for (std::size_t i = t.index; i < n; i += t.count) f(i);
    }
};

#if defined(__CUDACC_EXTENDED_LAMBDA__) && CUOTA_SIMULATED_KERNELS
// A lambda that is __device__ only has no host side to simulate with.
template <class F>
inline constexpr bool has_host_side<each_index<F>> = !__nv_is_extended_device_lambda_closure_type(F);
#endif

}  // namespace detail

namespace rt {

/// True when for_each_index can run an F in this program: nvcc has compiled it, or it is simulated.
template <class F>
[[nodiscard]] bool can_run() noexcept {
    using body = cuota::detail::each_index<F>;
    return is_simulated() ? cuota::detail::has_host_side<body>
                          : cuota::detail::device_launcher<body>() != nullptr;
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
    detail::launch_kernel(s, detail::kernel_grid::of(n, false), detail::each_index<F>{n, std::move(f)}, name,
                          where);
}

}  // namespace cuota::inline v0
