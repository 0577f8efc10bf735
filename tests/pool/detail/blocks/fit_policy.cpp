// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/fit_policy.hpp>

#include <cstdint>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"

using cuota::detail::block;
using cuota::detail::block_index;
using cuota::detail::choose_block;
using cuota::detail::choose_block_to_keep;
using cuota::detail::choose_lowest;
using cuota::detail::fit_slack;
using cuota::detail::slack_for;
using cuota::detail::stream_order;
using cuota::detail::wait_set;
using namespace cuota::literals;

namespace {

// Free blocks, each in a segment of its own, freed on one of two streams. Their addresses are not backed by memory.
struct shop {
    cuota::stream mine;
    cuota::stream other;
    stream_order order;
    std::uint32_t const me = order.index_of(mine);
    std::uint32_t const them = order.index_of(other);
    block_index blocks;
    std::uintptr_t next = 1 << 20;

    block& freed_by(std::uint32_t stream, std::size_t size) {
        block& whole = blocks.add_segment(reinterpret_cast<void*>(next), size);
        next += size + 256;
        block& taken = blocks.take(whole, size, size, {});
        return blocks.release(taken, wait_set{order.release_on(stream)});
    }
    [[nodiscard]] block* choose(std::size_t size, fit_slack slack) {
        return choose_block(blocks, order, {size}, me, slack);
    }
};

}  // namespace

TEST_CASE("a pool uses slack until five eighths of it are allocated", "[pool][block_choice]") {
    CHECK(slack_for(0, 0) == fit_slack::quarter);
    CHECK(slack_for(5_MiB - 1, 8_MiB) == fit_slack::quarter);
    CHECK(slack_for(5_MiB + 5, 8_MiB) == fit_slack::same_size_if_small);
    CHECK(slack_for(8_MiB, 8_MiB) == fit_slack::same_size_if_small);
    CHECK(slack_for(cuota::unlimited, 8_MiB) == fit_slack::same_size_if_small);
    CHECK(slack_for(cuota::unlimited, cuota::unlimited) == fit_slack::same_size_if_small);
}

TEST_CASE("no block is chosen when none fits", "[pool][block_choice]") {
    shop s;
    CHECK(!s.choose(256, fit_slack::quarter));
    s.freed_by(s.me, 64_KiB);
    CHECK(!s.choose(64_KiB + 1, fit_slack::quarter));
}

TEST_CASE("with slack, a block that is up to a quarter larger is chosen if it needs no wait",
          "[pool][block_choice]") {
    shop s;
    block& tight = s.freed_by(s.them, 64_KiB);
    SECTION("a block of this stream") {
        block& own = s.freed_by(s.me, 80_KiB - 256);
        CHECK(s.choose(60_KiB, fit_slack::quarter) == &own);
        CHECK(s.choose(60_KiB, fit_slack::same_size_if_small) == &tight);
    }
    SECTION("no block that is larger still") {
        s.freed_by(s.me, 80_KiB);
        CHECK(s.choose(60_KiB, fit_slack::quarter) == &tight);
    }
    SECTION("no block that needs equally many waits") {
        s.freed_by(s.them, 72_KiB);
        CHECK(s.choose(60_KiB, fit_slack::quarter) == &tight);
    }
    SECTION("the smaller block once this stream has waited for it") {
        s.freed_by(s.me, 72_KiB);
        tight.waits.for_each([&](auto point) { s.order.wait(s.mine, s.me, point); });
        CHECK(s.choose(60_KiB, fit_slack::quarter) == &tight);
    }
}

TEST_CASE("with slack, a block that needs one wait is chosen before one that needs two",
          "[pool][block_choice]") {
    shop s;
    cuota::stream third;
    block& two = s.freed_by(s.them, 64_KiB);
    wait_set more{s.order.release_on(s.order.index_of(third))};
    two.waits.merge(more);
    block& one = s.freed_by(s.them, 68_KiB);
    CHECK(s.choose(64_KiB, fit_slack::quarter) == &one);
    CHECK(s.choose(64_KiB, fit_slack::same_size_if_small) == &two);
}

TEST_CASE("of small blocks of one size, a stream's own is chosen with and without slack",
          "[pool][block_choice]") {
    shop s;
    block& own = s.freed_by(s.me, 512);
    block& last = s.freed_by(s.them, 512);
    s.freed_by(s.me, 768);
    CHECK(s.choose(500, fit_slack::same_size_if_small) == &own);
    CHECK(s.choose(500, fit_slack::quarter) == &own);
    s.blocks.remove_segment(own);
    CHECK(s.choose(500, fit_slack::same_size_if_small) == &last);
}

TEST_CASE("at most sixteen blocks are examined", "[pool][block_choice]") {
    shop s;
    block& own = s.freed_by(s.me, 512);  // the last in its list
    std::vector<block*> others;
    for (int i = 0; i != 15; ++i) others.push_back(&s.freed_by(s.them, 512));
    CHECK(s.choose(512, fit_slack::quarter) == &own);
    others.push_back(&s.freed_by(s.them, 512));
    CHECK(s.choose(512, fit_slack::quarter) == others.back());
}

TEST_CASE("a persistent block is placed beside a persistent block although another hole fits more tightly",
          "[pool][block_choice]") {
    using cuota::lifetime_hint;
    block_index blocks;
    CHECK(!choose_block_to_keep(blocks, {1}));
    auto const take = [&](block& from, std::size_t size, lifetime_hint lifetime) -> block& {
        return blocks.take(from, size, size, {}, {0, lifetime});
    };
    block& segment = blocks.add_segment(reinterpret_cast<void*>(1 << 20), 1_MiB);
    block& first = take(segment, 4_KiB, lifetime_hint::persistent);
    block& other = take(*first.after, 4_KiB, lifetime_hint::scratch);
    block& hole = take(*other.after, 8_KiB, lifetime_hint::scratch);
    block& stays = take(*hole.after, 4_KiB, lifetime_hint::persistent);
    block& rest = *stays.after;
    blocks.release(hole, {});

    CHECK(choose_block_to_keep(blocks, {4_KiB}) == &rest);  // the hole is next to a scratch block
    blocks.release(other, {});                              // now it is between persistent blocks
    CHECK(choose_block_to_keep(blocks, {4_KiB}) == first.after);
    CHECK(choose_block_to_keep(blocks, {12_KiB}) == first.after);
    CHECK(choose_block_to_keep(blocks, {13_KiB}) == &rest);
    CHECK(choose_block_to_keep(blocks, {rest.size}) == &rest);
    CHECK(!choose_block_to_keep(blocks, {rest.size + 1}));
}

TEST_CASE("a persistent block uses the largest free block when none is beside a persistent block",
          "[pool][block_choice]") {
    block_index blocks;
    block& segment = blocks.add_segment(reinterpret_cast<void*>(1 << 20), 64_KiB);
    block& first = blocks.take(segment, 4_KiB, 1, {});
    block& small = blocks.take(*first.after, 4_KiB, 1, {});
    block& wall = blocks.take(*small.after, 4_KiB, 1, {});
    blocks.release(small, {});
    CHECK(choose_block_to_keep(blocks, {256}) == wall.after);
}

TEST_CASE("choose_lowest chooses a block of exactly the size, otherwise that at the lowest address",
          "[pool][block_choice]") {
    shop s;
    auto const lowest = [&](std::size_t size) { return choose_lowest(s.blocks, s.order, {size}, s.me); };
    CHECK(!lowest(256));
    block& large = s.freed_by(s.me, 1_MiB);
    block& middle = s.freed_by(s.me, 512_KiB);
    s.freed_by(s.me, 64_KiB);
    CHECK(lowest(512_KiB) == &middle);
    CHECK(lowest(512_KiB - 256) == &large);
    CHECK(lowest(65_KiB) == &large);
    CHECK(!lowest(1_MiB + 256));
}

TEST_CASE(
    "choose_lowest chooses no block for which the stream would have to wait, and none that is not aligned",
    "[pool][block_choice]") {
    shop s;
    s.freed_by(s.them, 1_MiB);
    CHECK(!choose_lowest(s.blocks, s.order, {1_MiB}, s.me));
    block& own = s.freed_by(s.me, 2_MiB);
    CHECK(choose_lowest(s.blocks, s.order, {1_MiB}, s.me) == &own);
    CHECK(choose_lowest(s.blocks, s.order, {2_MiB}, s.me) == &own);
    CHECK(!choose_lowest(s.blocks, s.order, {2_MiB, 2_MiB}, s.me));
}
