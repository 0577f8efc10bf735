// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/environment.hpp>

#include <cstdlib>
#include <string>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/fake_nvml.hpp"
#include "support/last_error.hpp"
#include "support/sink.hpp"

using cuota::cuda_status;
using cuota::environment_info;
using support::has;

namespace {

// Returns the environment that a program finds if the first device query fails with `code`.
environment_info environment_with(cudaError_t code) {
    cuota::simulator::fail_call("cudaGetDeviceCount", 1, code);
    auto const found = cuota::environment();
    cuota::simulator::clear_faults();
    CHECK(support::last_error() == cudaSuccess);
    return found;
}

environment_info good_environment() {
    environment_info e;
    e.cuda.built_with = e.cuda.runtime = 13000;
    e.cuda.driver = 13020;
    e.driver_release = "580.65.06";
    e.cuda.devices = {{0, "NVIDIA H100", 9, 0, std::size_t{80} << 30, "00000000:3b:00.0"}};
    return e;
}

std::string complaint_of(environment_info const& e) { return e.problem().value_or("none"); }

class visible_devices {  // sets CUDA_VISIBLE_DEVICES for a scope
public:
    explicit visible_devices(char const* value) {
        if (value) ::setenv("CUDA_VISIBLE_DEVICES", value, 1);
        else ::unsetenv("CUDA_VISIBLE_DEVICES");
    }
    ~visible_devices() { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
};

}  // namespace

TEST_CASE("environment finds the simulated machine without a complaint", "[report][environment]") {
    auto const found = cuota::environment();

    CHECK(found.is_simulated);
    CHECK(found.cuda.built_with == CUDART_VERSION);
    CHECK(found.cuda.runtime == CUDART_VERSION);
    CHECK(found.cuda.driver == CUDART_VERSION);
    REQUIRE(found.cuda.devices.size() == 1);
    CHECK(found.cuda.devices[0].name == "simulated");
    CHECK(found.cuda.devices[0].major == 9);
    CHECK(found.cuda.devices[0].total == cuota::simulator::shape().capacity);
    CHECK(found.cuda.devices[0].pci == "00000000:01:00.0");
    CHECK(found.why_no_nvml == "the device is simulated");
    CHECK(complaint_of(found) == "none");
    CHECK(
        has(found.text(),
            "on the simulated runtime: no GPU is involved\n  device 0: simulated, compute capability 9.0, "));
}

TEST_CASE("environment has one sentence for every driver error that leaves no device",
          "[report][environment]") {
    visible_devices const unset{nullptr};
    struct answer {
        cudaError_t code;
        cuda_status trouble;
        char const* words;
    };
    for (auto const& [code, trouble, words] :
         {answer{cudaErrorInsufficientDriver, cuda_status::driver_missing_or_old, "install driver "},
          answer{cudaErrorStubLibrary, cuda_status::driver_is_stub, "stub of libcuda"},
          answer{cudaErrorNoDevice, cuda_status::no_device, "finds no device"},
          answer{cudaErrorSystemDriverMismatch, cuda_status::library_mismatch, "restart the machine"},
          answer{cudaErrorCompatNotSupportedOnDevice, cuda_status::no_forward_compatibility,
                 "remove the package and install driver "},
          answer{cudaErrorSystemNotReady, cuda_status::not_ready, "nvidia-fabricmanager"},
          answer{cudaErrorNotPermitted, cuda_status::not_permitted, "/dev/nvidia*"},
          answer{cudaErrorUnknown, cuda_status::other, "CUDA does not start: cudaErrorUnknown: "}}) {
        auto const found = environment_with(code);
        INFO(complaint_of(found));
        CHECK(found.cuda.status == trouble);
        CHECK(found.cuda.error == cudaGetErrorName(code));
        CHECK(found.cuda.devices.empty());
        CHECK(has(complaint_of(found), words));
        CHECK_FALSE(has(complaint_of(found), "\n"));
        CHECK(found.text().ends_with("\n  " + complaint_of(found)));
    }
}

TEST_CASE("environment continues when versions and properties cannot be queried", "[report][environment]") {
    cuota::simulator::fail_call("cudaDriverGetVersion", 1, cudaErrorUnknown);
    cuota::simulator::fail_call("cudaRuntimeGetVersion", 1, cudaErrorUnknown);
    cuota::simulator::fail_call("cudaGetDeviceProperties", 1, cudaErrorUnknown);
    auto const found = cuota::environment();
    cuota::simulator::clear_faults();

    CHECK(support::last_error() == cudaSuccess);
    CHECK(found.cuda.driver == 0);
    CHECK(found.cuda.runtime == 0);
    CHECK(found.cuda.status == cuda_status::other);
}

TEST_CASE("environment reports a machine without devices", "[report][environment]") {
    cuota::simulator::reset({.devices = 0});
    auto const found = cuota::environment();
    cuota::simulator::reset();

    CHECK(found.cuda.status == cuda_status::no_device);
    CHECK(found.cuda.error == "cudaErrorNoDevice");
}

TEST_CASE("a driver that is too old results in a sentence that names what to install",
          "[report][environment]") {
    auto e = good_environment();
    CHECK(complaint_of(e) == "none");
    e.cuda.status = cuda_status::driver_missing_or_old;
    e.cuda.driver = 12040;
    e.driver_release = "550.54.14";
    CHECK(complaint_of(e) ==
          "the driver 550.54.14 supports CUDA up to 12.4, this program was built with 13.0: install driver "
          "580.65.06 or newer, or build with a toolkit of 12.4 or older");

    e.driver_release.clear();
    e.cuda.built_with = 12090;
    e.cuda.driver = 11080;
    CHECK(complaint_of(e) == "the driver supports CUDA up to 11.8, this program was built with 12.9: install "
                             "driver 525.60.13 or newer, or "
                             "build with a toolkit of 11.8 or older");

    e.cuda.driver = 0;
    CHECK(has(complaint_of(e), "no NVIDIA driver was found, and this program was built with CUDA 12.9: "));
    e.cuda.built_with = 14000;
    CHECK(has(complaint_of(e), "install the driver that the release notes of CUDA 14.0 require"));
    CHECK(std::string{cuota::min_driver_for(11020)} == "450.80.02");
    CHECK(cuota::min_driver_for(10020) == nullptr);
}

TEST_CASE("a runtime of another major version than the headers is reported", "[report][environment]") {
    auto e = good_environment();
    e.cuda.runtime = 13020;
    CHECK(complaint_of(e) == "none");
    e.cuda.runtime = 12040;
    CHECK(complaint_of(e) == "this program was built with CUDA 13.0 but runs with the library of 12.4: make "
                             "LD_LIBRARY_PATH lead to libcudart.so.13");
    e.cuda.runtime = 0;
    CHECK(complaint_of(e) == "none");
}

TEST_CASE("CUDA_VISIBLE_DEVICES is named if it hides every device", "[report][environment]") {
    {
        visible_devices const hidden{""};
        CHECK(has(complaint_of(environment_with(cudaErrorNoDevice)),
                  "because CUDA_VISIBLE_DEVICES is \"\": unset it"));
    }
    {
        visible_devices const wrong{"7\n"};
        CHECK(has(complaint_of(environment_with(cudaErrorNoDevice)),
                  "because CUDA_VISIBLE_DEVICES is \"7?\": unset it"));
    }
    visible_devices const unset{nullptr};
    CHECK_FALSE(has(complaint_of(environment_with(cudaErrorNoDevice)), "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("environment queries NVML for the driver's release, or has the reason why it cannot",
          "[report][environment]") {
    fake_nvml = {};
    fake_nvml.driver = "550.54.14";
    auto const found = cuota::environment(cuota::nvml{});
    CHECK(found.driver_release == "550.54.14");
    CHECK(found.why_no_nvml.empty());
    fake_nvml.init_error = 18;
    CHECK(cuota::environment(cuota::nvml{}).why_no_nvml ==
          "nvmlInit_v2 failed: Driver/library version mismatch");
    fake_nvml = {};
}

TEST_CASE("environment's text has a line for the versions and one for each device", "[report][environment]") {
    auto e = good_environment();
    CHECK(e.text() == "built with CUDA 13.0, runs with 13.0; driver 580.65.06 for CUDA up to 13.2\n"
                      "  device 0: NVIDIA H100, compute capability 9.0, 80.0 GiB, at 00000000:3b:00.0");
    e.why_no_nvml = "no library";
    e.driver_release.clear();
    CHECK(has(e.text(), "; driver for CUDA up to 13.2; no NVML: no library\n"));
}
