// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The skyline of the placed blocks of a partial plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace cuota::inline v0::detail {

/// Each block is placed on the highest block below it.
///
/// Each section has a floor, the lowest offset for its next block, and the bytes of its waiting blocks. If floor + waiting > capacity, the
/// plan cannot be completed. A floor also rises to the lowest offset possible for any waiting block. Nothing outside of its cause, a range
/// of sections, affects it.
class packing_skyline {
public:
    using index = std::uint32_t;
    static constexpr index no_index = std::numeric_limits<index>::max();

    /// Sections, both ends included.
    struct stretch {
        index first, last;

        void add(stretch other) noexcept;
        [[nodiscard]] bool meets(stretch other) const noexcept;
        friend bool operator==(stretch const&, stretch const&) noexcept = default;
    };
    struct block {
        index first, last;  // lives in [first, last)
        bool is_placed;
        std::uint64_t size;
        std::uint64_t lowest;  // lowest possible offset

        [[nodiscard]] stretch span() const noexcept { return {first, last - 1}; }
        [[nodiscard]] bool is_equal_to(block const& other) const noexcept;
    };
    struct placement {
        bool carries;  // a waiting block overlaps it in time
        // the last waiting block of a section, or the last that extends into the next
        bool splits;
        stretch changed;  // where floors may have to rise
    };

    /// Starts cleared, with the fullest section's bytes as capacity. Sizes, cost: as packing_search.
    explicit packing_skyline(lifetime_part const& part);

    void clear(std::uint64_t capacity);

    [[nodiscard]] std::vector<block> const& blocks() const noexcept { return blocks_; }
    [[nodiscard]] block const& operator[](index i) const noexcept { return blocks_[i]; }
    [[nodiscard]] std::size_t placed() const noexcept { return placed_; }
    [[nodiscard]] index sections() const noexcept { return static_cast<index>(sections_.size()); }
    [[nodiscard]] std::uint64_t floor(index s) const noexcept { return floors_[s]; }
    [[nodiscard]] stretch cause(index s) const noexcept { return causes_[s]; }
    [[nodiscard]] std::uint64_t waiting(index s) const noexcept { return waiting_[s]; }
    [[nodiscard]] bool has_waiting(index s) const noexcept { return sections_[s].count != 0; }
    /// Whether a waiting block extends into the next section.
    [[nodiscard]] bool is_crossed(index s) const noexcept { return sections_[s].crossing != 0; }

    /// Calls f for the section's blocks until it returns true; returns that.
    template <class F>
    bool any_member(index s, F f) const {
        for (index at = members_begin_[s]; at != members_begin_[s + 1]; ++at)
            if (f(members_[at])) return true;
        return false;
    }

    /// Places a waiting block at its lowest offset.
    placement place(index i);

    /// Raises floors in `within` and `changed` to the lowest offsets of waiting blocks; none will be placed below `bottom`. Returns the
    /// first section of `within` where they do not fit, or `no_index`.
    [[nodiscard]] index raise_floors(stretch within, stretch changed, std::uint64_t bottom);

    /// A position for `undo_to`.
    [[nodiscard]] std::size_t mark() const noexcept { return undo_.size(); }
    void undo_to(std::size_t mark);

private:
    struct section {
        index count = 0;           // waiting blocks
        index crossing = 0;        // those that extend into the next section
        index witness = no_index;  // a waiting block that can lie on the floor
    };
    enum class change { floor, cause, witness, lowest, placed };
    struct undo_step {
        change what;
        index where;
        std::uint64_t value;
    };

    void find_members();
    void find_neighbours();

    void add_waiting(block const& b);
    // Returns placement::splits.
    bool take_waiting(block const& b);
    void set_floor(index s, std::uint64_t floor);
    void add_cause(index s, stretch more);

    // Where the block lies above the floor, the cause is a section where it lies on it.
    void blame_support(block const& b);
    [[nodiscard]] stretch reach(index s, index wall) const;

    [[nodiscard]] bool has_witness(index s, std::uint64_t bottom) const;
    void find_witness(index s, std::uint64_t bottom);
    // No waiting block fits below that height: adds the nearest obstacle of each to the cause.
    void blame_walls(index s, std::uint64_t height);
    [[nodiscard]] stretch nearest_wall(index s, block const& b, std::uint64_t height) const;

    std::vector<block> blocks_;
    std::vector<section> sections_;
    std::vector<std::uint64_t> floors_;  // by section, as the next three lines
    std::vector<std::uint64_t> waiting_;
    std::vector<stretch> causes_;
    std::vector<index> members_begin_, members_;
    std::vector<std::size_t> neighbours_begin_;  // by block: those that overlap in time
    std::vector<index> neighbours_;
    std::vector<undo_step> undo_;
    std::uint64_t capacity_ = 0;
    std::size_t placed_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void packing_skyline::stretch::add(stretch other) noexcept {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
}

CUOTA_INLINE bool packing_skyline::stretch::meets(stretch other) const noexcept {
    return first <= other.last && other.first <= last;
}

CUOTA_INLINE bool packing_skyline::block::is_equal_to(block const& other) const noexcept {
    return first == other.first && last == other.last && size == other.size;
}

CUOTA_INLINE packing_skyline::packing_skyline(lifetime_part const& part)
    : sections_(part.sections), floors_(part.sections), waiting_(part.sections), causes_(part.sections) {
    for (sectioned_block const& from : part.blocks)
        blocks_.push_back({from.first, from.last, false, from.size, 0});
    find_members();
    find_neighbours();
    clear(part.most_alive);
}

CUOTA_INLINE void packing_skyline::clear(std::uint64_t capacity) {
    capacity_ = capacity;
    std::fill(sections_.begin(), sections_.end(), section{});
    std::fill(floors_.begin(), floors_.end(), 0U);
    std::fill(waiting_.begin(), waiting_.end(), 0U);
    for (index s = 0; s != sections(); ++s) causes_[s] = {s, s};
    for (block& b : blocks_) {
        b.is_placed = false;
        b.lowest = 0;
        add_waiting(b);
    }
    undo_.clear();
    placed_ = 0;
}

CUOTA_INLINE auto packing_skyline::place(index i) -> placement {
    block& b = blocks_[i];
    blame_support(b);
    b.is_placed = true;
    ++placed_;
    undo_.push_back({change::placed, i, 0});
    placement result{false, take_waiting(b), b.span()};
    std::uint64_t const end = b.lowest + b.size;
    for (index s = b.first; s != b.last; ++s) set_floor(s, end);
    for (std::size_t at = neighbours_begin_[i]; at != neighbours_begin_[i + 1]; ++at) {
        block& other = blocks_[neighbours_[at]];
        if (other.is_placed) continue;
        result.carries = true;
        if (other.lowest >= end) continue;
        undo_.push_back({change::lowest, neighbours_[at], other.lowest});
        other.lowest = end;
        result.changed.add(other.span());
    }
    return result;
}

CUOTA_INLINE auto packing_skyline::raise_floors(stretch within, stretch changed, std::uint64_t bottom)
    -> index {
    index const last = std::min(within.last, changed.last);
    for (index s = std::max(within.first, changed.first); s <= last; ++s)
        if (has_waiting(s) && !has_witness(s, bottom)) find_witness(s, bottom);
    for (index s = within.first; s <= within.last; ++s)
        if (std::max(floors_[s], bottom) + waiting_[s] > capacity_ && has_waiting(s)) return s;
    return no_index;
}

CUOTA_INLINE void packing_skyline::undo_to(std::size_t mark) {
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

CUOTA_INLINE void packing_skyline::find_members() {
    std::vector<index> counts(sections_.size() + 1, 0);
    for (block const& b : blocks_)
        for (index s = b.first; s != b.last; ++s) ++counts[s + 1];
    std::partial_sum(counts.begin(), counts.end(), counts.begin());
    members_begin_ = counts;
    members_.resize(counts.back());
    for (index i = 0; i != blocks_.size(); ++i)
        for (index s = blocks_[i].first; s != blocks_[i].last; ++s) members_[counts[s]++] = i;
}

CUOTA_INLINE void packing_skyline::find_neighbours() {
    for (index i = 0; i != blocks_.size(); ++i) {
        neighbours_begin_.push_back(neighbours_.size());
        for (index other = 0; other != blocks_.size(); ++other)
            if (other != i && blocks_[other].span().meets(blocks_[i].span())) neighbours_.push_back(other);
    }
    neighbours_begin_.push_back(neighbours_.size());
}

CUOTA_INLINE void packing_skyline::add_waiting(block const& b) {
    for (index s = b.first; s != b.last; ++s) {
        waiting_[s] += b.size;
        ++sections_[s].count;
        if (s + 1 != b.last) ++sections_[s].crossing;
    }
}

CUOTA_INLINE bool packing_skyline::take_waiting(block const& b) {
    bool splits = false;
    for (index s = b.first; s != b.last; ++s) {
        waiting_[s] -= b.size;
        --sections_[s].count;
        splits |= sections_[s].count == 0;
        if (s + 1 != b.last) splits |= --sections_[s].crossing == 0;
    }
    return splits;
}

CUOTA_INLINE void packing_skyline::set_floor(index s, std::uint64_t floor) {
    undo_.push_back({change::floor, s, floors_[s]});
    floors_[s] = floor;
}

CUOTA_INLINE void packing_skyline::add_cause(index s, stretch more) {
    stretch& cause = causes_[s];
    if (more.first >= cause.first && more.last <= cause.last) return;
    undo_.push_back({change::cause, s, std::uint64_t{cause.first} << 32 | cause.last});
    cause.add(more);
}

CUOTA_INLINE void packing_skyline::blame_support(block const& b) {
    index support = b.first;
    while (support + 1 != b.last && floors_[support] < b.lowest) ++support;
    for (index s = b.first; s != b.last; ++s)
        if (floors_[s] >= b.lowest) support = s;
        else add_cause(s, reach(s, support));
}

CUOTA_INLINE auto packing_skyline::reach(index s, index wall) const -> stretch {
    stretch all = causes_[wall];
    all.add({std::min(s, wall), std::max(s, wall)});
    return all;
}

CUOTA_INLINE bool packing_skyline::has_witness(index s, std::uint64_t bottom) const {
    if (sections_[s].witness == no_index) return false;
    block const& b = blocks_[sections_[s].witness];
    return !b.is_placed && b.lowest <= std::max(floors_[s], bottom);
}

CUOTA_INLINE void packing_skyline::find_witness(index s, std::uint64_t bottom) {
    std::uint64_t const floor = std::max(floors_[s], bottom);
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    undo_.push_back({change::witness, s, sections_[s].witness});
    any_member(s, [&](index i) {
        block const& b = blocks_[i];
        if (b.is_placed || b.lowest >= lowest) return false;
        lowest = b.lowest;
        sections_[s].witness = i;
        return lowest <= floor;
    });
    if (lowest <= floor) return;
    blame_walls(s, lowest);
    set_floor(s, lowest);
}

CUOTA_INLINE void packing_skyline::blame_walls(index s, std::uint64_t height) {
    stretch all{s, s};
    any_member(s, [&](index i) {
        if (!blocks_[i].is_placed) all.add(nearest_wall(s, blocks_[i], height));
        return false;
    });
    add_cause(s, all);
}

CUOTA_INLINE auto packing_skyline::nearest_wall(index s, block const& b, std::uint64_t height) const
    -> stretch {
    for (index away = 1; away < b.last - b.first; ++away) {
        if (s >= b.first + away && floors_[s - away] >= height) return reach(s, s - away);
        if (s + away < b.last && floors_[s + away] >= height) return reach(s, s + away);
    }
    return b.span();
}

}  // namespace cuota::inline v0::detail

#endif
