// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA's versions and devices, or the reason why none is available.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/nvml.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0 {

/// Why no device is available. Example: tests/runtime/cuda_info.sim.cpp
enum class cuda_status {
    none,                   ///< devices are available
    driver_missing_or_old,  ///< the driver is missing or too old
    driver_is_stub,         ///< the toolkit's stub library was loaded
    no_device,              ///< the driver exposes no device
    library_mismatch,       ///< driver library and kernel module differ
    /// The device does not support the forward-compatibility package.
    no_forward_compatibility,
    not_ready,      ///< system services are not running
    not_permitted,  ///< the system denies this process access
    other,          ///< see cuda_info::error
};

/// Properties available without a context. Example: tests/runtime/cuda_info.sim.cpp
struct device_properties {
    int ordinal = 0;        ///< in this process
    std::string name{};     ///< same as device::name
    int major = 0;          ///< major compute capability: 8 of 8.6
    int minor = 0;          ///< minor compute capability: 6 of 8.6
    std::size_t total = 0;  ///< bytes
    std::string pci{};      ///< same as pci_bus_id
};

/// CUDA's state in this process. Versions are encoded like CUDA's: 13020 is 13.2.
/// Example: tests/runtime/cuda_info.sim.cpp
struct cuda_info {
    int built_with = CUDART_VERSION;         ///< version of the headers
    int runtime = 0;                         ///< version of the library; 0: unknown
    int driver = 0;                          ///< newest version that it supports; 0: unknown, or no driver
    cuda_status status = cuda_status::none;  ///< why no device is available
    /// The error behind `status`, for example "cudaErrorNoDevice".
    std::string error{};
    std::vector<device_properties> devices;  ///< by ordinal; ends before a device that failed
};

namespace detail {

[[nodiscard]] constexpr cuda_status status_of(cudaError_t code) noexcept {
    switch (code) {
        case cudaSuccess: return cuda_status::none;
        case cudaErrorInsufficientDriver: return cuda_status::driver_missing_or_old;
        case cudaErrorStubLibrary: return cuda_status::driver_is_stub;
        case cudaErrorNoDevice: return cuda_status::no_device;
        case cudaErrorSystemDriverMismatch: return cuda_status::library_mismatch;
        case cudaErrorCompatNotSupportedOnDevice: return cuda_status::no_forward_compatibility;
        case cudaErrorSystemNotReady: return cuda_status::not_ready;
        case cudaErrorNotPermitted: return cuda_status::not_permitted;
        default: return cuda_status::other;
    }
}

// Returns 0 if unknown.
template <class Call>
[[nodiscard]] int version_by(Call call) noexcept {
    int version = 0;
    if (call(&version) == cudaSuccess) return version;
    (void)cudaGetLastError();
    return 0;
}

}  // namespace detail

/// Queries CUDA without creating a context. Reports failures by value.
/// Threads: any. Throws: std::bad_alloc. Cost: the first CUDA call of a process starts the driver.
/// Example: tests/runtime/cuda_info.sim.cpp
[[nodiscard]] cuda_info query_cuda();

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE cuda_info query_cuda() {
    cuda_info found;
    found.runtime = detail::version_by([](int* v) { return cudaRuntimeGetVersion(v); });
    found.driver = detail::version_by([](int* v) { return cudaDriverGetVersion(v); });
    auto const note = [&found](cudaError_t code) {
        if (code == cudaSuccess) return true;
        (void)cudaGetLastError();
        found.status = detail::status_of(code);
        found.error = cudaGetErrorName(code);
        return false;
    };
    int count = 0;
    if (!note(cudaGetDeviceCount(&count))) return found;
    for (int i = 0; i != count; ++i) {
        cudaDeviceProp p{};
        if (!note(cudaGetDeviceProperties(&p, i))) return found;
        found.devices.push_back({i, p.name, p.major, p.minor, p.totalGlobalMem, rt::pci_text(p)});
    }
    if (count == 0) (void)note(cudaErrorNoDevice);
    return found;
}

}  // namespace cuota::inline v0

#endif
