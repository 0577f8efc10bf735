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

TEST_CASE("cuGetProcAddress returns driver functions of the version that is passed",
          "[simulator][contexts]") {
    auto* const find =
        entry_point<CUresult(char const*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
            "cuGetProcAddress");
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    REQUIRE(find("cuMemMap", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS);
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(found != nullptr);
    (void)find("cuMemMap", &found, 10000, CU_GET_PROC_ADDRESS_DEFAULT, &status);  // cuMemMap is of 10.2
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    (void)find("cuMemMapp", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_CASE("the context of a stream is the primary context of the stream's device", "[simulator][contexts]") {
    int devices = 0;
    REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    REQUIRE(cudaGetDriverEntryPointByVersion("cuStreamGetCtx", &found, 9020, cudaEnableDefault, &status) ==
            cudaSuccess);
    REQUIRE(status == cudaDriverEntryPointSuccess);
    auto* const context_of = reinterpret_cast<CUresult (*)(CUstream, CUcontext*)>(found);
    contexts const driver;
    for (int const device : {0, devices - 1}) {
        REQUIRE(cudaSetDevice(device) == cudaSuccess);
        cudaStream_t s = nullptr;
        REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        CUcontext of_stream = nullptr;
        CUcontext of_device = nullptr;
        CHECK(context_of(s, &of_stream) == CUDA_SUCCESS);
        REQUIRE(driver.retain(&of_device, device) == CUDA_SUCCESS);
        CHECK(of_stream == of_device);
        CHECK(driver.release(device) == CUDA_SUCCESS);
        CHECK(context_of(s, nullptr) == CUDA_ERROR_INVALID_VALUE);
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
}
