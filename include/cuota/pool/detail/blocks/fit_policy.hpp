// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Fit policy: tight fits against waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>
#include <cuota/pool/detail/blocks/stream_order.hpp>

namespace cuota::inline v0::detail {

/// Requirements on a block.
struct block_requirements {
    std::size_t size;
    std::size_t alignment = block::granularity;

    [[nodiscard]] bool fits(block const& b) const noexcept;
    /// Returns a request that fits at any start address.
    [[nodiscard]] block_requirements anywhere() const noexcept;
};

/// How much larger than the tightest fit a block may be to save waits.
enum class fit_slack { same_size_if_small, quarter };

/// In bench/fragmentation.cpp a quarter causes no refusal at 60 % live, and some at 70 %; so it is used below 5/8.
[[nodiscard]] constexpr fit_slack slack_for(std::size_t allocated, std::size_t reserved) noexcept {
    return allocated < 5 * (reserved / 8 + 1) ? fit_slack::quarter : fit_slack::same_size_if_small;
}

/// Returns, among the free blocks that fit about equally, the one with the fewest waits; if that is not available,
/// choose_available_block(). Throws: cuda_error.
/// Cost: visits up to 16 blocks, or one if it needs no wait.
[[nodiscard]] block* choose_block(block_index const& blocks, stream_order& order,
                                  block_requirements const& needed, std::uint32_t stream, fit_slack slack);

/// Returns whether `stream` can wait for the block's pending work.
[[nodiscard]] bool is_available(block const& b, stream_order const& order, std::uint32_t stream);
/// Returns the tightest available block among the first 16 that fit, or null. Throws: cuda_error.
[[nodiscard]] block* choose_available_block(block_index const& blocks, stream_order const& order,
                                            block_requirements const& needed, std::uint32_t stream);

/// Returns a free block of exactly this size, otherwise that at the lowest address, among those that fit and that `stream` need not wait for;
/// null if none is. So memory at high addresses stays free in large pieces. Cost: O(free blocks of at least the size).
[[nodiscard]] block* choose_lowest(block_index const& blocks, stream_order const& order,
                                   block_requirements const& needed, std::uint32_t stream) noexcept;

/// Returns a block beside persistent ones, if possible, otherwise the largest; null if none fits. Cost: visits up to 32 blocks.
[[nodiscard]] block* choose_block_to_keep(block_index const& blocks,
                                          block_requirements const& needed) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool block_requirements::fits(block const& b) const noexcept {
    return alignment <= block::granularity || block_index::skipped_for(alignment, b.at()) <= b.size - size;
}

CUOTA_INLINE block_requirements block_requirements::anywhere() const noexcept {
    std::size_t const skipped = alignment > block::granularity ? alignment - block::granularity : 0;
    return {checked_add(size, skipped).value_or(unlimited)};
}

CUOTA_INLINE block* choose_block(block_index const& blocks, stream_order& order,
                                 block_requirements const& needed, std::uint32_t stream, fit_slack slack) {
    constexpr int looked_at = 16;
    constexpr std::size_t many_of_one_size = 16'384;
    auto const waits_for_nothing = [&](block const& b) {
        bool ordered = true;
        b.waits.for_each([&](wait_point point) { ordered = ordered && order.is_ordered(point, stream); });
        return ordered;
    };
    block* const tightest = blocks.first_fit(needed.size);
    if (!tightest || (needed.fits(*tightest) && waits_for_nothing(*tightest))) return tightest;
    // 0: no wait; 1: no wait after querying an event; otherwise 1 + waits.
    auto const rank_of = [&](block const& b) {
        bool looked = false;
        int waits = 0;
        b.waits.for_each([&](wait_point point) {
            if (order.is_ordered(point, stream)) return;
            looked = true;
            waits += !order.is_ready(point, stream);
        });
        return looked + waits;
    };
    auto const too_large_beside = [&](std::size_t least) {
        if (slack == fit_slack::quarter) return least + least / 4;
        return least + (least < many_of_one_size ? 1 : 0);
    };
    block* best = nullptr;
    int best_rank = 0;
    int seen = 0;
    std::size_t too_large = 0;
    blocks.for_each_fit(needed.size, [&](block& b) {
        if (!needed.fits(b)) return ++seen != looked_at;
        if (!best) too_large = too_large_beside(b.size);
        else if (b.size >= too_large) return false;
        if (int const rank = rank_of(b); !best || rank < best_rank) {
            best = &b;
            best_rank = rank;
        }
        return best_rank != 0 && ++seen != looked_at;
    });
    return !best || is_available(*best, order, stream)
               ? best
               : choose_available_block(blocks, order, needed, stream);
}

CUOTA_INLINE block* choose_lowest(block_index const& blocks, stream_order const& order,
                                  block_requirements const& needed, std::uint32_t stream) noexcept {
    block* lowest = nullptr;
    blocks.for_each_fit(needed.size, [&](block& b) {
        bool is_usable = needed.fits(b);
        b.waits.for_each([&](wait_point point) { is_usable = is_usable && order.is_ordered(point, stream); });
        if (is_usable && (!lowest || b.at() < lowest->at())) lowest = &b;
        return !lowest || lowest->size != needed.size;  // the first ones are the smallest
    });
    return lowest;
}

CUOTA_INLINE bool is_available(block const& b, stream_order const& order, std::uint32_t stream) {
    bool can = true;
    b.waits.for_each([&](wait_point point) {
        can = can && (order.is_ordered(point, stream) || order.can_be_waited_for(point));
    });
    return can;
}

CUOTA_INLINE block* choose_available_block(block_index const& blocks, stream_order const& order,
                                           block_requirements const& needed, std::uint32_t stream) {
    constexpr int looked_at = 16;
    block* chosen = nullptr;
    int seen = 0;
    blocks.for_each_fit(needed.size, [&](block& b) {
        if (needed.fits(b) && is_available(b, order, stream)) chosen = &b;
        return !chosen && ++seen != looked_at;
    });
    return chosen;
}

CUOTA_INLINE block* choose_block_to_keep(block_index const& blocks,
                                         block_requirements const& needed) noexcept {
    constexpr int looked_at = 16;
    auto const stays = [](block const& b) {
        return b.has_state(block::state::live) && b.note->epoch.lifetime() == lifetime_hint::persistent;
    };
    block* best = nullptr;
    int seen = 0;
    blocks.for_each_fit(needed.size, [&](block& b) {
        if (b.after && stays(*b.after) && (!b.before || stays(*b.before)) && needed.fits(b)) best = &b;
        return !best && ++seen != looked_at;
    });
    if (best) return best;
    seen = 0;
    blocks.for_each_free_from_largest([&](block& b) {
        if (b.size < needed.size) return false;
        if (!needed.fits(b)) return ++seen != looked_at;
        bool const is_beside = !b.before || b.before->is_hole() || stays(*b.before);
        if (!best || is_beside) best = &b;
        return !is_beside && ++seen != looked_at;
    });
    return best;
}

}  // namespace cuota::inline v0::detail

#endif
