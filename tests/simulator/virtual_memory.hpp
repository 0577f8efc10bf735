// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "simulator/conformance.hpp"

/// The driver's virtual memory management for tests: its functions as returned by the runtime, and RAII owners.
namespace conformance {

inline CUmemAllocationProp on_device(int index) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.location.id = index;
    return wanted;
}

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

template <class F>
F* entry_point(char const* name) {
    auto status = cudaDriverEntryPointSymbolNotFound;
    void* f = nullptr;
    INFO(name);
    REQUIRE(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &status) == cudaSuccess);
    REQUIRE(f != nullptr);
    return reinterpret_cast<F*>(f);
}

struct driver {
#define CUOTA_ENTRY(member, name) decltype(name)* member = entry_point<decltype(name)>(#name)
    CUOTA_ENTRY(error_name, cuGetErrorName);
    CUOTA_ENTRY(error_string, cuGetErrorString);
    CUOTA_ENTRY(device, cuDeviceGet);
    CUOTA_ENTRY(current, cuCtxGetDevice);
    CUOTA_ENTRY(get_granularity, cuMemGetAllocationGranularity);
    CUOTA_ENTRY(reserve, cuMemAddressReserve);
    CUOTA_ENTRY(free, cuMemAddressFree);
    CUOTA_ENTRY(create, cuMemCreate);
    CUOTA_ENTRY(release, cuMemRelease);
    CUOTA_ENTRY(map, cuMemMap);
    CUOTA_ENTRY(unmap, cuMemUnmap);
    CUOTA_ENTRY(set_access, cuMemSetAccess);
    CUOTA_ENTRY(get_access, cuMemGetAccess);
    CUOTA_ENTRY(retain, cuMemRetainAllocationHandle);
#undef CUOTA_ENTRY

    [[nodiscard]] std::size_t granularity() const {
        std::size_t bytes = 0;
        auto const wanted = on_device(0);
        REQUIRE(get_granularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
        return bytes;
    }
    void open(CUdeviceptr start, std::size_t bytes) const {
        CUmemAccessDesc const wanted{on_device(0).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        REQUIRE(set_access(start, bytes, &wanted, 1) == CUDA_SUCCESS);
    }
};

struct range {
    driver const& d;
    std::size_t bytes;
    CUdeviceptr start = 0;

    range(driver const& use, std::size_t size) : d{use}, bytes{size} {
        REQUIRE(d.reserve(&start, bytes, 0, 0, 0) == CUDA_SUCCESS);
    }
    range(range const&) = delete;
    range& operator=(range const&) = delete;
    ~range() { CHECK(d.free(start, bytes) == CUDA_SUCCESS); }
};

struct memory {
    driver const& d;
    std::size_t bytes;
    CUmemGenericAllocationHandle handle = 0;

    memory(driver const& use, std::size_t size) : d{use}, bytes{size} {
        auto const wanted = on_device(0);
        REQUIRE(d.create(&handle, bytes, &wanted, 0) == CUDA_SUCCESS);
    }
    memory(memory const&) = delete;
    memory& operator=(memory const&) = delete;
    ~memory() { CHECK(d.release(handle) == CUDA_SUCCESS); }
};

/// A mapping of all of `m`, accessible by device 0. Its destructor waits for the device first.
struct mapped {
    driver const& d;
    CUdeviceptr start;
    std::size_t bytes;

    mapped(driver const& use, CUdeviceptr where, memory const& m) : d{use}, start{where}, bytes{m.bytes} {
        REQUIRE(d.map(start, bytes, 0, m.handle, 0) == CUDA_SUCCESS);
        d.open(start, bytes);
    }
    mapped(mapped const&) = delete;
    mapped& operator=(mapped const&) = delete;
    ~mapped() {
        (void)cudaDeviceSynchronize();
        CHECK(d.unmap(start, bytes) == CUDA_SUCCESS);
    }
};

}  // namespace conformance
