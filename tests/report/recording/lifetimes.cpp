// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/recording/lifetimes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

using cuota::block_use;
using cuota::event_kind;
using cuota::lifetimes_of;
using cuota::memory_lifetimes;
using cuota::recording;

using moment = std::optional<std::uint64_t>;
constexpr moment never_seen{};

/// Two pools with an entry each in the snapshot, and memory of a resource.
recording two_pools() {
    recording r;
    r.sites = {{}, {"weights", {"a.cpp", 1}}, {"weights", {"a.cpp", 2}}, {"x", {"b.cpp", 1}}};
    r.sources.resize(4);
    r.sources[1] = {cuota::source_kind::pool, "first"};
    r.sources[2] = {cuota::source_kind::pool, "second"};
    r.sources[3] = {cuota::source_kind::resource, "pinned"};
    r.sources[1].pool = 0;
    r.sources[2].pool = 1;
    r.final_snapshot.pools.resize(2);
    return r;
}

void replay_event(recording& to, event_kind kind, std::uint64_t at, std::uint64_t address,
                  std::size_t bytes = 0, std::uint32_t site = 0, std::uint16_t source = 1) {
    to.events.push_back({.kind = kind,
                         .source = source,
                         .site = site,
                         .at = at,
                         .address = address,
                         .bytes = bytes,
                         .size = (bytes + 511) / 512 * 512,
                         .stream = 7});
}

cuota::block_info live_block(std::uint64_t address, std::size_t bytes, cuota::tag name = {},
                             cuota::source_location where = {}) {
    cuota::block_info b;
    b.address = address;
    b.requested = bytes;
    b.size = (bytes + 511) / 512 * 512;
    b.use = block_use::live;
    b.name = name;
    b.where = where;
    return b;
}

using run_of = std::tuple<std::uint64_t, std::size_t, moment, moment>;

std::vector<run_of> segments_of(recording const& r) {
    std::vector<run_of> result;
    for (cuota::segment_lifetime const& s : lifetimes_of(r).segments)
        result.emplace_back(s.address, s.bytes, s.from, s.until);
    return result;
}

}  // namespace

TEST_CASE("an empty recording has no lifetimes", "[report][replay]") {
    CHECK(lifetimes_of({}).blocks.empty());
    CHECK(lifetimes_of({}).segments.empty());
    CHECK(lifetimes_of(two_pools()).blocks.empty());
}

TEST_CASE("a block is live from its allocation until it is freed", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::step_begun, 5, 0);
    replay_event(r, event_kind::allocated, 10, 0x1000, 100, 3);
    replay_event(r, event_kind::allocated, 20, 0x2000, 600, 1);
    replay_event(r, event_kind::marker, 25, 0x1000);
    replay_event(r, event_kind::free_requested, 30, 0x1000, 100, 3);
    replay_event(r, event_kind::free_completed, 40, 0x1000, 100, 3);
    replay_event(r, event_kind::refused, 45, 0x2000, 9999, 1);

    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 2);
    CHECK(found[0].source == 1);
    CHECK(found[0].site == 3);
    CHECK(found[0].address == 0x1000);
    CHECK(found[0].bytes == 100);
    CHECK(found[0].size == 512);
    CHECK(found[0].stream == 7);
    CHECK(found[0].from == moment{10});
    CHECK(found[0].until == moment{30});
    CHECK(found[0].completed == moment{40});
    CHECK(found[1].from == moment{20});
    CHECK(found[1].until == never_seen);
    CHECK(found[1].completed == never_seen);
}

TEST_CASE("a block from before the first event is found by its free and is listed first",
          "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::allocated, 10, 0x1000, 100, 1);
    replay_event(r, event_kind::free_completed, 15, 0x9000, 100, 1);  // freed earlier: not a lifetime
    replay_event(r, event_kind::free_requested, 20, 0x2000, 600, 3);
    replay_event(r, event_kind::free_completed, 30, 0x2000, 600, 3);

    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 2);
    CHECK(found[0].address == 0x2000);
    CHECK(found[0].site == 3);
    CHECK(found[0].bytes == 600);
    CHECK(found[0].size == 1024);
    CHECK(found[0].from == never_seen);
    CHECK(found[0].until == moment{20});
    CHECK(found[0].completed == moment{30});
    CHECK(found[1].from == moment{10});
}

TEST_CASE("a reused address begins a new lifetime", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::free_requested, 10, 0x1000, 10, 1);
    replay_event(r, event_kind::allocated, 20, 0x1000, 20, 2);
    replay_event(r, event_kind::free_requested, 30, 0x1000, 20, 2);
    replay_event(r, event_kind::allocated, 40, 0x1000, 30, 3);
    replay_event(r, event_kind::free_requested, 50, 0x1000, 30, 3);
    replay_event(r, event_kind::free_completed, 60, 0x1000, 30, 3);
    replay_event(r, event_kind::free_completed, 70, 0x1000, 30, 3);  // ignored: already completed
    replay_event(r, event_kind::allocated, 80, 0x1000, 40, 3);

    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 4);
    CHECK(found[0].bytes == 10);
    CHECK(found[0].until == moment{10});
    CHECK(found[0].completed == never_seen);
    CHECK(found[1].bytes == 20);
    CHECK(found[1].until == moment{30});
    CHECK(found[1].completed == never_seen);  // reused on its stream before completion was observed
    CHECK(found[2].bytes == 30);
    CHECK(found[2].completed == moment{60});
    CHECK(found[3].bytes == 40);
    CHECK(found[3].until == never_seen);
}

TEST_CASE("blocks of two sources at one address are two blocks", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::allocated, 10, 0x1000, 10, 1, 1);
    replay_event(r, event_kind::allocated, 20, 0x1000, 20, 1, 2);
    replay_event(r, event_kind::free_requested, 30, 0x1000, 10, 1, 1);
    replay_event(r, event_kind::free_requested, 35, 0x1000, 30, 1, 3);
    replay_event(r, event_kind::free_completed, 40, 0x1000, 20, 1, 2);  // ignored: the block is live
    replay_event(r, event_kind::free_completed, 50, 0x1000, 10, 1, 1);
    r.final_snapshot.pools[0].segments = {
        {0x1000, 0x1000, false, {live_block(0x1000, 10, "x", {"b.cpp", 1})}}};
    r.final_snapshot.pools[1].segments = {{0x1000, 0x1000, false, {live_block(0x1000, 20)}}};

    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 4);
    CHECK(found[0].source == 3);
    CHECK(found[0].until == moment{35});
    CHECK(found[0].completed == never_seen);
    CHECK(found[1].source == 1);  // in the first pool's snapshot: allocated after the freed block
    CHECK(found[1].from == never_seen);
    CHECK(found[1].until == never_seen);
    CHECK(found[1].site == 3);
    CHECK(found[2].source == 1);
    CHECK(found[2].until == moment{30});
    CHECK(found[2].completed == moment{50});
    CHECK(found[3].source == 2);
    CHECK(found[3].until == never_seen);
}

TEST_CASE("live blocks of the snapshot without events have lifetimes", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::allocated, 10, 0x1000, 10, 1);
    cuota::block_info other = live_block(0x3000, 700, "weights", {"a.cpp", 2});
    other.stream = 3;
    auto free_block = live_block(0x4000, 512);
    free_block.use = block_use::free;
    auto pending_block = live_block(0x4200, 512);
    pending_block.use = block_use::pending;
    r.final_snapshot.pools[0].segments = {
        {0x1000, 0x8000, false, {live_block(0x1000, 10), other, free_block, pending_block}}};

    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 2);
    CHECK(found[0].address == 0x3000);
    CHECK(found[0].bytes == 700);
    CHECK(found[0].size == 1024);
    CHECK(found[0].stream == 3);
    CHECK(found[0].site == 2);
    CHECK(found[0].from == never_seen);
    CHECK(found[0].until == never_seen);
    CHECK(found[1].address == 0x1000);
}

TEST_CASE("sites of the snapshot are matched by contents, not by pointers", "[report][replay]") {
    recording r = two_pools();
    r.sites.push_back({"weights", {"a.cpp", 2}});  // a duplicate: the first is used
    std::string const file = "a.cpp";              // a different pointer
    auto const name = cuota::tag::named(std::string{"wei"} + "ghts");
    r.final_snapshot.pools[1].segments = {
        {0,
         0x8000,
         false,
         {live_block(0, 1, name, {file.c_str(), 2}), live_block(512, 1, name, {file.c_str(), 1}),
          live_block(1024, 1), live_block(1536, 1, "weights", {"a.cpp", 3}),
          live_block(2048, 1, "x", {"a.cpp", 1})}}};
    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 5);
    CHECK(found[0].site == 2);
    CHECK(found[1].site == 1);
    CHECK(found[2].site == 0);
    CHECK(found[3].site == 0);  // not among the sites of the events
    CHECK(found[4].site == 0);
    CHECK(found[0].source == 2);
    CHECK(found[0].stream == cuota::memory_event::no_stream);
}

TEST_CASE("a source without a pool does not use the snapshot", "[report][replay]") {
    recording r = two_pools();
    r.final_snapshot.pools.resize(1);
    r.final_snapshot.pools[0].segments = {{0x1000, 0x1000, false, {live_block(0x1000, 10)}}};
    r.sources[1].pool.reset();
    r.sources[2].pool = 0;
    auto const found = lifetimes_of(r).blocks;
    REQUIRE(found.size() == 1);
    CHECK(found[0].source == 2);
}

TEST_CASE("freeing pages in the middle of a segment ends only these pages", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::segment_allocated, 10, 1000, 100);
    replay_event(r, event_kind::segment_freed, 20, 1040, 20);
    SECTION("the pages beside them remain") {
        CHECK(segments_of(r) == std::vector<run_of>{{1040, 20, 10, 20},
                                                    {1000, 40, 10, never_seen},
                                                    {1060, 40, 10, never_seen}});
    }
    SECTION("freed pages can be allocated again and freed together with others") {
        replay_event(r, event_kind::segment_allocated, 30, 1040, 20);
        replay_event(r, event_kind::segment_freed, 40, 1010, 60);
        CHECK(segments_of(r) == std::vector<run_of>{{1040, 20, 10, 20},
                                                    {1010, 30, 10, 40},
                                                    {1060, 10, 10, 40},
                                                    {1000, 10, 10, never_seen},
                                                    {1070, 30, 10, never_seen},
                                                    {1040, 20, 30, 40}});
    }
    SECTION("freeing zero bytes ends nothing") {
        replay_event(r, event_kind::segment_freed, 40, 1010, 0);
        CHECK(segments_of(r).size() == 3);
    }
    SECTION("freeing pages of another source ends no pages of this one") {
        replay_event(r, event_kind::segment_freed, 40, 1000, 100, 0, 2);
        CHECK(segments_of(r) == std::vector<run_of>{{1000, 100, never_seen, 40},
                                                    {1040, 20, 10, 20},
                                                    {1000, 40, 10, never_seen},
                                                    {1060, 40, 10, never_seen}});
    }
}

TEST_CASE("pages may be freed across several segments and across segments from before the recording",
          "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::segment_allocated, 10, 1000, 100);
    replay_event(r, event_kind::segment_allocated, 20, 1200, 100);
    replay_event(r, event_kind::segment_freed, 30, 900, 350);
    CHECK(segments_of(r) == std::vector<run_of>{{900, 100, never_seen, 30},
                                                {1100, 100, never_seen, 30},
                                                {1000, 100, 10, 30},
                                                {1200, 50, 20, 30},
                                                {1250, 50, 20, never_seen}});
    replay_event(r, event_kind::segment_freed, 40, 1250, 100);
    auto const found = segments_of(r);
    CHECK(found.size() == 6);
    CHECK(std::ranges::count(found, run_of{1300, 50, never_seen, 40}) == 1);
    CHECK(std::ranges::count(found, run_of{1250, 50, 20, 40}) == 1);
}

TEST_CASE("segments of the snapshot are added where no event has allocated them", "[report][replay]") {
    recording r = two_pools();
    replay_event(r, event_kind::segment_allocated, 10, 1100, 100);
    replay_event(r, event_kind::segment_allocated, 20, 1300, 100);
    r.final_snapshot.pools[0].segments = {
        {1000, 350, true, {}}, {1350, 150, true, {}}, {5000, 10, false, {}}};
    r.final_snapshot.pools[1].segments = {{1100, 100, true, {}}};
    CHECK(segments_of(r) == std::vector<run_of>{{1000, 100, never_seen, never_seen},
                                                {1200, 100, never_seen, never_seen},
                                                {1400, 100, never_seen, never_seen},
                                                {5000, 10, never_seen, never_seen},
                                                {1100, 100, never_seen, never_seen},
                                                {1100, 100, 10, never_seen},
                                                {1300, 100, 20, never_seen}});
}

namespace {

using known_block =
    std::tuple<std::uint16_t, std::uint64_t, std::uint32_t, std::size_t, moment, moment, moment>;
using known_page = std::tuple<std::uint16_t, std::uint64_t, moment, moment>;

/// Two pools that add pages and allocate blocks at random. Stores the lifetimes as they occur, page by page, independently of
/// lifetimes_of().
class random_pools {
public:
    static constexpr std::uint64_t page = 4096;
    static constexpr std::uint64_t pages = 24;

    random_pools(std::uint64_t seed, std::size_t count) : random_{seed}, all_{two_pools()} {
        while (all_.events.size() < count) step();
    }

    /// Returns the events from number `first` on, and the final snapshot.
    [[nodiscard]] recording cut(std::size_t first) const {
        recording r = all_;
        r.events.erase(r.events.begin(), r.events.begin() + static_cast<std::ptrdiff_t>(first));
        r.dropped = first;
        for (std::uint16_t pool = 1; pool <= 2; ++pool) add_snapshot(r, pool);
        return r;
    }
    /// Returns the lifetimes that such a recording contains in part.
    [[nodiscard]] std::vector<known_block> blocks(std::size_t first) const {
        std::vector<known_block> result;
        for (block const& b : blocks_)
            if (b.until.value_or(all_.events.size()) >= first)
                result.emplace_back(b.source, b.address, b.site, b.bytes, cut_time(b.from, first),
                                    time(b.until), time(b.completed));
        return sorted(std::move(result));
    }
    [[nodiscard]] std::vector<known_page> pages_of(std::size_t first) const {
        std::vector<known_page> result;
        for (page_life const& p : page_lives_)
            if (p.until.value_or(all_.events.size()) >= first)
                result.emplace_back(p.source, p.address, cut_time(p.from, first), time(p.until));
        return sorted(std::move(result));
    }
    template <class T>
    static std::vector<T> sorted(std::vector<T> all) {
        std::ranges::sort(all);
        return all;
    }

private:
    // Times are indices of events.
    struct block {
        std::uint16_t source;
        std::uint64_t address;
        std::uint32_t site;
        std::size_t bytes;
        std::size_t from;
        std::optional<std::size_t> until{};
        std::optional<std::size_t> completed{};
    };
    struct page_life {
        std::uint16_t source;
        std::uint64_t address;
        std::size_t from;
        std::optional<std::size_t> until{};
    };

    [[nodiscard]] std::size_t up_to(std::size_t most) { return random_() % (most + 1); }
    [[nodiscard]] moment time(std::optional<std::size_t> index) const {
        return index ? moment{all_.events[*index].at} : never_seen;
    }
    [[nodiscard]] moment cut_time(std::size_t index, std::size_t first) const {
        return index < first ? never_seen : time(index);
    }
    std::size_t say(event_kind kind, std::uint16_t source, std::uint64_t address, std::size_t bytes,
                    std::uint32_t site = 0) {
        now_ += up_to(2);  // some events share a time
        replay_event(all_, kind, now_, address, bytes, site, source);
        return all_.events.size() - 1;
    }
    [[nodiscard]] bool is_in_use(std::uint16_t source, std::uint64_t p) const {
        return std::ranges::any_of(
            blocks_, [&](block const& b) { return b.source == source && b.address / page == p && !b.until; });
    }
    void step() {
        auto const source = static_cast<std::uint16_t>(1 + up_to(1));
        std::uint64_t const first = up_to(pages - 1);
        std::uint64_t const most = std::min<std::uint64_t>(pages, first + 1 + up_to(5));
        switch (up_to(6)) {
            case 0: return take(source, first, most);
            case 1: return give_back(source, first, most);
            case 2: return complete();
            case 3:
            case 4: return release();
            default: return allocate(source, first);
        }
    }
    void take(std::uint16_t source, std::uint64_t p, std::uint64_t last) {
        while (p != last && held_.contains({source, p})) ++p;
        std::uint64_t end = p;
        while (end != last && !held_.contains({source, end})) ++end;
        if (p == end) return;
        std::size_t const at = say(event_kind::segment_allocated, source, p * page, (end - p) * page);
        for (; p != end; ++p) {
            held_[{source, p}] = page_lives_.size();
            page_lives_.push_back({source, p * page, at, {}});
        }
    }
    void give_back(std::uint16_t source, std::uint64_t p, std::uint64_t last) {
        auto const is_idle = [&](std::uint64_t i) {
            return held_.contains({source, i}) && !is_in_use(source, i);
        };
        while (p != last && !is_idle(p)) ++p;
        std::uint64_t end = p;
        while (end != last && is_idle(end)) ++end;
        if (p == end) return;
        std::size_t const at = say(event_kind::segment_freed, source, p * page, (end - p) * page);
        for (; p != end; ++p) {
            page_lives_[held_[{source, p}]].until = at;
            held_.erase({source, p});
        }
    }
    // One block per page, so that addresses are reused often.
    void allocate(std::uint16_t source, std::uint64_t p) {
        if (!held_.contains({source, p}) || is_in_use(source, p)) return;
        auto const site = static_cast<std::uint32_t>(up_to(3));
        std::size_t const bytes = 1 + up_to(4000);
        std::size_t const at = say(event_kind::allocated, source, p * page, bytes, site);
        blocks_.push_back({source, p * page, site, bytes, at});
        pending_.erase({source, p});  // reused in stream order, without a wait for completion
    }
    void release() {
        std::vector<std::size_t> live;
        for (std::size_t i = 0; i != blocks_.size(); ++i)
            if (!blocks_[i].until) live.push_back(i);
        if (live.empty()) return;
        std::size_t const index = live[up_to(live.size() - 1)];
        block& b = blocks_[index];
        b.until = say(event_kind::free_requested, b.source, b.address, b.bytes, b.site);
        pending_[{b.source, b.address / page}] = index;
    }
    void complete() {
        if (pending_.empty()) return;
        block& b = blocks_[pending_.begin()->second];
        b.completed = say(event_kind::free_completed, b.source, b.address, b.bytes, b.site);
        pending_.erase(pending_.begin());
    }
    void add_snapshot(recording& r, std::uint16_t pool) const {
        auto& segments = r.final_snapshot.pools[pool - 1U].segments;
        for (std::uint64_t p = 0; p != pages; ++p) {
            if (!held_.contains({pool, p})) continue;
            if (p == 0 || !held_.contains({pool, p - 1})) segments.push_back({p * page, 0, true, {}});
            segments.back().size += page;
            for (block const& b : blocks_)
                if (b.source == pool && b.address == p * page && !b.until)
                    segments.back().blocks.push_back(
                        live_block(b.address, b.bytes, r.sites[b.site].name, r.sites[b.site].where));
        }
    }

    std::mt19937_64 random_;
    recording all_;
    std::uint64_t now_ = 0;
    std::vector<block> blocks_;
    std::vector<page_life> page_lives_;
    std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> held_;     // pages: indices in page_lives_
    std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> pending_;  // pages: indices in blocks_
};

std::vector<known_block> known_blocks(memory_lifetimes const& found) {
    std::vector<known_block> result;
    for (cuota::block_lifetime const& b : found.blocks)
        result.emplace_back(b.source, b.address, b.site, b.bytes, b.from, b.until, b.completed);
    return random_pools::sorted(std::move(result));
}

std::vector<known_page> known_pages(memory_lifetimes const& found) {
    std::vector<known_page> result;
    for (cuota::segment_lifetime const& s : found.segments)
        for (std::uint64_t at = s.address; at != s.address + s.bytes; at += random_pools::page)
            result.emplace_back(s.source, at, s.from, s.until);
    return random_pools::sorted(std::move(result));
}

}  // namespace

TEST_CASE("lifetimes of a recording without its first events are those of the whole, cut",
          "[report][replay]") {
    std::size_t older = 0;
    for (std::uint64_t seed = 0; seed != 40; ++seed) {
        random_pools const pools{seed, 400};
        for (std::size_t first = 0; first <= 400; first += 13) {
            INFO("seed " << seed << " without the first " << first);
            memory_lifetimes const found = lifetimes_of(pools.cut(first));
            CHECK(known_blocks(found) == pools.blocks(first));
            CHECK(known_pages(found) == pools.pages_of(first));
            CHECK(std::ranges::is_sorted(found.blocks, {}, &cuota::block_lifetime::from));
            CHECK(std::ranges::is_sorted(found.segments, {}, &cuota::segment_lifetime::from));
            older += static_cast<std::size_t>(
                std::ranges::count(found.blocks, never_seen, &cuota::block_lifetime::from));
        }
    }
    CHECK(older > 1000);
}
