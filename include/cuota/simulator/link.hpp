// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "state.hpp"

/// The time that copies and kernels take. With all times zero none of it costs more than a look.
namespace cuota::inline v0::simulator::timing {

/// Over which link a copy goes; none for one between two places of the host.
std::optional<traffic> way(bool from_device, bool to_device);

/// A copy on its engine: waits until the engine has begun to move its bytes, and at the end until it has moved
/// them all. Without the lock.
class copy_on_link {
public:
    copy_on_link(std::optional<traffic> what, int device, std::size_t bytes, bool has_latency);
    ~copy_on_link();
    copy_on_link(copy_on_link const&) = delete;
    copy_on_link& operator=(copy_on_link const&) = delete;

private:
    std::chrono::steady_clock::time_point end_{};
};

/// A kernel, which at the end waits until its time is over. Without the lock.
class kernel_on_device {
public:
    kernel_on_device(std::string const& name, int device);
    ~kernel_on_device();
    kernel_on_device(kernel_on_device const&) = delete;
    kernel_on_device& operator=(kernel_on_device const&) = delete;

private:
    int device_;
    std::optional<std::chrono::nanoseconds> least_;  ///< none: nothing is timed
    std::chrono::steady_clock::time_point begin_{};
};

/// A time with its unit, such as 10us.
std::optional<std::chrono::nanoseconds> time_named(std::string_view text);
/// As CUOTA_SIM_LINK has it, or nothing.
std::optional<link_options> link_named(std::string_view text);
/// What `reset` goes back to.
void set_initial(link_options const& wanted);
void reset();

}  // namespace cuota::inline v0::simulator::timing
