// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/virtual_memory.hpp>

#include <cstddef>
#include <string>
#include <utility>

#include <cuda.h>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
namespace rt = cuota::rt;
namespace simulator = cuota::simulator;
using support::has;
using support::thrown;

TEST_CASE("a device reports whether it supports virtual memory, and its page size",
          "[runtime][virtual_memory]") {
    support::machine const machine{{.devices = 2}};
    CHECK(rt::supports_virtual_memory(cuota::device{0}));
    CHECK(rt::supports_virtual_memory(cuota::device{1}));
    CHECK(rt::page_size(cuota::device{1}) == 2_MiB);
    CHECK_THROWS_AS(rt::page_size(cuota::device{7}), cuota::cuda_error);
}

TEST_CASE(
    "has_room tells whether the driver would allocate, also where its figure of free memory is too high",
    "[runtime][virtual_memory]") {
    support::machine const machine{{1, 64_MiB}};
    cuota::device const here{0};
    CHECK(rt::has_room(here, 64_MiB));
    CHECK(!rt::has_room(here, 66_MiB));
    simulator::set_unusable_memory(0, 4_MiB);
    CHECK(here.memory().free == 64_MiB);
    CHECK(!rt::has_room(here, 62_MiB));
    CHECK(rt::has_room(here, 60_MiB));
    CHECK(here.memory().free == 64_MiB);
}

TEST_CASE("adjacent mapped pages can be used as one block, and unmapped", "[runtime][virtual_memory]") {
    support::machine const machine;
    cuota::device const here{0};
    cuota::stream const s;
    rt::address_range const range{here, 8_MiB};
    REQUIRE(range.bytes() == 8_MiB);
    CHECK(simulator::live().device_bytes == 0);

    REQUIRE(rt::map_memory({here}, range.at(), 2_MiB));
    REQUIRE(rt::map_memory({here}, range.at() + 2_MiB, 2_MiB));
    rt::allow_access({here}, range.at(), 4_MiB);
    CHECK(simulator::live().device_bytes == 4_MiB);
    support::write_words(s, range.at(), 4_MiB, 7);
    CHECK(support::all_are(support::words(s, range.at(), 4_MiB), 7));

    s.synchronize();
    CHECK(rt::unmap_memory(range.at() + 2_MiB, 2_MiB));
    CHECK(simulator::live().device_bytes == 2_MiB);
    CHECK(rt::unmap_memory(range.at(), 2_MiB));
    CHECK(simulator::live().device_bytes == 0);
}

TEST_CASE("mapped memory supports GPUDirect RDMA if the device does", "[runtime][virtual_memory]") {
    bool const can = GENERATE(true, false);
    support::machine const machine{{.maps_for_rdma = can}};
    cuota::device const here{0};
    auto const memory = rt::physical_memory_of(here);
    CHECK(memory.where == here);
    CHECK(memory.is_for_rdma == can);
    rt::address_range const range{here, 2_MiB};
    REQUIRE(rt::map_memory(memory, range.at(), 2_MiB));
    unsigned reaches = 0;  // initialized, because the driver may write only one byte
    CHECK(cuPointerGetAttribute(&reaches, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                                reinterpret_cast<CUdeviceptr>(range.at())) == CUDA_SUCCESS);
    CHECK(reaches == can);
    rt::unmap_memory(range.at(), 2_MiB);
}

TEST_CASE("an address_range releases its addresses once, also after moves", "[runtime][virtual_memory]") {
    support::machine const machine;
    rt::address_range a{cuota::device{0}, 2_MiB};
    std::byte* const at = a.at();
    rt::address_range b{std::move(a)};
    CHECK(a.bytes() == 0);
    CHECK(b.at() == at);
    b = rt::address_range{cuota::device{0}, 4_MiB};
    CHECK(b.bytes() == 4_MiB);
    CHECK(simulator::live().address_ranges == 1);
    rt::address_range const none;
    CHECK(none.bytes() == 0);
}

TEST_CASE("map_memory fails on a full device, and an address_range is empty if no addresses are available",
          "[runtime][virtual_memory]") {
    support::machine const machine{{1, 4_MiB}};
    cuota::device const here{0};
    rt::address_range const range{here, 8_MiB};
    REQUIRE(rt::map_memory({here}, range.at(), 2_MiB));
    REQUIRE(rt::map_memory({here}, range.at() + 2_MiB, 2_MiB));
    CHECK_FALSE(rt::map_memory({here}, range.at() + 4_MiB, 2_MiB));
    CHECK(support::last_error() == cudaSuccess);
    rt::unmap_memory(range.at(), 2_MiB);
    rt::unmap_memory(range.at() + 2_MiB, 2_MiB);

    simulator::fail_call("cuMemAddressReserve", 1, cudaErrorMemoryAllocation);
    rt::address_range const refused{here, 2_MiB};
    CHECK(refused.bytes() == 0);
}

TEST_CASE("an error of the driver names its call and has a text", "[runtime][virtual_memory]") {
    support::machine const machine;
    cuota::device const here{0};
    rt::address_range const range{here, 4_MiB};
    auto const unmapped = thrown<cuota::cuda_error>([&] { rt::allow_access({here}, range.at(), 2_MiB); });
    CHECK(has(unmapped.what(), "cuMemSetAccess"));
    CHECK(has(unmapped.what(), "invalid argument"));

    simulator::fail_call("cuMemMap", 1, cudaErrorUnknown);
    auto const failed = thrown<cuota::cuda_error>([&] { (void)rt::map_memory({here}, range.at(), 2_MiB); });
    CHECK(failed.call() == "cuMemMap");
    CHECK(simulator::live().device_bytes == 0);
}

TEST_CASE("mapping and unmapping report the failure of any call and leak nothing",
          "[runtime][virtual_memory]") {
    support::machine machine;
    cuota::device const here{0};
    REQUIRE(rt::supports_virtual_memory(here));  // looks up the driver's functions, which happens once
    auto const seen = support::survives_every_failure(machine, [&] {
        if (!rt::supports_virtual_memory(here)) throw cuota::usage_error{"no virtual memory"};
        rt::address_range const range{here, 2 * rt::page_size(here)};
        if (range.bytes() == 0) return;
        if (!rt::map_memory({here}, range.at(), 2_MiB)) return;
        try {
            rt::allow_access({here}, range.at(), 2_MiB);
        } catch (...) {
            rt::unmap_memory(range.at(), 2_MiB);
            throw;
        }
        rt::unmap_memory(range.at(), 2_MiB);
    });
    CHECK(seen.thrown > 5);
    CHECK(seen.reported >= 6);  // three release calls, each with two codes
    CHECK(simulator::live().address_ranges == 0);
}
