// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/check_snapshot.hpp>

#include <cstddef>
#include <string>
#include <utility>

#include "report/summary_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::block_use;
using cuota::check_snapshot;
using cuota::memory_snapshot;
using cuota::pool_info;

namespace {

// Returns the finding of check_snapshot about the small snapshot after a change; empty if none.
template <class Change>
[[nodiscard]] std::string said_after(Change change) {
    memory_snapshot s = summary_samples::small_snapshot();
    change(s);
    try {
        check_snapshot(s, {"test.cpp", 3});
    } catch (cuota::usage_error const& error) { return error.what(); }
    return {};
}
template <class Change>
[[nodiscard]] std::string said_of_pool(Change change) {
    return said_after([&](memory_snapshot& s) { change(s.pools[0]); });
}
[[nodiscard]] std::string of_pool(std::string const& what) {
    return "cuota::usage_error: inconsistent snapshot: pool main: " + what + " (test.cpp:3)";
}
[[nodiscard]] std::string of_budget(std::string const& name, std::string const& what) {
    return "cuota::usage_error: inconsistent snapshot: budget " + name + ": " + what + " (test.cpp:3)";
}

// Marks the free part of the first segment as leaving: only `reserved` counts it.
void let_leave(pool_info& p) {
    p.segments[0].blocks[3].use = block_use::releasing;
    --p.stats.free_blocks;
}

}  // namespace

TEST_CASE("a snapshot with consistent figures passes, with or without blocks, and so does an empty one",
          "[report][check_snapshot]") {
    REQUIRE_NOTHROW(check_snapshot({}));
    memory_snapshot s = summary_samples::small_snapshot();
    REQUIRE_NOTHROW(check_snapshot(s));
    s.pools[0].segments.clear();
    REQUIRE_NOTHROW(check_snapshot(s));
    s.pools[0].tags[0].peak.reset();
    REQUIRE_NOTHROW(check_snapshot(s));
}

TEST_CASE("no figure of a pool exceeds the next one", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { p.stats.requested = 1793; }) ==
          of_pool("requested is 1793, but allocated is 1792"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.allocated = 2049; }) ==
          of_pool("allocated is 2049, but active is 2048"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.active = 6145; }) ==
          of_pool("active is 6145, but reserved is 6144"));
}

TEST_CASE("no peak of a pool exceeds the next one", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_requested = 2305; }) ==
          of_pool("peak_requested is 2305, but peak_allocated is 2304"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_allocated = 2561; }) ==
          of_pool("peak_allocated is 2561, but peak_active is 2560"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_active = 8193; }) ==
          of_pool("peak_active is 8193, but peak_reserved is 8192"));
}

TEST_CASE("no figure of a pool exceeds its peak", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_requested = 1499; }) ==
          of_pool("requested is 1500, but peak_requested is 1499"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_requested = p.stats.peak_allocated = 1791; }) ==
          of_pool("allocated is 1792, but peak_allocated is 1791"));
    CHECK(said_of_pool([](pool_info& p) {
              p.stats.peak_requested = p.stats.peak_allocated = p.stats.peak_active = 2047;
          }) == of_pool("active is 2048, but peak_active is 2047"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.peak_reserved = 6143; }) ==
          of_pool("reserved is 6144, but peak_reserved is 6143"));
}

TEST_CASE("tags sum up to their pool, and each tag is consistent", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { --p.tags[0].requested; }) ==
          of_pool("requested is 1500, but the sum of its tags is 1499"));
    CHECK(said_of_pool([](pool_info& p) { p.tags[1].allocated += 256; }) ==
          of_pool("allocated is 1792, but the sum of its tags is 2048"));
    CHECK(said_of_pool([](pool_info& p) { ++p.tags[1].live_blocks; }) ==
          of_pool("live_blocks is 3, but the sum of its tags is 4"));
    CHECK(said_of_pool([](pool_info& p) { p.tags[0].requested = 1025; }) ==
          of_pool("tag weights: requested 1025, allocated 1024, peak 1024"));
    CHECK(said_of_pool([](pool_info& p) { p.tags[1].peak = 767; }) ==
          of_pool("tag activations: requested 500, allocated 768, peak 767"));
}

TEST_CASE("blocks are adjacent and fill their segment", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks.erase(p.segments[0].blocks.begin()); }) ==
          of_pool("a block of 256 bytes is at 0x1200, but the previous block ends at 0x1000"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[1].size = 0; }) ==
          of_pool("a block of 0 bytes is at 0x1200, but the previous block ends at 0x1200"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[1].size += 8; }) ==
          of_pool("a block of 768 bytes is at 0x1300, but the previous block ends at 0x1308"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks.pop_back(); }) ==
          of_pool("the segment at 0x1000 ends at 0x2000, but its last block ends at 0x1e00"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[0].requested = 513; }) ==
          of_pool("the block at 0x1000 has 513 bytes requested, but its size is 512"));
}

TEST_CASE("segments are in order, do not overlap, and sum up to the reserved bytes",
          "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { p.segments[1].address = 0x1fff; }) ==
          of_pool("the segment at 0x1fff overlaps another, or is out of order"));
    CHECK(said_of_pool([](pool_info& p) { std::swap(p.segments[0], p.segments[1]); }) ==
          of_pool("the segment at 0x1000 overlaps another, or is out of order"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[1].size = ~std::size_t{0}; }) ==
          of_pool("the segment at 0x2000 overlaps another, or is out of order"));
    CHECK(said_of_pool([](pool_info& p) { p.segments.pop_back(); }) ==
          of_pool("reserved is 6144, but the sum of its segments is 4096"));
    CHECK(said_of_pool([](pool_info& p) { --p.stats.reserved; }) ==
          of_pool("the sum of its segments without released blocks is 6144, but reserved is 6143"));
    CHECK(said_of_pool([](pool_info& p) { p.stats.segments = 3; }) ==
          of_pool("segments is 3, but the number of segments is 2"));
}

TEST_CASE("blocks sum up to the figures of their pool", "[report][check_snapshot]") {
    CHECK(said_of_pool([](pool_info& p) { --p.segments[0].blocks[0].requested; }) ==
          of_pool("requested is 1500, but the sum of its live blocks is 1499"));
    CHECK(said_of_pool([](pool_info& p) {
              p.segments[0].blocks[0].size -= 8;
              p.segments[0].blocks[1].address -= 8;
              p.segments[0].blocks[1].size += 8;
          }) == of_pool("allocated is 1792, but the sum of its live blocks is 1784"));
    CHECK(said_of_pool([](pool_info& p) {
              auto& blocks = p.segments[0].blocks;
              blocks[4] = summary_samples::live(0x1e00, 256, 250, "weights");
              blocks.push_back(summary_samples::live(0x1f00, 256, 250, "weights"));
          }) == of_pool("live_blocks is 3, but the number of live blocks is 4"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[1].use = block_use::free; }) ==
          of_pool("active is 2048, but the sum of its live and pending blocks is 1792"));
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[3].use = block_use::pending; }) ==
          of_pool("active is 2048, but the sum of its live and pending blocks is 4096"));
    CHECK(said_of_pool([](pool_info& p) { --p.stats.free_blocks; }) ==
          of_pool("free_blocks is 2, but the number of free blocks is 3"));
    CHECK(said_of_pool([](pool_info& p) { --p.stats.largest_free; }) ==
          of_pool("largest_free is 2047, but the size of the largest free block is 2048"));
    CHECK(said_of_pool([](pool_info& p) { ++p.stats.largest_free; }) ==
          of_pool("largest_free is 2049, but the size of the largest free block is 2048"));
}

TEST_CASE("blocks that are being released may be counted or not", "[report][check_snapshot]") {
    CHECK(said_of_pool(let_leave).empty());
    CHECK(said_of_pool([](pool_info& p) { p.segments[0].blocks[3].use = block_use::releasing; }).empty());
    auto const with = [](auto change) {
        return said_of_pool([&](pool_info& p) {
            let_leave(p);
            change(p);
        });
    };
    CHECK(with([](pool_info& p) { p.stats.reserved = 4096; }).empty());
    CHECK(with([](pool_info& p) { p.stats.reserved = 4095; }) ==
          of_pool("the sum of its segments without released blocks is 4096, but reserved is 4095"));
    CHECK(with([](pool_info& p) { p.stats.active = p.stats.peak_active = 4096; }).empty());
    CHECK(with([](pool_info& p) { p.stats.active = p.stats.peak_active = 4097; }) ==
          of_pool("active is 4097, but the sum of its live and pending blocks is 2048"));
    CHECK(with([](pool_info& p) { --p.stats.free_blocks; }) ==
          of_pool("free_blocks is 1, but the number of free blocks is 2"));
    CHECK(with([](pool_info& p) { p.stats.free_blocks += 2; }) ==
          of_pool("free_blocks is 4, but the number of free blocks is 2"));
    CHECK(with([](pool_info& p) { p.stats.segments = 3; }).empty());
    CHECK(with([](pool_info& p) {
              p.segments[1] = {0x2000, 1024, true, {summary_samples::unused(0x2000, 1024)}};
              p.stats.largest_free = 1024;
              p.stats.reserved = 5120;
          }).empty());
    CHECK(with([](pool_info& p) {
              p.segments[1] = {0x2000, 1024, true, {summary_samples::unused(0x2000, 1024)}};
              p.stats.largest_free = 1023;
              p.stats.reserved = 5120;
          }) == of_pool("largest_free is 1023, but the size of the largest free block is 1024"));
}

TEST_CASE("a budget holds at least the sum of its children and at most its limit",
          "[report][check_snapshot]") {
    CHECK(said_after([](memory_snapshot& s) { s.budgets[1].facts.peak = 6143; }) ==
          of_budget("training", "peak is 6143, but held is 6144"));
    CHECK(said_after([](memory_snapshot& s) { s.budgets[1].facts.limit = 6143; }) ==
          of_budget("training", "held is 6144, but its limit is 6143"));
    CHECK(said_after([](memory_snapshot& s) { s.budgets[0].facts.limit = 12287; }).empty());
    CHECK(said_after([](memory_snapshot& s) { s.budgets[0].facts.held = 6144 + 4095; }) ==
          of_budget("gpu", "held is 10239, but the sum of its children is 10240"));
    CHECK(said_after([](memory_snapshot& s) { s.budgets[0].facts.held = 6144 + 4096; }).empty());
    CHECK(said_after([](memory_snapshot& s) {
              s.budgets[2].facts.is_reservation = false;
              s.budgets[0].facts.held = 6144 + 1024;
          }).empty());
    CHECK(said_after([](memory_snapshot& s) { s.budgets[1].facts.limit = cuota::unlimited; }).empty());
}

TEST_CASE("indices refer to existing entries", "[report][check_snapshot]") {
    CHECK(said_after([](memory_snapshot& s) { s.budgets[1].parent = 1; }) ==
          of_budget("training", "its parent is 1, but its own index is 1"));
    CHECK(said_after([](memory_snapshot& s) { s.budgets[2].parent = 99; }) ==
          of_budget("batches", "its parent is 99, but its own index is 2"));
    CHECK(said_after([](memory_snapshot& s) { s.budgets[2].depth = 2; }) ==
          of_budget("batches", "depth is 2, but the depth by its parent is 1"));
    CHECK(said_after([](memory_snapshot& s) { s.pools[0].budget = 3; }) ==
          of_pool("the index of its budget is 3, but the number of budgets is 3"));
    CHECK(said_after([](memory_snapshot& s) { s.holders[0].budget = cuota::unlimited; }) ==
          "cuota::usage_error: inconsistent snapshot: holder loader train: the index of its budget is "
          "unlimited, "
          "but the number of budgets is 3 (test.cpp:3)");
}

TEST_CASE("control characters in names are replaced, and long names are cut", "[report][check_snapshot]") {
    std::string const said = said_of_pool([](pool_info& p) {
        p.name = "a\x1b[2J" + std::string(300, 'b');
        p.stats.requested = 1793;
    });
    CHECK(support::has(said, "pool a?[2Jbb"));
    CHECK(said.size() < 200);
}
