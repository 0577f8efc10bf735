// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <cstdint>

#if CUDART_VERSION >= 13000

TEST_CASE("the default pool of a location is that of its device", "[simulator][pools]") {
    cudaMemLocation where{cudaMemLocationTypeDevice, 0};
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location = where;
    cudaMemPool_t asked = nullptr, known = nullptr, current = nullptr;
    REQUIRE(cudaMemPoolCreate(&current, &wanted) == cudaSuccess);
    REQUIRE(cudaDeviceSetMemPool(0, current) == cudaSuccess);
    REQUIRE(cudaMemGetDefaultMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    REQUIRE(cudaDeviceGetDefaultMemPool(&known, 0) == cudaSuccess);
    CHECK(asked == known);
    CHECK(asked != current);
    CHECK(cudaMemPoolDestroy(current) == cudaSuccess);
    where.id = 1000;
    CHECK(cudaMemGetDefaultMemPool(&asked, &where, cudaMemAllocationTypePinned) != cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("managed memory has its own default pool", "[simulator][pools]") {
    cudaMemLocation where{cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool = nullptr, again = nullptr, pinned = nullptr;
    REQUIRE(cudaMemGetDefaultMemPool(&pool, &where, cudaMemAllocationTypeManaged) == cudaSuccess);
    REQUIRE(cudaMemGetDefaultMemPool(&again, &where, cudaMemAllocationTypeManaged) == cudaSuccess);
    REQUIRE(cudaMemGetDefaultMemPool(&pinned, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    CHECK(pool == again);
    CHECK(pool != pinned);
    CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
    (void)cudaGetLastError();

    auto const s = conformance::new_stream();
    void* p = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&p, 1000, pool, s) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(p, 5, 1000, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    cudaPointerAttributes facts{};
    REQUIRE(cudaPointerGetAttributes(&facts, p) == cudaSuccess);
    CHECK(facts.type == cudaMemoryTypeManaged);
    auto* const bytes = static_cast<unsigned char*>(p);
    CHECK(bytes[999] == 5);
    bytes[0] = 6;
    CHECK(conformance::contents(p, 1).front() == 6);
    std::uint64_t used = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
    CHECK(used >= 1000);
    REQUIRE(cudaFreeAsync(p, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
    CHECK(used == 0);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

#endif
