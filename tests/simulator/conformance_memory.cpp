// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <cstdint>
#include <limits>

using namespace conformance;

namespace {

struct device_bytes {
    std::size_t free = 0, total = 0;
};

/// Queries memory once no work is pending that would free some. Other programs may allocate and free at any time.
device_bytes memory_info() {
    device_bytes now;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemGetInfo(&now.free, &now.total) == cudaSuccess);
    return now;
}

cudaPointerAttributes attributes(void const* p) {
    cudaPointerAttributes a{};
    REQUIRE(cudaPointerGetAttributes(&a, p) == cudaSuccess);
    return a;
}

}  // namespace

TEST_CASE("device memory is aligned and reduces the free memory of the device", "[simulator][memory]") {
    constexpr std::size_t bytes = std::size_t{8} << 20;
    auto* const p = device_memory(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    auto const [free, total] = memory_info();
    CHECK(free <= total - bytes);
    CHECK(cudaFree(p) == cudaSuccess);
}

TEST_CASE("allocating zero bytes returns null, and freeing null succeeds", "[simulator][memory]") {
    void* p = &p;
    CHECK(cudaMalloc(&p, 0) == cudaSuccess);
    CHECK(p == nullptr);
    CHECK(cudaFree(nullptr) == cudaSuccess);
    CHECK(cudaFreeHost(nullptr) == cudaSuccess);
}

TEST_CASE("an allocation that does not fit fails with out of memory", "[simulator][memory]") {
    void* p = nullptr;
    CHECK(cudaMalloc(&p, memory_info().total + 1) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    auto const most = std::numeric_limits<std::size_t>::max();
    CHECK(cudaMalloc(&p, most) != cudaSuccess);  // may be an invalid value if rounding overflows
    CHECK(cudaMallocHost(&p, most / 2) != cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("freeing a pointer that is not an allocation's start is an invalid value", "[simulator][memory]") {
    auto* const p = static_cast<char*>(device_memory(1000));
    auto* const pinned = pinned_memory(1000);
    int local = 0;
    CHECK(cudaFree(&local) == cudaErrorInvalidValue);
    CHECK(cudaFree(p + 256) == cudaErrorInvalidValue);
    CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
    CHECK(cudaFreeHost(p) == cudaErrorInvalidValue);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFree(p) == cudaErrorInvalidValue);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("a pointer's attributes have the kind of its memory", "[simulator][memory]") {
    auto* const p = static_cast<char*>(device_memory(1000));
    auto* const pinned = pinned_memory(1000);
    void* managed = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 1000, cudaMemAttachGlobal) == cudaSuccess);
    int local = 0;

    CHECK(attributes(p).type == cudaMemoryTypeDevice);
    CHECK(attributes(p + 999).type == cudaMemoryTypeDevice);
    CHECK(attributes(p).devicePointer == p);
    CHECK(attributes(p).hostPointer == nullptr);
    CHECK(attributes(p).device == 0);
    CHECK(attributes(pinned).type == cudaMemoryTypeHost);
    CHECK(attributes(pinned).hostPointer == pinned);
    CHECK(attributes(managed).type == cudaMemoryTypeManaged);
    CHECK(attributes(managed).hostPointer == managed);
    CHECK(attributes(&local).type == cudaMemoryTypeUnregistered);

    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFree(managed) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("managed memory is accessible by the host and the device", "[simulator][memory]") {
    void* managed = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal) == cudaSuccess);
    auto* const bytes = static_cast<unsigned char*>(managed);
    REQUIRE(cudaMemset(managed, 5, 100) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(bytes[99] == 5);
    bytes[0] = 6;
    CHECK(contents(managed, 1).front() == 6);
    CHECK(cudaMallocManaged(&managed, 100, 0x40) == cudaErrorInvalidValue);
    CHECK(cudaFree(bytes) == cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("pinned memory has flags and a device address", "[simulator][memory]") {
    void* p = nullptr;
    REQUIRE(cudaHostAlloc(&p, 100, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess);
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, p) == cudaSuccess);
    CHECK((flags & cudaHostAllocPortable) != 0);
    void* seen_by_device = nullptr;
    CHECK(cudaHostGetDevicePointer(&seen_by_device, p, 0) == cudaSuccess);
    CHECK(seen_by_device == p);
    CHECK(cudaHostGetDevicePointer(&seen_by_device, &flags, 0) == cudaErrorInvalidValue);
    CHECK(cudaHostAlloc(&p, 100, 0x80) == cudaErrorInvalidValue);
    CHECK(cudaFreeHost(seen_by_device) == cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("registered memory is pinned until it is unregistered", "[simulator][memory]") {
    alignas(4096) static unsigned char page[8192];
    CHECK(attributes(page).type == cudaMemoryTypeUnregistered);
    REQUIRE(cudaHostRegister(page, sizeof page, cudaHostRegisterDefault) == cudaSuccess);
    CHECK(attributes(page + 5000).type == cudaMemoryTypeHost);
    CHECK(cudaHostRegister(page, 100, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
    CHECK(cudaHostUnregister(page) == cudaSuccess);
    CHECK(cudaHostUnregister(page) == cudaErrorHostMemoryNotRegistered);
    CHECK(attributes(page).type == cudaMemoryTypeUnregistered);
    (void)cudaGetLastError();
}
