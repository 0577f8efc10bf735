// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The driver's virtual-memory calls: addresses without memory, and pages of memory mapped there. They are asked of the
/// runtime by name, so nothing is linked to the driver's library.
/// For pool/, which makes typed errors and accounts of them; programs use the pools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/device_set.hpp>

namespace cuota::inline v0::rt {

/// Whether the device has virtual memory that programs can map. Throws: cuda_error.
[[nodiscard]] bool supports_virtual_memory(device where);

/// What the device maps memory in multiples of: 2 MiB as a rule. Bytes; a power of two. Throws: cuda_error.
[[nodiscard]] std::size_t page_size(device where);

/// Addresses that nothing else gets while this lives, and that nothing is behind. What was mapped there must be unmapped
/// before it ends. Move-only; moved-from is empty.
/// Threads: one at a time. Cost: a call of the driver to make it, and one at its end.
/// Example: tests/runtime/virtual_memory.sim.cpp
class address_range {
public:
    address_range() noexcept = default;  ///< empty
    /// Whole pages of the device. Empty when the driver has no such addresses left. Throws: cuda_error.
    address_range(device where, std::size_t bytes);
    /// Takes over the addresses: other is empty then.
    address_range(address_range&& other) noexcept;
    /// Gives back what it had, and takes over the other.
    address_range& operator=(address_range&& other) noexcept;
    ~address_range() { give_back(); }

    /// Its first address; null when empty.
    [[nodiscard]] std::byte* at() const noexcept { return reinterpret_cast<std::byte*>(at_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  ///< 0 when empty

private:
    void give_back() noexcept;

    unsigned long long at_ = 0;  // a CUdeviceptr
    std::size_t bytes_ = 0;
};

/// What memory is made of before it is mapped.
struct physical_memory {
    device where;              ///< whose memory it is
    bool is_for_rdma = false;  ///< GPUDirect RDMA may reach it, where the device can do that
};

/// Of a device, for GPUDirect RDMA where it can do that with mapped memory: network cards and file systems read and write it
/// without the host. Throws: cuda_error. Cost: two calls of the driver.
[[nodiscard]] physical_memory physical_memory_of(device where);

/// Allocates whole pages of memory and maps them as one: they can be unmapped only together. Nothing may use them before
/// allow_access. False, and nothing is mapped, when the device has too little.
/// Throws: cuda_error; nothing is mapped then. Cost: three calls of the driver, whatever the size.
[[nodiscard]] bool map_memory(physical_memory const& of, void* at, std::size_t bytes);

/// Unmaps one mapping, or several side by side, each as a whole, and releases their memory. It waits for nothing: no work may
/// still use it. False when it could not be unmapped, which is reported: all is mapped as before.
/// Cost: one call of the driver.
bool unmap_memory(void* at, std::size_t bytes) noexcept;

/// Lets kernels and copies of these devices use mappings side by side. Throws: cuda_error. Cost: one call of the driver.
void allow_access(device_set who, void* at, std::size_t bytes);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <array>
#include <type_traits>

#include <cuda.h>

#include <cuota/core/handle.hpp>
#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/driver_call.hpp>

namespace cuota::inline v0::rt {

/// The driver's own calls, which the runtime finds by name.
namespace driver {

/// The driver's functions that are used here, each under its name; null from the first on that it lacks.
struct call_table {
    decltype(&cuDeviceGet) device_get;                     ///< its handle of an ordinal
    decltype(&cuDeviceGetAttribute) device_attribute;      ///< whether it can map
    decltype(&cuMemGetAllocationGranularity) granularity;  ///< bytes of a page
    decltype(&cuMemAddressReserve) reserve;                ///< addresses without memory
    decltype(&cuMemAddressFree) free;                      ///< of reserve
    decltype(&cuMemCreate) create;                         ///< memory without an address
    decltype(&cuMemRelease) release;                       ///< of create; a mapping keeps it
    decltype(&cuMemMap) map;                               ///< memory to an address
    decltype(&cuMemUnmap) unmap;                           ///< of map
    decltype(&cuMemSetAccess) set_access;                  ///< who may use what is mapped
    decltype(&cuPointerGetAttribute) pointer_attribute;    ///< who may use what lies at an address
    bool is_complete;                                      ///< it has them all
};

/// Asks the runtime for all of them. Throws: cuda_error.
[[nodiscard]] call_table find_calls();

/// Asked for once; again when the driver did not answer. Threads: any. Throws: cuda_error.
[[nodiscard]] call_table const& calls();

/// What is asked of the driver: memory that stays on the device.
[[nodiscard]] CUmemAllocationProp properties_of(physical_memory const& of) noexcept;

/// Throws: cuda_error.
[[nodiscard]] bool has_attribute(device where, CUdevice_attribute which);

/// What stands for physical memory until it is mapped: a mapping keeps the memory by itself.
struct physical_traits {
    using type = CUmemGenericAllocationHandle;  ///< the driver's
    static type none() noexcept { return 0; }   ///< no memory
    /// Its memory goes with the last mapping.
    static void close(type memory) noexcept;
};

}  // namespace driver

}  // namespace cuota::inline v0::rt

namespace cuota::inline v0::rt::driver {

static_assert(std::is_same_v<CUdeviceptr, unsigned long long>);  // address_range has one

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
    (void)where.memory();  // starts the driver, and the device
    return driver::calls().is_complete &&
           driver::has_attribute(where, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
}

CUOTA_INLINE std::size_t page_size(device where) {
    beside_capture const beside;
    CUmemAllocationProp const wanted = driver::properties_of({where});
    std::size_t bytes = 0;
    driver::check(driver::calls().granularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity");
    return bytes;
}

CUOTA_INLINE address_range::address_range(device where, std::size_t bytes) {
    device_scope const here{where};
    beside_capture const beside;
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
    beside_capture const beside;
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
    beside_capture const beside;
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
