// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/cuda_info.hpp>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"

using cuota::cuda_status;
using cuota::query_cuda;

TEST_CASE("query_cuda describes every device and makes none current", "[runtime][cuda_info]") {
    cuota::simulator::reset({.devices = 2, .capacity = std::size_t{1} << 30});
    auto const found = query_cuda();

    CHECK(found.status == cuda_status::none);
    CHECK(found.error.empty());
    REQUIRE(found.devices.size() == 2);
    CHECK(found.devices[1].ordinal == 1);
    CHECK(found.devices[1].total == std::size_t{1} << 30);
    CHECK(found.devices[1].pci == cuota::pci_bus_id(cuota::device{1}));
    CHECK(cuota::simulator::calls("cudaMemGetInfo") == 0);
    CHECK(cuota::simulator::calls("cudaSetDevice") == 0);
    cuota::simulator::reset();
}

TEST_CASE("query_cuda keeps the devices that it described before one that fails", "[runtime][cuda_info]") {
    cuota::simulator::reset({.devices = 3});
    cuota::simulator::fail_call("cudaGetDeviceProperties", 2, cudaErrorUnknown);
    auto const found = query_cuda();
    cuota::simulator::reset();

    CHECK(found.devices.size() == 1);
    CHECK(found.status == cuda_status::other);
    CHECK(found.error == "cudaErrorUnknown");
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("query_cuda leaves out a version that cannot be queried", "[runtime][cuda_info]") {
    cuota::simulator::fail_call("cudaRuntimeGetVersion", 1, cudaErrorUnknown);
    auto const found = query_cuda();
    cuota::simulator::clear_faults();

    CHECK(found.runtime == 0);
    CHECK(found.driver == CUDART_VERSION);
    CHECK(found.status == cuda_status::none);
    CHECK(support::last_error() == cudaSuccess);
}
