// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/offsets/packing_skyline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"

namespace {

using cuota::detail::lifetime_part;
using cuota::detail::packing_skyline;
using index = packing_skyline::index;
using stretch = packing_skyline::stretch;

/// Two sections: a and b live in the first, b and c in the second.
struct three_blocks {
    static constexpr index a = 0, b = 1, c = 2;
    lifetime_part part = support::parts_of({{0, 2, 4}, {1, 3, 2}, {2, 4, 3}}).front();
    stretch all{0, 1};
    packing_skyline board{part};
};

stretch all_of(packing_skyline const& board) { return {0, board.sections() - 1}; }

std::vector<std::uint64_t> answers(packing_skyline const& board) {
    std::vector<std::uint64_t> all{board.placed(), board.mark()};
    for (packing_skyline::block const& b : board.blocks()) all.insert(all.end(), {b.is_placed, b.lowest});
    for (index s = 0; s != board.sections(); ++s)
        all.insert(all.end(), {board.floor(s), board.waiting(s), board.has_waiting(s), board.is_crossed(s),
                               board.cause(s).first, board.cause(s).last});
    return all;
}

/// Returns the lowest offset above all placed blocks that are live at the same time.
std::uint64_t lowest_above_placed(packing_skyline const& board, packing_skyline::block const& b) {
    std::uint64_t lowest = 0;
    for (packing_skyline::block const& o : board.blocks())
        if (o.is_placed && o.span().meets(b.span())) lowest = std::max(lowest, o.lowest + o.size);
    return lowest;
}

/// A section, computed from the blocks alone.
struct expected_section {
    std::uint64_t top = 0;  // of the placed blocks
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t waiting = 0;
    index count = 0, crossing = 0;

    expected_section(packing_skyline const& board, index s) {
        for (packing_skyline::block const& b : board.blocks()) {
            if (s < b.first || s >= b.last) continue;
            if (b.is_placed) {
                top = std::max(top, b.lowest + b.size);
                continue;
            }
            lowest = std::min(lowest, b.lowest);
            waiting += b.size;
            ++count;
            if (s + 1 != b.last) ++crossing;
        }
    }
    [[nodiscard]] std::uint64_t floor() const { return count == 0 ? top : lowest; }
};

/// Returns the first section in which the waiting blocks do not fit.
index check_sections(packing_skyline const& board, std::uint64_t capacity) {
    index broken = packing_skyline::no_index;
    for (index s = 0; s != board.sections(); ++s) {
        expected_section const expected{board, s};
        REQUIRE(board.floor(s) == expected.floor());
        REQUIRE(board.waiting(s) == expected.waiting);
        REQUIRE(board.has_waiting(s) == (expected.count != 0));
        REQUIRE(board.is_crossed(s) == (expected.crossing != 0));
        if (broken == packing_skyline::no_index && expected.count != 0 &&
            expected.floor() + expected.waiting > capacity)
            broken = s;
    }
    return broken;
}

std::vector<index> waiting_blocks(packing_skyline const& board) {
    std::vector<index> all;
    for (index i = 0; i != board.blocks().size(); ++i)
        if (!board[i].is_placed) all.push_back(i);
    return all;
}

/// Counts, among the sections of a block, those without waiting blocks and the boundaries that no waiting block crosses.
std::size_t gaps(packing_skyline const& board, stretch of) {
    std::size_t count = 0;
    for (index s = of.first; s <= of.last; ++s)
        count += !board.has_waiting(s) + (s != of.last && !board.is_crossed(s));
    return count;
}

void place_and_check(packing_skyline& board, index i, std::uint64_t capacity) {
    std::size_t const gaps_before = gaps(board, board[i].span());
    std::size_t const placed_before = board.placed();
    auto const done = board.place(i);
    auto const beside = waiting_blocks(board);
    REQUIRE(board[i].is_placed);
    REQUIRE(board.placed() == placed_before + 1);
    REQUIRE(done.splits == (gaps(board, board[i].span()) != gaps_before));
    REQUIRE(done.carries == std::any_of(beside.begin(), beside.end(), [&](index other) {
                return board[other].span().meets(board[i].span());
            }));
    for (index const other : beside) REQUIRE(board[other].lowest == lowest_above_placed(board, board[other]));
    index const broken = board.raise_floors(all_of(board), done.changed, 0);
    REQUIRE(broken == check_sections(board, capacity));
}

}  // namespace

TEST_CASE("packing_skyline places a block on the blocks below it", "[pool][packing_skyline]") {
    three_blocks t;
    t.board.clear(9);

    auto const first = t.board.place(t.a);
    CHECK(first.carries);
    CHECK_FALSE(first.splits);
    CHECK(first.changed == t.all);
    CHECK(t.board[t.b].lowest == 4);
    CHECK(t.board[t.c].lowest == 0);
    CHECK(t.board.floor(0) == 4);
    CHECK(t.board.floor(1) == 0);
    CHECK(t.board.is_crossed(0));

    auto const second = t.board.place(t.b);
    CHECK(second.carries);
    CHECK(second.splits);
    CHECK_FALSE(t.board.has_waiting(0));
    CHECK_FALSE(t.board.is_crossed(0));
    CHECK(t.board[t.c].lowest == 6);

    auto const third = t.board.place(t.c);
    CHECK_FALSE(third.carries);
    CHECK(t.board.floor(1) == 9);
    CHECK(t.board.placed() == 3);
}

TEST_CASE("packing_skyline returns the section in which the waiting blocks do not fit",
          "[pool][packing_skyline]") {
    three_blocks t;
    for (std::uint64_t const capacity : {8U, 9U}) {
        t.board.clear(capacity);
        REQUIRE(t.board.raise_floors(t.all, t.all, 0) == packing_skyline::no_index);
        t.board.place(t.a);
        auto const done = t.board.place(t.b);
        CHECK(t.board.raise_floors(t.all, done.changed, 0) ==
              (capacity == 9 ? packing_skyline::no_index : 1));
        CHECK(t.board.cause(1) == t.all);  // b lies on a, which is in section 0
        // Section 1 is not checked.
        CHECK(t.board.raise_floors({0, 0}, done.changed, 0) == packing_skyline::no_index);
    }
    t.board.clear(9);
    CHECK(t.board.raise_floors(t.all, t.all, 3) == packing_skyline::no_index);
    CHECK(t.board.raise_floors(t.all, t.all, 4) == 0);
    CHECK(t.board.floor(0) == 0);  // a block could lie at 0, but none may be below 4 any more
    CHECK(t.board.cause(0) == stretch{0, 0});
}

TEST_CASE("packing_skyline raises a floor over a hole that no block can fill", "[pool][packing_skyline]") {
    three_blocks t;
    t.board.clear(9);
    auto const first = t.board.place(t.c);
    REQUIRE(t.board.raise_floors(t.all, first.changed, 0) == packing_skyline::no_index);
    REQUIRE(t.board.floor(1) == 3);
    REQUIRE(t.board.cause(1) == stretch{1, 1});

    auto const second = t.board.place(t.a);
    CHECK(t.board.raise_floors(t.all, second.changed, 0) == packing_skyline::no_index);
    CHECK(t.board.floor(1) == 4);  // only b waits for it, and lies on a
    CHECK(t.board.cause(1) == t.all);
}

TEST_CASE("packing_skyline visits the blocks of a section until the visitor returns true",
          "[pool][packing_skyline]") {
    three_blocks const t;
    std::vector<index> seen;
    CHECK_FALSE(t.board.any_member(1, [&](index i) {
        seen.push_back(i);
        return false;
    }));
    // Not {t.b, t.c}, which nvcc 13.0 parses as {(t.b, t.c)}.
    CHECK(seen == std::vector<index>{three_blocks::b, three_blocks::c});
    CHECK(t.board.any_member(0, [&](index i) {
        seen.push_back(i);
        return i == t.a;
    }));
    CHECK(seen == std::vector<index>{three_blocks::b, three_blocks::c, three_blocks::a});
}

TEST_CASE("packing_skyline detects interchangeable blocks", "[pool][packing_skyline]") {
    auto const part = support::parts_of({{0, 2, 4}, {0, 2, 4}, {0, 2, 5}, {1, 4, 4}, {3, 5, 1}}).front();
    packing_skyline const board{part};
    CHECK(board[0].is_equal_to(board[1]));
    CHECK_FALSE(board[0].is_equal_to(board[2]));
    CHECK_FALSE(board[0].is_equal_to(board[3]));
}

TEST_CASE("packing_skyline matches its blocks, and undo restores earlier states", "[pool][packing_skyline]") {
    std::mt19937_64 random{31};
    for (int round = 0; round != 600; ++round)
        for (lifetime_part const& part :
             support::parts_of(support::random_lifetimes(random, support::pick(random, 3, 16), 12, 6))) {
            packing_skyline board{part};
            std::uint64_t const capacity = part.most_alive + support::pick(random, 0, 3);
            board.clear(capacity);
            std::vector<std::vector<std::uint64_t>> before;
            std::vector<std::size_t> marks;
            for (int step = 0; step != 40; ++step) {
                auto const waiting = waiting_blocks(board);
                if (waiting.empty() || (!marks.empty() && random() % 3 == 0)) {
                    std::size_t const back = support::pick(random, 0, marks.size() - 1);
                    board.undo_to(marks[back]);
                    REQUIRE(answers(board) == before[back]);
                    before.resize(back);
                    marks.resize(back);
                    continue;
                }
                marks.push_back(board.mark());
                before.push_back(answers(board));
                place_and_check(board, waiting[support::pick(random, 0, waiting.size() - 1)], capacity);
            }
        }
}

TEST_CASE("blocks outside of a floor's cause do not affect its height in packing_skyline",
          "[pool][packing_skyline]") {
    std::mt19937_64 random{37};
    std::size_t narrow = 0;
    for (int round = 0; round != 600; ++round)
        for (lifetime_part const& part :
             support::parts_of(support::random_lifetimes(random, support::pick(random, 6, 20), 20, 6))) {
            packing_skyline board{part}, other{part};
            std::vector<index> placed;
            for (auto waiting = waiting_blocks(board); waiting.size() > 2; waiting = waiting_blocks(board)) {
                placed.push_back(waiting[support::pick(random, 0, waiting.size() - 1)]);
                auto const done = board.place(placed.back());
                (void)board.raise_floors(all_of(board), done.changed, 0);
            }
            for (index s = 0; s != board.sections(); ++s) {
                other.clear(part.most_alive);
                for (index const i : placed)
                    if (board[i].span().meets(board.cause(s))) {
                        auto const done = other.place(i);
                        (void)other.raise_floors(all_of(other), done.changed, 0);
                    }
                REQUIRE(other.floor(s) == board.floor(s));
                if (other.placed() != board.placed()) ++narrow;
            }
        }
    CHECK(narrow > 1'000);  // causes are often shorter than the whole time
}
