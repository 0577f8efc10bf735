// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/runtime/rt/older_toolkits.hpp>

#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"

// make matrix runs these tests with the headers of the oldest toolkit, where the substitutes are compiled.

namespace rt = cuota::rt;

TEST_CASE("a driver function is found by name and version", "[runtime][older_toolkits]") {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    REQUIRE(rt::driver_entry_point("cuMemMap", &found, 12000, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointSuccess);
    CHECK(found != nullptr);
    REQUIRE(rt::driver_entry_point("cuMemMap", &found, 10000, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointVersionNotSufficent);
    REQUIRE(rt::driver_entry_point("cuMemMapp", &found, 12000, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointSymbolNotFound);
}

TEST_CASE("the device of a stream is found, and the current device is unchanged",
          "[runtime][older_toolkits]") {
    int devices = 0;
    REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
    for (int const device : {devices - 1, 0}) {
        cudaStream_t native = nullptr;
        REQUIRE(cudaSetDevice(device) == cudaSuccess);
        REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        int found = -1;
        CHECK(rt::device_of_stream(native, &found) == cudaSuccess);
        CHECK(found == device);
        CHECK(cuota::device::current().ordinal() == 0);
        CHECK(cudaStreamDestroy(native) == cudaSuccess);
    }
}

TEST_CASE("the host's NUMA node of a device is found with headers that have the attribute",
          "[runtime][older_toolkits]") {
    int node = 0;
    cudaError_t const code = rt::host_numa_id(&node, 0);
    (void)cudaGetLastError();
    if (CUDART_VERSION < 12020) CHECK(code == cudaErrorInvalidValue);
    else CHECK((code == cudaSuccess || code == cudaErrorInvalidValue));
}

TEST_CASE("parameters of a kernel are not reported without the function", "[runtime][older_toolkits]") {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    cudaError_t const code = rt::parameter_info(nullptr, 0, &offset, &bytes);
    (void)cudaGetLastError();
    CHECK(code == (CUDART_VERSION < 12040 ? cudaErrorNotSupported : cudaErrorInvalidDeviceFunction));
}
