// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where to map pages for a request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>
#include <cuota/pool/detail/growth/mapping_table.hpp>

namespace cuota::inline v0::detail {

/// Adjacent free blocks and holes; the parts in holes are whole pages.
struct growth_candidate {
    block* first = nullptr;  ///< contains `at`
    std::byte* at = nullptr;
    std::byte* end = nullptr;
    std::size_t missing = 0;  ///< bytes to map
    std::size_t idle = 0;     ///< bytes of whole mappings in its free blocks
    mapping_sizes sizes{};
};

/// The cost to minimize: `missing`, or `missing + idle` when pages must be unmapped elsewhere.
enum class growth_aim { least_missing, least_in_all };

[[nodiscard]] constexpr std::size_t cost_of(growth_candidate const& g, growth_aim aim) noexcept {
    return aim == growth_aim::least_missing ? g.missing : g.missing + g.idle;
}

/// Returns the window from the start of `first`; nothing if a block in it is in use.
[[nodiscard]] std::optional<growth_candidate> window_from(block_index const& blocks, block& first,
                                                          std::size_t size);

/// Returns the window up to the end of `last`, which must not be the last of the range.
[[nodiscard]] std::optional<growth_candidate> window_up_to(block_index const& blocks, block& last,
                                                           std::size_t size);

/// Returns the cheapest window, at the lowest address, if any. Those that begin or end with a free block or lie in one hole suffice: no
/// other costs less. Cost: O(holes * holes per window).
[[nodiscard]] std::optional<growth_candidate> choose_window(block_index const& blocks, std::size_t size,
                                                            growth_aim aim);

/// Returns the longest window from the start of `first` with at most `spent` bytes of pages, free ones included.
[[nodiscard]] std::size_t longest_from(block_index const& blocks, block const& first, std::size_t spent);

/// Returns the same up to the end of `last`, which must not be the last of the range.
[[nodiscard]] std::size_t longest_up_to(block_index const& blocks, block const& last, std::size_t spent);

/// Returns the largest request that `spent` bytes of pages, free ones included, can serve. Cost: as choose_window.
[[nodiscard]] std::size_t largest_window(block_index const& blocks, std::size_t spent);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::optional<growth_candidate> window_from(block_index const& blocks, block& first,
                                                         std::size_t size) {
    growth_candidate g{&first, first.at(), first.at(), 0, 0};
    for (block* b = &first; b; b = b->after) {
        std::size_t had = 0;
        if (b->is_hole()) {
            std::size_t const usable = b->after ? b->size : b->size - blocks.page();
            had = std::min(round_up(size, blocks.page()), usable);
            g.missing += had;
        } else if (b->may_merge()) {
            had = std::min(size, b->size);
            g.idle += blocks.mapped_whole(b->at(), b->end()) - blocks.mapped_whole(b->at() + had, b->end());
        } else {
            return std::nullopt;
        }
        g.end = b->at() + had;
        if (had >= size) return g;
        size -= had;
    }
    return std::nullopt;
}

CUOTA_INLINE std::optional<growth_candidate> window_up_to(block_index const& blocks, block& last,
                                                          std::size_t size) {
    growth_candidate g{&last, last.end(), last.end(), 0, 0};
    for (block* b = &last; b; b = b->before) {
        std::size_t had = 0;
        if (b->is_hole()) {
            had = std::min(round_up(size, blocks.page()), b->size);
            g.missing += had;
        } else if (b->may_merge()) {
            had = std::min(size, b->size);
            g.idle += blocks.mapped_whole(b->at(), b->end()) - blocks.mapped_whole(b->at(), b->end() - had);
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

CUOTA_INLINE std::optional<growth_candidate> choose_window(block_index const& blocks, std::size_t size,
                                                           growth_aim aim) {
    std::optional<growth_candidate> best;
    auto const consider = [&](std::optional<growth_candidate> const& g) {
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

CUOTA_INLINE std::size_t longest_from(block_index const& blocks, block const& first, std::size_t spent) {
    std::size_t length = 0;
    for (block const* b = &first; b && (b->is_hole() || b->may_merge()); b = b->after) {
        std::size_t const pages = b->after ? blocks.mapped_whole(b->at(), b->end()) : b->size - blocks.page();
        if (pages > spent || !b->after) {
            // The part of a mapping before the first whole one is in use.
            auto const at = reinterpret_cast<std::uintptr_t>(b->at());
            std::uintptr_t const whole = blocks.mappings().edge_from(at);
            return length + blocks.mappings().edge_up_to(whole + std::min(pages, spent)) - at;
        }
        length += b->size;
        spent -= pages;
    }
    return length;
}

CUOTA_INLINE std::size_t longest_up_to(block_index const& blocks, block const& last, std::size_t spent) {
    std::size_t length = 0;
    for (block const* b = &last; b && (b->is_hole() || b->may_merge()); b = b->before) {
        std::size_t const pages = blocks.mapped_whole(b->at(), b->end());
        if (pages > spent) {
            auto const end = reinterpret_cast<std::uintptr_t>(b->end());
            return length + end - blocks.mappings().edge_from(blocks.mappings().edge_up_to(end) - spent);
        }
        length += b->size;
        spent -= pages;
    }
    return length;
}

CUOTA_INLINE std::size_t largest_window(block_index const& blocks, std::size_t spent) {
    if (blocks.page() == 0) return 0;
    spent = round_down(spent, blocks.page());
    std::size_t most = 0;
    blocks.for_each_hole([&](block const& hole) {
        bool const is_after_free = hole.before && hole.before->may_merge();
        most = std::max(most, longest_from(blocks, is_after_free ? *hole.before : hole, spent));
        if (hole.after)
            most = std::max(most, longest_up_to(blocks, hole.after->may_merge() ? *hole.after : hole, spent));
    });
    return most;
}

}  // namespace cuota::inline v0::detail

#endif
