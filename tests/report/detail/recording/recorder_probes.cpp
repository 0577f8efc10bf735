// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/recorder_probes.hpp>

#include <atomic>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recorder.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::event_kind;

namespace {

char letter_of(event_kind kind) {
    switch (kind) {
        case event_kind::allocated: return 'a';
        case event_kind::free_requested: return 'f';
        case event_kind::free_completed: return 'c';
        case event_kind::segment_allocated: return 's';
        case event_kind::segment_freed: return 'r';
        case event_kind::refused: return 'X';
        case event_kind::reclaimed: return 'R';
        case event_kind::step_begun: return '<';
        case event_kind::step_ended: return '>';
        case event_kind::marker: return '#';
    }
    return '?';
}

// Returns the events of one source, one letter each.
std::string story_of(cuota::recording const& r, std::string const& source) {
    std::string all;
    for (cuota::memory_event const& e : r.events)
        if (r.sources[e.source].name == source) all += letter_of(e.kind);
    return all;
}

void take_and_give(cuota::scoped_pool& pool, cuota::stream const& stream, std::size_t bytes = 1000) {
    pool.deallocate(stream, pool.allocate(stream, bytes, 256, "x"), bytes);
    stream.synchronize();
    (void)pool.stats();
}

// Compares the blocks that are live at the end according to the events with those of the snapshot.
void check_ends(cuota::recording const& r) {
    cuota::memory_lifetimes const all = cuota::lifetimes_of(r);
    for (std::size_t i = 0; i != r.sources.size(); ++i) {
        if (!r.sources[i].pool) continue;
        cuota::pool_info const& pool = r.final_snapshot.pools[*r.sources[i].pool];
        std::size_t blocks = 0, bytes = 0, size = 0, reserved = 0;
        for (cuota::block_lifetime const& b : all.blocks) {
            if (b.source != i || b.until) continue;
            ++blocks;
            bytes += b.bytes;
            size += b.size;
        }
        for (cuota::segment_lifetime const& s : all.segments)
            if (s.source == i && !s.until) reserved += s.bytes;
        REQUIRE(blocks == pool.stats.live_blocks);
        REQUIRE(bytes == pool.stats.requested);
        REQUIRE(size == pool.stats.allocated);
        REQUIRE(reserved == pool.stats.reserved);
    }
}

}  // namespace

TEST_CASE("recorder: existing and new pools are recorded", "[report][recorder_taps]") {
    cuota::budget budget{"root", 64_MiB};
    cuota::budget part{"part", 32_MiB, budget};
    cuota::stream const stream;
    cuota::scoped_pool before{budget, {.name = "before"}};
    void* const kept = before.allocate(stream, 5000, 256, "kept");
    cuota::recorder const recorder{budget};
    cuota::scoped_pool later{part, {.name = "later"}};
    take_and_give(before, stream);
    {
        cuota::scoped_pool ended{part, {.name = "ended"}};
        take_and_give(ended, stream);
    }
    take_and_give(later, stream);
    cuota::recording const r = recorder.read();
    REQUIRE(story_of(r, "before") == "afc");
    REQUIRE(story_of(r, "later") == "safc");
    REQUIRE(story_of(r, "ended") == "safcr");
    check_ends(r);

    std::map<std::string, cuota::event_source> sources;
    for (cuota::event_source const& s : r.sources) sources[s.name] = s;
    REQUIRE(r.sources[*sources["later"].budget].name == "part");
    REQUIRE(r.sources[*sources["part"].parent].name == "root");
    REQUIRE(sources["root"].limit == 64_MiB);
    REQUIRE_FALSE(sources["ended"].pool);
    REQUIRE(r.final_snapshot.pools[*sources["before"].pool].tags[0].peak == 5120);

    cuota::memory_lifetimes const all = cuota::lifetimes_of(r);
    REQUIRE(all.blocks.size() == 4);
    REQUIRE_FALSE(all.blocks[0].from);  // allocated before the first event
    REQUIRE(all.blocks[0].bytes == 5000);
    before.deallocate(stream, kept, 5000);
}

TEST_CASE("recorder: refusals and reclaimed pools are recorded", "[report][recorder_taps]") {
    cuota::budget budget{"root", 8_MiB};
    cuota::budget part{"part", 16_MiB, budget};
    cuota::stream const stream;
    cuota::recorder const recorder{budget};
    cuota::scoped_pool cache{budget, {.name = "cache"}};
    cuota::scoped_pool pool{part, {.name = "p"}};
    take_and_give(cache, stream, 4_MiB);
    unsigned const line = __LINE__ + 1;
    REQUIRE_THROWS_AS(pool.allocate(stream, 9_MiB, 256, "big"), cuota::budget_exceeded);
    take_and_give(pool, stream, 7_MiB);
    cuota::recording const r = recorder.read();
    REQUIRE(story_of(r, "root") == "X");  // refused by the root; `part` had enough
    REQUIRE(story_of(r, "part") == "R");
    for (cuota::memory_event const& e : r.events) {
        if (e.kind == event_kind::refused) {
            REQUIRE(e.bytes == 9_MiB);
            REQUIRE(e.size == 4_MiB);
            REQUIRE(std::string{r.sites[e.site].name.text()} == "big");
            REQUIRE(r.sites[e.site].where.line == line);
        }
        if (e.kind == event_kind::reclaimed) {
            REQUIRE(e.bytes == 4_MiB);
            REQUIRE(std::string{r.sites[e.site].name.text()} == "pool cache");
        }
    }
    REQUIRE(story_of(r, "cache") == "safcr");
}

TEST_CASE("recorder: memory of loaders is live in a recording even if its events were dropped",
          "[report][recorder_taps]") {
    cuota::budget budget{"root", 64_MiB};
    std::vector<float> const values(1000);
    auto const make = [&](cuota::tag name) {
        cuota::loader_options how{.batch_size = 10, .device_budget = budget};
        how.name = name;
        return cuota::batch_loader{cuota::memory_dataset{"numbers", values}, how};
    };
    auto const live = [](cuota::recording const& r) {
        std::map<std::string, std::size_t> by_tag;
        for (cuota::block_lifetime const& b : cuota::lifetimes_of(r).blocks)
            if (!b.until) by_tag[r.sites[b.site].name.text()] += b.size;
        return by_tag;
    };
    cuota::batch_loader const before = make("before");
    cuota::recorder const recorder{budget, {.capacity = 16}};
    std::size_t const each = budget.held();
    {
        cuota::batch_loader const later = make("later");
        REQUIRE(live(recorder.read()) ==
                std::map<std::string, std::size_t>{{"before", each}, {"later", each}});
    }
    for (int i = 0; i != 100; ++i) cuota::recorder{recorder}.mark("x");
    cuota::recording const r = recorder.read();
    REQUIRE(r.dropped > 0);
    REQUIRE(live(r) == std::map<std::string, std::size_t>{{"before", each}});
    REQUIRE(story_of(r, "before") == "a");
    for (cuota::event_source const& s : r.sources) {
        if (s.name != "before") continue;
        REQUIRE(s.kind == cuota::source_kind::resource);
        REQUIRE(s.memory == cuota::memory_kind::device);
        REQUIRE(s.device == cuota::device::current().ordinal());
        REQUIRE(r.sources[s.budget.value()].name == "root");
    }
}

TEST_CASE("recorder: a block freed during a pause ends when its address is reused, or at the end",
          "[report][recorder_taps]") {
    cuota::budget budget{"root", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "p"}};
    cuota::recorder recorder{budget};
    void* const a = pool.allocate(stream, 5000, 256, "a");
    void* const b = pool.allocate(stream, 7000, 256, "b");
    void* const c = pool.allocate(stream, 9000, 256, "c");
    recorder.pause();
    pool.deallocate(stream, a, 5000);
    pool.deallocate(stream, c, 9000);
    recorder.resume();
    void* const again = pool.allocate(stream, 5000, 256, "again");
    REQUIRE(again == a);
    cuota::recording const r = recorder.read();
    check_ends(r);
    cuota::memory_lifetimes const all = cuota::lifetimes_of(r);
    REQUIRE(all.blocks.size() == 4);
    REQUIRE(all.blocks[0].until == all.blocks[3].from);
    REQUIRE_FALSE(all.blocks[1].until);
    REQUIRE(all.blocks[2].until == r.events.back().at);
    pool.deallocate(stream, again, 5000);
    pool.deallocate(stream, b, 7000);
}

TEST_CASE("recorder: destroying the last handle stops the recording of its pools",
          "[report][recorder_taps]") {
    cuota::budget budget{"root", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    {
        std::optional<cuota::recorder> second;
        {
            cuota::recorder const first{budget};
            second = first;
        }
        take_and_give(pool, stream);
        REQUIRE(story_of(second->read(), "pool") == "safc");
    }
    cuota::recorder const again{budget};  // throws if the pool is still recorded
    take_and_give(pool, stream);
    REQUIRE(story_of(again.read(), "pool") == "afc");
}

TEST_CASE("recorder: a pool that another recorder records is refused by name", "[report][recorder_taps]") {
    cuota::budget budget{"root", 64_MiB};
    cuota::scoped_pool pool{budget, {.name = "p"}};
    cuota::recorder const first{budget};
    auto const refused = support::thrown<cuota::usage_error>([&] { cuota::recorder const second{budget}; });
    REQUIRE(support::has(refused.what(), "pool p: cannot record"));
    cuota::stream const stream;
    take_and_give(pool, stream);
    REQUIRE(story_of(first.read(), "p") == "safc");
}

TEST_CASE("recorder: a nested budget is recorded only once", "[report][recorder_taps]") {
    cuota::budget root{"root", 64_MiB};
    cuota::budget part{"part", 32_MiB, root};
    cuota::stream const stream;
    cuota::scoped_pool pool{part, {.name = "p"}};
    auto const check = [&](cuota::recorder const& recorder) {
        take_and_give(pool, stream);
        REQUIRE_THROWS_AS(part.charge(40_MiB), cuota::budget_exceeded);
        cuota::recording const r = recorder.read();
        REQUIRE(story_of(r, "part") == "X");
        REQUIRE(r.final_snapshot.pools.size() == 1);
        REQUIRE(r.final_snapshot.budgets.size() == 2);
        check_ends(r);
    };
    {
        cuota::recorder outer_first{root};
        outer_first.watch(part);
        check(outer_first);
    }
    cuota::recorder inner_first{part};
    inner_first.watch(root);
    check(inner_first);
}

TEST_CASE("recorder: events and the final snapshot agree while threads allocate",
          "[report][recorder_taps][threads]") {
    cuota::budget budget{"root", 512_MiB};
    cuota::recorder const recorder{budget, {.capacity = 4096}};
    cuota::scoped_pool one{budget, {.name = "one"}};
    cuota::scoped_pool two{budget, {.name = "two"}};
    std::atomic<bool> is_over = false;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            cuota::stream const stream;
            cuota::scoped_pool& pool = t % 2 == 0 ? one : two;
            std::mt19937 random{t};
            std::vector<std::pair<void*, std::size_t>> held;
            while (!is_over.load() || !held.empty()) {
                bool const takes = !is_over.load() && held.size() < 40 && random() % 2 == 0;
                if (takes) {
                    std::size_t const bytes = 1 + random() % 500'000;
                    held.emplace_back(pool.allocate(stream, bytes, 256,
                                                    t % 2 == 0 ? cuota::tag{"even"} : cuota::tag{"odd"}),
                                      bytes);
                } else if (!held.empty()) {
                    pool.deallocate(stream, held.back().first, held.back().second);
                    held.pop_back();
                }
                if (random() % 200 == 0) (void)pool.trim(16_MiB);
            }
        });
    for (int i = 0; i != support::rounds(40); ++i) check_ends(recorder.read());
    is_over = true;
    for (std::thread& t : threads) t.join();
    check_ends(recorder.read());
}

TEST_CASE("recorder: recorders may be created and destroyed while pools are",
          "[report][recorder_taps][threads]") {
    cuota::budget budget{"root", 512_MiB};
    std::atomic<bool> is_over = false;
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            cuota::stream const stream;
            while (!is_over.load()) {
                cuota::scoped_pool pool{budget};
                take_and_give(pool, stream);
            }
        });
    for (int i = 0; i != support::rounds(100); ++i) {
        cuota::recorder const recorder{budget, {.capacity = 64}};
        check_ends(recorder.read());
    }
    is_over = true;
    for (std::thread& t : threads) t.join();
    REQUIRE(budget.held() == 0);
}
