// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/pageable_memory.hpp>

#include <cstdint>
#include <cstring>

#include <cuota/runtime/rt/copy.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using cuota::pageable_memory;

TEST_CASE("pageable memory is aligned to pages, and copies reach it", "[resource][pageable_memory]") {
    support::machine const machine;
    pageable_memory memory;
    std::size_t const page = pageable_memory::granularity();
    cuota::stream const stream;
    auto* const p = static_cast<char*>(memory.allocate(stream, 3 * page - 1, page));
    CHECK(reinterpret_cast<std::uintptr_t>(p) % page == 0);
    CHECK(cuota::detail::taken_on_host() == 3 * page);
    std::memset(p, 7, 3 * page - 1);
    void* device = nullptr;
    REQUIRE(cudaMalloc(&device, 3 * page) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(device, p, 3 * page - 1, cudaMemcpyHostToDevice, stream.get()) == cudaSuccess);
    std::memset(p, 0, 3 * page - 1);
    REQUIRE(cudaMemcpyAsync(p, device, 3 * page - 1, cudaMemcpyDeviceToHost, stream.get()) == cudaSuccess);
    stream.synchronize();
    CHECK(p[0] == 7);
    CHECK(p[3 * page - 2] == 7);
    REQUIRE(cudaFree(device) == cudaSuccess);
    memory.deallocate(stream, p, 3 * page - 1, page);
    CHECK(cuota::detail::taken_on_host() == 0);
}

TEST_CASE("pageable memory refuses what the host does not have", "[resource][pageable_memory]") {
    support::machine const machine;
    pageable_memory memory;
    CHECK(memory.allocate_sync(0) == nullptr);
    memory.deallocate_sync(nullptr, 0);
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)memory.allocate_sync(std::size_t{1} << 60, 256, {"ring", {"train.cpp", 17}});
    });
    CHECK(refused.info().cause == "not enough free host memory");
    CHECK_THROWS_AS(memory.allocate_sync(cuota::unlimited), cuota::out_of_memory);
    CHECK_THROWS_AS(memory.allocate_sync(64, 2 * pageable_memory::granularity()), cuota::usage_error);
    CHECK_THROWS_AS(memory.allocate_sync(64, 3), cuota::usage_error);
    CHECK(cuota::detail::taken_on_host() == 0);
    CHECK(memory == pageable_memory{});
}
