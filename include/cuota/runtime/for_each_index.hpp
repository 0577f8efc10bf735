// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A kernel launch on GPUs and on the simulator.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/detail/kernel_launch.hpp>
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
// A __device__-only lambda cannot be simulated.
template <class F>
inline constexpr bool has_host_side<each_index<F>> = !__nv_is_extended_device_lambda_closure_type(F);
#endif

}  // namespace detail

namespace rt {

/// Returns whether this program is simulated or nvcc compiled F.
template <class F>
[[nodiscard]] bool is_runnable() noexcept {
    using body = cuota::detail::each_index<F>;
    return is_simulated() ? cuota::detail::has_host_side<body>
                          : cuota::detail::device_launcher<body>() != nullptr;
}

}  // namespace rt

/// Enqueues f(i) for every i < n, in no particular order. f is copied; it must be trivially copyable and must not refer to host memory.
///
/// Under nvcc this is a CUDA kernel; on the simulator, the stream's thread runs the same body, so mark it CUOTA_KERNEL.
/// Order:   on s, which may belong to any device; does not wait.
/// Threads: any.
/// Throws:  cuda_error (name, call site); usage_error if the program has neither device nor host code for F. Nothing is enqueued.
/// Cost:    one launch; none if n = 0.
/// Example: examples/mistake.cpp
template <class F>
void for_each_index(stream_ref s, std::size_t n, F f, char const* name = "for_each_index",
                    source_location where = source_location::current()) {
#if !defined(__CUDACC__)  // nvcc's host pass wraps lambdas in another type
    static_assert(
        std::is_trivially_copyable_v<F>,
        "a kernel's body must be trivially copyable: capture the device_span of a lease, not the lease");
#endif
    if (n == 0) return;
    detail::launch_kernel(s, detail::kernel_grid::of(n, false), detail::each_index<F>{n, std::move(f)}, name,
                          where);
}

}  // namespace cuota::inline v0
