// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <string>

using namespace conformance;

namespace {

void make_an_error() { REQUIRE(cudaSetDevice(-1) == cudaErrorInvalidDevice); }

}  // namespace

TEST_CASE("the last error remains until it is fetched", "[simulator][errors]") {
    make_an_error();
    int device = 0;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);  // success does not clear it
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("each thread has its own last error", "[simulator][errors]") {
    make_an_error();
    auto const other = std::async(std::launch::async, [] { return cudaPeekAtLastError(); }).get();
    CHECK(other == cudaSuccess);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("errors have names and texts", "[simulator][errors]") {
    CHECK(cudaGetErrorName(cudaSuccess) == std::string{"cudaSuccess"});
    CHECK(cudaGetErrorName(cudaErrorMemoryAllocation) == std::string{"cudaErrorMemoryAllocation"});
    CHECK(cudaGetErrorString(cudaErrorMemoryAllocation) == std::string{"out of memory"});
    CHECK(cudaGetErrorName(static_cast<cudaError_t>(150)) == std::string{"unrecognized error code"});
}

TEST_CASE("each thread has a current device, initially device 0", "[simulator][devices]") {
    int device = -1;
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(std::async(std::launch::async, [&] { return cudaGetDevice(&device); }).get() == cudaSuccess);
    CHECK(device == 0);
}

TEST_CASE("setting the device in one thread does not change it in another", "[simulator][devices]") {
    int count = 0, device = -1;
    (void)cudaGetDeviceCount(&count);
    if (count < 2) CUOTA_SKIP("it takes two devices");
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    CHECK(std::async(std::launch::async, [] { return cudaSetDevice(1); }).get() == cudaSuccess);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 0);
}

TEST_CASE("attributes and properties of a device agree", "[simulator][devices]") {
    int count = 0;
    REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
    REQUIRE(count >= 1);
    cudaDeviceProp p{};
    REQUIRE(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
    CHECK(cudaGetDeviceProperties(&p, count) == cudaErrorInvalidDevice);
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    CHECK(p.totalGlobalMem == total);

    auto const attribute = [](cudaDeviceAttr which) {
        int value = -1;
        REQUIRE(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
        return value;
    };
    CHECK(attribute(cudaDevAttrWarpSize) == p.warpSize);
    CHECK(attribute(cudaDevAttrMultiProcessorCount) == p.multiProcessorCount);
    CHECK(attribute(cudaDevAttrMaxThreadsPerBlock) == p.maxThreadsPerBlock);
    CHECK(attribute(cudaDevAttrAsyncEngineCount) == p.asyncEngineCount);
    CHECK(attribute(cudaDevAttrMemoryPoolsSupported) == p.memoryPoolsSupported);
    CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == p.major);
    CHECK(attribute(cudaDevAttrPageableMemoryAccess) == p.pageableMemoryAccess);
    int value = 0;
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count) == cudaErrorInvalidDevice);
    CHECK(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(0), 0) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("the driver is at least as new as the runtime", "[simulator][devices]") {
    int driver = 0, runtime = 0;
    REQUIRE(cudaDriverGetVersion(&driver) == cudaSuccess);
    REQUIRE(cudaRuntimeGetVersion(&runtime) == cudaSuccess);
    CHECK(runtime == CUDART_VERSION);
    CHECK(driver >= runtime);
}
