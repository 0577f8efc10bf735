// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Pages that a pool maps elsewhere in place of more pages.
#include <cuota/pool/detail/growth/pool_grower.hpp>

#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/event.hpp>

#include "pool/diary.hpp"
#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace {

// Eight blocks of one page each, of which every other one is free, so that no two free pages are adjacent.
class alternating_blocks {
public:
    alternating_blocks(cuota::scoped_pool& pool, cuota::stream_ref s) : pool_{pool}, s_{s} {
        for (int i = 0; i != 8; ++i) blocks_.push_back(pool.allocate(s, 2_MiB));
    }
    ~alternating_blocks() {
        for (std::size_t i = 1; i < 8; i += 2) pool_.deallocate(s_, blocks_[i], 2_MiB);
    }
    void free_every_other(cuota::stream_ref on) const {
        for (std::size_t i = 0; i < 8; i += 2) pool_.deallocate(on, blocks_[i], 2_MiB);
    }

private:
    cuota::scoped_pool& pool_;
    cuota::stream_ref s_;
    std::vector<void*> blocks_;
};

}  // namespace

TEST_CASE("a pool above its bound unmaps idle pages before it maps others", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", cuota::unlimited};
    cuota::stream const s;

    SECTION("1.02 times the peak of live bytes, rounded up to a page") {
        cuota::scoped_pool pool{budget, {.largest_mapping = 2_MiB}};
        alternating_blocks const blocks{pool, s};
        blocks.free_every_other(s);
        s.synchronize();
        calls_since const unmapped{"cuMemUnmap"};
        void* const p = pool.allocate(s, 8_MiB);
        CHECK(budget.held() == 18_MiB);
        CHECK(cuota::simulator::live().device_bytes == 18_MiB);
        CHECK(unmapped.count() == 3);
        CHECK(pool.stats().mappings_made == 8 + 4);
        CHECK(pool.stats().mappings_removed == 3);
        support::write_words(s, p, 8_MiB, 5);
        CHECK(support::all_are(support::words(s, p, 8_MiB), 5));
        pool.deallocate(s, p, 8_MiB);
    }
    SECTION("any other bound") {
        cuota::scoped_pool pool{budget, {.remap_above = 1.25}};
        alternating_blocks const blocks{pool, s};
        blocks.free_every_other(s);
        s.synchronize();
        pool.deallocate(s, pool.allocate(s, 8_MiB), 8_MiB);
        CHECK(budget.held() == 20_MiB);
    }
    SECTION("none") {
        cuota::scoped_pool pool{budget, {.remap_above = std::numeric_limits<double>::infinity()}};
        alternating_blocks const blocks{pool, s};
        blocks.free_every_other(s);
        s.synchronize();
        pool.deallocate(s, pool.allocate(s, 8_MiB), 8_MiB);
        CHECK(budget.held() == 24_MiB);
        CHECK(pool.stats().mappings_removed == 0);
    }
    SECTION("idle memory that the pool keeps is not unmapped") {
        cuota::scoped_pool pool{budget, {.keeps_idle = true}};
        alternating_blocks const blocks{pool, s};
        blocks.free_every_other(s);
        s.synchronize();
        pool.deallocate(s, pool.allocate(s, 8_MiB), 8_MiB);
        CHECK(budget.held() == 24_MiB);
    }
    CHECK(budget.held() == 0);
}

TEST_CASE("a pool does not wait for work in order to unmap pages: it grows", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", cuota::unlimited};
    cuota::stream const s;
    cuota::stream const busy;
    cuota::scoped_pool pool{budget};
    {
        alternating_blocks const blocks{pool, s};
        std::optional<support::gate> closed{busy};
        blocks.free_every_other(busy);

        void* const first = pool.allocate(s, 8_MiB);
        CHECK(budget.held() == 24_MiB);
        CHECK(pool.stats().mappings_removed == 0);

        closed.reset();
        busy.synchronize();
        void* const second = pool.allocate(s, 8_MiB);
        CHECK(budget.held() == 26_MiB);
        CHECK(pool.stats().mappings_removed == 3);
        for (void* const p : {first, second}) pool.deallocate(s, p, 8_MiB);
    }
}

TEST_CASE("a pool finds earlier frees of a stream that is never idle complete", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", cuota::unlimited};
    cuota::stream const busy;
    cuota::scoped_pool pool{budget, {.largest_mapping = 2_MiB}};
    std::vector<void*> blocks;
    for (int i = 0; i != 80; ++i) blocks.push_back(pool.allocate(busy, 2_MiB));
    calls_since const recorded{"cudaEventRecord"};
    calls_since const created{"cudaEventCreateWithFlags"};
    std::optional<support::gate> earlier{busy};
    for (std::size_t i = 0; i < 80; i += 2) pool.deallocate(busy, blocks[i], 2_MiB);  // 80 MiB
    CHECK(recorded.count() + created.count() >= 1);                                   // once in 64 MiB

    cuota::event const before_later{busy};
    support::gate later{busy};
    earlier.reset();
    before_later.synchronize();
    void* const p = pool.allocate(busy, 60_MiB);

    CHECK(budget.held() <= 166_MiB);
    CHECK(pool.stats().mappings_removed >= 25);
    later.open();
    pool.deallocate(busy, p, 60_MiB);
    for (std::size_t i = 1; i < 80; i += 2) pool.deallocate(busy, blocks[i], 2_MiB);
}

TEST_CASE("initial_size stays reserved when pages are mapped elsewhere", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", cuota::unlimited};
    cuota::stream const s;
    bool const is_reserved = GENERATE(true, false);
    cuota::scoped_pool pool{budget, {.initial_size = is_reserved ? 16_MiB : 0, .largest_mapping = 2_MiB}};
    void* const first = pool.allocate(s, 6_MiB);
    void* const second = pool.allocate(s, 2_MiB);
    pool.deallocate(s, first, 6_MiB);
    s.synchronize();

    void* const third = pool.allocate(s, 9_MiB);

    CHECK(budget.held() == (is_reserved ? 16_MiB : 12_MiB));
    pool.deallocate(s, second, 2_MiB);
    pool.deallocate(s, third, 9_MiB);
}

TEST_CASE("a request that cannot be served unmaps nothing", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", 22_MiB};
    cuota::stream const s;
    cuota::scoped_pool pool{budget};
    alternating_blocks const blocks{pool, s};
    blocks.free_every_other(s);
    s.synchronize();

    CHECK_THROWS_AS(pool.allocate(s, 14_MiB + 1), cuota::budget_exceeded);

    CHECK(pool.stats().mappings_removed == 0);
    CHECK(pool.largest_free() == 2_MiB);
    pool.deallocate(s, pool.allocate(s, 14_MiB), 14_MiB);
}

TEST_CASE("repeated steps of different sizes map no more than the bound", "[pool][pool_growth]") {
    support::machine const machine;
    cuota::budget const budget{"trainer", cuota::unlimited};
    cuota::stream const s;
    std::size_t const largest = GENERATE(2_MiB, 64_MiB);
    cuota::scoped_pool pool{budget, {.remap_above = 1.1, .largest_mapping = largest}};
    for (std::size_t step = 0; step != 12; ++step) {
        std::size_t const bytes = (3 + step * 5 % 11) * 1_MiB;
        std::vector<void*> blocks;
        for (std::size_t i = 0; i != 96_MiB / bytes; ++i) blocks.push_back(pool.allocate(s, bytes));
        for (void* const p : blocks) pool.deallocate(s, p, bytes);
        s.synchronize();
    }
    cuota::pool_stats const stats = pool.stats();
    CHECK(stats.peak_reserved <= stats.peak_allocated + stats.peak_allocated / 10 + 2_MiB);
}

namespace {

// A pool with mappings of up to 16 MiB that exceeded its bound: 14 MiB are free in a mapping with a live block.
class fragmented_pool {
public:
    explicit fragmented_pool(cuota::budget const& budget, double remap_above = 1.02, bool is_observed = false)
        : pool{budget, {.remap_above = remap_above, .largest_mapping = 16_MiB}} {
        if (is_observed) told.emplace(pool);
        try {
            void* const first = take(16_MiB);
            second_ = take(16_MiB);
            give(first, 16_MiB);
            take(2_MiB);
            take(32_MiB);
        } catch (...) {
            give_all();
            throw;
        }
    }
    fragmented_pool(fragmented_pool const&) = delete;
    fragmented_pool& operator=(fragmented_pool const&) = delete;
    ~fragmented_pool() { give_all(); }

    void* take(std::size_t bytes) {
        void* const p = pool.allocate(s, bytes);
        all_.emplace_back(p, bytes);
        return p;
    }
    // Frees a block of 16 MiB, which is a whole mapping, so that 30 MiB are free in one piece.
    void give_mapping(cuota::stream_ref on) {
        pool.deallocate(on, second_, 16_MiB);
        forget(second_);
    }

    cuota::stream s;
    cuota::scoped_pool pool;
    std::optional<pool_tests::observed> told;

private:
    void give(void* p, std::size_t bytes) {
        pool.deallocate(s, p, bytes);
        forget(p);
    }
    void forget(void* p) {
        std::erase_if(all_, [&](auto const& one) { return one.first == p; });
    }
    void give_all() noexcept {
        for (auto const& [p, bytes] : all_) pool.deallocate(s, p, bytes);
        all_.clear();
    }

    void* second_ = nullptr;
    std::vector<std::pair<void*, std::size_t>> all_{};
};

}  // namespace

TEST_CASE("a fragmented pool divides an idle mapping before a block shares it with free memory",
          "[pool][pool_growth]") {
    support::machine const machine{{1, 64_GiB}};
    cuota::budget budget{"trainer", cuota::unlimited};
    bool const is_bounded = GENERATE(true, false);
    {
        fragmented_pool p{budget, is_bounded ? 1.02 : std::numeric_limits<double>::infinity()};
        p.give_mapping(p.s);
        p.s.synchronize();
        cuota::pool_stats const before = p.pool.stats();
        CHECK(before.reserved == 64_MiB);
        // A fragmented pool makes mappings of an eighth.
        CHECK(before.mappings_made == (is_bounded ? 2 + 16 : 4));

        void* const block = p.take(20_MiB);

        CHECK(budget.held() == 64_MiB);
        CHECK(cuota::simulator::live().device_bytes == 64_MiB);
        cuota::pool_stats const after = p.pool.stats();
        CHECK(after.mappings_made - before.mappings_made == (is_bounded ? 2 : 0));
        CHECK(after.mappings_removed - before.mappings_removed == (is_bounded ? 1 : 0));
        support::write_words(p.s, block, 20_MiB, 7);
        CHECK(support::all_are(support::words(p.s, block, 20_MiB), 7));
        CHECK(p.pool.trim() == (is_bounded ? 10_MiB : 0));
    }
    CHECK(budget.held() == 0);
}

TEST_CASE("a mapping is not divided while work uses it, or while the budget has no room for it",
          "[pool][pool_growth]") {
    support::machine const machine{{1, 64_GiB}};
    cuota::budget budget{"trainer", cuota::unlimited};
    fragmented_pool p{budget};
    std::size_t const removed = p.pool.stats().mappings_removed;
    SECTION("work") {
        cuota::stream const busy;
        support::gate const closed{busy};
        p.give_mapping(busy);
        p.take(20_MiB);
        CHECK(p.pool.stats().mappings_removed == removed);
    }
    SECTION("no room") {
        p.give_mapping(p.s);
        p.s.synchronize();
        budget.set_limit(64_MiB);
        p.take(20_MiB);
        CHECK(p.pool.stats().mappings_removed == removed);
        CHECK(p.pool.trim() == 0);
    }
    CHECK(budget.held() == 64_MiB);
}

TEST_CASE("an observer is notified of a divided mapping as released, and of its parts as allocated",
          "[pool][pool_growth]") {
    support::machine const machine{{1, 64_GiB}};
    cuota::budget budget{"trainer", cuota::unlimited};
    fragmented_pool p{budget, 1.02, true};
    auto const& told = **p.told;
    p.give_mapping(p.s);
    p.s.synchronize();
    bool const has_room = GENERATE(true, false);
    if (!has_room) budget.set_limit(64_MiB);
    std::size_t const before = told.all.size();

    p.take(20_MiB);

    CHECK_FALSE(told.is_wrong);
    CHECK(told.reserved == 64_MiB);
    CHECK(told.all.substr(before) == (has_room ? "rssa" : "rsa"));
}

TEST_CASE("memory that cannot be mapped again stays unmapped, and the request is served elsewhere",
          "[pool][pool_growth]") {
    support::machine const machine{{1, 64_GiB}};
    cuota::budget budget{"trainer", cuota::unlimited};
    fragmented_pool p{budget};
    p.give_mapping(p.s);
    p.s.synchronize();
    cuota::simulator::fail_call("cuMemCreate", 2, cudaErrorMemoryAllocation);  // the second part

    void* const block = p.take(20_MiB);

    CHECK(budget.held() == 54_MiB);
    CHECK(cuota::simulator::live().device_bytes == 54_MiB);
    support::write_words(p.s, block, 20_MiB, 7);
    CHECK(support::all_are(support::words(p.s, block, 20_MiB), 7));
}

TEST_CASE("a fragmented pool survives the failure of any CUDA call", "[pool][pool_growth]") {
    support::machine machine{{1, 64_GiB}};
    cuota::simulator::set_memory_checks(cuota::simulator::memory_checks::off);  // they write each block
    cuota::budget const budget{"trainer", cuota::unlimited};
    auto const life = [&] {
        fragmented_pool p{budget};
        p.give_mapping(p.s);
        p.s.synchronize();
        p.take(20_MiB);
        p.take(10_MiB);
    };
    auto const seen = support::survives_every_failure(machine, life);
    CHECK(budget.held() == 0);
    CHECK(seen.thrown > 10);
    CHECK(seen.reported > 2);
}

namespace {

/// Allocates and frees blocks of 300 KiB to 12 MB in an order that `seed` decides.
void use_random_blocks(cuota::scoped_pool& pool, unsigned seed) {
    cuota::stream const s;
    std::mt19937 pick{seed};
    std::vector<std::pair<void*, std::size_t>> mine;
    for (int i = 0; i != 300; ++i) {
        if (mine.size() == 6 || (!mine.empty() && pick() % 3 == 0)) {
            std::size_t const at = pick() % mine.size();
            pool.deallocate(s, mine[at].first, mine[at].second);
            mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
            std::size_t const bytes = (1 + pick() % 40) * 300_KiB;
            mine.emplace_back(pool.allocate(s, bytes), bytes);
        }
        if (pick() % 4 == 0) s.synchronize();
    }
    for (auto const& [p, bytes] : mine) pool.deallocate(s, p, bytes);
    s.synchronize();
}

}  // namespace

TEST_CASE("threads divide mappings of one pool and keep its accounts", "[pool][pool_growth][threads]") {
    support::machine const machine{{1, 64_GiB}};
    cuota::budget const budget{"trainer", cuota::unlimited};
    // How many mappings threads divide depends on their order, so one thread shows first that this load
    // divides some. A pool that has served the load once has no more to divide: each turn has a new one.
    bool const has_threads = GENERATE(false, true);
    for (unsigned turn = 0; turn != (has_threads ? support::rounds(8u) : 1); ++turn) {
        cuota::scoped_pool pool{budget, {.largest_mapping = 16_MiB}};
        if (has_threads) {
            std::vector<std::jthread> threads;
            for (unsigned seed = 1; seed != 4; ++seed) {
                threads.emplace_back([&pool, seed = 3 * turn + seed] { use_random_blocks(pool, seed); });
            }
        } else {
            for (unsigned seed = 1; seed != 7; ++seed) use_random_blocks(pool, seed);
        }
        cuota::pool_stats const stats = pool.stats();
        CHECK(stats.allocated == 0);
        if (!has_threads) CHECK(stats.mappings_removed >= 10);
        CHECK(budget.held() == stats.reserved);
        CHECK(cuota::simulator::live().device_bytes == stats.reserved);
        CHECK(pool.trim() == stats.reserved);
    }
    CHECK(budget.held() == 0);
}
