// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which idle memory to release.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>

namespace cuota::inline v0::detail {

/// Addresses where a request is about to grow.
struct kept_addresses {
    std::byte const* at = nullptr;
    std::byte const* end = nullptr;
    std::size_t idle = 0;  ///< bytes of free whole mappings

    [[nodiscard]] bool touches(block const& b) const noexcept { return at < b.end() && b.at() < end; }
};

/// A free whole segment, or adjacent mappings in a free block.
struct idle_memory {
    block* in = nullptr;
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    bool is_paged = false;
};

/// The default of the functions below: every free block may be chosen.
struct any_block {
    [[nodiscard]] constexpr bool operator()(block const&) const noexcept { return true; }
};

/// The smallest free segment of at least `size` bytes, otherwise the largest, if any.
template <class Usable = any_block>
[[nodiscard]] block* choose_segment(block_index const& blocks, std::size_t size, Usable is_usable = {}) {
    block* chosen = nullptr;
    auto const look_at = [&](block& b) {
        if (b.is_whole_segment() && is_usable(b)) chosen = &b;
        return !chosen;
    };
    blocks.for_each_fit(size, look_at);
    if (!chosen) blocks.for_each_free_from_largest(look_at);
    return chosen;
}

/// The whole mappings in a free block: from its start if a hole precedes it, otherwise from its end, so that few holes are created.
class idle_mappings {
public:
    idle_mappings(block_index const& blocks, block& in, kept_addresses const& kept) noexcept;

    [[nodiscard]] bool is_empty() const noexcept { return at_ == end_; }
    /// Takes mappings of at most `most` bytes together.
    idle_memory take(std::size_t most) noexcept;
    /// The mapping that is taken next.
    [[nodiscard]] idle_memory next() const noexcept;

private:
    [[nodiscard]] std::byte* pointer(std::uintptr_t at) const noexcept;

    mapping_table const& mappings_;
    block& in_;
    std::uintptr_t at_ = 0;
    std::uintptr_t end_ = 0;
    bool at_start_;
};

/// Which free blocks release their mappings first: the smallest, so that large ones stay whole, or the largest, which keeps the small ones for
/// requests of their sizes.
enum class idle_order { smallest_first, largest_first };

/// The idle memory to release first for `surplus` bytes, in free blocks with is_usable(block), so that the excess is small
/// (docs/design/growth.md).
template <class Usable = any_block>
[[nodiscard]] std::optional<idle_memory> choose_idle(block_index const& blocks, std::size_t surplus,
                                                     kept_addresses const& kept, Usable is_usable = {},
                                                     idle_order order = idle_order::smallest_first) {
    std::optional<idle_memory> chosen;
    std::optional<idle_memory> cover;
    auto const look_at = [&](block& b) {
        idle_mappings idle{blocks, b, kept};
        if (idle.is_empty() || !is_usable(b)) return true;
        if (auto const next = idle.next(); next.bytes > surplus) {
            if (!cover || next.bytes < cover->bytes) cover = next;
            return cover->bytes != blocks.page();  // the minimum
        }
        chosen = idle.take(surplus);
        return false;
    };
    if (blocks.free_pages() > kept.idle) {
        if (order == idle_order::smallest_first) blocks.for_each_fit(blocks.page(), look_at);
        else blocks.for_each_free_from_largest(look_at);
    }
    if (chosen) return chosen;
    block* const segment = choose_segment(blocks, surplus, is_usable);
    if (cover && (!segment || segment->size < surplus || segment->size > cover->bytes)) return cover;
    if (!segment) return std::nullopt;
    return idle_memory{segment, segment->at(), segment->size, false};
}

/// The bytes that repeated choose_idle would yield for `wanted`. Cost: O(free blocks of at least a page).
[[nodiscard]] std::size_t could_be_idle(block_index const& blocks, std::size_t wanted,
                                        kept_addresses const& kept) noexcept;

struct idle_pieces {
    std::size_t whole = 0;    ///< can be released
    std::size_t largest = 0;  ///< largest contiguous piece
};
/// Idle bytes if the live blocks with is_released(block) were free. Cost: O(blocks).
template <class Released>
[[nodiscard]] idle_pieces idle_if(block_index const& blocks, Released is_released) {
    idle_pieces found;
    blocks.for_each_row([&](block const& first, bool is_paged) {
        std::byte* from = nullptr;  // of the current piece
        for (block const* b = &first; b; b = b->after) {
            bool const is_free =
                b->has_state(block::state::free) || (b->has_state(block::state::live) && is_released(*b));
            if (is_free && !from) from = b->at();
            if (!from || (is_free && b->after)) continue;
            std::byte* const end = is_free ? b->end() : b->at();
            auto const bytes = static_cast<std::size_t>(end - from);
            found.largest = std::max(found.largest, bytes);
            if (is_paged) found.whole += blocks.mapped_whole(from, end);
            else if (from == first.at() && is_free) found.whole += bytes;
            from = nullptr;
        }
    });
    return found;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE idle_mappings::idle_mappings(block_index const& blocks, block& in,
                                          kept_addresses const& kept) noexcept
    : mappings_{blocks.mappings()}, in_{in}, at_start_{in.before && in.before->is_hole()} {
    std::byte const* from = in.at();
    std::byte const* to = in.end();
    if (kept.touches(in)) {
        if (kept.at <= from) from = std::min(kept.end, to);
        else to = kept.at;
    }
    std::size_t const bytes = blocks.mapped_whole(from, to);
    if (bytes == 0) return;
    at_ = mappings_.edge_from(reinterpret_cast<std::uintptr_t>(from));
    end_ = at_ + bytes;
}

CUOTA_INLINE idle_memory idle_mappings::take(std::size_t most) noexcept {
    std::size_t const bytes = std::min(end_ - at_, most);
    std::uintptr_t const at = at_start_ ? at_ : mappings_.edge_from(end_ - bytes);
    std::uintptr_t const end = at_start_ ? mappings_.edge_up_to(at_ + bytes) : end_;
    (at_start_ ? at_ : end_) = at_start_ ? end : at;
    return {&in_, pointer(at), end - at, true};
}

CUOTA_INLINE idle_memory idle_mappings::next() const noexcept {
    std::uintptr_t const at = at_start_ ? at_ : mappings_.edge_up_to(end_ - 1);
    std::uintptr_t const end = at_start_ ? mappings_.edge_from(at_ + 1) : end_;
    return {&in_, pointer(at), end - at, true};
}

CUOTA_INLINE std::byte* idle_mappings::pointer(std::uintptr_t at) const noexcept {
    return reinterpret_cast<std::byte*>(at);
}

CUOTA_INLINE std::size_t could_be_idle(block_index const& blocks, std::size_t wanted,
                                       kept_addresses const& kept) noexcept {
    std::size_t given = 0;
    std::size_t cover = 0;  // smallest remaining mapping; 0 if none
    if (blocks.free_pages() > kept.idle)
        blocks.for_each_fit(blocks.page(), [&](block& b) {
            idle_mappings idle{blocks, b, kept};
            given += idle.take(wanted - given).bytes;
            if (!idle.is_empty()) cover = cover == 0 ? idle.next().bytes : std::min(cover, idle.next().bytes);
            return given < wanted && cover != blocks.page();
        });
    bool some_cover = cover != 0;
    // The largest segments while none covers the rest; otherwise the smallest that does.
    if (cover == 0)
        blocks.for_each_free_from_largest([&](block const& b) {
            some_cover = given < wanted && b.is_whole_segment() && b.size >= wanted - given;
            if (given >= wanted || some_cover) return false;
            if (b.is_whole_segment()) given += b.size;
            return true;
        });
    if (given >= wanted || !some_cover) return given;
    block const* const segment = choose_segment(blocks, wanted - given);
    bool const covers = segment && segment->size >= wanted - given;
    if (cover != 0 && (!covers || segment->size > cover)) return given + cover;
    return given + segment->size;
}

}  // namespace cuota::inline v0::detail

#endif
