// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The live blocks of a pool by address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0::detail {

/// A hash table with linear probing, at most 3/4 full (Knuth, The Art of Computer Programming 3, 6.4). Slots are small, as most lookups
/// miss the CPU cache. Not thread-safe.
class live_table {
public:
    explicit live_table(block_store const& records) noexcept : records_{records} {}

    /// Guarantees one insert. Strong guarantee. Throws: std::bad_alloc.
    void reserve_one();
    void expect(void const* at) const noexcept;

    void insert(block const& b) noexcept;

    [[nodiscard]] block* find(void const* at) const noexcept;

    void erase(block const& b) noexcept;

    template <class Visit>
    void for_each(Visit visit) const {
        for (std::size_t i = 0; i != size_; ++i)
            if (!slots_[i].is_empty()) visit(record_of(slots_[i]));
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    // The key, part of the address, spares most accesses to records.
    struct slot {
        std::uint32_t key = 0;
        std::uint32_t number = 0;  // record number + 1; 0 if empty

        [[nodiscard]] bool is_empty() const noexcept { return number == 0; }
    };

    // The address in units, modulo 2^32: unique within a terabyte.
    [[nodiscard]] static std::uint32_t key_of(void const* at) noexcept;
    [[nodiscard]] std::size_t home_of(std::uint32_t key) const noexcept;
    [[nodiscard]] std::size_t next(std::size_t i) const noexcept { return (i + 1) & (size_ - 1); }
    [[nodiscard]] block& record_of(slot s) const noexcept { return records_[s.number - 1]; }

    void put(slot s) noexcept;
    void grow();

    block_store const& records_;
    std::unique_ptr<slot[]> slots_;
    std::size_t size_ = 0;  // a power of two, or 0
    int shift_ = 0;
    std::size_t count_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void live_table::reserve_one() {
    if (4 * (count_ + 1) > 3 * size_) grow();
}

CUOTA_INLINE void live_table::expect(void const* at) const noexcept {
    if (size_ != 0) expect_use(&slots_[home_of(key_of(at))]);
}

CUOTA_INLINE void live_table::insert(block const& b) noexcept {
    put({key_of(b.at()), b.number() + 1});
    ++count_;
}

CUOTA_INLINE block* live_table::find(void const* at) const noexcept {
    if (size_ == 0) return nullptr;
    std::uint32_t const key = key_of(at);
    for (std::size_t i = home_of(key); !slots_[i].is_empty(); i = next(i))
        if (slots_[i].key == key)
            if (block& b = record_of(slots_[i]); b.at() == at) return &b;
    return nullptr;
}

CUOTA_INLINE void live_table::erase(block const& b) noexcept {
    std::size_t hole = home_of(key_of(b.at()));
    while (slots_[hole].number != b.number() + 1) hole = next(hole);
    for (std::size_t i = next(hole); !slots_[i].is_empty(); i = next(i)) {
        std::size_t const home = home_of(slots_[i].key);
        bool const may_move = ((i - home) & (size_ - 1)) >= ((i - hole) & (size_ - 1));
        if (!may_move) continue;
        slots_[hole] = slots_[i];
        hole = i;
    }
    slots_[hole] = {};
    --count_;
}

CUOTA_INLINE std::uint32_t live_table::key_of(void const* at) noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) / block::granularity);
}

CUOTA_INLINE std::size_t live_table::home_of(std::uint32_t key) const noexcept {
    // Twice: after one multiplication, blocks at some regular distances, such as 1731840 bytes, cluster.
    constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15u;
    std::uint64_t const once = key * odd;
    return (once ^ once >> 32) * odd >> shift_;
}

CUOTA_INLINE void live_table::put(slot s) noexcept {
    std::size_t i = home_of(s.key);
    while (!slots_[i].is_empty()) i = next(i);
    slots_[i] = s;
}

CUOTA_INLINE void live_table::grow() {
    std::size_t const before = size_;
    std::size_t const now = before == 0 ? 64 : 2 * before;
    auto const old = std::exchange(slots_, std::make_unique<slot[]>(now));
    size_ = now;
    shift_ = 64 - std::countr_zero(now);
    for (std::size_t i = 0; i != before; ++i)
        if (!old[i].is_empty()) put(old[i]);
}

}  // namespace cuota::inline v0::detail

#endif
