// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/pool_observer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/detail/blocks/block_pool.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "pool/diary.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::detail::observed_block;
using pool_tests::diary;
using pool_tests::observed;

TEST_CASE("a pool_observer is notified of blocks, segments and steps in their order",
          "[pool][pool_observer]") {
    cuota::budget budget{"b", 64_MiB};
    cuota::stream stream;
    auto const kept = cuota::detail::intrusive_ptr<diary>::make();
    {
        cuota::scoped_pool pool{budget};
        cuota::detail::block_pool& blocks = cuota::detail::pool_access::state(pool).blocks();
        blocks.observe(cuota::detail::intrusive_ptr<cuota::detail::pool_observer>::of(*kept));
        void* const p = pool.allocate(stream, 1000, 256, "x");
        REQUIRE(kept->all == "sa");
        REQUIRE(kept->names == "x");
        REQUIRE(kept->last_stream == stream.id());
        REQUIRE(kept->bytes == 1000);
        REQUIRE(kept->size == 1024);

        stream.synchronize();
        pool.deallocate(stream, p, 1000);
        REQUIRE(kept->all == "saf");  // completion is not checked at each call
        (void)pool.stats();
        REQUIRE(kept->all == "safc");

        unsigned const line = __LINE__ + 1;
        { auto const step = pool.begin_step(); }
        REQUIRE(kept->step_line == line);
        REQUIRE(pool.trim() == 2_MiB);
        REQUIRE(kept->all == "safc<>r");
    }
    REQUIRE(kept->all == "safc<>r.");
    REQUIRE_FALSE(kept->is_wrong);
    REQUIRE(kept->reserved == 0);
}

TEST_CASE("destroying a pool notifies its pool_observer of the remaining segments", "[pool][pool_observer]") {
    support::captured_errors errors;
    for (auto const growth : {cuota::pool_growth::automatic, cuota::pool_growth::segments}) {
        cuota::budget budget{"b", 64_MiB};
        cuota::stream stream;
        auto const kept = cuota::detail::intrusive_ptr<diary>::make();
        {
            cuota::scoped_pool pool{budget, {.growth = growth}};
            cuota::detail::pool_access::state(pool).blocks().observe(
                cuota::detail::intrusive_ptr<cuota::detail::pool_observer>::of(*kept));
            (void)pool.allocate(stream, 1000);
        }
        REQUIRE(kept->reserved == 0);
        REQUIRE(kept->all.back() == '.');
        REQUIRE(errors.take().size() == 1);  // the leak
    }
}

TEST_CASE("a pool_observer is notified of all small blocks: thread caches are off while it observes",
          "[pool][pool_observer]") {
    cuota::budget budget{"b", 512_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 256_MiB}};
    cuota::stream stream;
    auto const pair = [&] { pool.deallocate(stream, pool.allocate(stream, 512), 512); };
    for (int i = 0; i != 10; ++i) pair();
    std::size_t const before = pool.stats().thread_cache_hits;
    REQUIRE(before > 0);  // they are cached without an observer

    observed seen{pool};
    for (int i = 0; i != 100; ++i) pair();
    REQUIRE(std::count(seen->all.begin(), seen->all.end(), 'a') == 100);
    REQUIRE(std::count(seen->all.begin(), seen->all.end(), 'f') == 100);
    REQUIRE(pool.stats().thread_cache_hits == before);

    REQUIRE(seen.pool.observe_no_more().get() == seen.told.get());
    for (int i = 0; i != 10; ++i) pair();
    REQUIRE(pool.stats().thread_cache_hits > before);
    REQUIRE(std::count(seen->all.begin(), seen->all.end(), 'a') == 100);
}

TEST_CASE("a pool has at most one pool_observer", "[pool][pool_observer]") {
    cuota::budget budget{"b", 4_MiB};
    cuota::scoped_pool pool{budget, {.name = "p"}};
    observed seen{pool};
    auto const refused = support::thrown<cuota::usage_error>([&] { observed{pool}; });
    REQUIRE(support::has(refused.what(), "pool p: cannot record"));
    (void)seen.pool.observe_no_more();
    REQUIRE_FALSE(seen.pool.observe_no_more());
    observed{pool};
}

TEST_CASE("a pool_observer is notified of blocks that are freed after their pool was closed",
          "[pool][pool_observer]") {
    support::captured_errors errors;
    cuota::budget budget{"b", 64_MiB};
    cuota::stream stream;
    for (bool const is_observed : {false, true}) {
        auto const kept = cuota::detail::intrusive_ptr<diary>::make();
        std::optional<cuota::any_resource> late;
        void* p = nullptr;
        {
            cuota::scoped_pool pool{budget};
            late.emplace(pool.resource());
            if (is_observed)
                cuota::detail::pool_access::state(pool).blocks().observe(
                    cuota::detail::intrusive_ptr<cuota::detail::pool_observer>::of(*kept));
            p = late->allocate(stream, 5000);
        }
        REQUIRE_THROWS_AS(late->allocate(stream, 5000), cuota::usage_error);
        late->deallocate(stream, p, 5000);
        stream.synchronize();
        late.reset();
        REQUIRE(budget.held() == 0);
        REQUIRE(errors.take().size() == 1);
        if (is_observed) REQUIRE(kept->all.find('f') != std::string::npos);
        REQUIRE(kept->reserved == 0);
        REQUIRE_FALSE(kept->is_wrong);
    }
}

TEST_CASE("in a random walk, the notifications of a pool_observer add up to the pool's statistics",
          "[pool][pool_observer]") {
    for (auto const growth : {cuota::pool_growth::automatic, cuota::pool_growth::segments}) {
        std::mt19937 random{growth == cuota::pool_growth::segments ? 7u : 8u};
        auto const upto = [&](std::size_t n) { return random() % n; };
        cuota::budget budget{"b", 48_MiB};
        cuota::scoped_pool pool{budget, {.growth = growth}};
        std::vector<cuota::stream> streams(3);
        observed seen{pool};
        std::vector<std::pair<void*, std::size_t>> held;
        for (int i = 0; i != 3000; ++i) {
            auto const& stream = streams[upto(streams.size())];
            std::size_t const bytes = 1 + (std::size_t{1} << upto(23)) + upto(1000);
            switch (upto(16)) {
                default: try { held.emplace_back(pool.allocate(stream, bytes), bytes);
                    } catch (cuota::out_of_memory const&) { REQUIRE(held.size() > 1); }
                    break;
                case 8:
                case 9:
                case 10:
                case 11:
                case 12:
                case 13:
                case 14:
                    if (held.empty()) break;
                    std::swap(held[upto(held.size())], held.back());
                    pool.deallocate(stream, held.back().first, held.back().second);
                    held.pop_back();
                    break;
                case 15: (void)pool.trim(upto(32_MiB)); break;
            }
            REQUIRE_FALSE(seen->is_wrong);
            if (i % 16 != 0) continue;
            cuota::pool_stats const now = pool.stats();
            REQUIRE(seen->live.size() == now.live_blocks);
            REQUIRE(seen->bytes == now.requested);
            REQUIRE(seen->size == now.allocated);
            REQUIRE(seen->reserved == now.reserved);
        }
        for (auto const& [p, n] : held) pool.deallocate(streams[0], p, n);
        for (auto const& stream : streams) stream.synchronize();
        (void)pool.stats();
        REQUIRE(seen->pending == 0);
        REQUIRE(seen->live.empty());
    }
}

TEST_CASE("a pool_observer may be attached and detached while threads use the pool",
          "[pool][pool_observer][threads]") {
    cuota::budget budget{"b", 256_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 128_MiB}};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            cuota::stream const stream;
            std::mt19937 random{t};
            for (int i = 0; i != 2000; ++i) {
                std::size_t const bytes = 1 + random() % 40'000;
                void* const p = pool.allocate(stream, bytes);
                void* const q = pool.allocate(stream, 256);
                pool.deallocate(stream, p, bytes);
                pool.deallocate(stream, q, 256);
            }
        });
    for (int i = 0; i != 50; ++i) {
        observed seen{pool};
        std::this_thread::yield();
        (void)seen.pool.observe_no_more();
    }
    for (std::thread& t : threads) t.join();
    REQUIRE(pool.stats().live_blocks == 0);
    REQUIRE(pool.stats().requested == 0);
    REQUIRE(pool.stats().allocated == 0);
}
