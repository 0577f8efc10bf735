// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Virtual memory management of the driver: reserved address ranges, and physical memory mapped into them. The functions are looked up by
/// name, so nothing is linked to the driver's library. For pool/, which adds typed errors and accounting; programs use the pools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/device_set.hpp>

namespace cuota::inline v0::rt {

/// Returns whether the device supports virtual memory management. Throws: cuda_error.
[[nodiscard]] bool supports_virtual_memory(device where);

/// Returns the mapping granularity of the device in bytes: a power of two, usually 2 MiB. Throws: cuda_error.
[[nodiscard]] std::size_t page_size(device where);

/// Owns reserved addresses without memory. Mappings in it must be unmapped before it is destroyed. Move-only; empty after a move.
/// Threads: one at a time. Cost: a driver call to construct it and one to destroy it.
/// Example: tests/runtime/rt/virtual_memory.sim.cpp
class address_range {
public:
    address_range() noexcept = default;  ///< empty
    /// Reserves `bytes` bytes, a multiple of page_size(where). Empty if the driver has no such range. Throws: cuda_error.
    address_range(device where, std::size_t bytes);
    /// Transfers ownership; `other` is empty afterwards.
    address_range(address_range&& other) noexcept;
    /// Releases the current range and transfers ownership.
    address_range& operator=(address_range&& other) noexcept;
    ~address_range() { give_back(); }

    /// Returns the first address; null if empty.
    [[nodiscard]] std::byte* at() const noexcept { return reinterpret_cast<std::byte*>(at_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  ///< 0 if empty

private:
    void give_back() noexcept;

    unsigned long long at_ = 0;  // a CUdeviceptr
    std::size_t bytes_ = 0;
};

/// Properties of physical memory to map.
struct physical_memory {
    device where;              ///< the device
    bool is_for_rdma = false;  ///< accessible by GPUDirect RDMA, if the device supports it
};

/// Returns the properties for a device, with GPUDirect RDMA (access by network cards and file systems without the host) if the device
/// supports it for mapped memory. Throws: cuda_error. Cost: two driver calls.
[[nodiscard]] physical_memory physical_memory_of(device where);

/// Allocates `bytes` bytes (whole pages) and maps them as one mapping, which can only be unmapped as a whole. It may be accessed only after
/// allow_access. Returns false, with nothing mapped, if memory is insufficient.
/// Throws: cuda_error; nothing is mapped. Cost: three driver calls, independent of the size.
[[nodiscard]] bool map_memory(physical_memory const& of, void* at, std::size_t bytes);

/// Unmaps one or several adjacent mappings, each as a whole, and frees their memory. Does not wait: no work may still use it. Returns
/// false, with everything still mapped, if that failed, which is reported. Cost: one driver call.
bool unmap_memory(void* at, std::size_t bytes) noexcept;

/// Allows kernels and copies of these devices to access adjacent mappings. Throws: cuda_error. Cost: one driver call.
void allow_access(device_set who, void* at, std::size_t bytes);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <array>
#include <type_traits>

#include <cuda.h>

#include <cuota/core/unique_handle.hpp>
#include <cuota/runtime/rt/driver_call.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::rt {

/// Driver functions, looked up by name.
namespace driver {

/// The driver functions used here. From the first one that the driver lacks, all are null.
struct call_table {
    decltype(&cuDeviceGet) device_get;                     ///< returns the handle of an ordinal
    decltype(&cuDeviceGetAttribute) device_attribute;      ///< queries support for mappings
    decltype(&cuMemGetAllocationGranularity) granularity;  ///< returns the page size
    decltype(&cuMemAddressReserve) reserve;                ///< reserves addresses
    decltype(&cuMemAddressFree) free;                      ///< undoes reserve
    decltype(&cuMemCreate) create;                         ///< allocates physical memory
    decltype(&cuMemRelease) release;                       ///< undoes create; mappings keep the memory
    decltype(&cuMemMap) map;                               ///< maps memory at an address
    decltype(&cuMemUnmap) unmap;                           ///< undoes map
    decltype(&cuMemSetAccess) set_access;                  ///< sets which devices may access a mapping
    decltype(&cuPointerGetAttribute) pointer_attribute;    ///< queries which devices may access an address
    bool is_complete;                                      ///< all were found
};

/// Looks all of them up. Throws: cuda_error.
[[nodiscard]] call_table find_calls();

/// Looks the functions up once; an attempt that throws is repeated. Threads: any. Throws: cuda_error.
[[nodiscard]] call_table const& calls();

/// Pinned device memory.
[[nodiscard]] CUmemAllocationProp properties_of(physical_memory const& of) noexcept;

/// Throws: cuda_error.
[[nodiscard]] bool has_attribute(device where, CUdevice_attribute which);

/// Owns a handle of physical memory until it is mapped; a mapping keeps the memory by itself.
struct physical_traits {
    using type = CUmemGenericAllocationHandle;  ///< the driver's handle
    static type none() noexcept { return 0; }   ///< no memory
    /// Releases the handle; the memory is freed with the last mapping.
    static void close(type memory) noexcept;
};

}  // namespace driver

}  // namespace cuota::inline v0::rt

namespace cuota::inline v0::rt::driver {

static_assert(std::is_same_v<CUdeviceptr, unsigned long long>);  // the type of address_range::at_

CUOTA_INLINE call_table find_calls() {
    constexpr unsigned since = 10020;
    call_table calls{};
    calls.is_complete =
        find_call(calls.device_get, "cuDeviceGet", 2000) &&
        find_call(calls.device_attribute, "cuDeviceGetAttribute", 2000) &&
        find_call(calls.granularity, "cuMemGetAllocationGranularity", since) &&
        find_call(calls.reserve, "cuMemAddressReserve", since) &&
        find_call(calls.free, "cuMemAddressFree", since) && find_call(calls.create, "cuMemCreate", since) &&
        find_call(calls.release, "cuMemRelease", since) && find_call(calls.map, "cuMemMap", since) &&
        find_call(calls.unmap, "cuMemUnmap", since) && find_call(calls.set_access, "cuMemSetAccess", since) &&
        find_call(calls.pointer_attribute, "cuPointerGetAttribute", 4000);
    return calls;
}

CUOTA_INLINE call_table const& calls() {
    static call_table const found = find_calls();
    return found;
}

CUOTA_INLINE CUmemAllocationProp properties_of(physical_memory const& of) noexcept {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.location.id = of.where.ordinal();
    wanted.allocFlags.gpuDirectRDMACapable = of.is_for_rdma;
    return wanted;
}

CUOTA_INLINE bool has_attribute(device where, CUdevice_attribute which) {
    CUdevice ordinal = 0;
    int yes = 0;
    driver::check(calls().device_get(&ordinal, where.ordinal()), "cuDeviceGet");
    driver::check(calls().device_attribute(&yes, which, ordinal), "cuDeviceGetAttribute");
    return yes != 0;
}

CUOTA_INLINE void physical_traits::close(type memory) noexcept {
    driver::give_back("cuMemRelease", [memory] { return calls().release(memory); });
}

}  // namespace cuota::inline v0::rt::driver

namespace cuota::inline v0::rt {

CUOTA_INLINE bool supports_virtual_memory(device where) {
    (void)where.memory();  // starts the driver and the device
    return driver::calls().is_complete &&
           driver::has_attribute(where, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
}

CUOTA_INLINE std::size_t page_size(device where) {
    relaxed_capture_mode const beside;
    CUmemAllocationProp const wanted = driver::properties_of({where});
    std::size_t bytes = 0;
    driver::check(driver::calls().granularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity");
    return bytes;
}

CUOTA_INLINE address_range::address_range(device where, std::size_t bytes) {
    device_scope const here{where};
    relaxed_capture_mode const beside;
    CUdeviceptr at = 0;
    CUresult const code = driver::calls().reserve(&at, bytes, 0, 0, 0);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return;
    driver::check(code, "cuMemAddressReserve");
    at_ = at;
    bytes_ = bytes;
}

CUOTA_INLINE address_range::address_range(address_range&& other) noexcept
    : at_{std::exchange(other.at_, 0)}, bytes_{std::exchange(other.bytes_, 0)} {}

CUOTA_INLINE address_range& address_range::operator=(address_range&& other) noexcept {
    if (this != &other) {
        give_back();
        at_ = std::exchange(other.at_, 0);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

CUOTA_INLINE void address_range::give_back() noexcept {
    if (bytes_ != 0)
        driver::give_back("cuMemAddressFree", [this] { return driver::calls().free(at_, bytes_); });
}

CUOTA_INLINE physical_memory physical_memory_of(device where) {
    return {where, driver::has_attribute(where, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)};
}

CUOTA_INLINE bool map_memory(physical_memory const& of, void* at, std::size_t bytes) {
    relaxed_capture_mode const beside;
    driver::call_table const& native = driver::calls();
    CUmemAllocationProp const wanted = driver::properties_of(of);
    CUmemGenericAllocationHandle made = 0;
    CUresult code = native.create(&made, bytes, &wanted, 0);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return false;
    driver::check(code, "cuMemCreate");
    unique_handle<driver::physical_traits> const memory{made};
    code = native.map(reinterpret_cast<CUdeviceptr>(at), bytes, 0, made, 0);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return false;
    driver::check(code, "cuMemMap");
    return true;
}

CUOTA_INLINE bool unmap_memory(void* at, std::size_t bytes) noexcept {
    return driver::give_back("cuMemUnmap",
                             [&] { return driver::calls().unmap(reinterpret_cast<CUdeviceptr>(at), bytes); });
}

CUOTA_INLINE void allow_access(device_set who, void* at, std::size_t bytes) {
    relaxed_capture_mode const beside;
    std::array<CUmemAccessDesc, device_set::most> access;
    std::size_t count = 0;
    who.for_each([&](device one) {
        access[count++] = {driver::properties_of({one}).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    });
    driver::check(driver::calls().set_access(reinterpret_cast<CUdeviceptr>(at), bytes, access.data(), count),
                  "cuMemSetAccess");
}

}  // namespace cuota::inline v0::rt

#endif
