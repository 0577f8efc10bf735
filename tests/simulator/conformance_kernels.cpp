// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

using namespace conformance;

namespace {

#ifdef __CUDACC__
__global__ void nothing() {}
#else
void nothing() {}
#endif

void const* const kernel = reinterpret_cast<void const*>(&nothing);

int attribute(cudaDeviceAttr which) {
    int value = 0;
    REQUIRE(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
    return value;
}

int blocks(int threads, std::size_t shared) {
    int count = -1;
    REQUIRE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, threads, shared) == cudaSuccess);
    return count;
}

}  // namespace

TEST_CASE("occupancy is limited by a multiprocessor's threads, blocks and shared memory",
          "[simulator][kernels]") {
    auto const threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    auto const shared = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    CHECK(blocks(1024, 0) == threads / 1024);
    CHECK(blocks(32, 0) <= attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
    CHECK(blocks(129, 0) <= threads / 160);  // rounded up to whole warps
    CHECK(blocks(64, 40 << 10) <= shared / (40 << 10));
    CHECK(blocks(64, 40 << 10) >= 1);
    CHECK(blocks(64, 1 << 20) == 0);
    int same = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&same, kernel, 256, 0,
                                                                 cudaOccupancyDefault) == cudaSuccess);
    CHECK(same == blocks(256, 0));
}

TEST_CASE("an occupancy query without a function or with zero threads is refused", "[simulator][kernels]") {
    int count = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, nullptr, 32, 0) ==
          cudaErrorInvalidDeviceFunction);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, 0, 0) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("a kernel's attributes can be read, and its limit of shared memory can be raised",
          "[simulator][kernels]") {
    cudaFuncAttributes before{}, after{};
    REQUIRE(cudaFuncGetAttributes(&before, kernel) == cudaSuccess);
    CHECK(before.maxThreadsPerBlock >= 512);
    CHECK(before.binaryVersion >= 50);
    CHECK(before.maxDynamicSharedSizeBytes <= 48 << 10);
    CHECK(blocks(64, 64 << 10) == 0);
    REQUIRE(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10) ==
            cudaSuccess);
    REQUIRE(cudaFuncGetAttributes(&after, kernel) == cudaSuccess);
    CHECK(after.maxDynamicSharedSizeBytes == 64 << 10);
    CHECK(blocks(64, 64 << 10) >= 1);
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30) ==
          cudaErrorInvalidValue);
    CHECK(cudaFuncGetAttributes(&after, nullptr) == cudaErrorInvalidDeviceFunction);
    (void)cudaGetLastError();
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 << 10) == cudaSuccess);
}
