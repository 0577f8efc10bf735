// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <stdexcept>
#include <vector>

using namespace control;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t total_bytes() {
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return total;
}

}  // namespace

TEST_CASE("restless programs allocate and free before calls, by a seed", "[simulator][other_programs]") {
    machine m{{1, 64 * mib}};
    CHECK(sim::other_programs(0).bytes == 0);
    auto const seen = [](std::uint64_t seed) {
        sim::set_restless_programs(0, 32 * mib, 0.5, seed);
        std::vector<std::size_t> free;
        for (int i = 0; i != 100; ++i) free.push_back(free_bytes());
        sim::set_restless_programs(0, 0, 0);
        return free;
    };
    auto const first = seen(1);
    CHECK(sim::other_programs(0).changes > 20);
    CHECK(sim::other_programs(0).changes < 80);
    CHECK(first == seen(1));
    CHECK(first != seen(2));
    for (std::size_t const free : first) CHECK(free >= 32 * mib);
    auto const changes = sim::other_programs(0).changes;
    (void)free_bytes();
    CHECK(sim::other_programs(0).changes == changes);
    CHECK_THROWS_AS(sim::set_restless_programs(0, 1, 1.5), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_restless_programs(7, 1, 0.5), std::invalid_argument);
    CHECK_THROWS_AS(sim::other_programs(-1), std::invalid_argument);
}

TEST_CASE("unusable memory is free by the driver's figure, but cannot be allocated",
          "[simulator][other_programs]") {
    machine m{{1, 64 * mib}};
    sim::set_unusable_memory(0, 16 * mib);
    CHECK(free_bytes() == 64 * mib);
    auto* const large = device_memory(40 * mib);
    CHECK(free_bytes() == 24 * mib);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 9 * mib) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(large) == cudaSuccess);
    auto* const all = device_memory(48 * mib);
    CHECK(free_bytes() == 16 * mib);
    CHECK(cudaFree(all) == cudaSuccess);
    (void)cudaGetLastError();
    CHECK_THROWS_AS(sim::set_unusable_memory(7, 1), std::invalid_argument);
    sim::reset({1, 64 * mib});
    CHECK(cudaFree(device_memory(64 * mib)) == cudaSuccess);
}

TEST_CASE("the page cache of an integrated device is not free, but can be allocated",
          "[simulator][other_programs]") {
    machine m{{.capacity = 64 * mib, .is_integrated = true}};
    int is_integrated = 0;
    REQUIRE(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, 0) == cudaSuccess);
    CHECK(is_integrated == 1);
    sim::set_page_cache(0, 48 * mib);
    CHECK(free_bytes() == 16 * mib);
    auto* const pinned = pinned_memory(4 * mib);
    CHECK(free_bytes() == 12 * mib);
    auto* const large = device_memory(50 * mib);
    CHECK(free_bytes() == 0);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 11 * mib) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(large) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("a hard limit bounds what is free and what can be allocated", "[simulator][other_programs]") {
    machine m{{1, 64 * mib}};
    sim::set_memory_limits(0, {16 * mib, 32 * mib, 4 * mib});
    CHECK(total_bytes() == 32 * mib);
    CHECK(free_bytes() == 28 * mib);
    auto* const p = device_memory(20 * mib);  // above the soft limit
    CHECK(free_bytes() == 8 * mib);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 9 * mib) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK(cudaFree(p) == cudaSuccess);
    sim::set_memory_limits(0, {});
    CHECK(total_bytes() == 64 * mib);
}
