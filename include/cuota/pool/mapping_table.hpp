// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which pages of a range were mapped as one, and how large the next mapping is made. Host bookkeeping only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// The sizes of the mappings that fill holes, one after the other. A large mapping costs about as many calls of the driver as
/// a page, but it can be unmapped only as a whole: one live block in it keeps all of it. So a mapping is a small part of what
/// can still be had: large while there is plenty, and a page where every page counts.
struct mapping_sizes {
    std::size_t page = 0;     ///< the least; bytes, a power of two
    std::size_t largest = 0;  ///< whole pages; bytes
    std::size_t parts = 1;    ///< a mapping is at most that part of the room
    std::size_t room = 0;     ///< bytes that can still be had, those for the holes among them

    /// The bytes of the next mapping in a hole that lacks `missing` bytes, at least a page: whole pages.
    [[nodiscard]] std::size_t next(std::size_t missing) noexcept;
};

/// The edges of mappings in a range of pages. A page that is not mapped counts as a mapping of its own. One bit a page, up to
/// the last one that was ever mapped. Not thread-safe: under the pool's lock.
class mapping_table {
public:
    mapping_table() = default;
    mapping_table(std::byte const* at, std::size_t page) noexcept;

    /// After it, `join` up to `end` needs no memory. Throws: std::bad_alloc; unchanged then.
    void reserve(std::byte const* end);
    /// The pages of [at, at + bytes) are one mapping.
    void join(std::byte const* at, std::size_t bytes) noexcept;
    /// The pages of [at, at + bytes), whole mappings, are not mapped any more.
    void part(std::byte const* at, std::size_t bytes) noexcept;

    /// The first edge at or after an address, and the last one at or before it.
    [[nodiscard]] std::uintptr_t edge_from(std::uintptr_t at) const noexcept;
    [[nodiscard]] std::uintptr_t edge_up_to(std::uintptr_t at) const noexcept;

private:
    static constexpr std::size_t bits = 64;

    [[nodiscard]] std::size_t index_of(void const* at) const noexcept;

    std::uintptr_t at_ = 0;
    int page_bits_ = 0;
    std::vector<std::uint64_t> continues_;  // a bit a page: it belongs to the mapping of the page before it
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t mapping_sizes::next(std::size_t missing) noexcept {
    std::size_t const size =
        std::min(missing, std::clamp(round_down(room / parts, page), page, std::max(page, largest)));
    room -= std::min(room, size);
    return size;
}

CUOTA_INLINE mapping_table::mapping_table(std::byte const* at, std::size_t page) noexcept
    : at_{reinterpret_cast<std::uintptr_t>(at)}, page_bits_{std::countr_zero(page)} {}

CUOTA_INLINE void mapping_table::reserve(std::byte const* end) {
    std::size_t const words = (index_of(end) + bits - 1) / bits;
    if (words > continues_.size()) continues_.resize(std::max(words, 2 * continues_.size()));
}

CUOTA_INLINE void mapping_table::join(std::byte const* at, std::size_t bytes) noexcept {
    std::size_t const end = index_of(at + bytes);
    for (std::size_t i = index_of(at) + 1; i < end; ++i) continues_[i / bits] |= std::uint64_t{1} << i % bits;
}

CUOTA_INLINE void mapping_table::part(std::byte const* at, std::size_t bytes) noexcept {
    std::size_t const end = index_of(at + bytes);
    for (std::size_t i = index_of(at); i != end; ++i) continues_[i / bits] &= ~(std::uint64_t{1} << i % bits);
}

CUOTA_INLINE std::uintptr_t mapping_table::edge_from(std::uintptr_t at) const noexcept {
    std::size_t i = (at - at_ + (std::size_t{1} << page_bits_) - 1) >> page_bits_;
    for (std::size_t word = i / bits; word < continues_.size(); i = ++word * bits) {
        auto const inside = static_cast<std::size_t>(std::countr_one(continues_[word] >> i % bits));
        i += inside;
        if (i / bits == word) break;
    }
    return at_ + (i << page_bits_);
}

CUOTA_INLINE std::uintptr_t mapping_table::edge_up_to(std::uintptr_t at) const noexcept {
    std::size_t i = (at - at_) >> page_bits_;
    for (std::size_t word = i / bits; word < continues_.size(); --word) {
        auto const inside =
            static_cast<std::size_t>(std::countl_one(continues_[word] << (bits - 1 - i % bits)));
        if (inside <= i % bits) {  // the first page of a range continues nothing
            i -= inside;
            break;
        }
        i = word * bits - 1;
    }
    return at_ + (i << page_bits_);
}

CUOTA_INLINE std::size_t mapping_table::index_of(void const* at) const noexcept {
    return (reinterpret_cast<std::uintptr_t>(at) - at_) >> page_bits_;
}

}  // namespace cuota::inline v0::detail

#endif
