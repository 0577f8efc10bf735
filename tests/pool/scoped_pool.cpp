// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests that hold on any device. Those that need the simulator are in scoped_pool.sim.cpp.
#include <cuota/pool/scoped_pool.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

static_assert(cuota::labeled_resource<cuota::pool_resource>);
static_assert(cuota::device_accessible_resource<cuota::pool_resource> &&
              cuota::host_accessible_resource<cuota::pool_resource>);
static_assert(!std::is_copy_constructible_v<cuota::scoped_pool> &&
              !std::is_move_constructible_v<cuota::scoped_pool>);
static_assert(std::is_convertible_v<cuota::scoped_pool&, cuota::any_resource>);

namespace {

constexpr cuota::pool_options in_segments{.growth = cuota::pool_growth::segments};

// Blocks that a test has allocated from a pool and must free.
struct taken {
    cuota::scoped_pool& pool;
    cuota::stream_ref s;
    std::vector<std::pair<void*, std::size_t>> blocks{};

    void* operator()(std::size_t bytes, cuota::tag name = {}) {
        void* const p = pool.allocate(s, bytes, cuota::default_alignment, name);
        blocks.emplace_back(p, bytes);
        return p;
    }
    void give_back(std::size_t i) { pool.deallocate(s, blocks[i].first, blocks[i].second); }
    void give_back_all() {
        for (std::size_t i = 0; i != blocks.size(); ++i) give_back(i);
        blocks.clear();
    }
};

}  // namespace

TEST_CASE("scoped_pool behaves as a resource", "[pool][scoped_pool][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool pool{budget};
        support::behaves_as_a_resource(pool.resource());
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a scoped_pool of pinned memory behaves as a resource", "[pool][scoped_pool][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool pool{budget, cuota::pinned_memory{}};
        CHECK(pool.resource().kind() == cuota::memory_kind::pinned);
        support::behaves_as_a_resource(pool.resource());
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a scoped_pool whose upstream is another scoped_pool behaves as a resource",
          "[pool][scoped_pool][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool outer{budget};
        cuota::scoped_pool inner{cuota::any_resource{outer}};
        support::behaves_as_a_resource(inner.resource());
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a scoped_pool whose upstream is async_memory behaves as a resource",
          "[pool][scoped_pool][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool pool{budget, cuota::async_memory{}};
        support::behaves_as_a_resource(pool.resource());
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a scoped_pool charges the memory that it allocates and frees all of it when it is destroyed",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{budget};
        CHECK(budget.held() == 0);

        taken blocks{pool, stream};
        blocks(1_MiB);
        blocks(3_MiB);
        CHECK(budget.held() == 4_MiB);
        CHECK(pool.stats().reserved == 4_MiB);

        blocks.give_back_all();
        CHECK(budget.held() == 4_MiB);  // cached for the next request
    }
    CHECK(budget.held() == 0);
    CHECK(budget.peak() == 4_MiB);
}

TEST_CASE("the first segment of a scoped_pool has the size of the first request", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, in_segments};
    taken blocks{pool, stream};

    blocks(1'000'000);

    CHECK(pool.stats().requested == 1'000'000);
    CHECK(pool.stats().allocated == 1'000'192);  // the next multiple of 256
    CHECK(pool.stats().reserved == 1'000'448);   // the next multiple of 512, the driver's granularity
    CHECK(budget.held() == 1'000'448);
    blocks.give_back_all();
}

TEST_CASE("a scoped_pool grows by no more than an eighth above the requests", "[pool][scoped_pool]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", 256_MiB}, in_segments};
    taken blocks{pool, stream};
    std::mt19937 random{1};

    for (int i = 0; i != 2000; ++i) {
        std::size_t const bytes = 1 + random() % 40'000;
        std::size_t const before = pool.stats().reserved;
        blocks(bytes);
        cuota::pool_stats const now = pool.stats();
        std::size_t const grown = now.reserved - before;
        REQUIRE(grown <= std::max(cuota::round_up(bytes, 512), before / 8 + 512));
        if (grown > cuota::round_up(bytes, 512)) REQUIRE(before / 8 >= bytes);
    }

    cuota::pool_stats const now = pool.stats();
    CHECK(now.reserved <= now.allocated + now.allocated / 8 + 40'448);
    CHECK(now.segments < 200);  // far fewer segments than requests
    blocks.give_back_all();
}

TEST_CASE("a scoped_pool allocates the exact size when the budget has no more bytes available",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 16_MiB + 64_KiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    taken blocks{pool, stream};
    blocks(16_MiB);

    blocks(64_KiB);  // an eighth of the reserved bytes would be 2 MiB

    CHECK(budget.held() == budget.limit());
    blocks.give_back_all();
}

TEST_CASE("a scoped_pool refuses a request that exceeds its budget, and is unchanged",
          "[pool][scoped_pool]") {
    cuota::budget machine{"machine", 1_GiB};
    cuota::budget budget{"trainer", 8_MiB, machine};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "activations"}};
    taken blocks{pool, stream};
    blocks(6_MiB, "weights");
    cuota::pool_stats const before = pool.stats();

    auto const refused = thrown<cuota::budget_exceeded>([&] {
        (void)pool.allocate(stream, 3_MiB, 256, "gradients", {"train.cpp", 17});
    });

    cuota::refusal const& facts = refused.info();
    CHECK(facts.requested == 3_MiB);
    CHECK(facts.charged == 3_MiB);
    CHECK(facts.request.name == cuota::tag{"gradients"});
    CHECK(facts.request.where.line == 17);
    REQUIRE(facts.budgets.size() == 2);
    CHECK(facts.budgets[0].name == "trainer");
    CHECK(facts.budgets[1].name == "machine");
    CHECK(facts.refused_by == 0);
    CHECK(facts.max_fit == 2_MiB);
    REQUIRE(facts.device);
    REQUIRE(facts.holders.size() == 1);
    CHECK(facts.holders[0].name == cuota::tag{"weights"});
    CHECK(facts.holders[0].bytes == 6_MiB);
    CHECK(has(refused.what(), "train.cpp:17"));
    CHECK(budget.held() == 6_MiB);
    CHECK(pool.stats().reserved == before.reserved);
    CHECK(pool.stats().requested == before.requested);
    blocks.give_back_all();
}

TEST_CASE("a refusal lists a pool's live bytes by tag and its cached bytes", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "main"}};
    taken blocks{pool, stream};
    blocks(1_MiB, "weights");
    blocks(2_MiB, "activations");
    for (int i = 0; i != 3; ++i) blocks(256_KiB, "activations");
    std::size_t const free = pool.stats().reserved - pool.stats().allocated;

    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(stream, 8_MiB); });

    std::size_t activations = 0;
    std::size_t named_free = 0;
    std::size_t all = 0;
    for (cuota::allocation_group const& h : refused.info().holders) {
        all += h.bytes;
        if (h.name == cuota::tag{"activations"}) activations += h.bytes;
        if (h.name == cuota::tag::named("cached in pool main")) named_free += h.bytes;
    }
    CHECK(activations == 2_MiB + 768_KiB);
    CHECK(named_free == free);
    CHECK(all == budget.held());
    blocks.give_back_all();
}

TEST_CASE("a request of the max_fit that a refusal reports is served", "[pool][scoped_pool]") {
    std::size_t const limit = GENERATE(8_MiB, 8_MiB + 1000, 5'000'001u);
    cuota::any_resource const source = GENERATE(0, 1) == 0 ? cuota::any_resource{cuota::device_memory{}}
                                                           : cuota::any_resource{cuota::pinned_memory{}};
    cuota::budget budget{"trainer", limit};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, source};
    cuota::scoped_pool other{budget, source};
    taken blocks{pool, stream};
    taken others{other, stream};
    others(2_MiB);
    others(256);
    others(256_KiB);
    others.give_back(0);  // idle, but in another pool
    std::mt19937 random{7};

    for (int i = 0; i != 200; ++i) {
        std::size_t const bytes = 1 + random() % 400'000;
        std::optional<cuota::refusal> refused;
        try {
            blocks(bytes);
        } catch (cuota::budget_exceeded const& error) { refused = error.info(); }
        if (!refused) continue;
        INFO("asked " << bytes << ", told that " << refused->max_fit << " fit");
        REQUIRE(refused->max_fit < bytes);
        if (refused->max_fit != 0) REQUIRE_NOTHROW(blocks(refused->max_fit));
        std::size_t const gone = random() % blocks.blocks.size();
        blocks.give_back(gone);
        blocks.blocks.erase(blocks.blocks.begin() + static_cast<std::ptrdiff_t>(gone));
    }

    blocks.give_back_all();
    for (std::size_t i : {1u, 2u}) others.give_back(i);
}

TEST_CASE("a pool's max_size is a budget inside its budget, and a refusal names it", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "scratch", .max_size = 4_MiB}};
    CHECK(pool.account().name() == "scratch");
    CHECK(pool.account().limit() == 4_MiB);

    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(stream, 4_MiB + 1); });

    REQUIRE(refused.info().budgets.size() == 2);
    CHECK(refused.info().budgets[0].name == "scratch");
    CHECK(refused.info().budgets[0].limit == 4_MiB);
    CHECK(refused.info().budgets[1].name == "trainer");
    CHECK(refused.info().refused_by == 0);
    CHECK(has(refused.what(), "budget scratch"));
    CHECK(budget.held() == 0);
}

TEST_CASE("a capped pool serves requests up to exactly its cap", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    std::size_t const initial = GENERATE(0u, 1_MiB, 4_MiB);
    cuota::scoped_pool pool{budget, {.initial_size = initial, .max_size = 4_MiB}};
    taken blocks{pool, stream};

    SECTION("one block of the whole cap") { blocks(4_MiB); }
    SECTION("many blocks") {
        for (int i = 0; i != 16; ++i) blocks(256_KiB);
    }
    SECTION("after other blocks were freed") {
        for (int i = 0; i != 7; ++i) blocks(500'000);
        blocks.give_back_all();
        blocks(4_MiB);
    }
    CHECK(pool.stats().allocated == 4_MiB);
    CHECK(budget.held() == 4_MiB);
    CHECK_THROWS_AS(pool.allocate(stream, 1), cuota::budget_exceeded);
    blocks.give_back_all();
}

TEST_CASE("a pool allocates its initial bytes in the constructor, or the constructor throws",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{budget, {.initial_size = 8_MiB}};
        CHECK(budget.held() == 8_MiB);
        CHECK(pool.largest_free() == 8_MiB);
        pool.deallocate(stream, pool.allocate(stream, 8_MiB), 8_MiB);
    }
    auto const refused = thrown<cuota::budget_exceeded>([&] {
        cuota::scoped_pool const pool{budget, {.name = "big", .initial_size = 8_MiB + 1}, {"main.cpp", 5}};
    });
    CHECK(refused.info().requested == 8_MiB + 1);
    CHECK(refused.info().request.where.line == 5);
    CHECK(budget.held() == 0);
}

TEST_CASE("a pool without a budget has an account of its own", "[pool][scoped_pool]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::device_memory{}, {.name = "scratch"}};

    void* const p = pool.allocate(stream, 1_MiB);

    CHECK(pool.account().name() == "scratch");
    CHECK(pool.account().limit() == cuota::unlimited);
    CHECK(pool.account().held() == 1_MiB);
    pool.deallocate(stream, p, 1_MiB);
}

TEST_CASE("a freed block serves the next request on the same stream", "[pool][scoped_pool]") {
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const stream;
    void* const first = pool.allocate(stream, 1_MiB);
    pool.deallocate(stream, first, 1_MiB);

    void* const second = pool.allocate(stream, 1_MiB);

    CHECK(second == first);
    CHECK(pool.stats().segments == 1);
    pool.deallocate(stream, second, 1_MiB);
}

TEST_CASE("of two free blocks that fit, the smaller one is allocated", "[pool][scoped_pool]") {
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, in_segments};
    cuota::stream const stream;
    taken blocks{pool, stream};
    blocks(4_MiB);
    blocks(1_MiB);
    void* const tight = blocks.blocks[1].first;
    blocks.give_back_all();

    CHECK(blocks(1_MiB) == tight);
    CHECK(pool.largest_free() == 4_MiB);
    blocks.give_back_all();
}

TEST_CASE("an invalid free is reported and changes nothing", "[pool][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "main"}};
    void* const p = pool.allocate(stream, 4000, 256, "weights", {"train.cpp", 17});
    void* const q = pool.allocate(stream, 4000);
    auto const before = pool.stats();
    bool released = false;

    SECTION("a wrong size") {
        pool.deallocate(stream, p, 8000);
        auto const texts = errors.take();
        REQUIRE(texts.size() == 1);
        CHECK(has(texts[0], "pool main"));
        CHECK(has(texts[0], "weights"));
        CHECK(has(texts[0], "train.cpp:17"));
    }
    SECTION("a wrong size that rounds to the same block size") {
        pool.deallocate(stream, p, 4001);
        CHECK(errors.take().size() == 1);
    }
    SECTION("a double free") {
        pool.deallocate(stream, p, 4000);
        released = true;
        pool.deallocate(stream, p, 4000);
        auto const texts = errors.take();
        REQUIRE(texts.size() == 1);
        CHECK(has(texts[0], "double free"));
    }
    SECTION("a pointer into the middle of a block") {
        pool.deallocate(stream, static_cast<std::byte*>(p) + 256, 3744);
        CHECK(errors.take().size() == 1);
    }
    SECTION("another pool's pointer") {
        cuota::scoped_pool other{budget};
        void* const foreign = other.allocate(stream, 4000);
        pool.deallocate(stream, foreign, 4000);
        CHECK(errors.take().size() == 1);
        other.deallocate(stream, foreign, 4000);
    }
    SECTION("host memory") {
        int on_the_stack = 0;
        pool.deallocate(stream, &on_the_stack, sizeof on_the_stack);
        CHECK(errors.take().size() == 1);
    }
    SECTION("deallocate_sync with a wrong size") {
        pool.resource().deallocate_sync(p, 1);
        CHECK(errors.take().size() == 1);
    }

    CHECK(pool.stats().requested == before.requested - (released ? 4000 : 0));
    CHECK(pool.stats().live_blocks == before.live_blocks - (released ? 1 : 0));
    void* const next = pool.allocate(stream, 4000);
    CHECK(next != q);
    CHECK((next == p) == released);
    pool.deallocate(stream, next, 4000);
    pool.deallocate(stream, q, 4000);
    if (!released) pool.deallocate(stream, p, 4000);
    CHECK(errors.take().empty());
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("trim releases free segments, and no more of them than requested", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, in_segments};
    taken blocks{pool, stream};
    for (std::size_t const size : {4_MiB, 1_MiB, 2_MiB, 8_MiB}) blocks(size);  // one segment each
    REQUIRE(pool.stats().segments == 4);
    REQUIRE(pool.stats().reserved == 15_MiB);

    SECTION("nothing while all blocks are live") {
        CHECK(pool.trim() == 0);
        CHECK(budget.held() == 15_MiB);
    }
    SECTION("not a segment with one live byte") {
        for (std::size_t i : {0u, 1u, 2u}) blocks.give_back(i);
        void* const small = pool.allocate(stream, 1);
        CHECK(pool.trim() == 6_MiB);  // the byte is in the segment of 1 MiB
        CHECK(budget.held() == 9_MiB);
        pool.deallocate(stream, small, 1);
        blocks.blocks = {blocks.blocks[3]};
    }
    SECTION("all free segments") {
        blocks.give_back_all();
        CHECK(pool.trim() == 15_MiB);
        CHECK(pool.stats().reserved == 0);
        CHECK(budget.held() == 0);
        CHECK(pool.trim() == 0);
    }
    SECTION("down to the bytes to keep") {
        blocks.give_back_all();
        CHECK(pool.trim(14_MiB) == 1_MiB);
        CHECK(budget.held() == 14_MiB);
        CHECK(pool.trim(14_MiB) == 0);
        CHECK(pool.trim(11_MiB) == 4_MiB);  // the smallest segment that covers the excess of 3 MiB
        CHECK(pool.trim(0) == 10_MiB);
    }
    SECTION("nothing when fewer bytes are reserved than are to be kept") {
        blocks.give_back_all();
        CHECK(pool.trim(15_MiB) == 0);
        CHECK(pool.trim(cuota::unlimited) == 0);
        CHECK(budget.held() == 15_MiB);
    }
    blocks.give_back_all();
}

TEST_CASE("a refusal reports cached bytes that share pages with live blocks", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 2_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};  // allocates a page or a segment of 2 MiB
    void* const p = pool.allocate(stream, 512);
    auto const held = budget.held();
    auto const refused = thrown<cuota::budget_exceeded>([&] { budget.charge(2_MiB - held + 1, "slots"); });
    std::string const free = cuota::bytes_text(held - 512);
    CHECK(
        has(refused.what(), "reclaimed  nothing: " + free + " cached in pools share pages with live blocks"));
    pool.deallocate(stream, p, 512);
    budget.charge(2_MiB, "slots");  // the page is released
    budget.refund(2_MiB);
}

TEST_CASE("when a budget is short, a pool releases the smallest idle segment that covers the shortfall",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 16_MiB};
    cuota::stream const stream;
    cuota::scoped_pool a{budget, in_segments};
    cuota::scoped_pool b{budget, in_segments};
    taken idle{a, stream};
    for (std::size_t const size : {8_MiB, 2_MiB, 4_MiB, 1_MiB}) idle(size);
    idle.give_back_all();
    REQUIRE(budget.held() == 15_MiB);

    void* p = nullptr;
    REQUIRE_NOTHROW(p = b.allocate(stream, 4_MiB));

    CHECK(a.stats().reserved == 11_MiB);  // 1 MiB was free; the segment of 4 MiB covered the other 3
    CHECK(budget.held() == 15_MiB);
    b.deallocate(stream, p, 4_MiB);
}

TEST_CASE(
    "the pool with the higher priority is reclaimed first, although another would release less in excess",
    "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 16_MiB};
    cuota::stream const stream;
    bool const first_is_higher = GENERATE(true, false);
    cuota::scoped_pool large{
        budget, {.reclaim_priority = first_is_higher ? 1 : -1, .growth = cuota::pool_growth::segments}};
    cuota::scoped_pool exact{budget, in_segments};
    taken idle{large, stream};
    idle(8_MiB);
    taken also_idle{exact, stream};
    also_idle(2_MiB);
    idle.give_back_all();
    also_idle.give_back_all();

    cuota::scoped_pool other{budget};
    void* const p = other.allocate(stream, 8_MiB);  // 2 MiB are missing

    CHECK(large.stats().reserved == (first_is_higher ? 0 : 8_MiB));
    CHECK(exact.stats().reserved == (first_is_higher ? 2_MiB : 0));
    other.deallocate(stream, p, 8_MiB);
}

TEST_CASE("a pool releases its own idle segments for a request that does not fit into them",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    taken blocks{pool, stream};
    for (int i = 0; i != 8; ++i) blocks(1_MiB);
    blocks.give_back_all();

    REQUIRE_NOTHROW(blocks(8_MiB));

    CHECK(pool.stats().segments == 1);
    CHECK(budget.held() == 8_MiB);
    blocks.give_back_all();
}

TEST_CASE("a request that reclaiming cannot satisfy releases nothing", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const stream;
    cuota::scoped_pool a{budget};
    cuota::scoped_pool b{budget};
    taken blocks{a, stream};
    blocks(4_MiB);
    blocks(2_MiB);
    blocks.give_back(1);

    auto const hopeless = thrown<cuota::budget_exceeded>([&] { (void)b.allocate(stream, 9_MiB); });
    CHECK(hopeless.info().reclaimed == 0);
    CHECK(a.stats().reserved == 6_MiB);

    auto const close = thrown<cuota::budget_exceeded>([&] { (void)b.allocate(stream, 5_MiB); });
    CHECK(close.info().reclaimed == 0);  // 2 MiB free and 2 MiB reclaimable do not suffice
    CHECK(close.info().reclaimable == 2_MiB);
    CHECK(a.stats().reserved == 6_MiB);
    CHECK(close.info().max_fit == 4_MiB);
    void* const fits = b.allocate(stream, 4_MiB);
    CHECK(a.stats().reserved == 4_MiB);
    b.deallocate(stream, fits, 4_MiB);
    a.deallocate(stream, blocks.blocks[0].first, 4_MiB);
}

TEST_CASE("close throws and lists the live blocks, and the pool can still be used", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "main"}};
    void* const p = pool.allocate(stream, 3'984'589, 256, "weights", {"train.cpp", 10});

    auto const refused = thrown<cuota::usage_error>([&] { pool.close(); });

    CHECK(has(refused.what(), "pool main"));
    CHECK(has(refused.what(), "1 allocation is still alive"));
    CHECK(has(refused.what(), "weights 3.8 MiB (train.cpp:10)"));
    void* const q = pool.allocate(stream, 1_MiB);  // the pool still works
    std::string const two = thrown<cuota::usage_error>([&] { pool.close(); }).what();
    CHECK(has(two, "2 allocations are still alive"));
    CHECK(has(two, "; free them before their pool"));
    pool.deallocate(stream, p, 3'984'589);
    pool.deallocate(stream, q, 1_MiB);
    REQUIRE_NOTHROW(pool.close());

    CHECK(budget.held() == 0);
    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)pool.allocate(stream, 1, 256, {}, {"late.cpp", 3});
              }).what(),
              "late.cpp:3"));
    REQUIRE_NOTHROW(pool.close());
}

TEST_CASE("close groups and shortens a long list of live blocks", "[pool][scoped_pool]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    taken blocks{pool, stream};
    for (std::size_t i = 0; i != 20; ++i) {
        blocks(256, "activations");
        blocks(1000 + i, cuota::tag::named("part " + std::to_string(i)));
    }

    std::string const text = thrown<cuota::usage_error>([&] { pool.close(); }).what();

    CHECK(has(text, "40 allocations are still alive: activations 20 x 256 B (scoped_pool.cpp:"));
    CHECK(has(text, ", part 19 1019 B ("));
    CHECK(has(text, "and 17 more (16.7 KiB)"));
    CHECK(text.size() < 400);
    blocks.give_back_all();
}

TEST_CASE("memory outlives its pool until its last owner is destroyed", "[pool][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    std::optional<cuota::scoped_pool> pool{
        std::in_place, budget, cuota::pool_options{.name = "main", .growth = cuota::pool_growth::segments}};
    std::optional<cuota::pool_resource> memory{pool->resource()};
    void* const p = memory->allocate(stream, 1_MiB, 256, {"weights", {"train.cpp", 10}});
    void* const idle = memory->allocate(stream, 2_MiB);
    memory->deallocate(stream, idle, 2_MiB);

    pool.reset();

    auto const texts = errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0],
              "pool main destroyed while 1 allocation is still alive: weights 1.0 MiB (train.cpp:10); "
              "free it before its pool"));
    CHECK(budget.held() == 1_MiB);  // the idle segment was released
    support::write_words(stream, p, 1_MiB, 7);
    CHECK(support::all_are(support::words(stream, p, 1_MiB), 7));
    CHECK_THROWS_AS(memory->allocate(stream, 1), cuota::usage_error);
    CHECK_THROWS_AS(memory->allocate_sync(1), cuota::usage_error);

    memory->deallocate(stream, p, 1_MiB);
    CHECK(budget.held() == 0);  // immediately, not when the handle is destroyed
    memory.reset();
    CHECK(errors.take().empty());
}

TEST_CASE("blocks that are never freed are freed when the last handle on the pool is destroyed",
          "[pool][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{budget};
        (void)pool.allocate(stream, 1_MiB, 256, "lost");
    }
    auto const texts = errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0], "lost 1.0 MiB (scoped_pool.cpp:"));
    CHECK(budget.held() == 0);
}

TEST_CASE("the statistics of a pool are consistent", "[pool][scoped_pool]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    taken blocks{pool, stream};
    blocks(1000);
    blocks(2000);
    blocks(3000);

    cuota::pool_stats now = pool.stats();
    CHECK(now.requested == 6000);
    CHECK(now.allocated == 1024 + 2048 + 3072);
    CHECK(now.live_blocks == 3);
    CHECK(now.peak_requested == 6000);

    blocks.give_back_all();
    now = pool.stats();
    CHECK(now.requested == 0);
    CHECK(now.allocated == 0);
    CHECK(now.live_blocks == 0);
    CHECK(now.peak_requested == 6000);
    CHECK(now.peak_allocated == 6144);
    CHECK(now.peak_reserved == now.reserved);
    CHECK(now.largest_free == pool.largest_free());
    CHECK(now.free_blocks == now.segments);
}

TEST_CASE("a merged block of two streams is reused on a third stream after the work of both",
          "[pool][scoped_pool]") {
    constexpr std::size_t half = 64_KiB;
    cuota::budget budget{"trainer", 2 * half};
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::scoped_pool pool{budget, {.initial_size = 2 * half}};

    for (support::word round = 0; round != 50; ++round) {
        void* const p = pool.allocate(a, half);
        void* const q = pool.allocate(b, half);
        for (support::word i = 0; i != 4; ++i) support::write_words(a, p, half, 1000 + i);
        support::write_words(b, q, half, 2000);
        pool.deallocate(a, p, half);
        pool.deallocate(b, q, half);  // merged with a's half
        void* const front = pool.allocate(b, half / 2);
        support::write_words(b, front, half / 2, 3000);
        void* const rest = pool.allocate(c, 2 * half - half / 2);  // must wait for a as well as for b
        support::write_words(c, rest, 2 * half - half / 2, 4000 + round);

        REQUIRE(support::all_are(support::words(c, rest, 2 * half - half / 2), 4000 + round));
        pool.deallocate(b, front, half / 2);
        pool.deallocate(c, rest, 2 * half - half / 2);
    }
}

namespace {

// A live block of the walk, filled with `value` on its stream.
struct walked {
    std::byte* at;
    std::size_t bytes;
    std::size_t stream;
    support::word value;
};

// Allocates and frees blocks on four streams at random. Each block is filled when allocated and checked when freed.
class walk {
public:
    walk(cuota::scoped_pool& pool, unsigned seed) : pool_{pool}, random_{seed} {
        for (auto& flag : wrong_) {
            flag = static_cast<support::word*>(host_.allocate_sync(sizeof(support::word)));
            *flag = 0;
        }
    }
    ~walk() {
        for (cuota::stream const& s : streams_) s.synchronize();
        for (auto* flag : wrong_) host_.deallocate_sync(flag, sizeof(support::word));
    }
    walk(walk const&) = delete;
    walk& operator=(walk const&) = delete;

    void step() {
        bool const takes = live_.size() < 20 || (live_.size() < 400 && random_() % 2 == 0);
        if (takes) take();
        else give(random_() % live_.size());
        if (random_() % 1000 == 0) streams_[random_() % streams_.size()].synchronize();
    }
    void give_all() {
        while (!live_.empty()) give(live_.size() - 1);
    }
    [[nodiscard]] bool is_right() const {
        for (cuota::stream const& s : streams_) s.synchronize();
        return std::ranges::all_of(wrong_, [](support::word const* flag) { return *flag == 0; });
    }
    [[nodiscard]] std::size_t requested() const noexcept { return requested_; }
    [[nodiscard]] std::size_t live() const noexcept { return live_.size(); }

private:
    void take() {
        std::size_t const bytes = 4 * (1 + random_() % (random_() % 8 == 0 ? 4096 : 256));
        std::size_t const stream = random_() % streams_.size();
        walked const b{static_cast<std::byte*>(pool_.allocate(streams_[stream], bytes)), bytes, stream,
                       next_++};
        auto const after = map_.lower_bound(b.at);
        if (after != map_.end()) REQUIRE(b.at + bytes <= after->first);
        if (after != map_.begin()) REQUIRE(std::prev(after)->first + std::prev(after)->second <= b.at);
        map_.emplace(b.at, bytes);
        requested_ += bytes;
        support::write_words(streams_[stream], b.at, bytes, b.value);
        live_.push_back(b);
    }
    void give(std::size_t i) {
        walked const b = live_[i];
        live_[i] = live_.back();
        live_.pop_back();
        cuota::for_each_index(
            streams_[b.stream], b.bytes / sizeof(support::word),
            support::check_word{reinterpret_cast<support::word*>(b.at), b.value, wrong_[b.stream]});
        pool_.deallocate(streams_[b.stream], b.at, b.bytes);
        map_.erase(b.at);
        requested_ -= b.bytes;
    }

    cuota::scoped_pool& pool_;
    std::mt19937 random_;
    cuota::pinned_memory host_;
    std::array<cuota::stream, 4> streams_;
    std::array<support::word*, 4> wrong_{};
    std::vector<walked> live_;
    std::map<std::byte*, std::size_t> map_;
    std::size_t requested_ = 0;
    support::word next_ = 1;
};

}  // namespace

TEST_CASE("in a random walk over four streams blocks keep their values, and statistics are correct",
          "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::pool_stats peak;
    {
        walk walk{pool, 20'260'801};
        int const steps = support::rounds(100'000);
        for (int i = 0; i != steps; ++i) {
            walk.step();
            cuota::pool_stats const now = pool.stats();
            peak.requested = std::max(peak.requested, now.requested);
            peak.allocated = std::max(peak.allocated, now.allocated);
            peak.reserved = std::max(peak.reserved, now.reserved);
            bool const agrees = now.requested == walk.requested() && now.live_blocks == walk.live() &&
                                now.requested <= now.allocated && now.allocated <= now.reserved &&
                                now.peak_requested == peak.requested &&
                                now.peak_allocated == peak.allocated && now.peak_reserved == peak.reserved &&
                                now.reserved == budget.held();
            if (!agrees) FAIL("the statistics do not agree after step " << i);
            if (i % 10'000 == 9'999) pool.trim(now.allocated);
        }
        CHECK(walk.is_right());
        walk.give_all();
        CHECK(walk.is_right());
    }
    CHECK(pool.stats().live_blocks == 0);
    CHECK(pool.stats().free_blocks == pool.stats().segments);
    pool.trim();
    CHECK(budget.held() == 0);
}

TEST_CASE("two threads may use one pool at the same time", "[pool][scoped_pool][threads]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};
    std::atomic<int> wrong = 0;

    auto const work = [&](support::word salt) {
        cuota::stream const own;
        std::mt19937 random{salt};
        for (support::word i = 0; i != 1500; ++i) {
            std::size_t const bytes = 4 * (1 + random() % 2000);
            void* const p = pool.allocate(own, bytes);
            void* const q = pool.allocate(own, 512);
            support::write_words(own, p, bytes, salt + i);
            support::write_words(own, q, 512, ~(salt + i));
            if (i % 50 == 0 && !support::all_are(support::words(own, p, bytes), salt + i)) ++wrong;
            pool.deallocate(own, p, bytes);
            pool.deallocate(own, q, 512);
            if (i % 500 == 499) pool.trim(1_MiB);
            (void)pool.stats();
        }
    };
    std::thread other{work, 1'000'000u};
    work(2'000'000u);
    other.join();

    CHECK(wrong == 0);
    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("two pools on one budget reclaim from each other on two threads without a deadlock",
          "[pool][scoped_pool][threads]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 4_MiB};
    std::array<std::atomic<int>, 2> served{};
    {
        cuota::scoped_pool a{budget, {.name = "a"}};
        cuota::scoped_pool b{budget, {.name = "b"}};
        auto const work = [&](cuota::scoped_pool& pool, std::atomic<int>& served_here, unsigned seed) {
            cuota::stream const own;
            std::mt19937 random{seed};
            for (int i = 0; i != 1000; ++i) {
                std::size_t const bytes = 64_KiB * (1 + random() % 32);
                try {
                    void* const p = pool.allocate(own, bytes);
                    support::write_words(own, p, 256, 1);
                    pool.deallocate(own, p, bytes);
                    ++served_here;
                } catch (cuota::budget_exceeded const&) {  // the other pool may hold the bytes
                }
            }
        };
        std::thread other{work, std::ref(b), std::ref(served[1]), 2u};
        work(a, served[0], 1u);
        other.join();
        CHECK(budget.peak() <= budget.limit());
    }
    CHECK(served[0] > 0);
    CHECK(served[1] > 0);
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a pool of dry_run_memory reserves the same bytes as one of device memory", "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget on_device{"device", 64_MiB};
    cuota::budget dry{"dry run", 64_MiB};
    cuota::scoped_pool device{on_device};
    cuota::scoped_pool addresses{dry, cuota::dry_run_memory{}};
    void* const first = device.allocate(s, 1);
    void* const address = addresses.allocate(s, 1);
    bool const has_pages = on_device.held() == 2_MiB;
    std::vector<std::pair<void*, void*>> blocks;
    std::size_t const sizes[] = {3_MiB, 100, 5_MiB, 700'000, 2_MiB, 9_MiB, 1_MiB, 12_MiB};
    for (int round = 0; has_pages && round != 3; ++round) {
        for (std::size_t const size : sizes) {
            blocks.emplace_back(device.allocate(s, size), addresses.allocate(s, size));
            CHECK(dry.held() == on_device.held());
        }
        for (std::size_t i = 0; i != blocks.size(); ++i) {
            device.deallocate(s, blocks[i].first, sizes[i]);
            addresses.deallocate(s, blocks[i].second, sizes[i]);
        }
        blocks.clear();
        CHECK(addresses.trim(8_MiB) == device.trim(8_MiB));
        CHECK(dry.held() == on_device.held());
    }
    device.deallocate(s, first, 1);
    addresses.deallocate(s, address, 1);
    if (!has_pages) CUOTA_SKIP("the device has no pages of 2 MiB");
    CHECK(addresses.stats().peak_reserved == device.stats().peak_reserved);
}

namespace {

bool is_aligned(void const* p, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

}  // namespace

TEST_CASE("a pool refuses bounds that no pool can keep", "[pool][scoped_pool]") {
    cuota::budget const budget{"test", 64_MiB};
    auto const made_with = [&](cuota::pool_options wanted) {
        wanted.name = "shapes";
        return thrown<cuota::usage_error>([&] {
            cuota::scoped_pool{budget, cuota::dry_run_memory{}, wanted};
        });
    };
    for (double const wrong : {0.999, 0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
        CHECK(has(made_with({.remap_above = wrong}).what(), "pool shapes: `remap_above` must be at least 1"));
    CHECK(has(made_with({.largest_mapping = 0}).what(), "pool shapes: `largest_mapping` must not be 0"));
    for (double const right : {1.0, 1e300, std::numeric_limits<double>::infinity()})
        CHECK_NOTHROW(cuota::scoped_pool{budget, cuota::dry_run_memory{}, {.remap_above = right}});
}

TEST_CASE("largest_mapping bounds the mappings of a large device", "[pool][scoped_pool]") {
    cuota::budget const budget{"test", cuota::unlimited};
    cuota::stream const s;
    auto const mappings_with = [&](std::size_t largest) {
        cuota::scoped_pool pool{budget, cuota::dry_run_memory{}, {.largest_mapping = largest}};
        pool.deallocate(s, pool.allocate(s, 64_MiB), 64_MiB);
        return pool.stats().mappings_made;
    };
    CHECK(mappings_with(64_MiB) == 1);
    CHECK(mappings_with(4_MiB) == 16);
    CHECK(mappings_with(5_MiB) == 16);  // whole pages
    CHECK(mappings_with(1) == 32);      // at least one
}

TEST_CASE("memory in advance of small requests has mappings of half the size", "[pool][scoped_pool]") {
    cuota::budget const budget{"test", cuota::unlimited};
    cuota::stream const s;
    cuota::scoped_pool pool{budget, cuota::dry_run_memory{}};
    void* const large = pool.allocate(s, 4_GiB);
    REQUIRE(pool.stats().mappings_made == 64);
    void* const small = pool.allocate(s, 1_MiB);  // with 64 MiB in advance
    CHECK(pool.stats().reserved == 4_GiB + 66_MiB);
    CHECK(pool.stats().mappings_made == 64 + 3);
    pool.deallocate(s, small, 1_MiB);
    pool.deallocate(s, large, 4_GiB);
}

TEST_CASE("alignments up to 2 MiB are provided with pages and with segments", "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    cuota::scoped_pool pool{budget, {.growth = growth}};
    std::vector<void*> all;
    for (std::size_t alignment = 1; alignment <= 2_MiB; alignment *= 2) {
        all.push_back(pool.allocate(s, 1000, alignment));
        CHECK(is_aligned(all.back(), alignment));
        all.push_back(pool.resource().allocate_sync(1000, alignment));
        CHECK(is_aligned(all.back(), alignment));
    }
    CHECK(pool.stats().allocated == all.size() * 1024);
    CHECK(pool.stats().reserved == budget.held());
    for (void* const p : all) pool.deallocate(s, p, 1000);
    CHECK(pool.stats().allocated == 0);
    pool.trim();
    CHECK(budget.held() == 0);
}

TEST_CASE("a request that exceeds the budget by its alignment is refused with its size, and changes nothing",
          "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.growth = cuota::pool_growth::segments}};
    auto const refused =
        thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(s, 1_MiB, 4096, "weights"); });
    CHECK(refused.info().requested == 1_MiB);
    CHECK(budget.held() == 0);
    CHECK(pool.stats().peak_reserved == 0);

    void* const p = pool.allocate(s, refused.info().max_fit, 4096);
    CHECK(is_aligned(p, 4096));
    pool.deallocate(s, p, refused.info().max_fit);
    CHECK_THROWS_AS(pool.allocate(s, cuota::unlimited, 4096), cuota::out_of_memory);
    CHECK_THROWS_AS(pool.allocate(s, cuota::unlimited - 4096, 2_MiB), cuota::out_of_memory);
}

TEST_CASE("the alignment option of a pool applies to all its blocks, through every handle",
          "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB, .alignment = 4096, .growth = growth}};
    auto const step = pool.begin_step();
    auto frame = pool.frame();
    auto const gives_aligned = [&](auto memory) {
        for (std::size_t const bytes : {1, 300, 4096, 5000}) {
            void* const p = memory.allocate(s, bytes);
            CHECK(is_aligned(p, 4096));
            void* const q = memory.allocate_sync(bytes, 8192);
            CHECK(is_aligned(q, 8192));
            memory.deallocate(s, p, bytes);
            memory.deallocate_sync(q, bytes);
        }
    };
    gives_aligned(pool.resource());
    gives_aligned(pool.persistent());
    gives_aligned(step.resource());
    gives_aligned(frame.resource());
    for (int i = 0; i != 100; ++i) {  // also for blocks of the thread cache
        void* const p = pool.allocate(s, 100);
        REQUIRE(is_aligned(p, 4096));
        REQUIRE(pool.stats().allocated % 4096 == 0);
        pool.deallocate(s, p, 100);
    }
}

TEST_CASE("a pool's alignment is a power of two up to 2 MiB", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    for (std::size_t const alignment : {std::size_t{0}, std::size_t{3}, 4_MiB, cuota::unlimited})
        CHECK_THROWS_AS((cuota::scoped_pool{budget, {.initial_size = 1_MiB, .alignment = alignment}}),
                        cuota::usage_error);
    CHECK(budget.held() == 0);
    cuota::stream const s;
    cuota::scoped_pool pool{budget, {.alignment = 16}};
    void* const p = pool.allocate(s, 1);
    CHECK(is_aligned(p, 256));
    pool.deallocate(s, p, 1);
}

TEST_CASE("a persistent request on a new stream reuses blocks of the thread cache", "[pool][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 8_MiB, .growth = cuota::pool_growth::segments}};
    cuota::stream const s;
    pool.deallocate(s, pool.allocate(s, 1_MiB), 1_MiB);  // so that later requests set no peak
    for (int i = 0; i != 100; ++i)
        pool.deallocate(s, pool.allocate(s, 1000), 1000);  // cached by the thread after some rounds
    cuota::stream const fresh;  // an allocation on a new stream flushes the thread cache
    void* const p = pool.persistent().allocate(fresh, 1000);
    CHECK(pool.stats().live_blocks == 1);
    CHECK(pool.stats().thread_cache_hits > 0);
    CHECK(pool.largest_free() == 8_MiB - 1024);
    pool.deallocate(fresh, p, 1000);
    CHECK(pool.largest_free() == 8_MiB);
}

TEST_CASE("pools and frames allocate raw memory with a tag", "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget budget{"b", 16_MiB};
    cuota::scoped_pool pool{budget};
    void* const p = pool.allocate(s, 1000, "scratch");
    CHECK(pool.stats_by_tag().front().name.text() == std::string_view{"scratch"});
    {
        auto frame = pool.frame();
        CHECK(frame.allocate(s, 100, "bins") != nullptr);
    }
    pool.deallocate(s, p, 1000);
    unsigned const line = __LINE__ + 1;
    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(s, 17_MiB, "scratch"); });
    CHECK(refused.info().request.name.text() == std::string_view{"scratch"});
    CHECK(refused.info().request.where.line == line);
}

TEST_CASE("a pool that keeps idle memory releases it only when it ends", "[pool][scoped_pool]") {
    cuota::stream const s;
    cuota::budget budget{"b", 16_MiB};
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    {
        cuota::scoped_pool graphs{budget, {.name = "graphs", .keeps_idle = true, .growth = growth}};
        cuota::scoped_pool other{budget};
        void* const p = graphs.allocate(s, 8_MiB, "graph memory");
        graphs.deallocate(s, p, 8_MiB);
        CHECK(graphs.trim() == 0);
        CHECK(graphs.stats().reserved == 8_MiB);
        auto const refused = thrown<cuota::budget_exceeded>([&] { (void)other.allocate(s, 9_MiB, "x"); });
        CHECK(refused.info().reclaimed == 0);
        CHECK(refused.info().reclaimable == 0);
        CHECK(graphs.stats().reserved == 8_MiB);
        void* const again = graphs.allocate(s, 8_MiB, "graph memory");
        CHECK(again == p);
        graphs.deallocate(s, again, 8_MiB);
        graphs.close();
        CHECK(budget.held() == 0);
    }
    CHECK(budget.held() == 0);
}
