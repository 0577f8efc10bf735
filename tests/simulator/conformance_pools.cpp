// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <cstdint>

using namespace conformance;

namespace {

std::uint64_t ask(cudaMemPool_t pool, cudaMemPoolAttr what) {
    std::uint64_t value = 0;
    REQUIRE(cudaMemPoolGetAttribute(pool, what, &value) == cudaSuccess);
    return value;
}

void set(cudaMemPool_t pool, cudaMemPoolAttr what, std::uint64_t value) {
    REQUIRE(cudaMemPoolSetAttribute(pool, what, &value) == cudaSuccess);
}

cudaMemPool_t new_pool() {
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
    return pool;
}

void* take(cudaMemPool_t pool, std::size_t bytes, cudaStream_t s) {
    void* p = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&p, bytes, pool, s) == cudaSuccess);
    return p;
}

}  // namespace

TEST_CASE("stream-ordered memory can be used by later work of the stream", "[simulator][pools]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const pinned = pinned_memory(100);
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 100, s) == cudaSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    REQUIRE(cudaMemsetAsync(p, 8, 100, s) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(pinned, p, 100, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(pinned[99] == 8);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("allocating and freeing in stream order do not wait", "[simulator][pools]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    gate closed{s};
    void* p = nullptr;
    CHECK(cudaMallocAsync(&p, 100, s) == cudaSuccess);
    CHECK(cudaMemsetAsync(p, 1, 100, s) == cudaSuccess);
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("cudaFree frees stream-ordered memory, too", "[simulator][pools]") {
    auto const pool = new_pool();
    auto const s = new_stream();
    auto* const p = take(pool, MiB, s);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);  // cudaFree does not wait
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a pool keeps free memory up to its threshold when the host synchronises", "[simulator][pools]") {
    auto const pool = new_pool();
    auto const s = new_stream(cudaStreamNonBlocking);
    SECTION("nothing, by default") {
        REQUIRE(cudaFreeAsync(take(pool, 64 * MiB, s), s) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        CHECK(ask(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    }
    SECTION("all of it, until it is trimmed") {
        set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
        REQUIRE(cudaFreeAsync(take(pool, 64 * MiB, s), s) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        CHECK(ask(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
        CHECK(ask(pool, cudaMemPoolAttrReservedMemCurrent) >= 64 * MiB);
        CHECK(ask(pool, cudaMemPoolAttrUsedMemHigh) >= 64 * MiB);
        CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
        CHECK(ask(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
        CHECK(ask(pool, cudaMemPoolAttrReservedMemHigh) >= 64 * MiB);
        set(pool, cudaMemPoolAttrReservedMemHigh, 0);
        set(pool, cudaMemPoolAttrUsedMemHigh, 0);
        CHECK(ask(pool, cudaMemPoolAttrReservedMemHigh) == 0);
        CHECK(ask(pool, cudaMemPoolAttrUsedMemHigh) == 0);
    }
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("memory in use is not affected by trimming or destroying its pool", "[simulator][pools]") {
    auto const pool = new_pool();
    auto const s = new_stream();
    auto* const p = take(pool, 1000, s);
    REQUIRE(cudaMemsetAsync(p, 5, 1000, s) == cudaSuccess);
    CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(all_are(contents(p, 1000), 5));
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a device has a current pool, initially its default pool", "[simulator][pools]") {
    cudaMemPool_t standard = nullptr, current = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&standard, 0) == cudaSuccess);
    REQUIRE(cudaDeviceGetMemPool(&current, 0) == cudaSuccess);
    CHECK(current == standard);
    CHECK(cudaMemPoolDestroy(standard) == cudaErrorInvalidValue);
    (void)cudaGetLastError();

    auto const pool = new_pool();
    auto const s = new_stream();
    REQUIRE(cudaDeviceSetMemPool(0, pool) == cudaSuccess);
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, MiB, s) == cudaSuccess);
    CHECK(ask(pool, cudaMemPoolAttrUsedMemCurrent) >= MiB);
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    REQUIRE(cudaDeviceGetMemPool(&current, 0) == cudaSuccess);
    CHECK(current == standard);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a pool with a maximum size refuses allocations beyond it", "[simulator][pools]") {
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    wanted.maxSize = 64 * MiB;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
    auto const s = new_stream();
    auto* const p = take(pool, 40 * MiB, s);
    void* more = nullptr;
    CHECK(cudaMallocFromPoolAsync(&more, 40 * MiB, pool, s) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaFreeAsync(take(pool, 40 * MiB, s), s) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("the reuse rules of a pool can be read and set", "[simulator][pools]") {
    auto const pool = new_pool();
    for (auto const rule : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                            cudaMemPoolReuseAllowInternalDependencies}) {
        int value = 0;
        CHECK(cudaMemPoolGetAttribute(pool, rule, &value) == cudaSuccess);
        CHECK(value == 1);
        value = 0;
        CHECK(cudaMemPoolSetAttribute(pool, rule, &value) == cudaSuccess);
        value = 7;
        CHECK(cudaMemPoolGetAttribute(pool, rule, &value) == cudaSuccess);
        CHECK(value == 0);
    }
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}
