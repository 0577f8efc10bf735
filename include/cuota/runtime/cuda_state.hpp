// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What CUDA says of itself before anything is asked of a device: versions, devices, and why there are none.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/runtime/call.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/nvml.hpp>

namespace cuota::inline v0 {

/// What kind of trouble keeps a program from its devices, as far as the driver's answer tells.
/// Example: tests/runtime/cuda_state.sim.cpp
enum class cuda_trouble {
    none,                      ///< there are devices
    driver_missing_or_old,     ///< no driver at all, or one that is too old for this program
    driver_is_stub,            ///< the toolkit's stub library was found in place of the driver's
    no_device,                 ///< a driver, and no device that it shows
    library_mismatch,          ///< the driver's library and its kernel module are of different versions
    no_forward_compatibility,  ///< the compatibility package is there, and the device does not support it
    not_ready,                 ///< the machine's services for devices do not run (yet)
    not_permitted,             ///< the system forbids it to this process
    other,                     ///< cuda_state::error says what
};

/// A device, as it is described without work on it. Example: tests/runtime/cuda_state.sim.cpp
struct device_description {
    int ordinal = 0;        ///< as CUDA counts them in this process
    std::string name{};     ///< as device::name
    int major = 0;          ///< compute capability: of 8.6, the 8
    int minor = 0;          ///< and the 6
    std::size_t total = 0;  ///< bytes
    std::string pci{};      ///< as pci_bus_id
};

/// CUDA as this program finds it. Versions as CUDA counts them: 13020 is 13.2.
/// Example: tests/runtime/cuda_state.sim.cpp
struct cuda_state {
    int built_with = CUDART_VERSION;  ///< of the headers that this was compiled with
    int runtime = 0;                  ///< of the library that is linked; 0: not known
    int driver = 0;  ///< the newest CUDA that the driver supports; 0: there is no driver, or it does not say
    cuda_trouble trouble = cuda_trouble::none;  ///< what keeps the program from its devices
    std::string error{};                        ///< the answer that tells of the trouble: "cudaErrorNoDevice"
    std::vector<device_description> devices;    ///< by ordinal; those up to the one that made trouble
};

namespace detail {

[[nodiscard]] constexpr cuda_trouble trouble_of(cudaError_t code) noexcept {
    switch (code) {
        case cudaSuccess: return cuda_trouble::none;
        case cudaErrorInsufficientDriver: return cuda_trouble::driver_missing_or_old;
        case cudaErrorStubLibrary: return cuda_trouble::driver_is_stub;
        case cudaErrorNoDevice: return cuda_trouble::no_device;
        case cudaErrorSystemDriverMismatch: return cuda_trouble::library_mismatch;
        case cudaErrorCompatNotSupportedOnDevice: return cuda_trouble::no_forward_compatibility;
        case cudaErrorSystemNotReady: return cuda_trouble::not_ready;
        case cudaErrorNotPermitted: return cuda_trouble::not_permitted;
        default: return cuda_trouble::other;
    }
}

// 0 where it is not told. Clears the error.
template <class Call>
[[nodiscard]] int version_by(Call call) noexcept {
    int version = 0;
    if (call(&version) == cudaSuccess) return version;
    (void)cudaGetLastError();
    return 0;
}

}  // namespace detail

/// Looks, and makes no context on any device. What fails is a part of the answer: a program can print it and end.
/// Threads: any. Throws: std::bad_alloc. Cost: the first call of CUDA in a process starts its driver, which takes long.
/// Example: tests/runtime/cuda_state.sim.cpp
[[nodiscard]] cuda_state look_at_cuda();

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE cuda_state look_at_cuda() {
    cuda_state found;
    found.runtime = detail::version_by([](int* v) { return cudaRuntimeGetVersion(v); });
    found.driver = detail::version_by([](int* v) { return cudaDriverGetVersion(v); });
    auto const note = [&found](cudaError_t code) {
        if (code == cudaSuccess) return true;
        (void)cudaGetLastError();
        found.trouble = detail::trouble_of(code);
        found.error = cudaGetErrorName(code);
        return false;
    };
    int count = 0;
    if (!note(cudaGetDeviceCount(&count))) return found;
    for (int i = 0; i != count; ++i) {
        cudaDeviceProp p{};
        if (!note(cudaGetDeviceProperties(&p, i))) return found;
        found.devices.push_back({i, p.name, p.major, p.minor, p.totalGlobalMem, detail::pci_text(p)});
    }
    if (count == 0) (void)note(cudaErrorNoDevice);
    return found;
}

}  // namespace cuota::inline v0

#endif
