// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/memory_limits.hpp>

#include <optional>

#include <cuota/runtime/device.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/fake_nvml.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using cuota::memory_limits;
using cuota::unlimited;
using cuota::detail::nvml_limits;
namespace sim = cuota::simulator;

namespace {

constexpr auto first_device = "00000000:01:00.0";
constexpr unsigned long long none = ~0ULL;

// Resets the fake machine before and after a test.
struct fresh_nvml_machine {
    fresh_nvml_machine() { fake_nvml = {}; }
    ~fresh_nvml_machine() { fake_nvml = {}; }
};

}  // namespace

TEST_CASE_METHOD(fresh_nvml_machine, "NVML's limits of a control group are read",
                 "[runtime][memory_limits]") {
    fake_nvml.limits["/cg/app"] = {400, 800, 100};
    {
        nvml_limits const nvml;
        REQUIRE(nvml.is_available());
        CHECK(fake_nvml.begun == 1);
        CHECK(nvml.of(first_device, "/cg/app", "/cg") == memory_limits{400, 800, 100});
        CHECK(memory_limits{400, 800, 100}.left() == 300);
        CHECK(memory_limits{400, 800, 500}.left() == 0);
        CHECK(memory_limits{}.left() == unlimited);
        CHECK(!nvml.of("00000000:02:00.0", "/cg/app", "/cg"));
    }
    CHECK(fake_nvml.begun == 0);
}

TEST_CASE_METHOD(fresh_nvml_machine, "limits of the groups above count too", "[runtime][memory_limits]") {
    nvml_limits const nvml;
    fake_nvml.limits["/cg/pod"] = {300, 700, 250};
    CHECK(nvml.of(first_device, "/cg/pod/app", "/cg") == memory_limits{300, 700, 250});
    fake_nvml.limits["/cg/pod/app"] = {400, 900, 100};
    CHECK(nvml.of(first_device, "/cg/pod/app", "/cg") == memory_limits{300, 700, 250});
    fake_nvml.limits["/cg/pod/app"] = {120, 900, 100};
    CHECK(nvml.of(first_device, "/cg/pod/app", "/cg") == memory_limits{120, 700, 100});
    fake_nvml.limits["/"] = {1, 1, 1};  // above the mount
    CHECK(nvml.of(first_device, "/cg/pod/app", "/cg") == memory_limits{120, 700, 100});
}

TEST_CASE_METHOD(fresh_nvml_machine, "a group without limits has none", "[runtime][memory_limits]") {
    nvml_limits const nvml;
    CHECK(!nvml.of(first_device, "/cg/app", "/cg"));
    fake_nvml.limits["/cg/app"] = {0, none, 100};
    CHECK(!nvml.of(first_device, "/cg/app", "/cg"));
    fake_nvml.limits["/cg/app"] = {0, 800, 100};
    CHECK(nvml.of(first_device, "/cg/app", "/cg") == memory_limits{unlimited, 800, 100});
    fake_nvml.limits_error = 3;  // as for a MIG instance
    CHECK(!nvml.of(first_device, "/cg/app", "/cg"));
}

TEST_CASE_METHOD(fresh_nvml_machine, "without NVML there are no limits", "[runtime][memory_limits]") {
    CHECK(!nvml_limits{"libcuota-no-such-library.so.1"}.is_available());
    CHECK(!nvml_limits{"libc.so.6"}.is_available());
    CHECK(!nvml_limits{"libc.so.6"}.of(first_device, "/cg", "/cg"));
    fake_nvml.init_error = 9;
    CHECK(!nvml_limits{}.is_available());
    CHECK(fake_nvml.begun == 0);
}

TEST_CASE("the limits of a simulated device", "[runtime][memory_limits]") {
    support::machine const machine{{1, 64_MiB}};
    cuota::device const here{0};
    CHECK(!here.limits());
    sim::set_memory_limits(0, {32_MiB, 48_MiB, 8_MiB});
    CHECK(here.limits() == memory_limits{32_MiB, 48_MiB, 8_MiB});
    CHECK(here.memory().total == 48_MiB);
    CHECK(here.memory().free == 40_MiB);
    sim::set_memory_limits(0, {0, 48_MiB, 0});
    CHECK(here.limits() == memory_limits{unlimited, 48_MiB, 0});
    sim::set_memory_limits(0, {});
    CHECK(!here.limits());
}
