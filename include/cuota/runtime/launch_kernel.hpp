// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Launches of a program's own kernels, with errors as exceptions.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

/// One to three dimensions of a grid or block, of any integer type.
struct dimensions {
    /// Converts as in <<<>>>. A number out of range becomes the largest, which CUDA rejects.
    template <std::integral Number>
    constexpr dimensions(Number x) noexcept
        : value{std::in_range<unsigned>(x) ? static_cast<unsigned>(x) : ~0U} {}
    constexpr dimensions(dim3 all) noexcept : value{all} {}

    dim3 value;
};

}  // namespace detail

/// The grid of a launch, as in <<<grid, block, shared_bytes>>>. Example: tests/runtime/launch_kernel.sim.cpp
struct kernel_shape {
    /// Grid and block are numbers of any integer type or dim3; `shared`: dynamic shared memory of a block, in bytes.
    kernel_shape(detail::dimensions grid_in_blocks, detail::dimensions block_in_threads,
                 std::size_t shared = 0, source_location launched = source_location::current()) noexcept
        : grid{grid_in_blocks.value}, block{block_in_threads.value}, shared_bytes{shared}, where{launched} {}

    dim3 grid;                 ///< in blocks
    dim3 block;                ///< in threads
    std::size_t shared_bytes;  ///< dynamic, of a block
    source_location where;     ///< call site of the launch
};

namespace detail {

/// Launches on the stream's device. Throws: cuda_error.
void launch(stream_ref s, kernel_shape const& shape, void const* kernel, void** arguments);

}  // namespace detail

/// Launches a __global__ function, as kernel<<<shape.grid, shape.block, shape.shared_bytes, s>>>(arguments...), and throws if CUDA rejects
/// the launch; <<<>>> reports nothing. Arguments convert to the kernel's parameters: a lease to a device pointer or a device_span.
///     cuota::launch_kernel(s, {blocks, 256}, scale, x.write(s), n);
///
/// Units:   blocks and threads; bytes of shared memory.
/// Order:   in the order of s. Errors of the kernel itself are thrown by a later call, as for any kernel.
/// Threads: any.
/// Throws:  cuda_error with the call site; nothing is launched. In a capture as any launch.
/// Cost:    that of cudaLaunchKernel, and of making the stream's device current.
/// Example: tests/runtime/launch_kernel.sim.cpp
template <class... Parameters, class... Arguments>
    requires(sizeof...(Parameters) == sizeof...(Arguments))
void launch_kernel(stream_ref s, kernel_shape const& shape, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
    std::tuple<Parameters...> values{std::forward<Arguments>(arguments)...};
    std::apply(
        [&](auto&... each) {
            // One more than there are: an array has elements.
            void* addresses[] = {const_cast<void*>(static_cast<void const*>(&each))..., nullptr};
            detail::launch(s, shape, reinterpret_cast<void const*>(kernel), addresses);
        },
        values);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void detail::launch(stream_ref s, kernel_shape const& shape, void const* kernel,
                                 void** arguments) {
    s.check_reachable(shape.where);
    device_scope const here{s.device()};
    rt::set_call_site(shape.where);
    rt::check(cudaLaunchKernel(kernel, shape.grid, shape.block, arguments, shape.shared_bytes, s.get()),
              "cudaLaunchKernel", shape.where);
}

}  // namespace cuota::inline v0

#endif
