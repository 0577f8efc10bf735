// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Pages that a pool maps elsewhere in place of more pages.
#include <cuota/pool/detail/growth/pool_grower.hpp>

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/event.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
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
