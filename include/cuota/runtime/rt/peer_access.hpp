// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Peer access of kernels to memory of another device; copies do not need it. All throw cuda_error.
#pragma once

#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::rt {

/// Returns whether kernels of `from` can access the other device's memory once enabled; true for the same device. Cost: a CUDA call.
[[nodiscard]] bool can_reach(device from, device memory_of);

/// Enables kernels of `from` to access present and later cudaMalloc memory of the other device, for the life of the process. Throws:
/// cudaErrorPeerAccessUnsupported if the devices cannot.
void allow_reach(device from, device memory_of);

/// Returns the device of the memory at `at` if kernels of `from` may not access it now; nullopt otherwise, or if unknown. Cost: several
/// CUDA calls.
[[nodiscard]] std::optional<device> out_of_reach(device from, void const* at);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/virtual_memory.hpp>

namespace cuota::inline v0::rt {

CUOTA_INLINE bool can_reach(device from, device memory_of) {
    if (from == memory_of) return true;
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, from.ordinal(), memory_of.ordinal()), "cudaDeviceCanAccessPeer");
    return can != 0;
}

CUOTA_INLINE void allow_reach(device from, device memory_of) {
    if (from == memory_of) return;
    device_scope const there{from};
    cudaError_t const code = cudaDeviceEnablePeerAccess(memory_of.ordinal(), 0);
    if (code != cudaErrorPeerAccessAlreadyEnabled) return check(code, "cudaDeviceEnablePeerAccess");
    (void)cudaGetLastError();
}

CUOTA_INLINE std::optional<device> out_of_reach(device from, void const* at) {
    auto const ask = driver::calls().pointer_attribute;
    if (!ask) return std::nullopt;
    device_scope const there{from};
    auto const address = reinterpret_cast<CUdeviceptr>(at);
    unsigned flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (ask(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address) != CUDA_SUCCESS) return std::nullopt;
    if (flags != CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE) return std::nullopt;
    int lies_on = 0;
    driver::check(ask(&lies_on, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), "cuPointerGetAttribute");
    return device{lies_on};
}

}  // namespace cuota::inline v0::rt

#endif
