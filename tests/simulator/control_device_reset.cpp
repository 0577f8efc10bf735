// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/graphs.hpp"

#include <cuda.h>

using namespace control;

TEST_CASE("a device reset frees the program's memory and makes its handles invalid", "[simulator][devices]") {
    machine m;
    auto const s = new_stream();
    auto const e = new_event();
    auto* const d = device_memory(1000);
    (void)pinned_memory(100);
    void* managed = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 10) == cudaSuccess);
    begin_capture(s);
    REQUIRE(cudaMemsetAsync(d, 0, 10, s) == cudaSuccess);
    auto const g = end_capture(s);
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, g, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
    bool ran = false;
    REQUIRE(launch(s, "k", [&ran] { ran = true; }) == cudaSuccess);

    CHECK(cudaDeviceReset() == cudaSuccess);
    CHECK(ran);                       // enqueued work has finished
    CHECK(sim::live().total() == 1);  // a graph belongs to no device
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(free_bytes() == sim::shape().capacity);
    CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventQuery(e) == cudaErrorInvalidResourceHandle);
    CHECK(cudaGraphLaunch(exec, nullptr) == cudaErrorInvalidValue);
    CHECK(cudaFree(d) == cudaErrorInvalidValue);
    CHECK(sim::misuse().double_frees == 1);

    auto const again = new_stream();  // the device itself still works
    CHECK(cudaStreamSynchronize(again) == cudaSuccess);
    CHECK(cudaStreamDestroy(again) == cudaSuccess);
}

TEST_CASE("a device reset keeps memory from pools and objects of other devices", "[simulator][devices]") {
    machine m{{.devices = 2}};
    void* pooled = nullptr;
    REQUIRE(cudaMallocAsync(&pooled, 100, nullptr) == cudaSuccess);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    auto* const elsewhere = device_memory(100);
    auto const stream_elsewhere = new_stream();
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    auto const s = new_stream();
    begin_capture(s, cudaStreamCaptureModeGlobal);
    CHECK(cudaDeviceReset() == cudaSuccess);
    CHECK(sim::live().device_allocations == 2);
    CHECK(sim::live().streams == 1);
    CHECK(cudaFreeAsync(pooled, nullptr) == cudaSuccess);
    CHECK(cudaFree(elsewhere) == cudaSuccess);  // no capture is left that would forbid it
    CHECK(cudaStreamDestroy(stream_elsewhere) == cudaSuccess);
}

TEST_CASE("a device reset ends a capture in progress", "[simulator][devices]") {
    machine m{{.devices = 2}};
    auto const here = new_stream(cudaStreamNonBlocking);
    auto const token = std::make_shared<int>(0);
    begin_capture(here);
    REQUIRE(launch(here, "k", [token] {}) == cudaSuccess);
    CHECK(cudaDeviceReset() == cudaSuccess);
    CHECK(token.use_count() == 1);
    CHECK(sim::misuse().bad_captures == 1);
}

TEST_CASE("a pointer's attributes can be queried from the driver, by name or by entry point",
          "[simulator][devices]") {
    machine m;
    auto const s = new_stream();
    auto* const d = static_cast<char*>(device_memory(1000));
    auto* const pinned = pinned_memory(10);
    void *managed = nullptr, *pooled = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 10) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&pooled, 10, s) == cudaSuccess);
    void* entry = nullptr;
    REQUIRE(cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &entry, 12000, cudaEnableDefault,
                                             nullptr) == cudaSuccess);
    CHECK(entry == reinterpret_cast<void*>(&cuPointerGetAttribute));

    auto const at = [](void* p) { return reinterpret_cast<CUdeviceptr>(p); };
    CUmemorytype type{};
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(d)) == CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(pinned)) == CUDA_SUCCESS);
    CHECK(type == CU_MEMORYTYPE_HOST);
    CUdeviceptr start = 0;
    std::size_t bytes = 0;
    CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at(d + 7)) == CUDA_SUCCESS);
    CHECK(start == at(d));
    CHECK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at(d + 7)) == CUDA_SUCCESS);
    CHECK(bytes == 1000);
    bool is_managed = false;
    CHECK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at(managed)) == CUDA_SUCCESS);
    CHECK(is_managed);
    int device = -1;
    CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at(d)) == CUDA_SUCCESS);
    CHECK(device == 0);
    CUmemoryPool pool = nullptr;
    cudaMemPool_t known = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&known, 0) == cudaSuccess);
    CHECK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at(pooled)) == CUDA_SUCCESS);
    CHECK(pool == reinterpret_cast<CUmemoryPool>(known));
    CHECK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at(d)) == CUDA_SUCCESS);
    CHECK(pool == nullptr);
    CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, at(d)) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(&device)) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(sim::calls("cuPointerGetAttribute") == 10);

    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFree(managed) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaFreeAsync(pooled, s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

#if CUDART_VERSION >= 12080
TEST_CASE("a pointer's attributes show whether its memory was allocated for decompression",
          "[simulator][devices]") {
    machine m;
    auto const s = new_stream();
    auto* const plain = device_memory(10);
    auto* const pinned = pinned_memory(10);
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    wanted.usage = cudaMemPoolCreateUsageHwDecompress;
    cudaMemPool_t pool = nullptr;
    void *from_default = nullptr, *from_pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&from_default, 10, s) == cudaSuccess);
    REQUIRE(cudaMallocFromPoolAsync(&from_pool, 10, pool, s) == cudaSuccess);

    auto const capable = [](void* p) {
        bool it_is = false;
        CHECK(cuPointerGetAttribute(&it_is, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
                                    reinterpret_cast<CUdeviceptr>(p)) == CUDA_SUCCESS);
        return it_is;
    };
    CHECK(capable(plain));
    CHECK(capable(from_pool));
    CHECK_FALSE(capable(from_default));
    CHECK_FALSE(capable(pinned));

    for (auto* const p : {from_default, from_pool}) CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(cudaFree(plain) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
#endif

#if CUDART_VERSION >= 13000
TEST_CASE("the current pool of a location is that of its device", "[simulator][pools]") {
    machine m{{.devices = 2}};
    cudaMemLocation where{cudaMemLocationTypeDevice, 0}, other{cudaMemLocationTypeDevice, 1};
    cudaMemPool_t asked = nullptr, known = nullptr, own = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&known, 0) == cudaSuccess);
    CHECK(cudaMemGetMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    CHECK(asked == known);
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location = where;
    REQUIRE(cudaMemPoolCreate(&own, &wanted) == cudaSuccess);
    CHECK(cudaMemSetMemPool(&other, cudaMemAllocationTypePinned, own) == cudaErrorInvalidValue);
    CHECK(cudaMemSetMemPool(&where, cudaMemAllocationTypePinned, own) == cudaSuccess);
    CHECK(cudaDeviceGetMemPool(&asked, 0) == cudaSuccess);
    CHECK(asked == own);
    CHECK(cudaMemGetMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    CHECK(asked == own);
    CHECK(cudaMemPoolDestroy(own) == cudaSuccess);
    CHECK(cudaMemSetMemPool(&where, cudaMemAllocationTypePinned, own) == cudaErrorInvalidValue);
    CHECK(cudaMemGetMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    CHECK(asked == known);
    where.id = 7;
    CHECK(cudaMemGetMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaErrorInvalidDevice);
    where = {cudaMemLocationTypeHost, 0};
    CHECK(cudaMemGetMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaErrorNotSupported);
    (void)cudaGetLastError();
}
#endif

TEST_CASE("managed memory can be attached to a stream only as a whole", "[simulator][managed]") {
    machine m;
    auto const s = new_stream();
    void* managed = nullptr;
    auto* const d = device_memory(16);
    REQUIRE(cudaMallocManaged(&managed, 16) == cudaSuccess);
    CHECK(cudaStreamAttachMemAsync(s, managed) == cudaSuccess);
    CHECK(cudaStreamAttachMemAsync(s, managed, 16, cudaMemAttachHost) == cudaSuccess);
    CHECK(cudaStreamAttachMemAsync(nullptr, managed, 0, cudaMemAttachGlobal) == cudaSuccess);
    CHECK(cudaStreamAttachMemAsync(nullptr, managed, 0, cudaMemAttachSingle) == cudaErrorInvalidValue);
    CHECK(cudaStreamAttachMemAsync(s, managed, 8, cudaMemAttachHost) == cudaErrorInvalidValue);
    CHECK(cudaStreamAttachMemAsync(s, managed, 0, 8) == cudaErrorInvalidValue);
    CHECK(cudaStreamAttachMemAsync(s, d, 0, cudaMemAttachHost) == cudaErrorInvalidValue);
    gate closed{s};
    CHECK(cudaStreamAttachMemAsync(s, managed) == cudaSuccess);  // in stream order, not immediately
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    closed.open();
    CHECK(cudaFree(managed) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
