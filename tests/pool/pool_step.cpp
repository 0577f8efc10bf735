// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/pool_step.hpp>

#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

static_assert(!std::is_move_constructible_v<cuota::pool_step>);
static_assert(sizeof(cuota::pool_resource_for<cuota::lifetime_hint::step>) == 8);

namespace {

// Runs steps that allocate activations of changing sizes, some freed soon, and weights in between, which stay. Returns the number of free
// blocks once only the weights are live.
template <class Weights, class Activations>
std::size_t holes_after_steps(cuota::scoped_pool& pool, cuota::stream_ref s, Weights weights,
                              Activations activations, std::vector<std::pair<void*, std::size_t>>& kept) {
    std::mt19937 random{7};
    for (int step = 0; step != 3; ++step) {
        auto const scope = pool.begin_step();
        std::vector<std::pair<void*, std::size_t>> live;
        for (int i = 0; i != 60; ++i) {
            std::size_t const bytes = 4096 * (1 + random() % 40);
            live.emplace_back(activations(scope, bytes), bytes);
            if (i % 6 == 5) {
                std::size_t const n = 1024 * (1 + random() % 40);
                kept.emplace_back(weights(n), n);
            }
            if (i % 3 == 2) {
                std::swap(live[random() % live.size()], live.back());
                pool.deallocate(s, live.back().first, live.back().second);
                live.pop_back();
            }
        }
        for (auto const& [p, bytes] : live) pool.deallocate(s, p, bytes);
    }
    return pool.stats().free_blocks;
}

}  // namespace

TEST_CASE("persistent allocations in steps leave the rest of the pool in one free block",
          "[pool][pool_step][lifetime_hint]") {
    cuota::stream const stream;
    cuota::stream_ref const s = stream;
    std::vector<std::pair<void*, std::size_t>> kept;
    auto const reserved = cuota::pool_options{.initial_size = 32_MiB};

    cuota::scoped_pool told{cuota::budget{"trainer", 64_MiB}, reserved};
    auto persistent = told.persistent();
    CHECK(holes_after_steps(
              told, s, [&](std::size_t n) { return persistent.allocate(s, n); },
              [&](cuota::pool_step const& step, std::size_t n) { return step.allocate(s, n); }, kept) == 1);
    CHECK(kept.size() == 30);
    CHECK(told.largest_free() == told.stats().reserved - told.stats().allocated);
    for (auto const& [p, n] : std::exchange(kept, {})) told.deallocate(s, p, n);

    cuota::scoped_pool untold{cuota::budget{"trainer", 64_MiB}, reserved};
    CHECK(holes_after_steps(
              untold, s, [&](std::size_t n) { return untold.allocate(s, n); },
              [&](cuota::pool_step const&, std::size_t n) { return untold.allocate(s, n); }, kept) > 5);
    for (auto const& [p, n] : kept) untold.deallocate(s, p, n);
}

TEST_CASE("scratch and step allocations are placed at opposite ends of a pool",
          "[pool][pool_step][lifetime_hint]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    auto const step = pool.begin_step();
    auto* const scratch = static_cast<std::byte*>(pool.allocate(s, 64_KiB));
    auto* const first = static_cast<std::byte*>(step.allocate(s, 1_MiB));
    auto* const second = static_cast<std::byte*>(step.allocate(s, 1_MiB));
    CHECK(first == scratch + 7_MiB);
    CHECK(second == first - 1_MiB);
    pool.deallocate(s, scratch, 64_KiB);
    CHECK(pool.largest_free() == 6_MiB);
    pool.deallocate(s, first, 1_MiB);
    pool.deallocate(s, second, 1_MiB);
    CHECK(pool.largest_free() == 8_MiB);
}

TEST_CASE("a persistent block fills a hole between persistent blocks, otherwise it follows the last one",
          "[pool][lifetime_hint]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    auto kept = pool.persistent();
    auto* const first = static_cast<std::byte*>(kept.allocate(s, 128_KiB));
    void* const hole = kept.allocate(s, 128_KiB);
    void* const last = kept.allocate(s, 128_KiB);
    kept.deallocate(s, hole, 128_KiB);
    CHECK(kept.allocate(s, 100_KiB) == hole);
    CHECK(kept.allocate(s, 1_MiB) == first + 384_KiB);
    for (auto const& [p, n] :
         {std::pair{static_cast<void*>(first), 128_KiB}, std::pair{hole, 100_KiB}, std::pair{last, 128_KiB},
          std::pair{static_cast<void*>(first + 384_KiB), 1_MiB}})
        kept.deallocate(s, p, n);
    CHECK(pool.largest_free() == 8_MiB);
}

TEST_CASE("a persistent request that fits into any free block is served", "[pool][lifetime_hint]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    auto kept = pool.persistent();
    std::vector<void*> blocks;
    for (int i = 0; i != 8; ++i) blocks.push_back(pool.allocate(s, 128_KiB));
    pool.deallocate(s, blocks[5], 128_KiB);
    CHECK(kept.allocate(s, 128_KiB) == blocks[5]);
    CHECK_THROWS_AS(kept.allocate(s, 1), cuota::budget_exceeded);
    for (void* p : blocks) pool.deallocate(s, p, 128_KiB);
}

TEST_CASE("a step allocation that survives its step is reported once, and stays valid", "[pool][pool_step]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.name = "main"}};
    std::optional<cuota::device_buffer<float>> late;
    void* weights = nullptr;
    for (int i = 0; i != 3; ++i) {
        auto const step = pool.begin_step({"train.cpp", 20});
        if (i == 0) late = cuota::device_buffer<float>{1024, s, step, cuota::zeroed, "activations"};
        if (i == 0) weights = pool.persistent().allocate(s, 2_MiB, 256, {"weights", {"train.cpp", 10}});
        cuota::device_buffer<float> const in_time{1024, s, step, cuota::zeroed, "gradients"};
    }

    auto const texts = errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0], "a step of pool main ended while 1 allocation is still alive: activations 4.0 KiB "
                        "(pool_step.cpp:"));
    CHECK(has(texts[0], "(train.cpp:20)"));
    std::string const alive = thrown<cuota::usage_error>([&] { pool.close(); }).what();
    CHECK(has(alive, "weights 2.0 MiB (train.cpp:10, 2 steps ago), activations 4.0 KiB (pool_step.cpp:"));
    CHECK(late->size() == 1024);
    late.reset();
    pool.deallocate(s, weights, 2_MiB);
    CHECK(errors.take().empty());
}

TEST_CASE("small blocks from the thread cache have the age and the lifetime_hint of their latest allocation",
          "[pool][pool_step]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 512_MiB}, {.initial_size = 256_MiB}};
    pool.deallocate(s, pool.allocate(s, 4096), 4096);
    void* p = nullptr;
    {
        auto const step = pool.begin_step();
        pool.deallocate(s, pool.allocate(s, 4096), 4096);
        p = step.allocate(s, 4096, 256, "late");
        CHECK(pool.stats().thread_cache_hits == 2);
    }
    CHECK(errors.take().size() == 1);
    {
        auto const step = pool.begin_step();
        pool.deallocate(s, p, 4096);
        p = pool.allocate(s, 4096, 256, "scratch");
        CHECK(pool.stats_by_tag().at(0).oldest == 0);
    }
    CHECK(errors.take().empty());
    pool.deallocate(s, p, 4096);
}

TEST_CASE("a pool has at most one open step, and refuses step allocations without one", "[pool][pool_step]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.name = "main"}};
    std::optional<cuota::pool_resource_for<cuota::lifetime_hint::step>> memory;
    {
        auto const step = pool.begin_step();
        memory = step.resource();
        auto const twice = thrown<cuota::usage_error>([&] { (void)pool.begin_step({"train.cpp", 21}); });
        CHECK(has(twice.what(), "pool main: begin_step: a step is already open"));
        CHECK(has(twice.what(), "train.cpp:21"));
        step.deallocate(s, step.allocate(s, 100), 100);
    }
    auto const outside = thrown<cuota::usage_error>([&] {
        (void)memory->allocate(s, 100, 256, {"x", {"train.cpp", 30}});
    });
    CHECK(has(outside.what(), "step allocation outside of a step"));
    CHECK(has(outside.what(), "train.cpp:30"));
    CHECK(pool.stats().allocated == 0);
    auto const again = pool.begin_step();
    memory->deallocate(s, memory->allocate(s, 100), 100);
}

TEST_CASE("the end of a step trims the pool to the release threshold", "[pool][pool_step]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const s;
    cuota::scoped_pool pool{budget, {.release_threshold = 2_MiB}};
    {
        auto const step = pool.begin_step();
        void* const small = step.allocate(s, 1_MiB);
        void* const large = step.allocate(s, 8_MiB);
        pool.deallocate(s, small, 1_MiB);
        pool.deallocate(s, large, 8_MiB);
        CHECK(budget.held() >= 9_MiB);
    }
    CHECK(budget.held() <= 2_MiB);
}
