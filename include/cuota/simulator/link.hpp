// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "state.hpp"

/// Simulated durations of copies and kernels.
namespace cuota::inline v0::simulator::timing {

std::optional<work_kind> way(bool from_device, bool to_device);

/// The constructor waits until the transfer starts, the destructor until it has finished. Without the lock.
class copy_on_link {
public:
    copy_on_link(std::optional<work_kind> what, int device, std::size_t bytes, bool has_latency);
    ~copy_on_link();
    copy_on_link(copy_on_link const&) = delete;
    copy_on_link& operator=(copy_on_link const&) = delete;

private:
    std::chrono::steady_clock::time_point end_{};
};

/// The destructor waits until the kernel's duration has passed. Without the lock.
class kernel_on_device {
public:
    kernel_on_device(std::string const& name, int device);
    ~kernel_on_device();
    kernel_on_device(kernel_on_device const&) = delete;
    kernel_on_device& operator=(kernel_on_device const&) = delete;

private:
    int device_;
    std::optional<std::chrono::nanoseconds> least_;  ///< nothing: no simulated time
    std::chrono::steady_clock::time_point begin_{};
};

std::optional<std::chrono::nanoseconds> time_named(std::string_view text);
std::optional<link_options> link_named(std::string_view text);
/// Sets the values that `reset` restores.
void set_initial(link_options const& wanted);
void reset();

}  // namespace cuota::inline v0::simulator::timing
