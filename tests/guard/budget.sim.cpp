// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budget.hpp>

#include <limits>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

TEST_CASE("a budget of a device is a share of its memory", "[guard][budget]") {
    support::machine const sim{{2, 64_MiB}};
    cuota::device const second{1};
    REQUIRE(cuota::budget::for_device(second).limit() == 64_MiB);
    REQUIRE(cuota::budget::for_device(second, 0.5).limit() == 32_MiB);
    REQUIRE(cuota::budget::for_device(second, 0.0).limit() == 0);
    REQUIRE(cuota::budget::for_device(second).name() == "device 1");
    REQUIRE(cuota::device::current().ordinal() == 0);
}

TEST_CASE("a budget of a device leaves other programs what they have", "[guard][budget]") {
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

TEST_CASE("a share is between nothing and everything", "[guard][budget]") {
    support::machine const sim;
    cuota::device const here{0};
    for (double const share :
         {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
        REQUIRE_THROWS_AS(cuota::budget::for_device(here, share), cuota::usage_error);
}

TEST_CASE("a budget of a device survives every failure of its calls", "[guard][budget]") {
    support::machine sim{{2, 64_MiB}};
    auto const seen =
        support::survives_every_failure(sim, [] { (void)cuota::budget::for_device(cuota::device{1}); });
    REQUIRE(seen.silent == 0);
}

TEST_CASE("charging calls nobody", "[guard][budget]") {
    support::machine const sim;
    cuota::budget b{"b", 100};
    b.charge(50);
    b.refund(50);
    (void)b.reserve(100);
    REQUIRE(cuota::simulator::calls() == 0);
}
