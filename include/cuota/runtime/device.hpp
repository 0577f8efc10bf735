// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Devices, and their memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/runtime/memory_limits.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0 {

/// A device, by its ordinal. If it does not exist, its queries throw.
/// Threads: any. Throws: cuda_error. Cost: a few CUDA calls per query.
/// Example: tests/runtime/device.cpp
class device {
public:
    constexpr explicit device(int ordinal) noexcept : ordinal_{ordinal} {}  ///< CUDA's ordinal, from 0

    /// Returns the calling thread's current device.
    [[nodiscard]] static device current();
    /// Returns the number of devices. Throws: also without a driver.
    [[nodiscard]] static int count();

    [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }  ///< from 0

    /// Returns the marketing name; "simulated" on the simulator. Cached.
    CUOTA_PROCESS_STATE [[nodiscard]] std::string const& name() const;

    /// Figures of one instant, in bytes. A MIG instance has its own.
    struct memory_info {
        std::size_t free = 0;   ///< available to every program
        std::size_t total = 0;  ///< capacity, at most the hard limit
        std::size_t driver_free =
            0;  ///< as cudaMemGetInfo reports: less than `free` if the host's page cache is in this memory
    };
    /// Returns the driver's present figures. If the device uses the host's memory, the bytes that host_memory has available count as free.
    [[nodiscard]] memory_info memory() const;

    /// Returns whether the device uses the host's memory (cudaDevAttrIntegrated), as Jetson and GB10 do.
    [[nodiscard]] bool uses_host_memory() const;

    /// Returns the major number of the compute capability, such as 9 for Hopper.
    [[nodiscard]] int compute_capability_major() const;

    /// Returns the limits that an administrator has set for the control group of this process (NVML's memory limits, CUDA 13.4 and later), or
    /// nullopt. Cost: a few calls of NVML, if the driver has the function.
    [[nodiscard]] std::optional<memory_limits> limits() const;

    /// Returns the nearest NUMA node of the host; nullopt if unknown.
    [[nodiscard]] std::optional<int> host_numa_node() const;

    /// Waits for all work of this process on it. Throws: usage_error while any thread captures one of its streams by `capture`.
    void synchronize() const;

    friend constexpr bool operator==(device, device) noexcept = default;  ///< by ordinal

private:
    int ordinal_;
};

/// Makes a device current for the calling thread until the scope ends. Throws: cuda_error; nothing changes.
///
/// The destructor restores the previous device without creating a context on it, as cudaSetDevice would.
/// Threads: the one that constructed it. Cost: a CUDA call, and three more if another device was current.
/// Example: tests/runtime/device.cpp
class device_scope {
public:
    /// Does nothing, nor does the destructor, if `wanted` is current.
    explicit device_scope(device wanted);
    device_scope(device_scope const&) = delete;
    device_scope& operator=(device_scope const&) = delete;
    ~device_scope();

private:
    enum class entered { not_at_all, by_runtime, by_driver };

    device before_;
    entered how_ = entered::not_at_all;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <vector>

#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/detail/captured_streams.hpp>
#include <cuota/runtime/rt/primary_context.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE device device::current() {
    int ordinal = 0;
    rt::check(cudaGetDevice(&ordinal), "cudaGetDevice");
    return device{ordinal};
}

CUOTA_INLINE int device::count() {
    int devices = 0;
    cudaError_t const code = cudaGetDeviceCount(&devices);
    if (code == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        return 0;
    }
    rt::check(code, "cudaGetDeviceCount");
    return devices;
}

CUOTA_INLINE_STATE std::string const& device::name() const {
    static auto& guard = *new detail::process_lock;
    static auto& names = *new detail::dynamic_array<std::string const*>;  // by ordinal; never destroyed
    std::lock_guard const lock{guard};
    auto const at = static_cast<std::size_t>(ordinal_);
    if (at >= names.size() || names[at] == nullptr) {
        cudaDeviceProp properties{};
        rt::check(cudaGetDeviceProperties(&properties, ordinal_), "cudaGetDeviceProperties");
        if (at >= names.size()) names.resize(at + 1);
        names[at] = new std::string{properties.name};
    }
    return *names[at];
}

CUOTA_INLINE std::optional<int> device::host_numa_node() const {
    int node = -1;
    cudaError_t const code = rt::host_numa_id(&node, ordinal_);
    if (code == cudaErrorInvalidValue) {  // the driver or the headers lack the attribute
        (void)cudaGetLastError();
        return std::nullopt;
    }
    rt::check(code, "cudaDeviceGetAttribute");
    return node < 0 ? std::nullopt : std::optional{node};
}

CUOTA_INLINE device_scope::device_scope(device wanted) : before_{device::current()} {
    if (wanted == before_) return;
    if (!rt::has_primary_context(before_.ordinal())) {
        rt::push_primary_context(wanted.ordinal());
        how_ = entered::by_driver;
        return;
    }
    rt::relaxed_capture_mode const beside;
    rt::check(cudaSetDevice(wanted.ordinal()), "cudaSetDevice");
    how_ = entered::by_runtime;
}

CUOTA_INLINE device_scope::~device_scope() {
    if (how_ == entered::by_driver) rt::pop_primary_context();
    if (how_ != entered::by_runtime) return;
    rt::relaxed_capture_mode const beside;
    rt::give_back("cudaSetDevice", [this] { return cudaSetDevice(before_.ordinal()); });
}

CUOTA_INLINE device::memory_info device::memory() const {
    device_scope const here{*this};
    rt::relaxed_capture_mode const beside;
    memory_info info;
    rt::check(cudaMemGetInfo(&info.driver_free, &info.total), "cudaMemGetInfo");
    info.free = uses_host_memory() ? std::min(info.total, rt::host_memory_of(ordinal_)) : info.driver_free;
    return info;
}

CUOTA_INLINE bool device::uses_host_memory() const {
    int is_integrated = 0;
    rt::check(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, ordinal_),
              "cudaDeviceGetAttribute");
    return is_integrated != 0;
}

CUOTA_INLINE int device::compute_capability_major() const {
    int major = 0;
    rt::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal_),
              "cudaDeviceGetAttribute");
    return major;
}

CUOTA_INLINE std::optional<memory_limits> device::limits() const { return rt::limits_of(ordinal_); }

CUOTA_INLINE void device::synchronize() const {
    detail::expect_no_region("cudaDeviceSynchronize");
    detail::capture_delay const delay{*this};
    if (delay.is_too_late())
        detail::throw_usage_error(
            "device::synchronize: not allowed while a stream is being captured, because it "
            "would invalidate the capture; synchronize before or after it");
    device_scope const here{*this};
    rt::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace cuota::inline v0

#endif
