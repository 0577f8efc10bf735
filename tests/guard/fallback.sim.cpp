// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/fallback.hpp>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pageable_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::budgeted;
using cuota::fallback;

// The kind is the access that both memories allow.
using device_or_managed = fallback<cuota::device_memory, cuota::managed_memory>;
static_assert(cuota::device_only_resource<device_or_managed>);
static_assert(cuota::host_only_resource<fallback<cuota::pinned_memory, cuota::pageable_memory>>);
static_assert(fallback<cuota::managed_memory, cuota::managed_memory>::kind() == cuota::memory_kind::managed);

TEST_CASE("fallback behaves as a resource", "[guard][fallback]") {
    SECTION("served by the first") {
        support::behaves_as_a_resource(fallback{cuota::device_memory{}, cuota::managed_memory{}});
    }
    SECTION("served by the second") {
        budget const none{"none", 0};
        support::behaves_as_a_resource(fallback{budgeted{none}, cuota::managed_memory{}});
    }
    SECTION("type-erased") {
        support::behaves_as_a_resource(fallback{cuota::any_resource{cuota::device_memory{}},
                                                cuota::any_resource{cuota::device_memory{}}});
    }
}

TEST_CASE("a request that the first resource refuses is served by the second", "[guard][fallback]") {
    support::machine const machine;
    budget const on_device{"device", 1_MiB};
    budget const on_host{"host", 4_MiB};
    fallback memory{budgeted{on_device}, budgeted<cuota::managed_memory>{on_host}};
    cuota::stream const stream;
    {
        cuota::device_buffer<char> const a{1_MiB, stream, memory, "a"};
        cuota::device_buffer<char> const b{2_MiB, stream, memory, "b"};
        CHECK(on_device.held() == 1_MiB);
        CHECK(on_host.held() == 2_MiB);
        cuota::fallback_stats const now = memory.stats();
        CHECK(now.by_primary == 1);
        CHECK(now.by_secondary == 1);
        CHECK(now.live_blocks == 1);
        CHECK(now.live_bytes == 2_MiB);

        // The second resource's refusal says which requests it has served, and that the first one refused.
        auto const refused = support::thrown<cuota::budget_exceeded>([&] {
            cuota::device_buffer<char> const c{3_MiB, stream, memory, "c"};
        });
        INFO(refused.what());
        CHECK(support::has(refused.what(), "cannot allocate 3.0 MiB for c at"));
        CHECK(support::has(refused.what(), "b (fallback) 2.0 MiB"));
        CHECK(support::has(refused.what(), "cause      first resource: cannot allocate 3.0 MiB for c at"));
        CHECK(refused.info().refusing_budget()->name == "host");
        CHECK(memory.stats().refused == 1);
    }
    CHECK(on_device.held() == 0);
    CHECK(on_host.held() == 0);
    cuota::fallback_stats const end = memory.stats();
    CHECK(end.live_blocks == 0);
    CHECK(end.live_bytes == 0);
    CHECK(end.by_primary == 1);
}

TEST_CASE("pinned memory, else pageable", "[guard][fallback]") {
    support::machine const machine;
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation,
                                cuota::simulator::fault_kind::until_cleared);
    fallback memory{cuota::pinned_memory{}, cuota::pageable_memory{}};
    CHECK(memory.granularity() == cuota::pageable_memory::granularity());
    cuota::stream const stream;
    {
        cuota::pinned_buffer<int> numbers{1'000, memory, "numbers"};
        CHECK(memory.stats().live_blocks == 1);
        for (int i = 0; i != 1'000; ++i) numbers.write()[static_cast<std::size_t>(i)] = i;
        cuota::device_buffer<int> copy{1'000, stream, cuota::device_memory{}, "copy"};
        numbers.upload(copy, stream);
        CHECK(copy.to_vector(stream)[999] == 999);
    }
    CHECK(memory.stats().live_blocks == 0);
    CHECK(cuota::detail::taken_on_host() == 0);
}

TEST_CASE("errors that are no refusal are not answered by the second resource", "[guard][fallback]") {
    support::machine const machine;
    fallback memory{cuota::device_memory{}, cuota::managed_memory{}};
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(memory.allocate_sync(64), cuota::cuda_error);
    CHECK_THROWS_AS(memory.allocate_sync(64, 3), cuota::usage_error);
    CHECK(memory.stats().by_secondary == 0);
}

TEST_CASE("nothing is lost if the host has no memory for the record", "[guard][fallback]") {
    support::machine const machine;
    budget const none{"none", 0};
    fallback memory{budgeted{none}, cuota::managed_memory{}};
    for (std::size_t allowed = 0;; ++allowed) {
        REQUIRE(allowed < 200);
        void* p = nullptr;
        try {
            support::failing_heap const heap{allowed};
            p = memory.allocate_sync(64);
        } catch (std::bad_alloc const&) { continue; }
        memory.deallocate_sync(p, 64);
        break;
    }
    CHECK(memory.stats().live_blocks == 0);
    CHECK(memory.stats().by_secondary == 1);
}

TEST_CASE("a block of the first resource that is freed twice is reported, and no figure changes",
          "[guard][fallback]") {
    support::machine machine;
    budget const some{"some", 1_MiB};
    fallback memory{budgeted{some}, cuota::managed_memory{}};
    void* const p = memory.allocate_sync(512);
    memory.deallocate_sync(p, 512);
    memory.deallocate_sync(p, 512);
    CHECK(machine.errors.take().size() == 1);
    CHECK(some.held() == 0);
    CHECK(memory.stats().live_blocks == 0);
    CHECK(memory.stats().live_bytes == 0);
}

TEST_CASE("resources of different accessibility are refused", "[guard][fallback]") {
    support::machine const machine;
    cuota::any_resource const device{cuota::device_memory{}};
    cuota::any_resource const host{cuota::pinned_memory{}};
    CHECK_THROWS_AS((fallback{device, host}), cuota::usage_error);
    CHECK_NOTHROW(fallback{device, cuota::any_resource{cuota::managed_memory{}}});
}

TEST_CASE("a pool grows in the second resource", "[guard][fallback]") {
    support::machine const machine;
    budget const small{"small", 4_MiB};
    budget const large{"large", 64_MiB};
    cuota::stream const stream;
    fallback memory{budgeted{small}, budgeted<cuota::managed_memory>{large}};
    {
        cuota::scoped_pool const pool{cuota::any_resource{memory}};
        std::vector<cuota::device_buffer<char>> all;
        for (int i = 0; i != 10; ++i) all.emplace_back(1_MiB, stream, pool, "block");
        CHECK(large.held() != 0);
    }
    CHECK(small.held() == 0);
    CHECK(large.held() == 0);
}

TEST_CASE("threads free each other's blocks to the right resource", "[guard][fallback]") {
    support::machine const machine;
    budget const some{"some", 8 * 512};
    budget const rest{"rest", cuota::unlimited};
    fallback memory{budgeted{some}, budgeted<cuota::managed_memory>{rest}};
    std::vector<std::atomic<void*>> slots(16);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            unsigned state = t + 1;
            for (int i = 0; i != 2'000; ++i) {
                state = state * 1664525u + 1013904223u;
                void* const p = memory.allocate_sync(512);
                if (void* const old = slots[(state >> 8) % slots.size()].exchange(p))
                    memory.deallocate_sync(old, 512);
            }
        });
    for (std::thread& t : threads) t.join();
    for (auto& slot : slots)
        if (void* const p = slot.exchange(nullptr)) memory.deallocate_sync(p, 512);
    CHECK(some.held() == 0);
    CHECK(rest.held() == 0);
    cuota::fallback_stats const end = memory.stats();
    CHECK(end.live_blocks == 0);
    CHECK(end.live_bytes == 0);
    CHECK(end.by_primary + end.by_secondary == 8'000);
    CHECK(end.by_secondary != 0);
}
