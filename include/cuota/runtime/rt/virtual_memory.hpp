// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Virtual memory management of the driver: reserved address ranges, and physical memory mapped into them. All may throw cuda_error. For
/// pool/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/device_set.hpp>

namespace cuota::inline v0::rt {

/// Returns whether the device supports it.
[[nodiscard]] bool supports_virtual_memory(device where);

/// Returns the mapping granularity in bytes: a power of two, usually 2 MiB.
[[nodiscard]] std::size_t page_size(device where);

/// Owns reserved addresses without memory. Mappings in it must be unmapped before it is destroyed. Move-only; empty after a move. Threads:
/// one at a time. Cost: a driver call to construct and to destroy it.
/// Example: tests/runtime/rt/virtual_memory.sim.cpp
class address_range {
public:
    address_range() noexcept = default;  ///< empty
    /// Reserves `bytes` bytes, a multiple of page_size(where). Empty if the driver has no such range.
    address_range(device where, std::size_t bytes);
    /// Transfers ownership.
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

/// Physical memory to map.
struct physical_memory {
    device where;              ///< the device
    bool is_for_rdma = false;  ///< accessible by GPUDirect RDMA
};

/// Returns the properties for a device, with GPUDirect RDMA if supported for mapped memory. Cost: two driver calls.
[[nodiscard]] physical_memory physical_memory_of(device where);

/// Maps `bytes` new bytes (whole pages), which can only be unmapped as a whole and must not be accessed before allow_access. Returns false
/// if memory is insufficient. On failure, nothing is mapped. Cost: three driver calls, for any size.
[[nodiscard]] bool map_memory(physical_memory const& of, void* at, std::size_t bytes);

/// Returns whether the driver has `bytes` (whole pages) for the device now: allocates and frees them without a mapping. Without virtual
/// memory, by its figure of free memory. Cost: three driver calls.
[[nodiscard]] bool has_room(device where, std::size_t bytes);

/// Unmaps adjacent mappings, each as a whole, and frees their memory, which no work may still use. Returns false if that failed, which is
/// reported; everything is still mapped. Cost: one driver call.
bool unmap_memory(void* at, std::size_t bytes) noexcept;

/// Allows kernels and copies of these devices to access adjacent mappings. Cost: one driver call.
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

namespace driver {

/// Driver functions. From the first one that the driver lacks, all are null.
struct call_table {
    decltype(&cuDeviceGet) device_get;
    decltype(&cuDeviceGetAttribute) device_attribute;
    decltype(&cuMemGetAllocationGranularity) granularity;
    decltype(&cuMemAddressReserve) reserve;
    decltype(&cuMemAddressFree) free;
    decltype(&cuMemCreate) create;
    decltype(&cuMemRelease) release;  ///< mappings keep the memory
    decltype(&cuMemMap) map;
    decltype(&cuMemUnmap) unmap;
    decltype(&cuMemSetAccess) set_access;
    decltype(&cuPointerGetAttribute) pointer_attribute;
    bool is_complete;
};

[[nodiscard]] call_table find_calls();

/// Looks the functions up once. Threads: any. Throws: cuda_error.
[[nodiscard]] call_table const& calls();

[[nodiscard]] CUmemAllocationProp properties_of(physical_memory const& of) noexcept;

[[nodiscard]] bool has_attribute(device where, CUdevice_attribute which);

/// A mapping keeps the memory.
struct physical_traits {
    using type = CUmemGenericAllocationHandle;
    static type none() noexcept { return 0; }
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
    (void)where.memory();  // starts driver and device
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

CUOTA_INLINE bool has_room(device where, std::size_t bytes) {
    if (where.memory().free < bytes) return false;
    if (!supports_virtual_memory(where)) return true;
    relaxed_capture_mode const beside;
    CUmemAllocationProp const wanted = driver::properties_of({where});
    CUmemGenericAllocationHandle made = 0;
    CUresult const code = driver::calls().create(&made, bytes, &wanted, 0);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return false;
    driver::check(code, "cuMemCreate");
    driver::physical_traits::close(made);
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
