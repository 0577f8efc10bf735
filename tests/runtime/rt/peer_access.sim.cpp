// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/peer_access.hpp>

#include <cstddef>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
namespace rt = cuota::rt;

namespace {

constexpr cuota::device first{0};
constexpr cuota::device second{1};

struct plain_memory {
    void* at = rt::device_allocate(1_MiB);
    ~plain_memory() { rt::device_free(at); }
};

}  // namespace

TEST_CASE("a device can access its own memory, and a peer's if the machine supports it",
          "[runtime][peer_access]") {
    bool const can = GENERATE(true, false);
    support::machine const machine{{.devices = 2, .has_peer_access = can}};
    CHECK(rt::can_reach(first, first));
    CHECK(rt::can_reach(first, second) == can);
    rt::allow_reach(first, first);
    if (can) rt::allow_reach(first, second);
    else CHECK_THROWS_AS(rt::allow_reach(first, second), cuota::cuda_error);
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("memory of cudaMalloc can be accessed by a peer after allow_reach", "[runtime][peer_access]") {
    support::machine const machine{{.devices = 2}};
    plain_memory const m;
    CHECK_FALSE(rt::out_of_reach(first, m.at));
    CHECK(rt::out_of_reach(second, m.at) == first);
    rt::allow_reach(second, first);
    rt::allow_reach(second, first);
    CHECK(support::last_error() == cudaSuccess);
    CHECK_FALSE(rt::out_of_reach(second, m.at));
    CHECK(cuota::device::current() == first);
}

TEST_CASE("mapped memory can be accessed by the devices for which access was allowed",
          "[runtime][peer_access]") {
    support::machine const machine{{.devices = 3}};
    rt::address_range const range{first, 4_MiB};
    for (std::size_t const offset : {0_MiB, 2_MiB})
        REQUIRE(rt::map_memory({first}, range.at() + offset, 2_MiB));
    rt::allow_access({first, second}, range.at(), 4_MiB);
    CHECK_FALSE(rt::out_of_reach(first, range.at() + 3_MiB));
    CHECK_FALSE(rt::out_of_reach(second, range.at() + 3_MiB));
    CHECK(rt::out_of_reach(cuota::device{2}, range.at() + 3_MiB) == first);
    rt::unmap_memory(range.at(), 4_MiB);
}

TEST_CASE("host memory, managed memory and unknown addresses can be accessed by all devices",
          "[runtime][peer_access]") {
    support::machine const machine{{.devices = 2}};
    int unknown = 0;
    CHECK_FALSE(rt::out_of_reach(second, &unknown));
    void* const pinned = rt::pinned_allocate(100);
    CHECK_FALSE(rt::out_of_reach(second, pinned));
    rt::pinned_free(pinned);
    void* const managed = rt::managed_allocate(100);
    CHECK_FALSE(rt::out_of_reach(second, managed));
    rt::device_free(managed);
}
