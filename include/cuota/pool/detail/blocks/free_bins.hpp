// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The free blocks of a pool by size. Intrusive.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/hash_mix.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0::detail {

/// Bins of blocks of similar size, with a bitmap of the nonempty ones. Not thread-safe.
///
/// Up to 4 MiB, a bin is a LIFO list of one size. Above, it is 1/32 of an octave and a treap (Aragon and Seidel, 1989) by size, then
/// address: the tightest fit at the lowest address limits fragmentation.
/// Cost: a few loads to find a bin; expected O(log n) in a treap. 142 KiB.
class free_bins {
    static constexpr std::size_t list_bits = 14;
    static constexpr std::size_t lists = std::size_t{1} << list_bits;

public:
    /// The largest size with a bin of its own.
    static constexpr std::size_t largest_of_one_size = (lists - 1) * block::granularity;

    void insert(block& b) noexcept;

    void erase(block& b) noexcept;

    /// Touches nothing else if the block is alone in its bin and stays there.
    void resize(block& b, std::byte* at, std::size_t size) noexcept;

    [[nodiscard]] block* first_fit(std::size_t size) const noexcept;
    template <class Visit>
    void for_each_fit(std::size_t size, Visit visit) const {
        std::size_t bin = bin_of(size);
        if (heads_[bin] && !visit_bin(bin, size, visit)) return;
        while ((bin = next_marked(bin + 1)) != bins)
            if (!visit_bin(bin, 0, visit)) return;
    }
    template <class Visit>
    void for_each_from_largest(Visit visit) const {
        for (std::size_t bin = bins; (bin = last_marked(bin)) != bins;)
            if (!visit_back(bin, visit)) return;
    }

    [[nodiscard]] std::size_t largest() const noexcept;
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    static constexpr std::size_t octave_bits = 5;
    static constexpr std::size_t per_octave = std::size_t{1} << octave_bits;
    static constexpr std::size_t octaves = 44;  // exceeds every request
    static constexpr std::size_t words = lists / 64 + octaves * per_octave / 64;
    static constexpr std::size_t bins = words * 64;
    static constexpr std::size_t summaries = words / 64 + 1;  // covers words + 1 bits

    [[nodiscard]] static std::size_t bin_of(std::size_t size) noexcept;
    [[nodiscard]] static std::size_t bin_of(block const& b) noexcept;
    [[nodiscard]] static std::size_t bin_of_units(std::size_t units) noexcept;
    [[nodiscard]] static bool is_list(std::size_t bin) noexcept { return bin < lists; }

    void mark(std::size_t bin) noexcept;
    void unmark(std::size_t bin) noexcept;
    // Return the first nonempty bin from `bin` on, the last one before it; `bins` if none.
    [[nodiscard]] std::size_t next_marked(std::size_t bin) const noexcept;
    [[nodiscard]] std::size_t last_marked(std::size_t bin) const noexcept;
    [[nodiscard]] static constexpr std::uint64_t bit(std::size_t i) noexcept {
        return std::uint64_t{1} << i % 64;
    }
    [[nodiscard]] static constexpr std::uint64_t from(std::size_t i) noexcept {
        return ~std::uint64_t{0} << i % 64;
    }
    [[nodiscard]] static std::size_t first_of(std::uint64_t word) noexcept;
    [[nodiscard]] static std::size_t last_of(std::uint64_t word) noexcept;

    template <class Visit>
    [[nodiscard]] bool visit_bin(std::size_t bin, std::size_t size, Visit& visit) const {
        if (!is_list(bin)) return visit_tree(heads_[bin], size, visit);
        for (block* b = heads_[bin]; b; b = b->right)
            if (!visit(*b)) return false;
        return true;
    }
    template <class Visit>
    [[nodiscard]] bool visit_back(std::size_t bin, Visit& visit) const {
        if (!is_list(bin)) return visit_tree_back(heads_[bin], visit);
        for (block* b = heads_[bin]; b; b = b->right)
            if (!visit(*b)) return false;
        return true;
    }

    // --- lists: left is the previous block ---

    static void push(block*& head, block& b) noexcept;
    static void unlink(block*& head, block& b) noexcept;

    // --- treaps by (size, address); parents have higher priorities ---

    [[nodiscard]] static bool is_less(block const& a, block const& b) noexcept;
    [[nodiscard]] static std::uint64_t priority(block const& b) noexcept;
    static void sink(block*& root, block& b) noexcept;
    static void pull(block*& root, block const& b) noexcept;
    // Prefers the lowest address.
    [[nodiscard]] static block* smallest_in(block* root, std::size_t size) noexcept;
    template <class Visit>
    [[nodiscard]] static bool visit_tree(block* b, std::size_t size, Visit& visit) {
        for (; b; b = b->right) {
            if (b->size < size) continue;
            if (b->left && !visit_tree(b->left, size, visit)) return false;
            if (!visit(*b)) return false;
        }
        return true;
    }
    template <class Visit>
    [[nodiscard]] static bool visit_tree_back(block* b, Visit& visit) {
        for (; b; b = b->left) {
            if (b->right && !visit_tree_back(b->right, visit)) return false;
            if (!visit(*b)) return false;
        }
        return true;
    }

    std::array<std::uint64_t, summaries> summary_{};  // a bit for each nonzero word of marks_
    std::array<std::uint64_t, words> marks_{};
    std::array<block*, bins> heads_{};
    std::size_t count_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void free_bins::insert(block& b) noexcept {
    std::size_t const bin = bin_of(b);
    if (is_list(bin)) push(heads_[bin], b);
    else sink(heads_[bin], b);
    mark(bin);
    ++count_;
}

CUOTA_INLINE void free_bins::erase(block& b) noexcept {
    std::size_t const bin = bin_of(b);
    if (is_list(bin)) unlink(heads_[bin], b);
    else pull(heads_[bin], b);
    b.left = b.right = nullptr;
    if (!heads_[bin]) unmark(bin);
    --count_;
}

CUOTA_INLINE void free_bins::resize(block& b, std::byte* at, std::size_t size) noexcept {
    std::size_t const bin = bin_of(b);
    bool const stays = bin == bin_of(size) && heads_[bin] == &b && !b.left && !b.right;
    if (!stays) erase(b);
    b.size = size;
    b.stand_at(at, block::state::free);
    if (!stays) insert(b);
}

CUOTA_INLINE block* free_bins::first_fit(std::size_t size) const noexcept {
    std::size_t bin = bin_of(size);
    if (!is_list(bin)) {
        if (block* const first = smallest_in(heads_[bin], size)) return first;
        ++bin;
    }
    bin = next_marked(bin);
    if (bin == bins) return nullptr;
    return is_list(bin) ? heads_[bin] : smallest_in(heads_[bin], 0);
}

CUOTA_INLINE std::size_t free_bins::largest() const noexcept {
    std::size_t const bin = last_marked(bins);
    if (bin == bins) return 0;
    block const* b = heads_[bin];
    if (!is_list(bin))
        while (b->right) b = b->right;
    return b->size;
}

CUOTA_INLINE std::size_t free_bins::bin_of(std::size_t size) noexcept {
    return bin_of_units(size / block::granularity + (size % block::granularity != 0));
}

CUOTA_INLINE std::size_t free_bins::bin_of(block const& b) noexcept {
    return bin_of_units(b.size / block::granularity);
}

CUOTA_INLINE std::size_t free_bins::bin_of_units(std::size_t units) noexcept {
    if (units < lists) return units;
    auto const octave = static_cast<std::size_t>(63 - std::countl_zero(units)) - list_bits;
    return lists + octave * per_octave + (units >> (octave + list_bits - octave_bits)) % per_octave;
}

CUOTA_INLINE void free_bins::mark(std::size_t bin) noexcept {
    marks_[bin / 64] |= bit(bin);
    summary_[bin / 64 / 64] |= bit(bin / 64);
}

CUOTA_INLINE void free_bins::unmark(std::size_t bin) noexcept {
    if ((marks_[bin / 64] &= ~bit(bin)) == 0) summary_[bin / 64 / 64] &= ~bit(bin / 64);
}

CUOTA_INLINE std::size_t free_bins::next_marked(std::size_t bin) const noexcept {
    if (bin == bins) return bins;
    std::size_t word = bin / 64;
    std::uint64_t here = marks_[word] & from(bin);
    if (here == 0) {
        std::size_t i = ++word / 64;
        std::uint64_t later = summary_[i] & from(word);
        while (later == 0)
            if (++i == summaries) return bins;
            else later = summary_[i];
        word = i * 64 + first_of(later);
        here = marks_[word];
    }
    return word * 64 + first_of(here);
}

CUOTA_INLINE std::size_t free_bins::last_marked(std::size_t bin) const noexcept {
    std::size_t word = bin / 64;
    std::uint64_t here = bin % 64 == 0 ? 0 : marks_[word] & ~from(bin);
    if (here == 0) {
        std::size_t i = word / 64;
        std::uint64_t earlier = summary_[i] & ~from(word);
        while (earlier == 0)
            if (i-- == 0) return bins;
            else earlier = summary_[i];
        word = i * 64 + last_of(earlier);
        here = marks_[word];
    }
    return word * 64 + last_of(here);
}

CUOTA_INLINE std::size_t free_bins::first_of(std::uint64_t word) noexcept {
    return static_cast<std::size_t>(std::countr_zero(word));
}

CUOTA_INLINE std::size_t free_bins::last_of(std::uint64_t word) noexcept {
    return static_cast<std::size_t>(63 - std::countl_zero(word));
}

CUOTA_INLINE void free_bins::push(block*& head, block& b) noexcept {
    b.left = nullptr;
    b.right = std::exchange(head, &b);
    if (b.right) b.right->left = &b;
}

CUOTA_INLINE void free_bins::unlink(block*& head, block& b) noexcept {
    (b.left ? b.left->right : head) = b.right;
    if (b.right) b.right->left = b.left;
}

CUOTA_INLINE bool free_bins::is_less(block const& a, block const& b) noexcept {
    return a.size != b.size ? a.size < b.size : std::less<>{}(a.at(), b.at());
}

CUOTA_INLINE std::uint64_t free_bins::priority(block const& b) noexcept {
    return mix64(reinterpret_cast<std::uintptr_t>(b.at()));
}

CUOTA_INLINE void free_bins::sink(block*& root, block& b) noexcept {
    block** at = &root;
    std::uint64_t const mine = priority(b);
    while (*at && priority(**at) >= mine) at = is_less(b, **at) ? &(*at)->left : &(*at)->right;
    // Splits the subtree below.
    block** less = &b.left;
    block** rest = &b.right;
    for (block* below = std::exchange(*at, &b); below;) {
        if (is_less(*below, b)) {
            *less = below;
            less = &below->right;
            below = below->right;
        } else {
            *rest = below;
            rest = &below->left;
            below = below->left;
        }
    }
    *less = *rest = nullptr;
}

CUOTA_INLINE void free_bins::pull(block*& root, block const& b) noexcept {
    block** at = &root;
    while (*at != &b) at = is_less(b, **at) ? &(*at)->left : &(*at)->right;
    block* less = b.left;
    block* rest = b.right;
    while (less && rest) {
        if (priority(*less) >= priority(*rest)) {
            *at = less;
            at = &less->right;
            less = less->right;
        } else {
            *at = rest;
            at = &rest->left;
            rest = rest->left;
        }
    }
    *at = less ? less : rest;
}

CUOTA_INLINE block* free_bins::smallest_in(block* root, std::size_t size) noexcept {
    block* first = nullptr;
    for (block* b = root; b;) {
        bool const fits = b->size >= size;
        if (fits) first = b;
        b = fits ? b->left : b->right;
    }
    return first;
}

}  // namespace cuota::inline v0::detail

#endif
