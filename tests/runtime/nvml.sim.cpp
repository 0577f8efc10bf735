// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/nvml.hpp>

#include <optional>
#include <set>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/fake_nvml.hpp"
#include "support/sanitizer.hpp"
#include "support/sink.hpp"

using cuota::nvml;
using support::has;

namespace {

constexpr auto first_device = "00000000:01:00.0";

// Resets the fake machine before and after a test.
struct fresh_nvml_machine {
    fresh_nvml_machine() { fake_nvml = {}; }
    ~fresh_nvml_machine() { fake_nvml = {}; }
};

nvml::find_symbol nvml_without(std::set<std::string> names) {
    return [names = std::move(names)](char const* name) -> void* {
        return names.contains(name) ? nullptr : ::dlsym(RTLD_DEFAULT, name);
    };
}

}  // namespace

TEST_CASE("nvml reports the driver's version and a device's memory", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    {
        nvml const here;
        REQUIRE(here.is_available());
        CHECK(here.error().empty());
        CHECK(fake_nvml.begun == 1);
        CHECK(*here.driver_version() == "580.65.06");
        auto const memory = here.memory(first_device);
        REQUIRE(memory);
        CHECK(memory->total == 1000);
        CHECK(memory->free == 400);
        CHECK(memory->used == 600);
    }
    CHECK(fake_nvml.begun == 0);
}

TEST_CASE("nvml lists each process of a device once, most bytes first", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    auto const self = static_cast<unsigned>(::getpid());
    fake_nvml.compute = {{4'000'000'001U, 5, 0, 0}, {self, 70, 0, 0}, {4'000'000'002U, ~0ULL, 0, 0}};
    fake_nvml.graphics = {{4'000'000'003U, 30, 0, 0}, {self, 60, 0, 0}};

    auto const all = nvml{}.processes(first_device);

    REQUIRE(all);
    REQUIRE(all->size() == 4);
    CHECK(all->at(0).pid == self);
    CHECK(all->at(0).bytes == 70);
    CHECK(all->at(0).is_current);
    CHECK(all->at(0).name == cuota::detail::process_name(self));
    CHECK_FALSE(all->at(0).name.empty());
    CHECK(all->at(1).pid == 4'000'000'003U);
    CHECK_FALSE(all->at(1).is_current);
    CHECK(all->at(1).name.empty());
    CHECK(all->at(2).bytes == 5);
    CHECK(all->at(3).bytes == std::nullopt);
}

TEST_CASE("nvml lists a device without processes, and one whose list grows between two calls",
          "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    CHECK(nvml{}.processes(first_device)->empty());
    fake_nvml.grows = true;
    for (unsigned i = 0; i != 40; ++i) fake_nvml.compute.push_back({4'000'000'000U + i, i, 0, 0});

    auto const all = nvml{}.processes(first_device);

    REQUIRE(all);
    CHECK(all->size() >= 40);
}

TEST_CASE("the error of an nvml query names the call and the reason", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    nvml const here;
    CHECK(here.memory("00000000:02:00.0").error() == "nvmlDeviceGetHandleByPciBusId_v2 failed: Not Found");
    fake_nvml.memory_error = 3;
    fake_nvml.list_error = 999;
    CHECK(here.memory(first_device).error() == "nvmlDeviceGetMemoryInfo failed: Not Supported");
    CHECK(here.processes(first_device).error() == "nvmlDeviceGetComputeRunningProcesses failed: error 999");
    fake_nvml.list_error = 7;  // permanently
    CHECK_FALSE(here.processes(first_device));
    fake_nvml.list_error = 0;
    fake_nvml.graphics_error = 3;  // as on many devices
    CHECK(here.processes(first_device));
    CHECK(here.memory(first_device).has_value() == false);
}

TEST_CASE("nvml is unavailable if the library is missing, is another library or does not initialize",
          "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    nvml const none{"libcuota-has-no-such.so.1"};
    CHECK_FALSE(none.is_available());
    CHECK(has(none.error(), "libcuota-has-no-such.so.1"));
    CHECK(none.driver_version().error() == none.error());
    CHECK(none.memory(first_device).error() == none.error());
    CHECK(none.processes(first_device).error() == none.error());

    CHECK(nvml{"libm.so.6"}.error() == "the library has no nvmlInit_v2");

    fake_nvml.init_error = 18;
    {
        nvml const broken;
        CHECK(broken.error() == "nvmlInit_v2 failed: Driver/library version mismatch");
        CHECK_FALSE(broken.processes(first_device));
    }
    CHECK(fake_nvml.begun == 0);  // a failed nvmlInit is not followed by nvmlShutdown
}

TEST_CASE("nvml works without functions that an old driver does not have", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    fake_nvml.compute = {{4'000'000'001U, 5, 0, 0}};
    nvml const older{nvml_without({"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlErrorString"})};
    REQUIRE(older.processes(first_device));
    CHECK(older.processes(first_device)->size() == 1);
    CHECK(older.memory("x").error() == "nvmlDeviceGetHandleByPciBusId_v2 failed: error 6");

    nvml const oldest{
        nvml_without({"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
                      "nvmlSystemGetDriverVersion", "nvmlDeviceGetMemoryInfo", "nvmlShutdown"})};
    CHECK(oldest.processes(first_device).error() ==
          "the library has no nvmlDeviceGetComputeRunningProcesses");
    CHECK(oldest.driver_version().error() == "the library has no nvmlSystemGetDriverVersion");
    CHECK(oldest.memory(first_device).error() == "the library has no nvmlDeviceGetMemoryInfo");
}

TEST_CASE("nvml truncates a version that is too long", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    fake_nvml.driver = std::string(500, '5');
    CHECK(nvml{}.driver_version()->size() == 95);
}

TEST_CASE("pci_bus_id returns the PCI bus ID of each device", "[runtime][nvml]") {
    cuota::simulator::reset({.devices = 3});
    CHECK(cuota::pci_bus_id(cuota::device{0}) == "00000000:01:00.0");
    CHECK(cuota::pci_bus_id(cuota::device{2}) == "00000000:03:00.0");
    CHECK_THROWS_AS(cuota::pci_bus_id(cuota::device{3}), cuota::cuda_error);
    cuota::simulator::reset();
}

TEST_CASE("the system's NVML is not queried for simulated devices", "[runtime][nvml]") {
    fresh_nvml_machine const machine;
    nvml const& here = nvml::system();
    CHECK(here.error() == "the device is simulated");
    CHECK_FALSE(here.processes(first_device));
    CHECK(fake_nvml.begun == 0);
}

TEST_CASE("queries of the parent's nvml fail in a child process, which does not shut it down",
          "[runtime][nvml][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    fresh_nvml_machine const machine;
    std::optional<nvml> here{std::in_place};
    int const status = support::status_of_child([&] {
        auto const version = here->driver_version();
        auto const memory = here->memory(first_device);
        here.reset();
        bool const is_told = has(version.error(), "before fork()") && has(memory.error(), "before fork()");
        ::_exit(!version && !memory && is_told && fake_nvml.begun == 1 ? 0 : 1);
    });
    CHECK(status == 0);
    CHECK(here->driver_version());
}
