// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The order in which a search tries blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/hash_mix.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace cuota::inline v0::detail {

/// Pseudo-random numbers, the same on every platform.
class repeatable_numbers {
public:
    [[nodiscard]] std::uint64_t next() noexcept { return mix64(state_ += 0x9e37'79b9'7f4a'7c15u); }
    [[nodiscard]] double fraction() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    // This seed solves MiniMalloc's instances fast; it has no other merit.
    std::uint64_t state_ = 4;
};

/// A rank for each block of one part; low ranks are tried first.
///
/// Ranks follow from keys: powers of size, duration and the load or failures of the sections, plus noise. Half of the attempts reuse the
/// best keys.
class search_order {
public:
    using index = std::uint32_t;

    explicit search_order(lifetime_part const& part);

    [[nodiscard]] index rank(index block) const noexcept { return ranks_[block]; }

    /// Draws ranks for an attempt, from 1.
    void begin(std::uint64_t attempt);
    /// Redraws these ranks among themselves.
    void draw(std::span<index const> blocks);

    [[nodiscard]] std::vector<index> ranks(std::span<index const> blocks) const;
    void restore(std::span<index const> blocks, std::vector<index> const& ranks);

    /// The floor of this section rose too high: its blocks are tried earlier.
    void note_trouble(index section) noexcept { broke_[section] += 1; }
    void note_placed(std::size_t blocks) noexcept;

private:
    struct traits {
        index first, last;
        double size, duration, sections, fullest;  // logarithms
    };

    // Keys are in [0, 1].
    void draw_keys(std::span<index const> blocks);
    void repeat_far_keys();
    void rank_by_keys(std::span<index const> blocks);
    [[nodiscard]] double troubles(traits const& of) const;

    std::vector<traits> traits_;
    std::vector<double> broke_;            // by section: 1 + failures
    std::vector<double> keys_, far_keys_;  // of this attempt, and of the best
    std::vector<index> ranks_;
    double far_ = 0, furthest_ = 0;  // placed by the best attempt (decaying), and by this
    repeatable_numbers numbers_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE search_order::search_order(lifetime_part const& part)
    : broke_(part.sections, 1), keys_(part.blocks.size(), 0), ranks_(part.blocks.size(), 0) {
    std::vector<std::size_t> const alive = part.alive();
    for (sectioned_block const& b : part.blocks) {
        auto const fullest = *std::max_element(alive.begin() + b.first, alive.begin() + b.last);
        traits_.push_back({b.first, b.last, std::log(static_cast<double>(b.size) + 1), std::log(b.duration),
                           std::log(static_cast<double>(b.last - b.first)),
                           std::log(static_cast<double>(fullest) + 1)});
    }
}

CUOTA_INLINE void search_order::begin(std::uint64_t attempt) {
    std::vector<index> all(ranks_.size());
    std::iota(all.begin(), all.end(), 0U);
    if (attempt > 1 && furthest_ >= far_) {
        far_ = furthest_;
        far_keys_ = keys_;
    }
    far_ *= 0.99;  // older attempts count less
    furthest_ = 0;
    if (attempt % 2 != 0 || far_keys_.empty()) draw_keys(all);
    else repeat_far_keys();
    rank_by_keys(all);
}

CUOTA_INLINE void search_order::draw(std::span<index const> blocks) {
    draw_keys(blocks);
    rank_by_keys(blocks);
}

CUOTA_INLINE auto search_order::ranks(std::span<index const> blocks) const -> std::vector<index> {
    std::vector<index> all;
    for (index const i : blocks) all.push_back(ranks_[i]);
    return all;
}

CUOTA_INLINE void search_order::restore(std::span<index const> blocks, std::vector<index> const& ranks) {
    for (std::size_t at = 0; at != blocks.size(); ++at) ranks_[blocks[at]] = ranks[at];
}

CUOTA_INLINE void search_order::note_placed(std::size_t blocks) noexcept {
    furthest_ = std::max(furthest_, static_cast<double>(blocks));
}

CUOTA_INLINE void search_order::draw_keys(std::span<index const> blocks) {
    double const size = numbers_.fraction(), duration = numbers_.fraction();
    double const noise = 0.3 * numbers_.fraction();
    bool const by_steps = numbers_.next() % 2 == 0;
    auto const kind = numbers_.next() % 3;
    double const heat = kind == 0 ? 0 : (kind == 1 ? 20 : 2) * numbers_.fraction();
    double lowest = std::numeric_limits<double>::max(), highest = -lowest;
    for (index const i : blocks) {
        traits const& log = traits_[i];
        double const hot = kind == 1 ? log.fullest : kind == 2 ? std::log(troubles(log)) : 0;
        keys_[i] = -(size * log.size + duration * (by_steps ? log.duration : log.sections) + heat * hot +
                     noise * numbers_.fraction());
        lowest = std::min(lowest, keys_[i]);
        highest = std::max(highest, keys_[i]);
    }
    for (index const i : blocks) keys_[i] = (keys_[i] - lowest) / (highest - lowest + 1e-9);
}

CUOTA_INLINE void search_order::repeat_far_keys() {
    double const noise = 0.2 * std::pow(numbers_.fraction(), 3);
    for (std::size_t i = 0; i != keys_.size(); ++i) keys_[i] = far_keys_[i] + noise * numbers_.fraction();
}

CUOTA_INLINE void search_order::rank_by_keys(std::span<index const> blocks) {
    std::vector<index> order(blocks.begin(), blocks.end());
    std::sort(order.begin(), order.end(),
              [&](index a, index b) { return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b; });
    for (index at = 0; at != order.size(); ++at) ranks_[order[at]] = at;
}

CUOTA_INLINE double search_order::troubles(traits const& of) const {
    return *std::max_element(broke_.begin() + of.first, broke_.begin() + of.last);
}

}  // namespace cuota::inline v0::detail

#endif
