// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budget.hpp>

#include <limits>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

TEST_CASE("the limit of a device's budget is a share of the device's memory", "[guard][budget]") {
    support::machine const sim{{2, 64_MiB}};
    cuota::device const second{1};
    REQUIRE(cuota::budget::for_device(second).limit() == 64_MiB);
    REQUIRE(cuota::budget::for_device(second, 0.5).limit() == 32_MiB);
    REQUIRE(cuota::budget::for_device(second, 0.0).limit() == 0);
    REQUIRE(cuota::budget::for_device(second).name() == "device 1");
    REQUIRE(cuota::device::current().ordinal() == 0);
}

TEST_CASE("the limit of a device's budget does not include memory of other programs", "[guard][budget]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::device const here{0};
    cuota::simulator::set_other_programs(0, 48_MiB);
    REQUIRE(cuota::budget::for_device(here).limit() == 16_MiB);
    REQUIRE(cuota::budget::for_device(here, 0.125).limit() == 8_MiB);
    REQUIRE(cuota::budget::for_device(here, 0.5).limit() == 16_MiB);
    REQUIRE(cuota::budget::for_device(here, 1.0, 1_MiB).limit() == 15_MiB);
    REQUIRE(cuota::budget::for_device(here, 1.0, 17_MiB).limit() == 0);
    cuota::simulator::set_other_programs(0, 65_MiB);
    REQUIRE(cuota::budget::for_device(here).limit() == 0);
}

TEST_CASE("a share is in the range from 0 to 1", "[guard][budget]") {
    support::machine const sim;
    cuota::device const here{0};
    for (double const share :
         {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
        REQUIRE_THROWS_AS(cuota::budget::for_device(here, share), cuota::usage_error);
}

TEST_CASE("budget::for_device reports the failure of any CUDA call", "[guard][budget]") {
    support::machine sim{{2, 64_MiB}};
    auto const seen =
        support::survives_every_failure(sim, [] { (void)cuota::budget::for_device(cuota::device{1}); });
    REQUIRE(seen.silent == 0);
}

TEST_CASE("charges and refunds make no CUDA calls", "[guard][budget]") {
    support::machine const sim;
    cuota::budget b{"b", 100};
    b.charge(50);
    b.refund(50);
    (void)b.reserve(100);
    REQUIRE(cuota::simulator::calls() == 0);
}
