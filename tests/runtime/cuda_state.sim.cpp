// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/cuda_state.hpp>

#include <cuota/simulator/simulator.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"

using cuota::cuda_trouble;
using cuota::look_at_cuda;

TEST_CASE("look_at_cuda describes every device, and uses none", "[runtime][cuda_state]") {
    cuota::simulator::reset({.devices = 2, .capacity = std::size_t{1} << 30});
    auto const found = look_at_cuda();

    CHECK(found.trouble == cuda_trouble::none);
    CHECK(found.error.empty());
    REQUIRE(found.devices.size() == 2);
    CHECK(found.devices[1].ordinal == 1);
    CHECK(found.devices[1].total == std::size_t{1} << 30);
    CHECK(found.devices[1].pci == cuota::pci_bus_id(cuota::device{1}));
    CHECK(cuota::simulator::calls("cudaMemGetInfo") == 0);
    CHECK(cuota::simulator::calls("cudaSetDevice") == 0);
    cuota::simulator::reset();
}

TEST_CASE("look_at_cuda keeps the devices that it saw before one that fails", "[runtime][cuda_state]") {
    cuota::simulator::reset({.devices = 3});
    cuota::simulator::fail_call("cudaGetDeviceProperties", 2, cudaErrorUnknown);
    auto const found = look_at_cuda();
    cuota::simulator::reset();

    CHECK(found.devices.size() == 1);
    CHECK(found.trouble == cuda_trouble::other);
    CHECK(found.error == "cudaErrorUnknown");
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("look_at_cuda leaves a version out that nobody tells", "[runtime][cuda_state]") {
    cuota::simulator::fail_call("cudaRuntimeGetVersion", 1, cudaErrorUnknown);
    auto const found = look_at_cuda();
    cuota::simulator::clear_faults();

    CHECK(found.runtime == 0);
    CHECK(found.driver == CUDART_VERSION);
    CHECK(found.trouble == cuda_trouble::none);
    CHECK(support::last_error() == cudaSuccess);
}
