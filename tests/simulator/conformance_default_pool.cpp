// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#if CUDART_VERSION >= 13000

TEST_CASE("the default pool of a location is that of its device", "[simulator][pools]") {
    cudaMemLocation where{cudaMemLocationTypeDevice, 0};
    cudaMemPool_t asked = nullptr, known = nullptr;
    REQUIRE(cudaMemGetDefaultMemPool(&asked, &where, cudaMemAllocationTypePinned) == cudaSuccess);
    REQUIRE(cudaDeviceGetDefaultMemPool(&known, 0) == cudaSuccess);
    CHECK(asked == known);
    where.id = 1000;
    CHECK(cudaMemGetDefaultMemPool(&asked, &where, cudaMemAllocationTypePinned) != cudaSuccess);
    (void)cudaGetLastError();
}

#endif
