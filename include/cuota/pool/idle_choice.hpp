// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a pool gives back when it shall have less: pages and segments that nothing lives in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/pool/block_index.hpp>

namespace cuota::inline v0::detail {

/// Addresses that shall keep their memory: where somebody is about to grow.
struct kept_addresses {
    std::byte const* at = nullptr;
    std::byte const* end = nullptr;
    std::size_t idle = 0;  ///< of whole pages in free blocks there. Bytes

    [[nodiscard]] bool touches(block const& b) const noexcept { return at < b.end() && b.at() < end; }
};

/// A whole segment, or pages in a free block.
struct idle_memory {
    block* in = nullptr;
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    bool is_paged = false;
};

/// The smallest whole segment of at least `size` bytes, else the largest one; null when there is none.
[[nodiscard]] block* choose_segment(block_index const& blocks, std::size_t size);

/// Whole pages in one free block, at most `most` bytes, and none that are kept: of the smallest block that has any, so that
/// large ones stay whole. At the edge where there is a hole, so that no more of those come about.
[[nodiscard]] std::optional<idle_memory> choose_pages(block_index const& blocks, std::size_t most,
                                                      kept_addresses const& kept);

/// What serves best to give back `surplus` bytes, the first of perhaps several: whole pages while there are as many to give,
/// then the smallest that covers the rest, a segment or a page; the largest segment where none does. So no more is given than
/// has to be, of what a pool can give at a time.
[[nodiscard]] std::optional<idle_memory> choose_idle(block_index const& blocks, std::size_t surplus,
                                                     kept_addresses const& kept);

/// What comes of asking by choose_idle until `wanted` bytes are given, or all. Bytes.
[[nodiscard]] std::size_t could_be_idle(block_index const& blocks, std::size_t wanted,
                                        kept_addresses const& kept) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE

namespace cuota::inline v0::detail {

CUOTA_INLINE block* choose_segment(block_index const& blocks, std::size_t size) {
    block* chosen = nullptr;
    blocks.for_each_fit(size, [&](block& b) {
        if (b.is_whole_segment()) chosen = &b;
        return !chosen;
    });
    if (chosen) return chosen;
    blocks.for_each_free_from_largest([&](block& b) {
        if (b.is_whole_segment()) chosen = &b;
        return !chosen;
    });
    return chosen;
}

CUOTA_INLINE std::optional<idle_memory> choose_pages(block_index const& blocks, std::size_t most,
                                                     kept_addresses const& kept) {
    std::optional<idle_memory> chosen;
    std::size_t const page = blocks.page();
    blocks.for_each_fit(page, [&](block& b) {
        std::byte* from = b.at();
        std::byte* to = b.end();
        if (kept.touches(b)) {
            if (kept.at <= b.at()) from = b.at() + std::min<std::ptrdiff_t>(kept.end - b.at(), to - from);
            else to = b.at() + (kept.at - b.at());
        }
        std::size_t const idle = blocks.pages_between(from, to);
        if (idle == 0) return true;
        std::size_t const bytes = std::min(idle, round_down(most, page));
        std::size_t const skipped =
            round_up(reinterpret_cast<std::uintptr_t>(from), page) - reinterpret_cast<std::uintptr_t>(from);
        std::byte* at = from + skipped;
        bool const at_start = b.before && b.before->is_hole();
        if (!at_start) at += idle - bytes;
        chosen = idle_memory{&b, at, bytes, true};
        return false;
    });
    return chosen;
}

CUOTA_INLINE std::optional<idle_memory> choose_idle(block_index const& blocks, std::size_t surplus,
                                                    kept_addresses const& kept) {
    std::size_t const page = blocks.page();
    bool const has_pages = blocks.free_pages() > kept.idle;
    if (has_pages && surplus >= page)
        if (auto const pages = choose_pages(blocks, surplus, kept)) return pages;
    block* const segment = choose_segment(blocks, surplus);
    if (has_pages && (!segment || segment->size < surplus || segment->size > page))
        if (auto const one = choose_pages(blocks, page, kept)) return one;
    if (!segment) return std::nullopt;
    return idle_memory{segment, segment->at(), segment->size, false};
}

CUOTA_INLINE std::size_t could_be_idle(block_index const& blocks, std::size_t wanted,
                                       kept_addresses const& kept) noexcept {
    std::size_t const page = blocks.page();
    std::size_t const pages = blocks.free_pages() - std::min(blocks.free_pages(), kept.idle);
    std::size_t given = page == 0 ? 0 : std::min(pages, round_down(wanted, page));
    bool const one_more = given < pages;
    bool some_cover = one_more;
    // The largest segments while one does not do, then the smallest that does.
    if (!one_more)
        blocks.for_each_free_from_largest([&](block const& b) {
            some_cover = given < wanted && b.is_whole_segment() && b.size >= wanted - given;
            if (given >= wanted || some_cover) return false;
            if (b.is_whole_segment()) given += b.size;
            return true;
        });
    if (given >= wanted || !some_cover) return given;
    block const* const segment = choose_segment(blocks, wanted - given);
    bool const covers = segment && segment->size >= wanted - given;
    if (one_more && (!covers || segment->size > page)) return given + page;
    return given + segment->size;
}

}  // namespace cuota::inline v0::detail

#endif
