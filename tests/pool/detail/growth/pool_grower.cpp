// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/pool_grower.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "pool/fake_memory.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::detail::pool_state;
using pool_tests::pool_of_pages;
using support::has;
using support::thrown;

TEST_CASE("a budget alert may query the pool that charges the budget, also without host memory",
          "[pool][pool_growth]") {
    // Does not allocate by operator new, which fails in this test.
    struct from_malloc {
        void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t a) {
            return std::aligned_alloc(a, bytes);
        }
        void deallocate(cuota::stream_ref, void* p, std::size_t, std::size_t) noexcept { std::free(p); }
        void* allocate_sync(std::size_t bytes, std::size_t a) { return std::aligned_alloc(a, bytes); }
        void deallocate_sync(void* p, std::size_t, std::size_t) noexcept { std::free(p); }
        std::size_t granularity() const noexcept { return 1; }
        static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
        bool operator==(from_malloc const&) const noexcept { return true; }
    };
    cuota::budget budget{"test", 64_MiB};
    auto const pool = cuota::detail::intrusive_ptr<pool_state>::make(budget, from_malloc{}, std::nullopt,
                                                                     cuota::tag{"main"});
    std::size_t calls = 0;
    std::size_t reserved = 0;
    cuota::alert_options options;
    options.falling = true;
    cuota::budget_alert const w{budget,
                                {1},
                                1,
                                [&](cuota::alert_event const&) {
                                    ++calls;
                                    reserved += pool->stats().reserved;
                                },
                                options};
    void* p = nullptr;
    std::size_t refused = 0;
    for (std::size_t allowed = 0; !p && allowed != 100; ++allowed) {
        try {
            support::failing_heap const heap{allowed};
            p = pool->allocate_sync(1_MiB, 256, {});
        } catch (std::bad_alloc const&) {
            ++refused;
            CHECK(budget.held() == 0);
        }
    }
    REQUIRE(p);
    CHECK(refused > 0);
    CHECK(calls == 2 * refused + 1);  // each refused attempt charged a segment and refunded it
    CHECK(reserved == 0);
    pool->deallocate_sync(p, 1_MiB);
}

TEST_CASE("growth that runs out of host memory leaves budget, mappings and statistics consistent",
          "[pool][pool_growth]") {
    cuota::stream const a;
    cuota::stream const b;
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        REQUIRE(allowed < 500);
        support::captured_errors errors;
        cuota::budget budget{"test", 12_MiB};
        std::size_t mapped = 0;
        auto const pool = pool_of_pages(budget, mapped, 64_MiB);
        std::vector<void*> blocks;
        for (int i = 0; i != 6; ++i) blocks.push_back(pool->allocate(a, 2_MiB, 256, {}));
        pool->deallocate(a, blocks[1], 2_MiB);
        pool->deallocate(b, blocks[3], 2_MiB);
        pool->deallocate(b, blocks[5], 2_MiB);
        void* p = nullptr;
        try {
            support::failing_heap const heap{allowed};
            p = pool->allocate(a, 6_MiB, 256, {});
        } catch (std::bad_alloc const&) { ++refused; }
        CHECK(budget.held() == pool->stats().reserved);
        CHECK(mapped == pool->stats().reserved);
        CHECK(pool->stats().live_blocks == (p ? 4 : 3));
        pool->deallocate(a, p, 6_MiB);
        for (std::size_t const i : {0u, 2u, 4u}) pool->deallocate(a, blocks[i], 2_MiB);
        CHECK(pool->trim(0) != 0);
        CHECK(mapped == 0);
        CHECK(budget.held() == 0);
        (void)errors.take();
        if (p) break;
    }
    CHECK(refused > 5);
}

TEST_CASE("a pool whose device has fewer pages than the budget serves the pages that exist",
          "[pool][pool_growth]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_of_pages(budget, mapped, 8_MiB);
    void* const p = pool->allocate(s, 7_MiB, 256, {});
    CHECK_THROWS_AS(pool->allocate(s, 2_MiB, 256, {}), cuota::out_of_memory);
    CHECK(mapped == 8_MiB);
    CHECK(budget.held() == 8_MiB);
    void* const rest = pool->allocate(s, 1_MiB, 256, {});
    pool->deallocate(s, p, 7_MiB);
    pool->deallocate(s, rest, 1_MiB);
    CHECK(pool->reclaim(3_MiB) == 4_MiB);
    CHECK(mapped == 4_MiB);
    CHECK(errors.take().empty());
}

TEST_CASE("reserve allocates exactly its bytes, by pages if they are whole", "[pool][pool_growth]") {
    cuota::budget budget{"test", 64_MiB};
    pool_tests::recorded_source source;
    std::size_t mapped = 0;
    auto const pool = pool_tests::pool_of(budget, source, mapped, 64_MiB);

    pool->reserve(4_MiB, {});
    CHECK(mapped == 4_MiB);
    CHECK(source.taken() == 0);

    pool->reserve(3_MiB, {});
    CHECK(mapped == 4_MiB);
    CHECK(source.taken() == 3_MiB);
    CHECK(budget.held() == 7_MiB);
}

TEST_CASE("when no page fits into the budget, the pool allocates a segment of the requested size",
          "[pool][pool_growth]") {
    cuota::budget budget{"test", 3_MiB};
    cuota::stream const s;
    pool_tests::recorded_source source;
    std::size_t mapped = 0;
    auto const pool = pool_tests::pool_of(budget, source, mapped, 64_MiB);
    void* const first = pool->allocate(s, 2_MiB, 256, {});

    void* const second = pool->allocate(s, 1_MiB, 256, {});

    CHECK(mapped == 2_MiB);
    CHECK(source.taken() == 1_MiB);
    CHECK_THROWS_AS(pool->allocate(s, 1, 256, {}), cuota::budget_exceeded);
    CHECK(budget.held() == 3_MiB);
    pool->deallocate(s, first, 2_MiB);
    pool->deallocate(s, second, 1_MiB);
}

TEST_CASE("a budget's last_refusal equals the error that the pool threw", "[pool][pool_growth]") {
    cuota::budget budget{"test", 3_MiB};
    pool_tests::recorded_source source;
    auto const pool = pool_tests::pool_of_segments(budget, source);
    pool->deallocate_sync(pool->allocate_sync(2_MiB, 256, {}), 2_MiB);

    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)pool->allocate_sync(4_MiB, 256, {}); });

    REQUIRE(budget.last_refusal());
    CHECK(budget.last_refusal()->info().largest_free == refused.info().largest_free);
    CHECK(budget.last_refusal()->info().max_fit == refused.info().max_fit);
    CHECK(std::string{budget.last_refusal()->what()} == refused.what());
}

TEST_CASE("segments exceed the requests, so that few upstream calls fill a budget to the last byte",
          "[pool][pool_growth]") {
    cuota::budget budget{"test", 12_MiB};
    pool_tests::recorded_source source;
    auto const pool = pool_tests::pool_of_segments(budget, source);
    std::vector<void*> blocks;
    for (std::size_t i = 0; i != 12 * 16; ++i) blocks.push_back(pool->allocate_sync(64_KiB, 256, {}));

    CHECK(budget.held() == 12_MiB);  // to the last byte
    CHECK(source.taken() == 12_MiB);
    CHECK(source.calls() < 50);
    CHECK_THROWS_AS(pool->allocate_sync(64_KiB, 256, {}), cuota::budget_exceeded);
    for (void* p : blocks) pool->deallocate_sync(p, 64_KiB);
}

TEST_CASE("an upstream that is out of memory is called again after the pool has released its idle memory",
          "[pool][pool_growth]") {
    cuota::budget budget{"test", 64_MiB};
    pool_tests::recorded_source source{6_MiB};
    auto const pool = pool_tests::pool_of_segments(budget, source);
    pool->deallocate_sync(pool->allocate_sync(3_MiB, 256, {}), 3_MiB);
    void* const p = pool->allocate_sync(2_MiB, 256, {});  // from the free 3 MiB
    REQUIRE(source.taken() == 3_MiB);
    pool->deallocate_sync(p, 2_MiB);

    void* const all = pool->allocate_sync(6_MiB, 256, {});
    CHECK(source.taken() == 6_MiB);
    auto const refused = thrown<cuota::out_of_memory>([&] { (void)pool->allocate_sync(1_MiB, 256, {}); });
    CHECK(has(refused.what(), "the upstream resource of pool main is out of memory"));
    CHECK(budget.held() == 6_MiB);
    pool->deallocate_sync(all, 6_MiB);
}

TEST_CASE("a pool on a full device moves free pages beside a free block to serve a request",
          "[pool][pool_growth]") {
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_of_pages(budget, mapped, 8_MiB);
    void* const first = pool->allocate(s, 2_MiB, 256, {});
    void* const second = pool->allocate(s, 2_MiB, 256, {});
    // Leaves 1 MiB of a page free, and unmapped addresses behind it.
    void* const third = pool->allocate(s, 3_MiB, 256, {});
    REQUIRE(mapped == 8_MiB);
    pool->deallocate(s, first, 2_MiB);

    void* const p = pool->allocate(s, 3_MiB, 256, {});

    CHECK(p == static_cast<std::byte*>(third) + 3_MiB);
    CHECK(mapped == 8_MiB);
    CHECK(budget.held() == 8_MiB);
    CHECK_THROWS_AS(pool->allocate(s, 1, 256, {}), cuota::out_of_memory);
    for (auto const& [at, bytes] : {std::pair{second, 2_MiB}, {third, 3_MiB}, {p, 3_MiB}})
        pool->deallocate(s, at, bytes);
}

TEST_CASE("a pool at 29 thirtieths of its cap serves blocks of any size, also after large first mappings",
          "[pool][pool_growth]") {
    constexpr std::size_t cap = 8_GiB;
    std::mt19937_64 random{1};
    auto const log_uniform = [&] {  // 64 KiB to 256 MiB
        std::size_t const base = 64_KiB << random() % 12;
        return cuota::round_up(base + random() % base, 256);
    };
    struct live_block {
        void* at;
        std::size_t bytes;
    };
    cuota::scoped_pool pool{cuota::budget{"test", cap}, cuota::dry_run_memory{}};
    cuota::stream const s;
    std::vector<live_block> live;
    std::size_t bytes_live = 0;
    std::size_t refused = 0;
    for (int i = 0; i != std::max(1'000, support::rounds(20'000)); ++i) {
        std::size_t const wanted = log_uniform();
        while (bytes_live + wanted > cap / 30 * 29) {
            std::swap(live[random() % live.size()], live.back());
            pool.deallocate(s, live.back().at, live.back().bytes);
            bytes_live -= live.back().bytes;
            live.pop_back();
        }
        try {
            live.push_back({pool.allocate(s, wanted), wanted});
            bytes_live += wanted;
        } catch (cuota::budget_exceeded const&) { ++refused; }
    }
    CHECK(refused == 0);
    CHECK(pool.stats().reserved > cap / 30 * 29);
    for (live_block const& b : live) pool.deallocate(s, b.at, b.bytes);
}
