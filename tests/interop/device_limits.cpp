// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/device_limits.hpp>

#include <cstdlib>
#include <string>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

constexpr std::size_t total = 8_GiB;

std::size_t limit(std::string const& text, int device = 0) {
    return cuota::device_limits{text}.bytes_for(device, total);
}

}  // namespace

TEST_CASE("a text limits single devices or all others, in bytes or by share", "[interop][device_limits]") {
    CHECK(limit("6GiB") == 6_GiB);
    CHECK(limit("6GiB", 7) == 6_GiB);
    CHECK(limit("512MiB") == 512_MiB);
    CHECK(limit("3KiB") == 3_KiB);
    CHECK(limit("1TiB") == 1024_GiB);
    CHECK(limit("65536") == 65'536);
    CHECK(limit("65537B") == 65'537);
    CHECK(limit("100%") == total);
    CHECK(limit("75%") == 6_GiB);
    CHECK(limit("1%") == total / 100);
    CHECK(limit("unlimited") == cuota::unlimited);
    CHECK(limit("0=1GiB,50%") == 1_GiB);
    CHECK(limit("0=1GiB,50%", 1) == 4_GiB);
    CHECK(limit("50%,1=unlimited", 1) == cuota::unlimited);
    CHECK(limit("2=1GiB", 1) == cuota::unlimited);  // device 1 has no entry
    CHECK(cuota::device_limits{}.bytes_for(0, total) == cuota::unlimited);
}

TEST_CASE("a size may have a fraction and a space before its unit", "[interop][device_limits]") {
    CHECK(cuota::device_limits{"1.5GiB"}.bytes_for(0, cuota::unlimited) == 1536_MiB);
    CHECK(cuota::device_limits{"1=6 GiB"}.bytes_for(1, cuota::unlimited) == 6_GiB);
}

TEST_CASE("a share of a device's memory does not overflow and is rounded down", "[interop][device_limits]") {
    CHECK(cuota::device_limits{"99%"}.bytes_for(0, cuota::unlimited) == cuota::unlimited / 100 * 99 + 14);
    CHECK(cuota::device_limits{"33%"}.bytes_for(0, 10) == 3);
    CHECK(cuota::device_limits{"100%"}.bytes_for(0, 12'345) == 12'345);
}

TEST_CASE("an invalid text is refused with its invalid item and its origin", "[interop][device_limits]") {
    for (std::string const item : {"",
                                   "GiB",
                                   "6GB",
                                   "6gib",
                                   "-1GiB",
                                   "0",
                                   "0GiB",
                                   "0%",
                                   "101%",
                                   "%",
                                   "=1GiB",
                                   "x=1GiB",
                                   "-1=1GiB",
                                   "1024=1GiB",
                                   "0=",
                                   "0=0=1GiB",
                                   "unlimited%",
                                   "18446744073709551616",
                                   "17179869184GiB",
                                   "6GiB ",
                                   "\x01",
                                   "Unlimited"}) {
        INFO("'" << item << "'");
        auto const error = thrown<cuota::usage_error>([&] {
            (void)cuota::device_limits{"3=1GiB," + item, "CUOTA_BUDGET"};
        });
        CHECK(has(error.what(), "CUOTA_BUDGET: '" + (item == "\x01" ? "?" : item) + "'"));
    }
    CHECK_THROWS_AS(cuota::device_limits{"1GiB,"}, cuota::usage_error);
    CHECK_THROWS_AS(cuota::device_limits{""}, cuota::usage_error);
}

TEST_CASE("a second limit for the same devices is refused", "[interop][device_limits]") {
    CHECK(has(thrown<cuota::usage_error>([] { (void)cuota::device_limits{"1GiB,2GiB"}; }).what(),
              "'2GiB' repeats the limit of all other devices"));
    CHECK(has(thrown<cuota::usage_error>([] { (void)cuota::device_limits{"1=1GiB,1=2GiB"}; }).what(),
              "'1=2GiB' repeats the limit of this device"));
}

TEST_CASE("limits are read from the environment variable, and without it nothing is limited",
          "[interop][device_limits]") {
    REQUIRE(setenv("CUOTA_TEST_BUDGET", "1=2GiB,10%", 1) == 0);
    CHECK(cuota::device_limits::from_environment("CUOTA_TEST_BUDGET").bytes_for(1, total) == 2_GiB);
    REQUIRE(setenv("CUOTA_TEST_BUDGET", "1=2GB", 1) == 0);
    CHECK(has(thrown<cuota::usage_error>([] {
                  (void)cuota::device_limits::from_environment("CUOTA_TEST_BUDGET");
              }).what(),
              "CUOTA_TEST_BUDGET: '1=2GB'"));
    REQUIRE(unsetenv("CUOTA_TEST_BUDGET") == 0);
    CHECK(cuota::device_limits::from_environment("CUOTA_TEST_BUDGET").bytes_for(1, total) ==
          cuota::unlimited);
}
