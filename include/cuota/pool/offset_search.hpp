// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Offsets by search: finds a plan below a capacity if there is one, and can tell that there is none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <cuota/pool/lifetimes.hpp>

namespace cuota::inline v0::detail {

enum class search_result { found, none, gave_up };

/// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8: how long the n-th attempt (from 1) may take, when nobody knows how long is enough.
[[nodiscard]] constexpr std::uint64_t luby(std::uint64_t n) noexcept {
    for (;;) {
        std::uint64_t power = 1;
        while (power - 1 < n) power *= 2;
        if (power - 1 == n) return power / 2;
        n -= power / 2 - 1;
    }
}

/// Numbers that look random and are the same everywhere.
class repeatable_numbers {
public:
    [[nodiscard]] std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    /// In [0, 1).
    [[nodiscard]] double fraction() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_ = 4;
};

/// A depth-first search over one part, tried again and again with other preferences.
///
/// A plan in which no block could move down puts every block on the bottom or on another one; placed by rising offset,
/// each comes to lie exactly on the highest of what is below it. So only such sequences are searched: a step picks a
/// block, and its offset follows. Every section has a floor (where the next block of it can begin at the earliest) and
/// the bytes that still wait for a place; a floor plus what waits above the capacity ends a branch. A floor rises with
/// what is placed, and to the lowest offset that any waiting block of the section could take: the hole is lost. A block
/// is not picked when another one would fit whole below it, nor two that could be swapped in both orders.
///
/// When no waiting block crosses from a section to the next, both sides are searched by themselves. Of a failure the
/// search keeps the stretch of time that explains it, and goes straight back to the last step that touches that.
/// What is hopeless under one preference is often easy under another: attempts are cut short and repeated, the
/// preference drawn anew; it learns where floors broke. One kind of attempt skips nothing: it alone may answer `none`.
class offset_search {
public:
    /// Sizes may add up to 2^62 - 1 at most.
    /// Cost: memory for what overlaps, at most n squared.
    explicit offset_search(lifetime_part const& part)
        : sections_(part.sections),
          floors_(part.sections),
          waiting_(part.sections),
          causes_(part.sections),
          broke_(part.sections, 1),
          blocks_(part.blocks.size()) {
        for (std::size_t i = 0; i != blocks_.size(); ++i) {
            sectioned_block const& from = part.blocks[i];
            blocks_[i] = {from.first, from.last, 0, false, from.size, 0};
            logs_.push_back({std::log(static_cast<double>(from.size) + 1), std::log(from.duration),
                             std::log(static_cast<double>(from.last - from.first)), 0});
        }
        find_neighbours();
        std::vector<std::size_t> const alive = part.alive();
        for (std::size_t i = 0; i != blocks_.size(); ++i) {
            std::size_t fullest = 0;
            for (index s = blocks_[i].first; s != blocks_[i].last; ++s) fullest = std::max(fullest, alive[s]);
            logs_[i].fullest = std::log(static_cast<double>(fullest) + 1);
        }
    }

    /// Looks for offsets with a peak of at most `capacity`. `is_over()` is asked now and then; it ends the search.
    template <class IsOver>
    [[nodiscard]] search_result run(std::size_t capacity, IsOver is_over) {
        capacity_ = capacity;
        for (std::uint64_t attempt = 1;; ++attempt) {
            begin(attempt);
            bool const found = split(everything(), step{}, is_over);
            if (found) return search_result::found;
            if (!cut_short_ && !skipped_) return search_result::none;
            if (is_over()) return search_result::gave_up;
        }
    }

    /// Of all attempts so far.
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    /// Of the plan that was found.
    [[nodiscard]] std::vector<std::size_t> offsets() const {
        std::vector<std::size_t> all;
        for (block const& b : blocks_) all.push_back(b.lowest);
        return all;
    }

private:
    using index = std::uint32_t;
    static constexpr index nobody = std::numeric_limits<index>::max();

    struct block {
        index first, last;
        index rank;  // of equal offsets, which is tried first
        bool is_placed;
        std::uint64_t size;
        std::uint64_t lowest;  // of the offsets it can still take; where it lies, when it is placed
    };
    struct logarithms {
        double size, duration, sections, fullest;
    };
    // A stretch of sections, both ends in it.
    struct stretch {
        index first, last;

        void add(stretch other) noexcept {
            first = std::min(first, other.first);
            last = std::max(last, other.last);
        }
    };
    struct section {
        index count = 0;         // of waiting blocks
        index crossing = 0;      // waiting blocks that live in the next section, too
        index witness = nobody;  // a waiting block that could lie on the floor
    };
    // What is searched by itself: the waiting blocks among items_[begin, end), which live in the sections [first, last).
    struct piece {
        index first, last;
        std::size_t begin, end;
    };
    // The one before: nothing is placed below it any more.
    struct step {
        std::uint64_t offset = 0;
        index rank = 0;
        index block = nobody;
    };
    struct candidate {
        std::uint64_t offset;
        index rank;
        index block;

        friend bool operator<(candidate const& a, candidate const& b) noexcept {
            return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
        }
    };
    enum class change { floor, cause, witness, lowest, placed };
    struct undo_step {
        change what;
        index where;
        std::uint64_t value;
    };

    // ---- The problem.

    void find_neighbours() {
        std::vector<index> counts(sections_.size() + 1, 0);
        for (block const& b : blocks_)
            for (index s = b.first; s != b.last; ++s) ++counts[s + 1];
        std::partial_sum(counts.begin(), counts.end(), counts.begin());
        members_begin_ = counts;
        members_.resize(counts.back());
        for (index i = 0; i != blocks_.size(); ++i)
            for (index s = blocks_[i].first; s != blocks_[i].last; ++s) members_[counts[s]++] = i;
        for (index i = 0; i != blocks_.size(); ++i) {
            neighbours_begin_.push_back(neighbours_.size());
            for (index other = 0; other != blocks_.size(); ++other)
                if (other != i && blocks_[other].first < blocks_[i].last &&
                    blocks_[i].first < blocks_[other].last)
                    neighbours_.push_back(other);
        }
        neighbours_begin_.push_back(neighbours_.size());
    }

    template <class F>
    void for_each_member(index s, F f) {
        for (index at = members_begin_[s]; at != members_begin_[s + 1]; ++at) f(members_[at]);
    }
    template <class F>
    void for_each_neighbour(index i, F f) {
        for (std::size_t at = neighbours_begin_[i]; at != neighbours_begin_[i + 1]; ++at) f(neighbours_[at]);
    }

    // ---- Attempts.

    void begin(std::uint64_t attempt) {
        std::fill(sections_.begin(), sections_.end(), section{});
        std::fill(floors_.begin(), floors_.end(), 0U);
        std::fill(waiting_.begin(), waiting_.end(), 0U);
        for (index s = 0; s != sections_.size(); ++s) causes_[s] = {s, s};
        items_.resize(blocks_.size());
        std::iota(items_.begin(), items_.end(), 0U);
        for (block& b : blocks_) {
            b.is_placed = false;
            b.lowest = 0;
            add_waiting(b);
        }
        candidates_.clear();
        undo_.clear();
        skipped_ = cut_short_ = false;
        depth_ = 0;
        changed_ = {0, static_cast<index>(sections_.size()) - 1};
        draw_order(attempt);
        std::uint64_t const kind = (attempt - 1) % 4;
        is_complete_ = attempt == 1 || attempt % 32 == 0;
        most_depth_ = is_complete_ || kind < 2 ? 0 : kind == 2 ? 1 : 6;
        steps_left_ = first_steps * luby((attempt + 3) / 4) *
                      (is_complete_       ? attempt
                       : most_depth_ == 0 ? 1
                                          : 6);
    }

    [[nodiscard]] piece everything() const {
        return {0, static_cast<index>(sections_.size()), 0, blocks_.size()};
    }

    // Half of the attempts try what went furthest once more, with some noise; the longer ago that was, the less it counts.
    void draw_order(std::uint64_t attempt) {
        if (attempt > 1 && furthest_ >= far_) {
            far_ = furthest_;
            far_keys_ = keys_;
        }
        far_ *= 0.99;
        furthest_ = placed_ = 0;
        keys_.assign(blocks_.size(), 0);
        if (attempt % 2 != 0 || far_keys_.empty()) draw_keys(everything());
        else {
            double const noise = 0.2 * std::pow(numbers_.fraction(), 3);
            for (std::size_t i = 0; i != keys_.size(); ++i)
                keys_[i] = far_keys_[i] + noise * numbers_.fraction();
        }
        rank(everything());
    }

    // Draws keys, of which the low ones are tried first: powers of size, of duration and of how full or how troubled
    // the sections are, and some noise; from 0 to 1.
    void draw_keys(piece const& p) {
        double const size = numbers_.fraction(), duration = numbers_.fraction();
        double const noise = 0.3 * numbers_.fraction();
        bool const by_steps = numbers_.next() % 2 == 0;
        auto const kind = numbers_.next() % 3;
        double const heat = kind == 0 ? 0 : (kind == 1 ? 20 : 2) * numbers_.fraction();
        double lowest = std::numeric_limits<double>::max(), highest = -lowest;
        for (std::size_t at = p.begin; at != p.end; ++at) {
            index const i = items_[at];
            logarithms const& log = logs_[i];
            double const hot = kind == 1 ? log.fullest : kind == 2 ? std::log(troubles(blocks_[i])) : 0;
            keys_[i] = -(size * log.size + duration * (by_steps ? log.duration : log.sections) + heat * hot +
                         noise * numbers_.fraction());
            lowest = std::min(lowest, keys_[i]);
            highest = std::max(highest, keys_[i]);
        }
        for (std::size_t at = p.begin; at != p.end; ++at)
            keys_[items_[at]] = (keys_[items_[at]] - lowest) / (highest - lowest + 1e-9);
    }
    void rank(piece const& p) {
        std::vector<index> order(items_.begin() + static_cast<std::ptrdiff_t>(p.begin),
                                 items_.begin() + static_cast<std::ptrdiff_t>(p.end));
        std::sort(order.begin(), order.end(),
                  [&](index a, index b) { return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b; });
        for (index at = 0; at != order.size(); ++at) blocks_[order[at]].rank = at;
    }

    [[nodiscard]] double troubles(block const& b) const {
        double most = 1;
        for (index s = b.first; s != b.last; ++s) most = std::max(most, broke_[s]);
        return most;
    }

    // ---- Changes, and taking them back.

    void add_waiting(block const& b) {
        for (index s = b.first; s != b.last; ++s) {
            waiting_[s] += b.size;
            ++sections_[s].count;
            if (s + 1 != b.last) ++sections_[s].crossing;
        }
    }
    void take_waiting(block const& b) {
        for (index s = b.first; s != b.last; ++s) {
            waiting_[s] -= b.size;
            --sections_[s].count;
            splits_ |= sections_[s].count == 0;
            if (s + 1 != b.last) splits_ |= --sections_[s].crossing == 0;
        }
    }
    void set_floor(index s, std::uint64_t floor) {
        undo_.push_back({change::floor, s, floors_[s]});
        floors_[s] = floor;
    }
    void add_cause(index s, stretch more) {
        stretch& cause = causes_[s];
        if (more.first >= cause.first && more.last <= cause.last) return;
        undo_.push_back({change::cause, s, std::uint64_t{cause.first} << 32 | cause.last});
        cause.add(more);
    }
    void undo_to(std::size_t mark) {
        for (; undo_.size() > mark; undo_.pop_back()) {
            auto const [what, where, value] = undo_.back();
            if (what == change::floor) floors_[where] = value;
            else if (what == change::lowest) blocks_[where].lowest = value;
            else if (what == change::witness) sections_[where].witness = static_cast<index>(value);
            else if (what == change::cause)
                causes_[where] = {static_cast<index>(value >> 32), static_cast<index>(value)};
            else {
                --placed_;
                blocks_[where].is_placed = false;
                add_waiting(blocks_[where]);
            }
        }
    }

    // True when a waiting block lives beside it, and so has to lie above it.
    bool place(index i) {
        block& b = blocks_[i];
        blame_support(b);
        b.is_placed = true;
        undo_.push_back({change::placed, i, 0});
        splits_ = false;
        take_waiting(b);
        furthest_ = std::max(furthest_, ++placed_);
        std::uint64_t const end = b.lowest + b.size;
        for (index s = b.first; s != b.last; ++s) set_floor(s, end);
        bool carries = false;
        changed_ = span_of(b);
        for_each_neighbour(i, [&](index other) {
            block& o = blocks_[other];
            if (o.is_placed) return;
            carries = true;
            if (o.lowest >= end) return;
            undo_.push_back({change::lowest, other, o.lowest});
            o.lowest = end;
            changed_.add(span_of(o));
        });
        return carries;
    }

    // Where the block lies above the floor, that follows from a section in which it lies on it.
    void blame_support(block const& b) {
        index support = b.first;
        while (support + 1 != b.last && floors_[support] < b.lowest) ++support;
        for (index s = b.first; s != b.last; ++s)
            if (floors_[s] >= b.lowest) support = s;
            else add_cause(s, reach(s, support));
    }
    [[nodiscard]] stretch reach(index s, index wall) const {
        stretch all = causes_[wall];
        all.add({std::min(s, wall), std::max(s, wall)});
        return all;
    }

    // ---- Floors.

    // Raises floors to what the waiting blocks can still reach. False when one is too high for what waits.
    bool raise_floors(piece const& p, step const& before) {
        index const last = std::min(p.last, changed_.last + 1);
        for (index s = std::max(p.first, changed_.first); s < last; ++s)
            if (sections_[s].count != 0 && !has_witness(s, before)) find_witness(s, before);
        for (index s = p.first; s != p.last; ++s)
            if (std::max(floors_[s], before.offset) + waiting_[s] > capacity_ && sections_[s].count != 0) {
                broke_[s] += 1;
                cause_ = causes_[s];
                if (before.offset > floors_[s] && before.block != nobody)
                    cause_.add(span_of(blocks_[before.block]));
                return false;
            }
        return true;
    }
    [[nodiscard]] bool has_witness(index s, step const& before) const {
        if (sections_[s].witness == nobody) return false;
        block const& b = blocks_[sections_[s].witness];
        return !b.is_placed && b.lowest <= std::max(floors_[s], before.offset);
    }
    void find_witness(index s, step const& before) {
        std::uint64_t const floor = std::max(floors_[s], before.offset);
        std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
        undo_.push_back({change::witness, s, sections_[s].witness});
        for (index at = members_begin_[s]; at != members_begin_[s + 1] && lowest > floor; ++at) {
            block const& b = blocks_[members_[at]];
            if (b.is_placed || b.lowest >= lowest) continue;
            lowest = b.lowest;
            sections_[s].witness = members_[at];
        }
        if (lowest <= floor) return;
        blame_walls(s, lowest);
        set_floor(s, lowest);
    }
    // Every waiting block of the section meets a floor of that height somewhere: the nearest place counts.
    void blame_walls(index s, std::uint64_t height) {
        stretch all{s, s};
        for_each_member(s, [&](index i) {
            if (!blocks_[i].is_placed) all.add(nearest_wall(s, blocks_[i], height));
        });
        add_cause(s, all);
    }
    [[nodiscard]] stretch nearest_wall(index s, block const& b, std::uint64_t height) const {
        for (index away = 1; away < b.last - b.first; ++away) {
            if (s >= b.first + away && floors_[s - away] >= height) return reach(s, s - away);
            if (s + away < b.last && floors_[s + away] >= height) return reach(s, s + away);
        }
        return span_of(b);
    }
    [[nodiscard]] static stretch span_of(block const& b) noexcept { return {b.first, b.last - 1}; }

    // ---- The search. Each function tells whether it found places for all; if not, cause_ says why, and what it placed
    // is still to be undone.

    template <class IsOver>
    bool descend(piece const& p, step const& before, IsOver& is_over) {
        if (steps_left_ == 0 || (steps_++ % 256 == 0 && is_over())) {
            cut_short_ = true;
            return false;
        }
        --steps_left_;
        if (!raise_floors(p, before)) return false;
        std::size_t const first = candidates_.size(), mark = items_.size();
        piece const left = collect_candidates(p, before);
        std::size_t const last = candidates_.size();
        bool const found = left.begin == left.end || try_all(left, first, last, is_over);
        candidates_.resize(first);
        items_.resize(mark);
        return found;
    }

    // Blocks whose place is not below the last one's, and not so high that another would fit whole below. Returns the
    // piece without those that have their place.
    piece collect_candidates(piece const& p, step const& before) {
        piece left{p.first, p.last, items_.size(), items_.size()};
        items_.resize(left.end + (p.end - p.begin));
        std::uint64_t ceiling = std::numeric_limits<std::uint64_t>::max();
        for (std::size_t at = p.begin; at != p.end; ++at) {
            block const& b = blocks_[items_[at]];
            if (b.is_placed) continue;
            items_[left.end++] = items_[at];
            ceiling = std::min(ceiling, std::max(b.lowest, before.offset) + b.size);
        }
        auto const first = static_cast<std::ptrdiff_t>(candidates_.size());
        for (std::size_t at = left.begin; at != left.end; ++at) {
            block const& b = blocks_[items_[at]];
            bool const earlier =
                b.lowest < before.offset || (b.lowest == before.offset && b.rank < before.rank);
            if (!earlier && b.lowest < ceiling) candidates_.push_back({b.lowest, b.rank, items_[at]});
        }
        std::sort(candidates_.begin() + first, candidates_.end());
        return left;
    }

    template <class IsOver>
    bool try_all(piece const& p, std::size_t first, std::size_t last, IsOver& is_over) {
        stretch why{nobody, 0};
        if (first == last) why = {p.first, p.last - 1};
        std::size_t const mark = undo_.size();
        for (std::size_t at = first; at != last; ++at) {
            candidate const c = candidates_[at];
            block const& b = blocks_[c.block];
            if (repeats(first, at)) continue;
            if (lies_on_its_equal(b)) {
                why.add(span_of(b));
                continue;
            }
            bool const carries = place(c.block);
            if (search_rest(p, {c.offset, c.rank, c.block}, is_over)) return true;
            undo_to(mark);
            if (cut_short_) return false;
            if (!is_complete_ &&
                (cause_.last < b.first || cause_.first >= b.last)) {  // it fails without this step
                skipped_ = true;
                return false;
            }
            why.add(cause_);
            if (!carries) break;  // nothing lies above it: wherever else it went, the others fail as well
        }
        cause_ = why;
        return false;
    }

    // The same lifetime and size as one that was tried here.
    [[nodiscard]] bool repeats(std::size_t first, std::size_t at) const {
        block const& b = blocks_[candidates_[at].block];
        return std::any_of(candidates_.begin() + static_cast<std::ptrdiff_t>(first),
                           candidates_.begin() + static_cast<std::ptrdiff_t>(at), [&](candidate const& c) {
                               block const& o = blocks_[c.block];
                               return o.first == b.first && o.last == b.last && o.size == b.size;
                           });
    }
    // It would come to lie on one of the same lifetime, and they could be swapped: tried in the order of rank only.
    [[nodiscard]] bool lies_on_its_equal(block const& b) const {
        for (index at = members_begin_[b.first]; at != members_begin_[b.first + 1]; ++at) {
            block const& o = blocks_[members_[at]];
            if (o.is_placed && o.first == b.first && o.last == b.last && o.rank > b.rank &&
                o.lowest + o.size == b.lowest)
                return true;
        }
        return false;
    }

    // What is left of a piece after a step: as it is, or in the pieces that the step made of it.
    template <class IsOver>
    bool search_rest(piece const& p, step const& last, IsOver& is_over) {
        return splits_ ? split(p, last, is_over) : descend(p, last, is_over);
    }

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
        changed_ = {p.first, p.last - 1};
        return descend(p, step{}, is_over);
    }

    // Pushes the stretches that no waiting block crosses the ends of, with their items, the smallest first.
    void find_pieces(piece const& p) {
        std::size_t const mark = pieces_.size();
        for (index s = p.first; s != p.last;) {
            index const first = s;
            while (sections_[s].crossing != 0) ++s;
            if (sections_[s++].count != 0) pieces_.push_back({first, s, 0, 0});
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
                block const& b = blocks_[i];
                if (!b.is_placed && pieces_[at].first <= b.first && b.last <= pieces_[at].last)
                    items_.push_back(i);
            }
            pieces_[at].end = items_.size();
        }
        std::sort(pieces_.begin() + static_cast<std::ptrdiff_t>(mark), pieces_.end(),
                  [](piece const& a, piece const& b) { return a.end - a.begin < b.end - b.begin; });
    }

    // A piece by itself. In the attempts that go deeper it has attempts of its own, with preferences of its own; when
    // none of them ends in time it counts as failed, which is a guess.
    template <class IsOver>
    bool search_piece(piece p, IsOver& is_over) {
        if (depth_ == most_depth_ || p.end - p.begin < smallest_piece) return descend_afresh(p, is_over);
        std::vector<index> ranks;
        for (std::size_t at = p.begin; at != p.end; ++at) ranks.push_back(blocks_[items_[at]].rank);
        ++depth_;
        bool const found = attempt_piece(p, is_over);
        --depth_;
        for (std::size_t at = p.begin; at != p.end; ++at) blocks_[items_[at]].rank = ranks[at - p.begin];
        return found;
    }
    template <class IsOver>
    bool attempt_piece(piece const& p, IsOver& is_over) {
        std::size_t const mark = undo_.size();
        for (std::uint64_t attempt = 1; attempt <= 16; ++attempt) {
            std::uint64_t const granted = std::min(steps_left_, first_steps * luby(attempt));
            std::uint64_t const kept = steps_left_ - granted;
            steps_left_ = granted;
            if (attempt != 1) {
                draw_keys(p);
                rank(p);
            }
            bool const found = descend_afresh(p, is_over);
            steps_left_ += kept;
            if (found || !cut_short_ || kept == 0 || is_over()) return found;
            undo_to(mark);
            cut_short_ = false;
        }
        skipped_ = true;
        cause_ = {p.first, p.last - 1};
        return false;
    }

    static constexpr std::uint64_t first_steps = 500;
    static constexpr std::size_t smallest_piece = 12;

    std::vector<section> sections_;
    std::vector<std::uint64_t> floors_;   // of sections: where the next block can begin at the earliest
    std::vector<std::uint64_t> waiting_;  // of sections: bytes of waiting blocks
    std::vector<stretch> causes_;         // of sections: what the height of the floor follows from
    std::vector<double> broke_;           // how often the floor of a section went too high
    std::vector<block> blocks_;
    std::vector<logarithms> logs_;
    std::vector<double> keys_, far_keys_;  // what ranks follow from; those of the attempt that went furthest
    double far_ = 0, furthest_ = 0, placed_ = 0;  // in blocks: ever, in this attempt, now
    std::vector<index> members_begin_, members_;  // of sections
    std::vector<std::size_t> neighbours_begin_;   // of blocks: what lives at the same time
    std::vector<index> neighbours_;
    std::vector<index> items_;  // stacks, by depth of the search
    std::vector<candidate> candidates_;
    std::vector<piece> pieces_;
    std::vector<undo_step> undo_;
    repeatable_numbers numbers_;
    std::uint64_t capacity_ = 0;
    std::uint64_t steps_ = 0, steps_left_ = 0;
    stretch cause_{0, 0};    // of the last failure
    stretch changed_{0, 0};  // by the last step: where a witness may have gone
    bool splits_ =
        false;  // the last step took the last block of a section, or the last that crossed to the next
    int depth_ = 0, most_depth_ = 0;
    bool is_complete_ = false;
    bool cut_short_ = false;  // the attempt ended before it knew
    bool skipped_ = false;    // it left out what might have worked
};

}  // namespace cuota::inline v0::detail
