// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#if CUDART_VERSION >= 13000

using namespace control;

TEST_CASE("a prefetch runs in stream order", "[simulator][managed]") {
    machine m;
    auto const s = new_stream();
    void* p = nullptr;
    REQUIRE(cudaMallocManaged(&p, 64 * KiB) == cudaSuccess);
    {
        sim::hold closed;
        REQUIRE(cudaMemPrefetchAsync(p, 64 * KiB, {cudaMemLocationTypeDevice, 0}, 0, s) == cudaSuccess);
        CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    }
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

#endif
