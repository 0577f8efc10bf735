// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/older_toolkits.hpp>

#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"

static_assert(CUDART_VERSION >= CUOTA_OLDEST_CUDA);

TEST_CASE("driver_entry_point finds a driver function by name and version", "[runtime][older_toolkits]") {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    REQUIRE(cuota::rt::driver_entry_point("cuMemMap", &found, 10020, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointSuccess);
    CHECK(found != nullptr);
    REQUIRE(cuota::rt::driver_entry_point("cuMemMap", &found, 9000, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointVersionNotSufficent);
    CHECK(found == nullptr);
    REQUIRE(cuota::rt::driver_entry_point("cuNoSuchFunction", &found, 12000, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointSymbolNotFound);
    CHECK(found == nullptr);
}

TEST_CASE("device_of_stream is the device on which the stream was made", "[runtime][older_toolkits]") {
    cuota::stream const s;
    int device = -1;
    REQUIRE(cuota::rt::device_of_stream(s.get(), &device) == cudaSuccess);
    int current = -1;
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(device == current);
}

TEST_CASE("host_numa_id is a node, or the driver or the headers lack the attribute",
          "[runtime][older_toolkits]") {
    int node = -2;
    cudaError_t const code = cuota::rt::host_numa_id(&node, 0);
    if (code == cudaErrorInvalidValue) (void)cudaGetLastError();
    else REQUIRE(code == cudaSuccess);
    CHECK((node >= -1) == (code == cudaSuccess));
    CHECK(cuota::rt::host_numa_id(&node, 1'000'000) != cudaSuccess);
    (void)cudaGetLastError();
}
