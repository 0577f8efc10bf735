// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bodies for kernels compiled by nvcc, which the simulated runtime runs in their place.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <cuota/simulator/export.hpp>

/// What kernels compiled by nvcc do on the simulated runtime, where code for a device cannot run.
namespace cuota::inline v0::simulator {

/// The launch of a kernel, as <<<grid, block, shared_bytes>>> gave it.
/// Example: tests/simulator/control_host_kernels.cpp
struct launch_shape {
    dim3 grid,                     ///< in blocks
        block;                     ///< in threads
    std::size_t shared_bytes = 0;  ///< dynamic shared memory of a block

    /// In all blocks together.
    [[nodiscard]] std::size_t threads() const noexcept {
        auto const of = [](dim3 d) { return std::size_t{d.x} * d.y * d.z; };
        return of(grid) * of(block);
    }
};

/// What a kernel that nvcc has compiled does on the simulator, where code for a device cannot run.
/// Example: tests/simulator/control_host_kernels.cpp
struct host_kernel {
    /// What a launch copies of one argument.
    struct parameter {
        std::size_t bytes,  ///< its sizeof
            alignment;      ///< its alignof
    };

    std::vector<parameter> parameters;  ///< a launch copies its arguments, so it must know how large they are
    /// Runs the whole grid: arguments[i] leads to the copy of the i-th.
    std::function<void(launch_shape const&, void** arguments)> body;
};

/// From now on a launch of `kernel` (its host address, as <<<>>> and cudaLaunchKernel have it) runs the body in
/// its place: once for the whole grid, in stream order, as a kernel. What it throws fails the device. A body
/// outlives `reset`; an empty one ends it, and launches are again refused with cudaErrorInvalidDeviceFunction. The
/// first refused launch of each kernel is told on standard error.
/// Launches that are under way keep the body they were made with; those of several streams call it at once.
/// Threads: any. Throws: std::bad_alloc. Example: tests/simulator/control_host_kernels.cpp
CUOTA_SIMULATOR_API void run_on_host(void const* kernel, host_kernel what);

/// The same for a body that takes the shape of the launch and the kernel's own parameters.
template <class... Parameters, class Body>
void run_on_host(void (*kernel)(Parameters...), Body body) {
    auto call = [body = std::move(body)]<std::size_t... I>(
        std::index_sequence<I...>, launch_shape const& shape, [[maybe_unused]] void** arguments) {
        body(shape, *static_cast<Parameters*>(arguments[I])...);
    };
    host_kernel what;
    (what.parameters.push_back({sizeof(Parameters), alignof(Parameters)}), ...);
    what.body = [call = std::move(call)](launch_shape const& shape, void** arguments) {
        call(std::index_sequence_for<Parameters...>{}, shape, arguments);
    };
    run_on_host(reinterpret_cast<void const*>(kernel), std::move(what));
}

}  // namespace cuota::inline v0::simulator
