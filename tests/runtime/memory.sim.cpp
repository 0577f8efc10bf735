// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/memory.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"

namespace rt = cuota::rt;

TEST_CASE("too little memory is an answer, and leaves no error behind", "[runtime][memory]") {
    support::machine const sim{{1, std::size_t{1} << 20}};
    cuota::stream const s;
    REQUIRE(rt::device_allocate(std::size_t{2} << 20) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    REQUIRE(rt::async_allocate(std::size_t{2} << 20, s) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    cuota::simulator::fail_call("cudaHostAlloc", 1);
    REQUIRE(rt::pinned_allocate(16) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    cuota::simulator::fail_call("cudaMallocManaged", 1);
    REQUIRE(rt::managed_allocate(16) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
}

TEST_CASE("any other failure of an allocation is an error", "[runtime][memory]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::device_allocate(16), cuota::cuda_error);
    cuota::simulator::fail_call("cudaMallocAsync", 1, cudaErrorNotSupported);
    REQUIRE_THROWS_AS(rt::async_allocate(16, s), cuota::cuda_error);
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::pinned_allocate(16), cuota::cuda_error);
    cuota::simulator::fail_call("cudaMallocManaged", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::managed_allocate(16), cuota::cuda_error);
}

TEST_CASE("a release that fails in passing is reported, and done", "[runtime][memory]") {
    support::machine sim;
    cuota::stream const s;
    void* const device = rt::device_allocate(16);
    void* const async = rt::async_allocate(16, s);
    void* const pinned = rt::pinned_allocate(16);
    void* const managed = rt::managed_allocate(16);
    cuota::simulator::fail_call("cudaFree", 1, cudaErrorUnknown);
    REQUIRE(rt::device_free(device));
    cuota::simulator::fail_call("cudaFreeAsync", 1, cudaErrorUnknown);
    REQUIRE(rt::async_free(async, s));
    cuota::simulator::fail_call("cudaFreeHost", 1, cudaErrorUnknown);
    REQUIRE(rt::pinned_free(pinned));
    cuota::simulator::fail_call("cudaFree", 1, cudaErrorUnknown);
    REQUIRE(rt::device_free(managed));
    REQUIRE(sim.errors.take().size() == 4);
}

TEST_CASE("a release that is refused says so", "[runtime][memory]") {
    support::machine sim;
    int local = 0;
    REQUIRE(!rt::device_free(&local));
    REQUIRE(!rt::pinned_free(&local));
    REQUIRE(sim.errors.take().size() == 2);
}

TEST_CASE("memory tells which device it is on, if it is on one", "[runtime][memory]") {
    support::machine const sim{{2, std::size_t{16} << 20}};
    for (int i = 0; i != 2; ++i) {
        cuota::device const wanted{i};
        void* p = nullptr;
        void* managed = nullptr;
        {
            cuota::device_scope const here{wanted};
            p = rt::device_allocate(1000);
            managed = rt::managed_allocate(1000);
        }
        CHECK(rt::device_of(p) == wanted);
        CHECK(rt::device_of(static_cast<std::byte*>(p) + 999) == wanted);
        CHECK(rt::device_of(managed) == wanted);
        rt::device_free(p);
        rt::device_free(managed);
    }
    void* const pinned = rt::pinned_allocate(1000);
    CHECK_FALSE(rt::device_of(pinned));
    rt::pinned_free(pinned);
    int local = 0;
    CHECK_FALSE(rt::device_of(&local));
    cuota::simulator::fail_call("cudaPointerGetAttributes", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(rt::device_of(&local), cuota::cuda_error);
}
