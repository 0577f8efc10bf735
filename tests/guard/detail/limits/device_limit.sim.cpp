// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/limits/device_limit.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;
using cuota::budget;
namespace sim = cuota::simulator;

namespace {

cuota::device const here{0};

budget always_looking(double share = 1.0, std::size_t keep_free = 0) {
    return budget::for_device(here, share, keep_free, 0ns);
}
budget never_looking() { return budget::for_device(here, 1.0, 0, 24h); }

}  // namespace

TEST_CASE("a request is refused without a failed CUDA call if another program has taken the memory",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    for (bool const looks : {true, false}) {
        budget const b = looks ? always_looking() : never_looking();
        cuota::budgeted<cuota::device_memory> memory{b};
        void* const first = memory.allocate_sync(16_MiB);
        REQUIRE(b.available() == 48_MiB);  // the planned amount
        sim::set_other_programs(0, 40_MiB);
        auto const live = sim::live();
        auto const before = sim::allocation_calls();
        std::size_t const held = b.held();
        std::size_t at_catch = 0;
        try {
            (void)memory.allocate_sync(9_MiB);
            FAIL("8 MiB are free");
        } catch (cuota::out_of_memory const& refused) {
            at_catch = sim::live().device_bytes;
            cuota::refusal const& facts = refused.info();
            CHECK(facts.device);
            CHECK(facts.device->free == 8_MiB);
            CHECK(facts.device->external() == 40_MiB);
            CHECK(facts.max_fit == 8_MiB);
        }
        CHECK(at_catch == live.device_bytes);
        CHECK(b.held() == held);
        if (looks) CHECK(sim::allocation_calls() == before);  // no allocation was attempted
        void* const second = memory.allocate_sync(8_MiB);
        sim::set_other_programs(0, 0);
        void* const third = memory.allocate_sync(40_MiB);
        memory.deallocate_sync(third, 40_MiB);
        memory.deallocate_sync(second, 8_MiB);
        memory.deallocate_sync(first, 16_MiB);
    }
}

TEST_CASE("a budget over its device limit refuses charges while other programs have the memory",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget b = always_looking();
    b.charge(40_MiB);  // charged but not allocated yet
    sim::set_other_programs(0, 50_MiB);
    REQUIRE(!b.try_charge(1));
    REQUIRE(b.limit() == 14_MiB);
    REQUIRE(b.held() == 40_MiB);
    REQUIRE(b.available() == 0);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(1_MiB); });
    REQUIRE(refused.info().max_fit == 0);
    REQUIRE(refused.info().shortfall() == 27_MiB);
    b.refund(40_MiB);
    REQUIRE(b.try_charge(14_MiB));
    REQUIRE(!b.try_charge(1));
    b.refund(14_MiB);
    sim::set_other_programs(0, 0);
    REQUIRE(b.try_charge(64_MiB));
    REQUIRE(b.limit() == 64_MiB);
    b.refund(64_MiB);
}

TEST_CASE("the share and the free reserve of a device budget hold as the device fills",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget half = always_looking(0.5);
    budget most = always_looking(1.0, 8_MiB);
    REQUIRE(half.try_charge(32_MiB));
    REQUIRE(!half.try_charge(1));
    half.refund(32_MiB);
    sim::set_other_programs(0, 30_MiB);
    REQUIRE(half.try_charge(32_MiB));
    half.refund(32_MiB);
    REQUIRE(most.try_charge(26_MiB));
    REQUIRE(!most.try_charge(1));
    most.refund(26_MiB);
    sim::set_other_programs(0, 60_MiB);
    REQUIRE(!half.try_charge(5_MiB));
    REQUIRE(!most.try_charge(1));
    REQUIRE(half.try_charge(4_MiB));
    half.refund(4_MiB);
}

TEST_CASE("memory of this process is not counted twice", "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b = always_looking();
    cuota::budgeted<cuota::device_memory> memory{b};
    std::vector<void*> blocks;
    for (int i = 0; i != 8; ++i) blocks.push_back(memory.allocate_sync(8_MiB));
    REQUIRE(b.limit() == 64_MiB);
    REQUIRE(b.held() == 64_MiB);
    REQUIRE_THROWS_AS(memory.allocate_sync(1), cuota::budget_exceeded);
    for (void* const p : blocks) memory.deallocate_sync(p, 8_MiB);

    // Memory that this process allocates without charging the budget counts like another program's.
    cuota::device_memory plain{here};
    void* const p = plain.allocate_sync(24_MiB);
    blocks.assign(5, nullptr);
    for (void*& block : blocks) block = memory.allocate_sync(8_MiB);
    REQUIRE_THROWS_AS(memory.allocate_sync(1), cuota::budget_exceeded);
    for (void* const block : blocks) memory.deallocate_sync(block, 8_MiB);
    plain.deallocate_sync(p, 24_MiB);
}

TEST_CASE("memory that the driver's pool caches is available", "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b = always_looking();
    cuota::budgeted<cuota::async_memory> memory{b};
    cuota::stream const s;
    void* p = memory.allocate(s, 40_MiB);
    memory.deallocate(s, p, 40_MiB);
    p = memory.allocate(s, 40_MiB);  // fits, whether it was cached or released
    REQUIRE(b.limit() == 64_MiB);
    memory.deallocate(s, p, 40_MiB);
    s.synchronize();
}

TEST_CASE("free memory is queried at intervals and before a refusal", "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget b = never_looking();
    auto const requested = [] { return sim::calls("cudaMemGetInfo"); };
    REQUIRE(requested() == 2);  // total memory and free memory
    b.charge(1_MiB);
    std::uint64_t const after_first = requested();
    for (int i = 0; i != 100; ++i) {
        b.charge(128_KiB);
        b.refund(128_KiB);
    }
    REQUIRE(requested() == after_first);
    REQUIRE(!b.try_charge(64_MiB));
    REQUIRE(requested() == after_first + 1);
    REQUIRE_THROWS_AS(b.charge(64_MiB), cuota::budget_exceeded);
    REQUIRE(requested() <= after_first + 4);
    REQUIRE(sim::allocation_calls() == 0);
    b.refund(1_MiB);

    budget each = always_looking();
    std::uint64_t const before = requested();
    for (int i = 0; i != 10; ++i) {
        each.charge(128_KiB);
        each.refund(128_KiB);
    }
    REQUIRE(requested() == before + 10);
    each.charge(1_KiB);
    each.refund(1_KiB);
    std::uint64_t const now = requested();
    for (int i = 0; i != 100; ++i) {  // too few bytes for another query
        each.charge(1_KiB);
        each.refund(1_KiB);
    }
    REQUIRE(requested() == now);
}

TEST_CASE("a failed query is reported, and the previous limit stays", "[guard][device_limit]") {
    support::machine machine{{1, 64_MiB}};
    budget b = always_looking();
    sim::set_other_programs(0, 60_MiB);
    sim::fail_call("cudaMemGetInfo", 1, cudaErrorUnknown, sim::fault_kind::until_cleared);
    REQUIRE(b.try_charge(32_MiB));
    REQUIRE(machine.errors.take().size() == 1);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(33_MiB); });
    REQUIRE(!refused.info().device);
    REQUIRE(!machine.errors.take().empty());
    sim::clear_faults();
    b.refund(32_MiB);
    REQUIRE(!b.try_charge(5_MiB));
}

TEST_CASE("a refusal separates the baseline from memory that other programs took later",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    sim::set_other_programs(0, 6_MiB);  // a CUDA context and libraries
    budget b = always_looking();
    REQUIRE(b.record_baseline() == 6_MiB);
    sim::set_other_programs(0, 16_MiB);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(49_MiB); });
    REQUIRE(refused.info().device);
    REQUIRE(refused.info().device->baseline == 6_MiB);
    REQUIRE(refused.info().device->external() == 16_MiB);
    REQUIRE(std::string{refused.what()}.find("outside cuota 16.0 MiB (6.0 MiB at startup)") !=
            std::string::npos);
    budget other{"other", 1_MiB};
    REQUIRE_THROWS_AS(other.record_baseline(), cuota::usage_error);
}

TEST_CASE("budgets inside a device's budget are limited by the device", "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget const root = always_looking();
    budget inside{"model", 60_MiB, root};
    sim::set_other_programs(0, 32_MiB);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { inside.charge(33_MiB); });
    REQUIRE(refused.info().refused_by == 1);
    REQUIRE(refused.info().max_fit == 32_MiB);
    REQUIRE_THROWS_AS(inside.reserve(33_MiB), cuota::budget_exceeded);
    cuota::reservation const r = inside.reserve(32_MiB);
    REQUIRE(inside.available() == 0);
}

TEST_CASE("threads whose allocations fit are not refused while other allocations are in progress",
          "[guard][device_limit]") {
    support::machine const machine{{1, 8_MiB}};
    budget const b = always_looking();
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([&] {
            cuota::budgeted<cuota::device_memory> memory{b, cuota::device_memory{here}};
            for (int i = 0; i != 100; ++i) try {
                    memory.deallocate_sync(memory.allocate_sync(2_MiB), 2_MiB);
                } catch (cuota::out_of_memory const&) { ++refused; }
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(refused == 0);
    REQUIRE(b.held() == 0);
}

TEST_CASE("a budget of a device with the host's memory counts page cache as available",
          "[guard][device_limit]") {
    support::machine const machine{{.capacity = 640_MiB, .is_integrated = true}};
    sim::set_page_cache(0, 384_MiB);  // 60 %
    budget const b = always_looking(0.8);
    REQUIRE(here.memory().driver_free == 256_MiB);
    REQUIRE(b.limit() == 512_MiB);
    cuota::budgeted<cuota::device_memory> memory{b};
    void* const p = memory.allocate_sync(400_MiB);  // refused by what the driver reports as free
    REQUIRE_THROWS_AS(memory.allocate_sync(113_MiB), cuota::budget_exceeded);
    memory.deallocate_sync(p, 400_MiB);
}

TEST_CASE("a budget of a device with the host's memory leaves a sixteenth of it", "[guard][device_limit]") {
    support::machine const machine{{.capacity = 640_MiB, .is_integrated = true}};
    budget b = always_looking();
    REQUIRE(b.limit() == 600_MiB);
    REQUIRE(always_looking(1.0, 100_MiB).limit() == 540_MiB);
    sim::set_other_programs(0, 140_MiB);
    REQUIRE(b.try_charge(460_MiB));
    REQUIRE(!b.try_charge(1));
    b.refund(460_MiB);
}

TEST_CASE("idle memory of the driver's pool is released before it lets a charge above the soft limit",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    sim::set_memory_limits(0, {32_MiB, cuota::unlimited, 0});
    budget const b = always_looking();
    cuota::stream const s;
    cuota::budgeted<cuota::async_memory> ordered{b};
    ordered.deallocate(s, ordered.allocate(s, 20_MiB), 20_MiB);
    cuota::budgeted<cuota::device_memory> plain{b};
    void* const p = plain.allocate_sync(30_MiB);
    CHECK(here.limits()->used == 30_MiB);
    plain.deallocate_sync(p, 30_MiB);
}

TEST_CASE("a device's budget stays within the soft limit unless it is told otherwise",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    sim::set_memory_limits(0, {32_MiB, 48_MiB, 8_MiB});
    budget const soft = always_looking();
    budget const hard = budget::for_device(here, 1.0, 0, 0ns, cuota::stay_within::hard_limit);
    CHECK(soft.limit() == 24_MiB);
    CHECK(hard.limit() == 40_MiB);
    cuota::budgeted<cuota::device_memory> memory{soft};
    void* const first = memory.allocate_sync(20_MiB);
    CHECK(soft.limit() == 24_MiB);  // its own bytes are not counted twice
    try {
        (void)memory.allocate_sync(5_MiB, 256, {"weights", {"train.cpp", 17}});
        FAIL("4 MiB are left below the soft limit");
    } catch (cuota::budget_exceeded const& refused) {
        cuota::refusal const& facts = refused.info();
        REQUIRE(facts.device);
        CHECK(facts.device->soft_limit == 32_MiB);
        CHECK(facts.device->soft_limit_used == 28_MiB);
        CHECK(facts.max_fit == 4_MiB);
        CHECK(support::has(refused.what(), "soft limit"));
        CHECK(support::has(refused.what(), "above it the driver may terminate this process"));
    }
    sim::set_memory_limits(0, {32_MiB, 48_MiB, 0});  // another process of the group has ended
    void* const second = memory.allocate_sync(12_MiB);
    CHECK_THROWS_AS(memory.allocate_sync(1), cuota::budget_exceeded);
    memory.deallocate_sync(second, 12_MiB);
    memory.deallocate_sync(first, 20_MiB);
}

TEST_CASE("the limit of a device's budget can be changed, up to what the device has",
          "[guard][device_limit]") {
    support::machine const machine{{1, 64_MiB}};
    budget b = always_looking(0.5);
    REQUIRE(b.limit() == 32_MiB);
    b.set_limit(48_MiB);
    REQUIRE(b.limit() == 48_MiB);
    REQUIRE(b.try_charge(40_MiB));
    REQUIRE_THROWS_AS(b.set_limit(39_MiB), cuota::budget_exceeded);
    b.set_limit(16_MiB, cuota::when_held::keep);
    REQUIRE(b.limit() == 16_MiB);
    REQUIRE(!b.try_charge(1));
    b.refund(40_MiB);
    REQUIRE(b.try_charge(16_MiB));
    REQUIRE(!b.try_charge(1));
    b.refund(16_MiB);
    b.set_limit(cuota::unlimited);
    REQUIRE(b.limit() == 64_MiB);
    sim::set_other_programs(0, 60_MiB);
    REQUIRE(!b.try_charge(5_MiB));
    REQUIRE(b.limit() == 4_MiB);
    b.set_limit(2_MiB);
    REQUIRE(b.limit() == 2_MiB);
    sim::set_other_programs(0, 0);
    b.set_limit(64_MiB);
    REQUIRE(b.limit() == 64_MiB);
}
