// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#if CUDART_VERSION >= 13000  // 12 identifies locations by a number

using namespace conformance;

namespace {

constexpr std::size_t page = 65536;  // no system has larger default pages
constexpr cudaMemLocation first_device{cudaMemLocationTypeDevice, 0}, host{cudaMemLocationTypeHost, 0};

struct managed {
    unsigned char* start = nullptr;

    managed() {
        void* p = nullptr;
        REQUIRE(cudaMallocManaged(&p, 4 * page) == cudaSuccess);
        start = static_cast<unsigned char*>(p);
    }
    managed(managed const&) = delete;
    managed& operator=(managed const&) = delete;
    ~managed() { CHECK(cudaFree(start) == cudaSuccess); }
};

int ask(cudaMemRangeAttribute what, void const* start, std::size_t bytes) {
    int value = 12345;
    REQUIRE(cudaMemRangeGetAttribute(&value, sizeof value, what, start, bytes) == cudaSuccess);
    return value;
}

}  // namespace

TEST_CASE("managed memory starts without advice", "[simulator][managed]") {
    managed const m;
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start, page) == 0);
    CHECK(ask(cudaMemRangeAttributePreferredLocation, m.start, page) == cudaInvalidDeviceId);
    CHECK(ask(cudaMemRangeAttributeLastPrefetchLocation, m.start, page) == cudaInvalidDeviceId);
    CHECK(ask(cudaMemRangeAttributeAccessedBy, m.start, page) == cudaInvalidDeviceId);
}

TEST_CASE("advice applies only to the pages of its range", "[simulator][managed]") {
    managed const m;
    REQUIRE(cudaMemAdvise(m.start, 2 * page, cudaMemAdviseSetReadMostly, first_device) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start, 2 * page) == 1);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start + page, page) == 1);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start, 3 * page) == 0);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start + 2 * page, page) == 0);
    REQUIRE(cudaMemAdvise(m.start, page, cudaMemAdviseUnsetReadMostly, first_device) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start, page) == 0);
    CHECK(ask(cudaMemRangeAttributeReadMostly, m.start + page, page) == 1);
}

TEST_CASE("a preferred location can be the host or a device", "[simulator][managed]") {
    managed const m;
    REQUIRE(cudaMemAdvise(m.start, page, cudaMemAdviseSetPreferredLocation, host) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributePreferredLocation, m.start, page) == cudaCpuDeviceId);
    CHECK(ask(cudaMemRangeAttributePreferredLocationType, m.start, page) == cudaMemLocationTypeHost);
    REQUIRE(cudaMemAdvise(m.start + page, page, cudaMemAdviseSetPreferredLocation, first_device) ==
            cudaSuccess);
    CHECK(ask(cudaMemRangeAttributePreferredLocation, m.start + page, page) == 0);
    CHECK(ask(cudaMemRangeAttributePreferredLocation, m.start, 2 * page) == cudaInvalidDeviceId);
    REQUIRE(cudaMemAdvise(m.start, 2 * page, cudaMemAdviseUnsetPreferredLocation, host) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributePreferredLocation, m.start, page) == cudaInvalidDeviceId);
}

TEST_CASE("devices with access to managed memory are listed", "[simulator][managed]") {
    managed const m;
    REQUIRE(cudaMemAdvise(m.start, page, cudaMemAdviseSetAccessedBy, first_device) == cudaSuccess);
    int users[3] = {7, 7, 7};
    REQUIRE(cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, m.start, page) ==
            cudaSuccess);
    CHECK(users[0] == 0);
    CHECK(users[1] == cudaInvalidDeviceId);
    CHECK(users[2] == cudaInvalidDeviceId);
    REQUIRE(cudaMemAdvise(m.start, page, cudaMemAdviseUnsetAccessedBy, first_device) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributeAccessedBy, m.start, page) == cudaInvalidDeviceId);
}

TEST_CASE("the last prefetch location can be queried, and prefetching keeps the contents",
          "[simulator][managed]") {
    managed const m;
    auto const s = new_stream();
    m.start[5] = 5;
    REQUIRE(cudaMemPrefetchAsync(m.start, 2 * page, first_device, 0, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributeLastPrefetchLocation, m.start, 2 * page) == 0);
    REQUIRE(cudaMemPrefetchAsync(m.start, page, host, 0, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(ask(cudaMemRangeAttributeLastPrefetchLocation, m.start, page) == cudaCpuDeviceId);
    CHECK(ask(cudaMemRangeAttributeLastPrefetchLocation, m.start, 2 * page) == cudaInvalidDeviceId);
    CHECK(m.start[5] == 5);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("advice and prefetches for other memory or unknown locations are refused", "[simulator][managed]") {
    managed const m;
    auto* const plain = device_memory(page);
    cudaMemLocation const nowhere{cudaMemLocationTypeDevice, 1000};
    CHECK(cudaMemPrefetchAsync(plain, page, first_device, 0, nullptr) == cudaErrorInvalidValue);
    CHECK(cudaMemAdvise(plain, page, cudaMemAdviseSetReadMostly, first_device) == cudaErrorInvalidValue);
    CHECK(cudaMemPrefetchAsync(m.start, page, first_device, 1, nullptr) == cudaErrorInvalidValue);
    CHECK(cudaMemPrefetchAsync(m.start, page, nowhere, 0, nullptr) != cudaSuccess);
    CHECK(cudaMemAdvise(m.start, page, cudaMemAdviseSetPreferredLocation, nowhere) != cudaSuccess);
    CHECK(cudaMemPrefetchAsync(m.start, 5 * page, first_device, 0, nullptr) == cudaErrorInvalidValue);
    char small = 0;
    CHECK(cudaMemRangeGetAttribute(&small, 1, cudaMemRangeAttributeReadMostly, m.start, page) ==
          cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaFree(plain) == cudaSuccess);
}

#endif
