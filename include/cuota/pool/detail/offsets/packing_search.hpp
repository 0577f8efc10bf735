// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A backtracking search for offsets within a capacity, which can prove that no plan exists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/offsets/packing_skyline.hpp>
#include <cuota/pool/detail/offsets/search_order.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace cuota::inline v0::detail {

enum class search_result { found, none, gave_up };

/// The Luby sequence 1 1 2 1 1 2 4 ...: lengths of attempts when the necessary one is unknown. n counts from 1.
[[nodiscard]] constexpr std::uint64_t luby(std::uint64_t n) noexcept {
    for (;;) {
        std::uint64_t power = 1;
        while (power - 1 < n) power *= 2;
        if (power - 1 == n) return power / 2;
        n -= power / 2 - 1;
    }
}

/// A depth-first search with restarts over one part (docs/design/planned_steps.md).
///
/// In a plan where no block can move down, placed by offset, each block lies on the highest one below it. So a step picks a block, and its
/// offset follows. A block is not picked if another would fit entirely below it; interchangeable blocks are tried in one order only. Only
/// attempts that skip nothing may return `none`.
class packing_search {
public:
    /// The sizes must add up to less than 2^62. Cost: memory for each overlapping pair, at most n^2.
    explicit packing_search(lifetime_part const& part)
        : board_{part}, preferences_{part}, blocks_{static_cast<index>(part.blocks.size())} {}

    /// Searches for a peak of at most `capacity`, until is_over().
    template <class IsOver>
    [[nodiscard]] search_result run(std::size_t capacity, IsOver is_over) {
        capacity_ = capacity;
        for (std::uint64_t attempt = 1;; ++attempt) {
            begin(attempt);
            bool const found = split(everything(), first_step(everything()), is_over);
            if (found) return search_result::found;
            if (!cut_short_ && !skipped_) return search_result::none;
            if (is_over()) return search_result::gave_up;
        }
    }

    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    [[nodiscard]] std::vector<std::size_t> offsets() const;

private:
    using index = packing_skyline::index;
    using block = packing_skyline::block;
    using stretch = packing_skyline::stretch;
    static constexpr index no_index = packing_skyline::no_index;

    // The waiting blocks among items_[begin, end), in the sections [first, last).
    struct piece {
        index first, last;
        std::size_t begin, end;

        [[nodiscard]] stretch span() const noexcept { return {first, last - 1}; }
    };
    // The previous step; nothing is placed below its offset any more.
    struct step {
        std::uint64_t offset;
        index rank;
        index block;
        stretch changed;  // where floors may have to rise
    };
    struct candidate {
        std::uint64_t offset;
        index rank;
        index block;

        friend bool operator<(candidate const& a, candidate const& b) noexcept {
            return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
        }
    };
    // --- attempts ---

    void begin(std::uint64_t attempt);

    [[nodiscard]] piece everything() const noexcept { return {0, board_.sections(), 0, blocks_}; }
    [[nodiscard]] static step first_step(piece const& p) noexcept { return {0, 0, no_index, p.span()}; }
    [[nodiscard]] std::span<index const> items_of(piece const& p) const noexcept;

    // --- search: functions return whether all blocks were placed; if not, cause_ explains it, and placements must be undone ---

    template <class IsOver>
    bool descend(piece const& p, step const& before, IsOver& is_over) {
        if (steps_left_ == 0 || (steps_++ % 256 == 0 && is_over())) {
            cut_short_ = true;
            return false;
        }
        --steps_left_;
        index const broken = board_.raise_floors(p.span(), before.changed, before.offset);
        if (broken != no_index) {
            preferences_.note_trouble(broken);
            blame(broken, before);
            return false;
        }
        std::size_t const first = candidates_.size(), mark = items_.size();
        piece const left = collect_candidates(p, before);
        std::size_t const last = candidates_.size();
        bool const found = left.begin == left.end || try_all(left, first, last, is_over);
        candidates_.resize(first);
        items_.resize(mark);
        return found;
    }

    // The section's waiting blocks do not fit above its floor or the last step.
    void blame(index broken, step const& before);

    // Collects the blocks at or above the last one's offset, so low that no other fits entirely below. Returns the unplaced piece.
    piece collect_candidates(piece const& p, step const& before);

    template <class IsOver>
    bool try_all(piece const& p, std::size_t first, std::size_t last, IsOver& is_over) {
        stretch why{no_index, 0};
        if (first == last) why = p.span();
        std::size_t const mark = board_.mark();
        for (std::size_t at = first; at != last; ++at) {
            candidate const c = candidates_[at];
            block const& b = board_[c.block];
            if (repeats(first, at)) continue;
            if (lies_on_its_equal(c)) {
                why.add(b.span());
                continue;
            }
            packing_skyline::placement const done = board_.place(c.block);
            preferences_.note_placed(board_.placed());
            step const last_step{c.offset, c.rank, c.block, done.changed};
            if (done.splits ? split(p, last_step, is_over) : descend(p, last_step, is_over)) return true;
            board_.undo_to(mark);
            if (cut_short_) return false;
            if (!is_complete_ && !cause_.meets(b.span())) {  // fails anyway
                skipped_ = true;
                return false;
            }
            why.add(cause_);
            // nothing lies above it: the others fail wherever it is placed
            if (!done.carries) break;
        }
        cause_ = why;
        return false;
    }

    // Whether an interchangeable block was tried here.
    [[nodiscard]] bool repeats(std::size_t first, std::size_t at) const;
    // Whether the block would lie on an interchangeable one of higher rank.
    [[nodiscard]] bool lies_on_its_equal(candidate const& c) const;

    template <class IsOver>
    bool split(piece const& p, step const& last, IsOver& is_over) {
        std::size_t const mark = pieces_.size(), item_mark = items_.size();
        find_pieces(p);
        std::size_t const end = pieces_.size();
        bool found = true;
        if (end - mark == 1 && pieces_[mark].first == p.first && pieces_[mark].last == p.last)
            found = descend(p, last, is_over);
        else if (end - mark == 1) found = descend_afresh(pieces_[mark], is_over);
        else
            for (std::size_t at = mark; at != end && found; ++at) found = search_piece(pieces_[at], is_over);
        pieces_.resize(mark);
        items_.resize(item_mark);
        return found;
    }
    template <class IsOver>
    bool descend_afresh(piece const p, IsOver& is_over) {
        return descend(p, first_step(p), is_over);
    }

    // Pushes the ranges that no waiting block extends beyond, the smallest first.
    void find_pieces(piece const& p);

    // Searches a piece by itself, with restarts and preferences of its own; if none ends in time, it counts as failed, without proof.
    template <class IsOver>
    bool search_piece(piece p, IsOver& is_over) {
        if (depth_ == most_depth_ || p.end - p.begin < smallest_piece) return descend_afresh(p, is_over);
        std::vector<index> const ranks = preferences_.ranks(items_of(p));
        ++depth_;
        bool const found = attempt_piece(p, is_over);
        --depth_;
        preferences_.restore(items_of(p), ranks);
        return found;
    }
    template <class IsOver>
    bool attempt_piece(piece const& p, IsOver& is_over) {
        std::size_t const mark = board_.mark();
        for (std::uint64_t attempt = 1; attempt <= 16; ++attempt) {
            std::uint64_t const granted = std::min(steps_left_, first_steps * luby(attempt));
            std::uint64_t const kept = steps_left_ - granted;
            steps_left_ = granted;
            if (attempt != 1) preferences_.draw(items_of(p));
            bool const found = descend_afresh(p, is_over);
            steps_left_ += kept;
            if (found || !cut_short_ || kept == 0 || is_over()) return found;
            board_.undo_to(mark);
            cut_short_ = false;
        }
        skipped_ = true;
        cause_ = p.span();
        return false;
    }

    static constexpr std::uint64_t first_steps = 500;
    static constexpr std::size_t smallest_piece = 12;

    packing_skyline board_;
    search_order preferences_;
    index blocks_;
    std::vector<index> items_;  // stacks
    std::vector<candidate> candidates_;
    std::vector<piece> pieces_;
    std::uint64_t capacity_ = 0;
    std::uint64_t steps_ = 0, steps_left_ = 0;
    stretch cause_{0, 0};  // of the last failure
    int depth_ = 0, most_depth_ = 0;
    bool is_complete_ = false;
    bool cut_short_ = false;  // ended without a result
    bool skipped_ = false;    // left out branches
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<std::size_t> packing_search::offsets() const {
    std::vector<std::size_t> all;
    for (block const& b : board_.blocks()) all.push_back(b.lowest);
    return all;
}

CUOTA_INLINE void packing_search::begin(std::uint64_t attempt) {
    board_.clear(capacity_);
    preferences_.begin(attempt);
    items_.resize(blocks_);
    std::iota(items_.begin(), items_.end(), 0U);
    candidates_.clear();
    skipped_ = cut_short_ = false;
    depth_ = 0;
    std::uint64_t const kind = (attempt - 1) % 4;
    is_complete_ = attempt == 1 || attempt % 32 == 0;
    most_depth_ = is_complete_ || kind < 2 ? 0 : kind == 2 ? 1 : 6;
    steps_left_ = first_steps * luby((attempt + 3) / 4) * (is_complete_ ? attempt : most_depth_ == 0 ? 1 : 6);
}

CUOTA_INLINE auto packing_search::items_of(piece const& p) const noexcept -> std::span<index const> {
    return {items_.data() + p.begin, p.end - p.begin};
}

CUOTA_INLINE void packing_search::blame(index broken, step const& before) {
    cause_ = board_.cause(broken);
    if (before.offset > board_.floor(broken) && before.block != no_index)
        cause_.add(board_[before.block].span());
}

CUOTA_INLINE auto packing_search::collect_candidates(piece const& p, step const& before) -> piece {
    piece left{p.first, p.last, items_.size(), items_.size()};
    items_.resize(left.end + (p.end - p.begin));
    std::uint64_t ceiling = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t at = p.begin; at != p.end; ++at) {
        block const& b = board_[items_[at]];
        if (b.is_placed) continue;
        items_[left.end++] = items_[at];
        ceiling = std::min(ceiling, std::max(b.lowest, before.offset) + b.size);
    }
    auto const first = static_cast<std::ptrdiff_t>(candidates_.size());
    for (std::size_t at = left.begin; at != left.end; ++at) {
        block const& b = board_[items_[at]];
        index const rank = preferences_.rank(items_[at]);
        bool const earlier = b.lowest < before.offset || (b.lowest == before.offset && rank < before.rank);
        if (!earlier && b.lowest < ceiling) candidates_.push_back({b.lowest, rank, items_[at]});
    }
    std::sort(candidates_.begin() + first, candidates_.end());
    return left;
}

CUOTA_INLINE bool packing_search::repeats(std::size_t first, std::size_t at) const {
    block const& b = board_[candidates_[at].block];
    return std::any_of(candidates_.begin() + static_cast<std::ptrdiff_t>(first),
                       candidates_.begin() + static_cast<std::ptrdiff_t>(at),
                       [&](candidate const& c) { return board_[c.block].is_equal_to(b); });
}

CUOTA_INLINE bool packing_search::lies_on_its_equal(candidate const& c) const {
    block const& b = board_[c.block];
    return board_.any_member(b.first, [&](index i) {
        block const& o = board_[i];
        return o.is_placed && o.first == b.first && o.last == b.last && preferences_.rank(i) > c.rank &&
               o.lowest + o.size == c.offset;
    });
}

CUOTA_INLINE void packing_search::find_pieces(piece const& p) {
    std::size_t const mark = pieces_.size();
    for (index s = p.first; s != p.last;) {
        index const first = s;
        while (board_.is_crossed(s)) ++s;
        if (board_.has_waiting(s++)) pieces_.push_back({first, s, 0, 0});
    }
    if (pieces_.size() - mark == 1) {
        pieces_[mark].begin = p.begin;
        pieces_[mark].end = p.end;
        return;
    }
    for (std::size_t at = mark; at != pieces_.size(); ++at) {
        pieces_[at].begin = items_.size();
        for (std::size_t item = p.begin; item != p.end; ++item) {
            index const i = items_[item];
            block const& b = board_[i];
            if (!b.is_placed && pieces_[at].first <= b.first && b.last <= pieces_[at].last)
                items_.push_back(i);
        }
        pieces_[at].end = items_.size();
    }
    std::sort(pieces_.begin() + static_cast<std::ptrdiff_t>(mark), pieces_.end(),
              [](piece const& a, piece const& b) { return a.end - a.begin < b.end - b.begin; });
}

}  // namespace cuota::inline v0::detail

#endif
