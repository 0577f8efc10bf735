// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where a range of pages gets memory for a request that no free block fits: beside what is free already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/block_index.hpp>

namespace cuota::inline v0::detail {

/// Addresses of free blocks and holes side by side, of whole pages where they are of holes.
struct grow_window {
    block* first = nullptr;  ///< in it lies `at`
    std::byte* at = nullptr;
    std::byte* end = nullptr;
    std::size_t missing = 0;  ///< what has to be mapped
    std::size_t idle = 0;     ///< what could be unmapped of it instead: whole pages in free blocks
};

/// `missing` is what a growth costs. But of the least in all fewer pages are in use afterwards: when the pages that lie
/// free elsewhere are what can be spent, that is what counts.
enum class growth_aim { least_missing, least_in_all };

[[nodiscard]] constexpr std::size_t cost_of(grow_window const& g, growth_aim aim) noexcept {
    return aim == growth_aim::least_missing ? g.missing : g.missing + g.idle;
}

/// The window of `size` bytes that begins where `first` does; nothing when something lives in it.
[[nodiscard]] inline std::optional<grow_window> window_from(block_index const& blocks, block& first,
                                                            std::size_t size) {
    grow_window g{&first, first.at, first.at, 0, 0};
    for (block* b = &first; b; b = b->after) {
        std::size_t had = 0;
        if (b->is_hole()) {
            std::size_t const usable = b->after ? b->size : b->size - blocks.page();
            had = std::min(round_up(size, blocks.page()), usable);
            g.missing += had;
        } else if (b->may_merge()) {
            had = std::min(size, b->size);
            g.idle += blocks.pages_between(b->at, b->end()) - blocks.pages_between(b->at + had, b->end());
        } else {
            return std::nullopt;
        }
        g.end = b->at + had;
        if (had >= size) return g;
        size -= had;
    }
    return std::nullopt;
}

/// The window of `size` bytes that ends where `last` does, which is not the last one of the range.
[[nodiscard]] inline std::optional<grow_window> window_up_to(block_index const& blocks, block& last,
                                                             std::size_t size) {
    grow_window g{&last, last.end(), last.end(), 0, 0};
    for (block* b = &last; b; b = b->before) {
        std::size_t had = 0;
        if (b->is_hole()) {
            had = std::min(round_up(size, blocks.page()), b->size);
            g.missing += had;
        } else if (b->may_merge()) {
            had = std::min(size, b->size);
            g.idle += blocks.pages_between(b->at, b->end()) - blocks.pages_between(b->at, b->end() - had);
        } else {
            return std::nullopt;
        }
        g.first = b;
        g.at = b->end() - had;
        if (had >= size) return g;
        size -= had;
    }
    return std::nullopt;
}

/// The window of at least `size` bytes that costs least, at the lowest address; nothing when there are no such addresses.
/// It begins where a free block does or ends where one does, or lies in one hole: any other costs no less.
/// Cost: O(holes), times the holes that a window has.
[[nodiscard]] inline std::optional<grow_window> choose_window(block_index const& blocks, std::size_t size,
                                                              growth_aim aim) {
    std::optional<grow_window> best;
    auto const consider = [&](std::optional<grow_window> const& g) {
        if (!g) return;
        std::size_t const cost = cost_of(*g, aim);
        if (best && (cost > cost_of(*best, aim) || (cost == cost_of(*best, aim) && g->at > best->at))) return;
        best = g;
    };
    blocks.for_each_hole([&](block& hole) {
        consider(window_from(blocks, hole.before && hole.before->may_merge() ? *hole.before : hole, size));
        if (hole.after) consider(window_up_to(blocks, hole.after->may_merge() ? *hole.after : hole, size));
    });
    return best;
}

/// The largest request that fits when `spent` bytes of pages may be in use, what is idle counted among them.
/// Cost: O(holes).
[[nodiscard]] inline std::size_t largest_window(block_index const& blocks, std::size_t spent) {
    if (blocks.page() == 0) return 0;
    spent = round_down(spent, blocks.page());
    // Beside the whole pages of a free block lies a part of one, which costs nothing.
    auto const part_of = [&](block const* b) {
        return b && b->may_merge() ? b->size - blocks.pages_between(b->at, b->end()) : 0;
    };
    std::size_t most = 0;
    blocks.for_each_hole([&](block const& hole) {
        std::size_t const free = hole.before && hole.before->may_merge() ? hole.before->size : 0;
        std::size_t const addresses = hole.size - (hole.after ? 0 : blocks.page());
        most = std::max(most, std::min(part_of(hole.before) + spent, free + addresses));
    });
    return most;
}

}  // namespace cuota::inline v0::detail
