// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/device.hpp>

#include <string>
#include <type_traits>

#include "support/catch.hpp"
#include "support/last_error.hpp"

// An integer does not convert to a device implicitly.
static_assert(!std::is_convertible_v<int, cuota::device>);
static_assert(!std::is_copy_constructible_v<cuota::device_scope> &&
              !std::is_move_constructible_v<cuota::device_scope>);
static_assert(cuota::device{3}.ordinal() == 3 && cuota::device{3} == cuota::device{3});

TEST_CASE("the ordinal of the current device is less than the number of devices", "[runtime][device]") {
    REQUIRE(cuota::device::count() >= 1);
    REQUIRE(cuota::device::current().ordinal() < cuota::device::count());
}

TEST_CASE("a device has a name, and its total memory is at least its free memory", "[runtime][device]") {
    auto const here = cuota::device::current();
    REQUIRE(!here.name().empty());
    REQUIRE(&here.name() == &here.name());
    auto const memory = here.memory();
    REQUIRE(memory.total > 0);
    REQUIRE(here.compute_capability_major() >= 5);
    REQUIRE(memory.free <= memory.total);
    REQUIRE_NOTHROW(here.synchronize());
}

TEST_CASE("the host NUMA node of a device is not negative, if it has one", "[runtime][device]") {
    CHECK(cuota::device::current().host_numa_node().value_or(0) >= 0);
    if (CUDART_VERSION < 12020) CUOTA_SKIP("these headers have no attribute for it");
    CHECK_THROWS_AS(cuota::device{cuota::device::count()}.host_numa_node(), cuota::cuda_error);
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("a device that does not exist is refused, and the current device is unchanged",
          "[runtime][device]") {
    auto const before = cuota::device::current();
    cuota::device const nowhere{cuota::device::count()};
    REQUIRE_THROWS_AS(cuota::device_scope{nowhere}, cuota::cuda_error);
    REQUIRE_THROWS_AS(nowhere.memory(), cuota::cuda_error);
    REQUIRE_THROWS_AS(nowhere.name(), cuota::cuda_error);
    REQUIRE_THROWS_AS(nowhere.compute_capability_major(), cuota::cuda_error);
    REQUIRE(cuota::device::current() == before);
}
