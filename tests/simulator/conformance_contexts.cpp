// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/virtual_memory.hpp"

#include <thread>

// The primary context of a device, and the current device of a thread that has not set one.

using namespace conformance;

namespace {

struct contexts {
    CUresult (*state)(CUdevice, unsigned*,
                      int*) = entry_point<CUresult(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    CUresult (*retain)(CUcontext*,
                       CUdevice) = entry_point<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
    CUresult (*release)(CUdevice) = entry_point<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease");
    CUresult (*push)(CUcontext) = entry_point<CUresult(CUcontext)>("cuCtxPushCurrent");
    CUresult (*pop)(CUcontext*) = entry_point<CUresult(CUcontext*)>("cuCtxPopCurrent");

    [[nodiscard]] bool has(int device) const {
        unsigned flags = 0;
        int active = 0;
        REQUIRE(state(device, &flags, &active) == CUDA_SUCCESS);
        return active != 0;
    }
};

int current() {
    int device = -1;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);
    return device;
}

}  // namespace

TEST_CASE("initialising a device creates its context and does not make it current", "[simulator][contexts]") {
    int devices = 0;
    REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
    contexts const driver;
    std::thread{[&] {
        REQUIRE(cudaInitDevice(devices - 1, 0, 0) == cudaSuccess);
        CHECK(driver.has(devices - 1));
        CHECK(current() == 0);
        CHECK(cudaInitDevice(devices, 0, 0) == cudaErrorInvalidDevice);
        (void)cudaGetLastError();
    }}.join();
}

TEST_CASE("the runtime uses the driver's current context until it is popped", "[simulator][contexts]") {
    int devices = 0;
    REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
    contexts const driver;
    int const last = devices - 1;
    std::thread{[&] {
        CUcontext context = nullptr;
        REQUIRE(driver.retain(&context, last) == CUDA_SUCCESS);
        REQUIRE(driver.push(context) == CUDA_SUCCESS);
        CHECK(current() == last);
        cudaStream_t s = nullptr;
        REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
        int of_stream = -1;
        CHECK(cudaStreamGetDevice(s, &of_stream) == cudaSuccess);
        CHECK(of_stream == last);
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
        CUcontext popped = nullptr;
        REQUIRE(driver.pop(&popped) == CUDA_SUCCESS);
        CHECK(popped == context);
        CHECK(current() == 0);
        CHECK(driver.release(last) == CUDA_SUCCESS);
    }}.join();
}
