// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Devices: which one is current, what it is called, how much memory its driver has.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/runtime/call.hpp>

namespace cuota::inline v0 {

/// A device by its ordinal. A value; owns nothing, and may name one that is not there: what is asked of it throws then.
/// Threads: any. Throws: cuda_error. Cost: a call of CUDA or a few for each question; `name` is kept.
/// Example: tests/runtime/device.cpp
class device {
public:
    constexpr explicit device(int ordinal) noexcept : ordinal_{ordinal} {}  ///< as CUDA counts, from 0

    /// The calling thread's current device. Throws: cuda_error.
    [[nodiscard]] static device current();
    /// How many there are; 0 on a machine without any. Throws: cuda_error when the driver is missing or too old.
    [[nodiscard]] static int count();

    [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }  ///< from 0

    /// The marketing name; "simulated" on the simulator. Asked of the driver once. Throws: cuda_error.
    CUOTA_PROCESS_STATE [[nodiscard]] std::string const& name() const;

    /// Both of one moment; other programs may change it at once.
    struct memory_info {
        std::size_t free = 0;   ///< bytes the driver has left, for every program
        std::size_t total = 0;  ///< bytes of the device
    };
    /// The driver's view of this device's memory, now. Throws: cuda_error.
    [[nodiscard]] memory_info memory() const;

    /// The NUMA node of the host memory that is nearest to this device; nothing where the driver tells none, or is too old
    /// to know. Throws: cuda_error for a device that is not there.
    [[nodiscard]] std::optional<int> host_node() const;

    /// Waits for everything enqueued on this device by this process. Throws: cuda_error; misuse in a `capture` of any thread.
    void synchronize() const;

    friend constexpr bool operator==(device, device) noexcept = default;  ///< by ordinal

private:
    int ordinal_;
};

/// Makes a device current for the calling thread until the scope ends. Throws: cuda_error; nothing changed then.
///
/// Afterwards the thread's current device is the one before. When that device has no context, because the program has not used it,
/// none is created there: since CUDA 12 cudaSetDevice would.
/// Threads: the one that made it. Cost: a call of CUDA, and three more when another device was current.
/// Example: tests/runtime/device.cpp
class device_scope {
public:
    /// Nothing is changed, then or later, when it is current already.
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

#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/primary_context.hpp>

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

CUOTA_INLINE std::string const& device::name() const {
    static auto& guard = *new detail::process_lock;
    static auto& names =
        *new detail::dynamic_array<std::string const*>;  // by the ordinal; kept until the program has ended
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

CUOTA_INLINE std::optional<int> device::host_node() const {
    int node = -1;
    cudaError_t const code = cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, ordinal_);
    if (code == cudaErrorInvalidValue) {  // what a driver says that does not know the attribute
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
    rt::beside_capture const beside;
    rt::check(cudaSetDevice(wanted.ordinal()), "cudaSetDevice");
    how_ = entered::by_runtime;
}

CUOTA_INLINE device_scope::~device_scope() {
    if (how_ == entered::by_driver) rt::pop_primary_context();
    if (how_ != entered::by_runtime) return;
    rt::beside_capture const beside;
    rt::give_back("cudaSetDevice", [this] { return cudaSetDevice(before_.ordinal()); });
}

CUOTA_INLINE device::memory_info device::memory() const {
    device_scope const here{*this};
    rt::beside_capture const beside;
    memory_info info;
    rt::check(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
    return info;
}

CUOTA_INLINE void device::synchronize() const {
    if (detail::captured_streams::are_any())
        detail::throw_misuse(
            "a device was to be waited for while a stream is captured, which would spoil that");
    device_scope const here{*this};
    rt::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace cuota::inline v0

#endif
