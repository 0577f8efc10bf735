// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/block_index.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::block;
using cuota::detail::block_index;
using cuota::detail::wait_point;
using cuota::detail::wait_set;

namespace {

// The index never accesses the memory, so any addresses will do.
void* address(std::size_t offset) { return reinterpret_cast<void*>(std::uintptr_t{0x10'0000} + offset); }
std::size_t offset_of(block const& b) {
    return reinterpret_cast<std::uintptr_t>(b.at()) - std::uintptr_t{0x10'0000};
}

struct extent {
    std::size_t at;
    std::size_t size;
    friend bool operator==(extent, extent) = default;
};

std::vector<extent> free_extents(block_index const& blocks) {
    std::vector<extent> found;
    blocks.for_each_free([&](block const& b) { found.push_back({offset_of(b), b.size}); });
    return found;
}

block& first_fit(block_index const& blocks, std::size_t size) {
    block* found = nullptr;
    blocks.for_each_fit(size, [&](block& b) {
        found = &b;
        return false;
    });
    REQUIRE(found);
    return *found;
}

block& take(block_index& blocks, std::size_t size) {
    return blocks.take(first_fit(blocks, size), size, size, {});
}

std::map<std::uint32_t, std::uint64_t> points(wait_set const& waits) {
    std::map<std::uint32_t, std::uint64_t> found;
    waits.for_each([&](wait_point point) {
        CHECK(!found.contains(point.stream));
        found[point.stream] = point.ticket;
    });
    return found;
}

}  // namespace

TEST_CASE("block_index allocates the front of a free block and keeps the rest free", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);

    block& taken = blocks.take(first_fit(blocks, 1024), 1024, 1000, {"weights", {"train.cpp", 17}});

    CHECK(offset_of(taken) == 0);
    CHECK(taken.size == 1024);
    CHECK(taken.requested == 1000);
    CHECK(taken.note->name == cuota::tag{"weights"});
    CHECK(taken.note->where.line == 17);
    CHECK(taken.has_state(block::state::live));
    CHECK(free_extents(blocks) == std::vector<extent>{{1024, 3072}});
    CHECK(blocks.largest_free() == 3072);
    CHECK(blocks.live_blocks() == 1);
    CHECK(blocks.free_blocks() == 1);
}

TEST_CASE("block_index leaves no remainder when a block fits exactly", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);

    block& all = take(blocks, 4096);

    CHECK(all.is_whole_segment());
    CHECK(blocks.free_blocks() == 0);
    CHECK(blocks.largest_free() == 0);
    CHECK(blocks.release(all, {}).size == 4096);
}

TEST_CASE("block_index merges a freed block with its free neighbours", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& a = take(blocks, 1024);
    block& b = take(blocks, 1024);
    block& c = take(blocks, 1024);
    block& d = take(blocks, 1024);

    SECTION("the block before") {
        blocks.release(a, {});
        blocks.release(b, {});
        CHECK(free_extents(blocks) == std::vector<extent>{{0, 2048}});
    }
    SECTION("the block after") {
        blocks.release(d, {});
        blocks.release(c, {});
        CHECK(free_extents(blocks) == std::vector<extent>{{2048, 2048}});
    }
    SECTION("both") {
        blocks.release(a, {});
        blocks.release(c, {});
        CHECK(blocks.free_blocks() == 2);
        blocks.release(b, {});
        CHECK(free_extents(blocks) == std::vector<extent>{{0, 3072}});
    }
    SECTION("no live neighbours") {
        blocks.release(b, {});
        CHECK(free_extents(blocks) == std::vector<extent>{{1024, 1024}});
    }
    SECTION("into the whole segment") {
        for (block* one : {&c, &a, &d, &b}) blocks.release(*one, {});
        CHECK(free_extents(blocks) == std::vector<extent>{{0, 4096}});
        CHECK(first_fit(blocks, 1).is_whole_segment());
        CHECK(blocks.live_blocks() == 0);
    }
}

TEST_CASE("block_index never merges two segments, even if they are adjacent", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 1024);
    blocks.add_segment(address(1024), 1024);
    block& a = take(blocks, 1024);
    block& b = take(blocks, 1024);

    blocks.release(a, {});
    blocks.release(b, {});

    CHECK(free_extents(blocks) == std::vector<extent>{{0, 1024}, {1024, 1024}});
}

TEST_CASE("a merged block waits for the latest point of each stream of its parts", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& a = take(blocks, 1024);
    block& b = take(blocks, 1024);
    block& c = take(blocks, 1024);
    block& d = take(blocks, 1024);

    blocks.release(a, wait_set{{0, 7}});
    blocks.release(c, wait_set{{0, 3}});
    blocks.release(b, wait_set{{1, 5}});
    block const& all = blocks.release(d, wait_set{{2, 9}});

    CHECK(points(all.waits) == std::map<std::uint32_t, std::uint64_t>{{0, 7}, {1, 5}, {2, 9}});
}

TEST_CASE("the remainder of a split block keeps the waits of the whole block", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& a = take(blocks, 2048);
    block& b = take(blocks, 2048);
    blocks.release(a, wait_set{{0, 1}});
    blocks.release(b, wait_set{{1, 1}});

    block& taken = take(blocks, 1024);

    CHECK(taken.waits.is_empty());  // the stream that took it has waited
    CHECK(points(first_fit(blocks, 1024).waits) == std::map<std::uint32_t, std::uint64_t>{{0, 1}, {1, 1}});
}

TEST_CASE("block_index visits the blocks that fit, smallest first and lowest address first",
          "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0x40000), 32768);
    blocks.add_segment(address(0x20000), 16384);
    blocks.add_segment(address(0x10000), 32768);
    blocks.add_segment(address(0x80000), 131072);

    std::vector<extent> seen;
    blocks.for_each_fit(16385, [&](block const& b) {
        seen.push_back({offset_of(b), b.size});
        return true;
    });

    CHECK(seen == std::vector<extent>{{0x10000, 32768}, {0x40000, 32768}, {0x80000, 131072}});
}

TEST_CASE("block_index visits small blocks that fit, smallest first and most recently freed first",
          "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0x4000), 1024);
    blocks.add_segment(address(0x2000), 512);
    blocks.add_segment(address(0x1000), 1024);
    blocks.add_segment(address(0x8000), 4096);
    blocks.add_segment(address(0x6000), 1024);

    std::vector<extent> seen;
    blocks.for_each_fit(513, [&](block const& b) {
        seen.push_back({offset_of(b), b.size});
        return true;
    });

    CHECK(seen == std::vector<extent>{{0x6000, 1024}, {0x1000, 1024}, {0x4000, 1024}, {0x8000, 4096}});
}

TEST_CASE("block_index visits free blocks in order of decreasing size", "[pool][block_index]") {
    block_index blocks;
    for (std::size_t size : {1024u, 65536u, 512u, 131072u, 66560u, 16384u})
        blocks.add_segment(address(size * 16), size);

    std::vector<std::size_t> seen;
    blocks.for_each_free_from_largest([&](block const& b) {
        seen.push_back(b.size);
        return b.size != 1024;
    });

    CHECK(seen == std::vector<std::size_t>{131072, 66560, 65536, 16384, 1024});
}

TEST_CASE("block_index visits nothing when no block is large enough", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 1024);

    blocks.for_each_fit(1025, [](block const&) -> bool {
        FAIL("a block of 1024 bytes was offered for 1025");
        return false;
    });

    CHECK(blocks.largest_free() == 1024);
}

TEST_CASE("block_index finds a live block by its first byte only", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& b = take(blocks, 1024);

    CHECK(blocks.find_live(address(0)) == &b);
    CHECK_FALSE(blocks.find_live(address(256)));
    CHECK_FALSE(blocks.find_live(address(1024)));
    CHECK_FALSE(blocks.find_live(nullptr));
    blocks.release(b, {});
    CHECK_FALSE(blocks.find_live(address(0)));
}

TEST_CASE("block_index does not visit a removed segment", "[pool][block_index]") {
    block_index blocks;
    block& whole = blocks.add_segment(address(0), 1024);
    blocks.add_segment(address(0x4000), 4096);

    blocks.remove_segment(whole);

    CHECK(free_extents(blocks) == std::vector<extent>{{0x4000, 4096}});
}

TEST_CASE("block_index is unchanged when the host has no memory for an allocated block",
          "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& front = first_fit(blocks, 1024);

    bool taken = false;
    for (std::size_t allowed = 0; !taken; ++allowed) {
        try {
            support::failing_heap const heap{allowed};
            blocks.take(front, 1024, 1024, {});
            taken = true;
        } catch (std::bad_alloc const&) {
            CHECK(free_extents(blocks) == std::vector<extent>{{0, 4096}});
            CHECK(blocks.live_blocks() == 0);
            CHECK_FALSE(blocks.find_live(address(0)));
        }
        REQUIRE(allowed < 100);
    }

    CHECK(free_extents(blocks) == std::vector<extent>{{1024, 3072}});
}

TEST_CASE("block_index is unchanged when the host has no memory for a segment", "[pool][block_index]") {
    block_index blocks;

    bool added = false;
    for (std::size_t allowed = 0; !added; ++allowed) {
        try {
            support::failing_heap const heap{allowed};
            blocks.add_segment(address(0), 4096);
            added = true;
        } catch (std::bad_alloc const&) { CHECK(blocks.free_blocks() == 0); }
        REQUIRE(allowed < 100);
    }

    CHECK(blocks.free_blocks() == 1);
}

TEST_CASE("a free allocates no host memory when all waits are of one stream", "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    block& a = take(blocks, 1024);
    block& b = take(blocks, 1024);
    block& c = take(blocks, 1024);

    support::failing_heap const heap{0};
    blocks.release(a, wait_set{{0, 1}});
    blocks.release(c, wait_set{{0, 2}});
    blocks.release(b, wait_set{{0, 3}});

    CHECK(heap.refused() == 0);
    CHECK(blocks.free_blocks() == 1);
}

TEST_CASE("without host memory, free blocks of two streams are not merged, and no wait is lost",
          "[pool][block_index]") {
    constexpr std::size_t size = 8 << 20;  // kept in a tree, so the lowest address comes first
    block_index blocks;
    blocks.add_segment(address(0), 2 * size);
    block& a = take(blocks, size);
    block& b = take(blocks, size);
    {
        support::failing_heap const heap{0};
        blocks.release(a, wait_set{{0, 1}});
        blocks.release(b, wait_set{{1, 1}});
        CHECK(heap.refused() == 1);
    }

    CHECK(free_extents(blocks) == std::vector<extent>{{0, size}, {size, size}});
    blocks.for_each_free([](block const& one) { CHECK(points(one.waits).size() == 1); });
    // The next release beside them has host memory again and merges them.
    block& again = take(blocks, size);
    CHECK(blocks.release(again, wait_set{{0, 2}}).size == 2 * size);
}

TEST_CASE("in a random walk, block_index covers every byte of its segments exactly once",
          "[pool][block_index]") {
    constexpr std::size_t segment = 64 * 1024;
    block_index blocks;
    // Adjacent segments.
    for (std::size_t i = 0; i != 4; ++i) blocks.add_segment(address(i * segment), segment);
    std::mt19937 random{20'260'801};
    std::vector<block*> live;

    for (int step = 0; step != 20'000; ++step) {
        bool const takes = live.empty() || random() % 2 == 0;
        std::size_t const size = 256 * (1 + random() % 32);
        if (takes && blocks.largest_free() >= size) {
            live.push_back(&take(blocks, size));
        } else if (!live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            blocks.release(*live.back(),
                           wait_set{{static_cast<std::uint32_t>(random() % 3), random() % 100}});
            live.pop_back();
        }
        if (step % 500 != 0) continue;

        std::map<std::size_t, std::pair<std::size_t, bool>> map;  // offset to size and is_free
        blocks.for_each_free([&](block const& b) { map[offset_of(b)] = {b.size, true}; });
        blocks.for_each_live([&](block const& b) { map[offset_of(b)] = {b.size, false}; });
        std::size_t at = 0;
        bool free_before = false;
        for (auto const& [offset, entry] : map) {
            REQUIRE(offset == at);
            bool const starts_segment = offset % segment == 0;
            REQUIRE_FALSE((free_before && entry.second && !starts_segment));  // they would have been merged
            at += entry.first;
            free_before = entry.second;
        }
        REQUIRE(at == 4 * segment);
        REQUIRE(map.size() == blocks.free_blocks() + blocks.live_blocks());
    }
}

TEST_CASE("blocks at the high end of a free block are allocated in order and merged again",
          "[pool][block_index]") {
    block_index blocks;
    blocks.add_segment(address(0), 4096);
    auto const take_high = [&](std::size_t size) -> block& {
        return blocks.take(first_fit(blocks, size), size, size, {}, {}, block_index::side::high);
    };
    blocks.release(take(blocks, 4096), wait_set{wait_point{1, 7}});

    block& last = take_high(1024);
    CHECK(offset_of(last) == 3072);
    CHECK(last.waits.is_empty());
    block& before = take_high(512);
    CHECK(offset_of(before) == 2560);
    CHECK(before.after == &last);
    CHECK(free_extents(blocks) == std::vector<extent>{{0, 2560}});
    CHECK(points(first_fit(blocks, 1).waits) == std::map<std::uint32_t, std::uint64_t>{{1, 7}});
    block& rest = take_high(2560);
    CHECK(offset_of(rest) == 0);
    CHECK(blocks.free_blocks() == 0);

    blocks.release(last, wait_set{wait_point{2, 1}});
    blocks.release(rest, {});
    CHECK(blocks.free_blocks() == 2);
    block const& whole = blocks.release(before, wait_set{wait_point{1, 9}});
    CHECK(whole.is_whole_segment());
    CHECK(whole.size == 4096);
    CHECK(points(whole.waits) == std::map<std::uint32_t, std::uint64_t>{{1, 9}, {2, 1}});
}

TEST_CASE("block_index keeps its page counts when the first block of a range is split",
          "[pool][block_index]") {
    constexpr std::size_t page = 4096;
    block_index blocks;
    auto* const begin = static_cast<std::byte*>(address(0));
    std::byte* const end = begin + 4 * page;
    blocks.add_range(begin, 5 * page, page);
    block* hole = nullptr;
    blocks.for_each_hole([&](block& h) { hole = &h; });
    block& whole =
        blocks.join_window(blocks.hold_window(*hole, begin, end), end, {page, page, 1, cuota::unlimited}, {});

    block& low = take(blocks, page);
    block& next = take(blocks, 256);

    CHECK(low.at() == address(0));
    CHECK(next.at() == address(page));
    CHECK(whole.at() == address(page + 256));  // the same record, now of the remainder
    CHECK(blocks.free_pages() == 2 * page);
    std::vector<extent> mapped;
    blocks.for_each_mapped([&](std::byte* at, std::size_t bytes) {
        mapped.push_back({static_cast<std::size_t>(at - begin), bytes});
    });
    CHECK(mapped == std::vector<extent>{{0, 4 * page}});
    blocks.release(next, {});
    blocks.release(low, {});
    CHECK(free_extents(blocks) == std::vector<extent>{{0, 4 * page}});
    CHECK(blocks.free_pages() == 4 * page);
}

TEST_CASE("pages that a block at the high end covers are not counted as free", "[pool][block_index]") {
    constexpr std::size_t page = 4096;
    block_index blocks;
    blocks.add_range(static_cast<std::byte*>(address(0)), 5 * page, page);
    block* hole = nullptr;
    blocks.for_each_hole([&](block& h) { hole = &h; });
    auto* const end = static_cast<std::byte*>(address(4 * page));
    blocks.join_window(blocks.hold_window(*hole, hole->at(), end), end, {page, page, 1, cuota::unlimited},
                       {});
    REQUIRE(blocks.free_pages() == 4 * page);

    block& high = blocks.take(first_fit(blocks, 1), page + 256, page + 256, {}, {}, block_index::side::high);
    CHECK(blocks.free_pages() == 2 * page);
    blocks.release(high, {});
    CHECK(blocks.free_pages() == 4 * page);
}

TEST_CASE("without host memory, undoing a window keeps its mapped page or counts all of it as mapped",
          "[pool][block_index]") {
    constexpr std::size_t page = 2 << 20;
    auto* const at = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    std::size_t not_told_apart = 0;
    for (std::size_t records = 0; records != 130; ++records) {
        block_index blocks;
        for (std::size_t i = 0; i != records; ++i) blocks.add_segment(at - (i + 1) * page, page);
        blocks.add_range(at, 16 * page, page);
        block* hole = nullptr;
        blocks.for_each_hole([&](block& only) { hole = &only; });
        block& window = blocks.hold_window(*hole, at + page, at + 5 * page);
        window.requested = page;
        std::size_t kept = 0;
        {
            support::failing_heap const heap{0};
            kept = blocks.undo_window(window, at + 5 * page);
        }
        if (kept != page) {
            REQUIRE(kept == 4 * page);
            ++not_told_apart;
        }
        std::size_t mapped = 0;
        blocks.for_each_mapped([&](std::byte* from, std::size_t bytes) {
            REQUIRE(from == at + page);
            mapped += bytes;
        });
        REQUIRE(mapped == kept);
        REQUIRE(blocks.free_blocks() == records);
    }
    CHECK(not_told_apart > 0);
    CHECK(not_told_apart < 10);
}

TEST_CASE("hole_around finds the hole that contains all bytes", "[pool][block_index]") {
    pool_tests::paged_blocks pages{8};
    constexpr std::size_t page = pool_tests::paged_blocks::page;
    pages.map(2 * page, 4 * page);
    CHECK(pages.index.hole_around(pool_tests::address(0), 2 * page)->at() == pool_tests::address(0));
    CHECK(pages.index.hole_around(pool_tests::address(5 * page), page)->at() ==
          pool_tests::address(4 * page));
    CHECK_FALSE(pages.index.hole_around(pool_tests::address(page), 2 * page));
    CHECK_FALSE(pages.index.hole_around(pool_tests::address(2 * page), page));
    CHECK_FALSE(pages.index.hole_around(pool_tests::address(7 * page), 2 * page));
    CHECK_FALSE(pages.index.hole_around(pool_tests::address(9 * page), page));
}
