// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/snapshot_diff.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "report/summary_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::block_info;
using cuota::diff;
using cuota::memory_snapshot;
using cuota::pool_info;
using cuota::snapshot_diff;
using summary_samples::live;
using summary_samples::small_snapshot;
using namespace std::chrono_literals;

namespace {

// A pool with one segment per live block; statistics and tags follow from the blocks.
[[nodiscard]] pool_info pool_of(std::string name, std::vector<block_info> const& blocks) {
    pool_info p;
    p.name = std::move(name);
    for (block_info const& b : blocks) {
        p.segments.push_back({b.address, b.size, false, {b}});
        ++p.stats.live_blocks;
        p.stats.allocated += b.size;
        p.stats.reserved += b.size;
        auto known = p.tags.begin();
        while (known != p.tags.end() && !(known->name == b.name)) ++known;
        if (known == p.tags.end()) known = p.tags.insert(known, {b.name});
        ++known->live_blocks;
        known->allocated += b.size;
    }
    return p;
}
[[nodiscard]] memory_snapshot with_pools(std::vector<pool_info> pools) {
    memory_snapshot s;
    s.pools = std::move(pools);
    return s;
}
[[nodiscard]] snapshot_diff diff_of_blocks(std::vector<block_info> const& before,
                                           std::vector<block_info> const& after) {
    return diff(with_pools({pool_of("main", before)}), with_pools({pool_of("main", after)}));
}
void forget_blocks(memory_snapshot& s) {
    for (pool_info& p : s.pools) p.segments.clear();
}
// "weights train.cpp:10 512 -> 1024, 1 -> 2, allocated 512 in 1, freed 0 in 0"
[[nodiscard]] std::string told(cuota::site_change const& c) {
    auto const n = [](std::size_t count) { return std::to_string(count); };
    return std::string{c.name.text()} + ' ' + cuota::source_location_text(c.where) + ' ' + n(c.before) +
           " -> " + n(c.after) + ", " + n(c.blocks_before) + " -> " + n(c.blocks_after) + ", allocated " +
           n(c.allocated) + " in " + n(c.allocated_blocks) + ", freed " + n(c.freed) + " in " +
           n(c.freed_blocks);
}
[[nodiscard]] std::vector<std::string> told(snapshot_diff const& d) {
    std::vector<std::string> all;
    for (cuota::site_change const& c : d.sites) all.push_back(told(c));
    return all;
}

}  // namespace

TEST_CASE("a diff of a snapshot with itself is empty", "[report][snapshot_diff]") {
    memory_snapshot s = small_snapshot();
    CHECK(diff(s, s).is_empty());
    CHECK(diff(s, s).text() == "after 0.0 s: nothing changed");
    CHECK(diff({}, {}).is_empty());
    forget_blocks(s);
    CHECK(diff(s, s).is_empty());
}

TEST_CASE("a diff's text lists growth and shrinkage", "[report][snapshot_diff]") {
    memory_snapshot const before = small_snapshot();
    memory_snapshot after = before;
    after.taken += 12'340ms;
    auto& blocks = after.pools[0].segments[0].blocks;
    blocks[2] = summary_samples::unused(0x1300, 768);
    blocks[3] = live(0x1600, 2048, 2000, "optimizer", {"adam.cpp", 30});
    blocks[4].name = "weights";
    after.pools[0].stats.allocated += 2048 - 768;
    after.budgets[1].facts.held = 7168;
    after.budgets[2].facts.limit = 5000;
    after.pools.push_back(
        pool_of("eval", {live(0x9000, 512, 512, "scores"), live(0x9200, 512, 512, "scores")}));
    CHECK(diff(before, after).text() ==
          R"(after 12.3 s
grew
  optimizer (adam.cpp:30)                   +2.0 KiB         0 B ->    2.0 KiB  1 allocated
  scores                                    +1.0 KiB         0 B ->    1.0 KiB  2 allocated
shrank
  activations (train.cpp:20)                  -768 B       768 B ->        0 B  1 freed
pools, reserved
  eval (new)                                +1.0 KiB         0 B ->    1.0 KiB  live +1.0 KiB
  main                                          same     6.0 KiB ->    6.0 KiB  live +1.2 KiB
budgets, held
  gpu/training                              +1.0 KiB     6.0 KiB ->    7.0 KiB
  gpu/batches                                   same     1.0 KiB ->    1.0 KiB  limit 4.9 KiB)");
}

TEST_CASE("a block with the same address, size and tag is the same block", "[report][snapshot_diff]") {
    CHECK(diff_of_blocks({live(64, 512, 500, "a", {"x", 1})}, {live(64, 512, 400, "a", {"y", 2})})
              .sites.empty());
    CHECK(told(diff_of_blocks({live(64, 512, 500, "a", {"x", 1})}, {live(1024, 512, 500, "a", {"x", 1})})) ==
          std::vector<std::string>{"a x:1 512 -> 512, 1 -> 1, allocated 512 in 1, freed 512 in 1"});
    CHECK(told(diff_of_blocks({live(64, 512, 500, "a")}, {live(64, 256, 200, "a")})) ==
          std::vector<std::string>{"a  512 -> 256, 1 -> 1, allocated 256 in 1, freed 512 in 1"});
    CHECK(told(diff_of_blocks({live(64, 512, 500, "a")}, {live(64, 512, 500, "b")})) ==
          std::vector<std::string>{"b  0 -> 512, 0 -> 1, allocated 512 in 1, freed 0 in 0",
                                   "a  512 -> 0, 1 -> 0, allocated 0 in 0, freed 512 in 1"});
    CHECK(told(diff_of_blocks(
              {live(64, 512, 500, "a"), live(1024, 512, 500, "a")},
              {live(512, 256, 200, "a"), live(1024, 512, 500, "a"), live(2048, 64, 64, "a")})) ==
          std::vector<std::string>{"a  1024 -> 832, 2 -> 3, allocated 320 in 2, freed 512 in 1"});
}

TEST_CASE("only live blocks are compared", "[report][snapshot_diff]") {
    memory_snapshot const before = small_snapshot();
    memory_snapshot after = before;
    after.pools[0].segments[0].blocks[1].use = cuota::block_use::free;
    after.pools[0].segments[0].blocks[3].use = cuota::block_use::releasing;
    CHECK(diff(before, after).is_empty());
}

TEST_CASE("without segments, tags are compared, and only differences are known", "[report][snapshot_diff]") {
    memory_snapshot before =
        with_pools({pool_of("main", {live(64, 512, 500, "a", {"x", 1}), live(1024, 256, 200, "b")})});
    memory_snapshot after =
        with_pools({pool_of("main", {live(128, 768, 500, "a", {"x", 1}), live(2048, 512, 500, "a")})});
    std::vector<std::string> const by_tag{"a  512 -> 1280, 1 -> 2, allocated 768 in 1, freed 0 in 0",
                                          "b  256 -> 0, 1 -> 0, allocated 0 in 0, freed 256 in 1"};
    memory_snapshot const with_blocks = after;
    forget_blocks(after);
    CHECK(told(diff(before, after)) == by_tag);
    forget_blocks(before);
    CHECK(told(diff(before, after)) == by_tag);
    CHECK(told(diff(before, with_blocks)) == by_tag);
    // A pool without live blocks does not need segment data.
    CHECK(told(diff(with_pools({pool_of("main", {})}), with_blocks)) ==
          std::vector<std::string>{"a x:1 0 -> 768, 0 -> 1, allocated 768 in 1, freed 0 in 0",
                                   "a  0 -> 512, 0 -> 1, allocated 512 in 1, freed 0 in 0"});
}

TEST_CASE("new pools appear with all of their blocks, and removed ones disappear with all of them",
          "[report][snapshot_diff]") {
    memory_snapshot const none;
    memory_snapshot const some = with_pools({pool_of("main", {live(64, 512, 500, "a", {"x", 1})})});
    snapshot_diff const came = diff(none, some);
    CHECK(told(came) == std::vector<std::string>{"a x:1 0 -> 512, 0 -> 1, allocated 512 in 1, freed 0 in 0"});
    REQUIRE(came.pools.size() == 1);
    CHECK(came.pools[0].is_new);
    CHECK_FALSE(came.pools[0].is_gone);
    CHECK(came.pools[0].after == 512);
    snapshot_diff const went = diff(some, none);
    CHECK(told(went) == std::vector<std::string>{"a x:1 512 -> 0, 1 -> 0, allocated 0 in 0, freed 512 in 1"});
    REQUIRE(went.pools.size() == 1);
    CHECK(went.pools[0].is_gone);
    CHECK_FALSE(went.pools[0].is_new);
    CHECK(went.pools[0].before == 512);
    CHECK(went.pools[0].name == "main");
    CHECK(support::has(went.text(), "\n  main (removed)  "));
}

TEST_CASE("pools are matched by name, device and kind of memory, and in order for equal names",
          "[report][snapshot_diff]") {
    pool_info const a = pool_of("main", {live(64, 512, 500, "a")});
    pool_info const b = pool_of("main", {live(1024, 256, 200, "b")});
    pool_info on_device = a;
    on_device.device = 1;
    pool_info pinned = a;
    pinned.memory = cuota::memory_kind::pinned;
    CHECK(diff(with_pools({a, b}), with_pools({a, b})).is_empty());
    CHECK_FALSE(diff(with_pools({a, b}), with_pools({b, a})).is_empty());
    CHECK(diff(with_pools({a, on_device, pinned}), with_pools({pinned, a, on_device})).is_empty());
    for (pool_info const& other : {on_device, pinned}) {
        auto const pools = diff(with_pools({a}), with_pools({other})).pools;
        REQUIRE(pools.size() == 2);
        CHECK(pools[0].is_new);
        CHECK(pools[1].is_gone);
    }
    auto const one_more = diff(with_pools({a, b}), with_pools({a, b, a})).pools;
    REQUIRE(one_more.size() == 1);
    CHECK(one_more[0].is_new);
    auto const one_less = diff(with_pools({a, b}), with_pools({a})).pools;
    REQUIRE(one_less.size() == 1);
    CHECK(one_less[0].is_gone);
    CHECK(one_less[0].before == 256);
}

TEST_CASE("budgets are matched by their path from the root", "[report][snapshot_diff]") {
    memory_snapshot before;
    before.budgets = {
        {{"gpu", 100, 50, 50}, 0, {}}, {{"step", 100, 10, 10}, 1, 0}, {{"old", 100, 40, 40}, 1, 0}};
    memory_snapshot after;
    after.budgets = {{{"host", 100, 7, 7}, 0, {}},
                     {{"step", 100, 7, 7}, 1, 0},
                     {{"gpu", 100, 50, 90}, 0, {}},
                     {{"step", cuota::unlimited, 30, 30}, 1, 2}};
    snapshot_diff const d = diff(before, after);
    std::vector<std::string> names;
    for (auto const& c : d.budgets) names.push_back(c.name);
    CHECK(names == std::vector<std::string>{"gpu/step", "host", "host/step", "gpu/old"});
    CHECK(d.budgets[0].before == 10);
    CHECK(d.budgets[0].after == 30);
    CHECK(d.budgets[0].limit_after == cuota::unlimited);
    CHECK_FALSE(d.budgets[0].is_new);
    CHECK(d.budgets[1].is_new);
    CHECK(d.budgets[3].is_gone);
    CHECK(support::has(d.text(), "10 B ->       30 B  limit none\n"));
    CHECK(support::has(d.json(),
                       R"({"name":"gpu/step","new":false,"gone":false,"held_before":10,"held_after":30,)"
                       R"("limit_before":100,"limit_after":null})"));
}

TEST_CASE("long lists are cut to the largest changes, and control characters are replaced",
          "[report][snapshot_diff]") {
    std::vector<block_info> blocks;
    for (std::size_t i = 0; i != 30; ++i)
        blocks.push_back(live(1000 * i, 10 + i, 1, cuota::tag::named("t\x1b" + std::to_string(i))));
    std::string const grew = diff_of_blocks({}, blocks).text(2);
    CHECK(support::has(grew, "grew\n  t?29  "));
    CHECK(support::has(grew, "\n  t?28  "));
    CHECK_FALSE(support::has(grew, "t?27"));
    CHECK(support::has(grew, "\n  and 28 more\n"));
    std::string const shrank = diff_of_blocks(blocks, {}).text(2);
    CHECK(support::has(shrank, "shrank\n  t?29  "));
    std::string const moved = diff_of_blocks({live(0, 64, 64, "")}, {live(64, 64, 64, "")}).text();
    CHECK(support::has(moved, "same size, other blocks\n  untagged  "));
    CHECK(support::has(moved, "same        64 B ->       64 B  1 allocated, 1 freed"));
}

TEST_CASE("a diff as JSON is complete", "[report][snapshot_diff]") {
    memory_snapshot const before = with_pools({pool_of("main", {live(64, 512, 500, "a", {"x.cpp", 1})})});
    memory_snapshot after =
        with_pools({pool_of("main", {live(64, 512, 500, "a"), live(1024, 256, 200, "b")})});
    after.taken += 1500ms;
    CHECK(diff(before, after).json() ==
          R"({"span_ms":1500,"sites":[{"tag":"b","location":null,"before":0,"after":256,"blocks_before":0,)"
          R"("blocks_after":1,"allocated":256,"allocated_blocks":1,"freed":0,"freed_blocks":0}],)"
          R"("pools":[{"name":"main","new":false,"gone":false,"reserved_before":512,"reserved_after":768,)"
          R"("allocated_before":512,"allocated_after":768}],"budgets":[]})");
    CHECK(support::has(diff(after, before).json(),
                       R"({"span_ms":-1500,"sites":[{"tag":"b","location":null,"before":256,)"));
}

TEST_CASE("bytes before plus allocated bytes equal bytes after plus freed bytes", "[report][snapshot_diff]") {
    std::mt19937 random{7};
    auto const some = [&] {
        std::vector<block_info> blocks;
        for (std::uint64_t at = 0; at != 64; ++at)
            if (random() % 2 == 0)
                blocks.push_back(live(at * 1024, 256 * (1 + random() % 2), 1,
                                      cuota::tag::named(random() % 2 == 0 ? "a" : "b"),
                                      {"x", static_cast<unsigned>(random() % 2)}));
        return blocks;
    };
    for (int i = 0; i != 50; ++i) {
        auto const before = some();
        auto const after = some();
        std::size_t lost = 0;
        std::size_t won = 0;
        for (cuota::site_change const& c : diff_of_blocks(before, after).sites) {
            REQUIRE(c.before + c.allocated == c.after + c.freed);
            REQUIRE(c.blocks_before + c.allocated_blocks == c.blocks_after + c.freed_blocks);
            lost += c.freed_blocks;
            won += c.allocated_blocks;
        }
        std::size_t same = 0;
        for (block_info const& b : before)
            for (block_info const& a : after)
                same += a.address == b.address && a.size == b.size && a.name == b.name;
        REQUIRE(lost == before.size() - same);
        REQUIRE(won == after.size() - same);
    }
}
