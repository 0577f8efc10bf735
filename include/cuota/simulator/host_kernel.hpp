// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Host bodies for kernels compiled by nvcc.
#pragma once

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/simulator/export.hpp>

namespace cuota::inline v0::simulator {

/// Launch configuration of a kernel.
/// Example: tests/simulator/control_host_kernels.cpp
struct launch_shape {
    dim3 grid,                     ///< in blocks
        block;                     ///< in threads
    std::size_t shared_bytes = 0;  ///< dynamic, of a block

    /// Returns the number of threads of all blocks.
    [[nodiscard]] std::size_t threads() const noexcept {
        auto const of = [](dim3 d) { return std::size_t{d.x} * d.y * d.z; };
        return of(grid) * of(block);
    }
};

/// A kernel's parameters and host body.
/// Example: tests/simulator/control_host_kernels.cpp
struct host_kernel {
    struct parameter {
        std::size_t bytes,        ///< its sizeof
            alignment;            ///< its alignof
        bool is_pointer = false;  ///< checked against the leases that are open on other streams
        bool writes = false;      ///< a pointer to elements that are not const
    };

    std::vector<parameter> parameters;  ///< a launch copies its arguments
    /// Runs the whole grid; arguments[i] points to a copy of the i-th argument.
    std::function<void(launch_shape const&, void** arguments)> body;
};

/// Makes each later launch of `kernel` (its host address, as in cudaLaunchKernel) run the body. If the body throws, the device fails. An
/// empty body removes it: launches then return cudaErrorInvalidDeviceFunction. `reset` keeps bodies.
/// Order: stream order. Enqueued launches keep their body. Launches on several streams call it concurrently.
/// Threads: any.
/// Throws: std::bad_alloc
/// Example: tests/simulator/control_host_kernels.cpp
CUOTA_SIMULATOR_API void run_on_host(void const* kernel, host_kernel what);

/// Same for a body that takes the kernel's own parameters.
template <class... Parameters, class Body>
void run_on_host(void (*kernel)(Parameters...), Body body) {
    auto call = [body = std::move(body)]<std::size_t... I>(
        std::index_sequence<I...>, launch_shape const& shape, [[maybe_unused]] void** arguments) {
        body(shape, *static_cast<Parameters*>(arguments[I])...);
    };
    host_kernel what;
    (what.parameters.push_back({sizeof(Parameters), alignof(Parameters), std::is_pointer_v<Parameters>,
                                !std::is_const_v<std::remove_pointer_t<Parameters>>}),
     ...);
    what.body = [call = std::move(call)](launch_shape const& shape, void** arguments) {
        call(std::index_sequence_for<Parameters...>{}, shape, arguments);
    };
    run_on_host(reinterpret_cast<void const*>(kernel), std::move(what));
}

}  // namespace cuota::inline v0::simulator
