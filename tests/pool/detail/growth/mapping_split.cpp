// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/mapping_split.hpp>

#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::detail::block;
using cuota::detail::block_index;
using cuota::detail::choose_split;
using cuota::detail::mapping_split;
using cuota::detail::split_schedule;
using pool_tests::address;

namespace {

constexpr std::size_t page = pool_tests::paged_blocks::page;

// 32 pages in mappings of 8; the last page is not mapped.
struct eights : pool_tests::paged_blocks {
    eights() : paged_blocks{33} { map(0, 32 * page, 8 * page); }

    [[nodiscard]] std::optional<mapping_split> low(std::size_t size) {
        return choose_split(index, *index.first_fit(size), size, block_index::side::low);
    }
    [[nodiscard]] std::optional<mapping_split> high(std::size_t size) {
        return choose_split(index, *index.first_fit(size), size, block_index::side::high);
    }
};

bool divides(std::optional<mapping_split> const& split, std::size_t from, std::size_t at, std::size_t until) {
    return split && split->whole.is_paged && split->whole.at == address(from) && split->first == at - from &&
           split->whole.bytes == until - from;
}

}  // namespace

TEST_CASE("a pool divides mappings from the first excess until it has freed four times its peak",
          "[pool][mapping_split]") {
    split_schedule schedule;
    CHECK_FALSE(schedule.is_fragmented());
    CHECK_FALSE(schedule.splits(0));
    schedule.note_excess(100, 10);
    CHECK(schedule.is_fragmented());
    CHECK(schedule.splits(139));
    CHECK_FALSE(schedule.splits(140));
    CHECK(schedule.is_fragmented());
    schedule.note_excess(200, 20);
    CHECK(schedule.splits(279));
}

TEST_CASE("the mapping in which a block ends is divided at the next page boundary", "[pool][mapping_split]") {
    eights p;
    CHECK(divides(p.low(256), 0, page, 8 * page));
    CHECK(divides(p.low(3 * page), 0, 3 * page, 8 * page));
    CHECK(divides(p.low(11 * page + 256), 8 * page, 12 * page, 16 * page));
    CHECK(divides(p.high(256), 24 * page, 31 * page, 32 * page));
    CHECK(divides(p.high(11 * page + 256), 16 * page, 20 * page, 24 * page));
}

TEST_CASE("a mapping that a block uses up to its last page is not divided", "[pool][mapping_split]") {
    eights p;
    CHECK_FALSE(p.low(8 * page));
    CHECK_FALSE(p.low(7 * page + 256));
    CHECK_FALSE(p.low(32 * page));
    CHECK_FALSE(p.low(32 * page - 256));
    CHECK_FALSE(p.high(8 * page));
    CHECK_FALSE(p.high(8 * page - 256));
}

TEST_CASE("only a mapping without live blocks is divided", "[pool][mapping_split]") {
    eights p;
    SECTION("a block at its start") {
        p.take(0, page);
        CHECK_FALSE(p.low(2 * page));
        CHECK(divides(p.low(8 * page), 8 * page, 9 * page, 16 * page));
    }
    SECTION("a block at its end") {
        p.take(31 * page, page);
        CHECK_FALSE(p.high(2 * page));
        CHECK(divides(p.high(8 * page), 16 * page, 23 * page, 24 * page));
    }
}

TEST_CASE("mappings of one page and segments are not divided", "[pool][mapping_split]") {
    pool_tests::paged_blocks pages{5};
    pages.map(0, 4 * page);
    CHECK_FALSE(choose_split(pages.index, *pages.index.first_fit(256), 256, block_index::side::low));
    block_index blocks;
    block& segment = blocks.add_segment(address(0), 8 * page);
    CHECK_FALSE(choose_split(blocks, segment, 256, block_index::side::low));
    block& beside_pages = pages.index.add_segment(address(1_GiB), 8 * page);
    CHECK_FALSE(choose_split(pages.index, beside_pages, 256, block_index::side::low));
}
