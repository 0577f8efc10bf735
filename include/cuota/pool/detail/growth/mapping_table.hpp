// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The mappings in an address range.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// The sizes of consecutive mappings that fill holes. A large mapping spares driver calls, but is unmapped as a whole.
struct mapping_sizes {
    std::size_t page = 0;       ///< minimum; a power of two
    std::size_t largest = 0;    ///< maximum; whole pages
    std::size_t parts = 1;      ///< a mapping is at most available / parts
    std::size_t available = 0;  ///< including those for the holes

    /// The size of the next mapping in a hole that lacks `missing` bytes.
    [[nodiscard]] std::size_t next(std::size_t missing) noexcept;
};

/// The boundaries of mappings; an unmapped page counts as one mapping. Requires the pool's lock.
class mapping_table {
public:
    mapping_table() = default;
    mapping_table(std::byte const* at, std::size_t page) noexcept;

    /// Guarantees `join` up to `end`. Strong guarantee. Throws: std::bad_alloc.
    void reserve(std::byte const* end);
    /// Makes [at, at + bytes) one mapping.
    void join(std::byte const* at, std::size_t bytes) noexcept;
    /// Removes the whole mappings in [at, at + bytes).
    void part(std::byte const* at, std::size_t bytes) noexcept;

    /// The number of calls of `join`, and that of the mappings that `part` removed.
    [[nodiscard]] std::size_t made() const noexcept { return made_; }
    [[nodiscard]] std::size_t removed() const noexcept { return removed_; }

    /// The first boundary at or after an address, and the last one at or before it.
    [[nodiscard]] std::uintptr_t edge_from(std::uintptr_t at) const noexcept;
    [[nodiscard]] std::uintptr_t edge_up_to(std::uintptr_t at) const noexcept;

private:
    static constexpr std::size_t bits = 64;

    [[nodiscard]] std::size_t index_of(void const* at) const noexcept;

    std::uintptr_t at_ = 0;
    int page_bits_ = 0;
    // bit per page: continues the previous one's mapping
    std::vector<std::uint64_t> continues_;
    std::size_t made_ = 0;
    std::size_t removed_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t mapping_sizes::next(std::size_t missing) noexcept {
    std::size_t const size =
        std::min(missing, std::clamp(round_down(available / parts, page), page, std::max(page, largest)));
    available -= std::min(available, size);
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
    ++made_;
}

CUOTA_INLINE void mapping_table::part(std::byte const* at, std::size_t bytes) noexcept {
    std::size_t const end = index_of(at + bytes);
    for (std::size_t i = index_of(at); i != end; ++i) {
        std::uint64_t const bit = std::uint64_t{1} << i % bits;
        removed_ += (continues_[i / bits] & bit) == 0;
        continues_[i / bits] &= ~bit;
    }
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
        if (inside <= i % bits) {  // the first page never continues a mapping
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
