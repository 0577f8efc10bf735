// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The live blocks of a pool by their first byte.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <cuota/pool/block.hpp>

namespace cuota::inline v0::detail {

/// A hash table with linear probing, at most half full (Knuth, The Art of Computer Programming 3, 6.4). Not thread-safe.
class live_table {
public:
    /// After it one more can be inserted. Throws: std::bad_alloc; unchanged then.
    void reserve_one() {
        if (2 * (count_ + 1) > size_) grow();
    }

    /// After reserve_one.
    void insert(block& b) noexcept {
        put(b.at, b);
        ++count_;
    }

    [[nodiscard]] block* find(void const* at) const noexcept {
        if (size_ == 0) return nullptr;
        std::size_t i = home_of(at);
        while (slots_[i].b && slots_[i].at != at) i = next(i);
        return slots_[i].b;
    }

    /// What stands behind it in its run moves up, so that no search ends too early.
    void erase(block const& b) noexcept {
        std::size_t hole = home_of(b.at);
        while (slots_[hole].b != &b) hole = next(hole);
        for (std::size_t i = next(hole); slots_[i].b; i = next(i)) {
            std::size_t const home = home_of(slots_[i].at);
            bool const may_move = ((i - home) & (size_ - 1)) >= ((i - hole) & (size_ - 1));
            if (!may_move) continue;
            slots_[hole] = slots_[i];
            hole = i;
        }
        slots_[hole] = {};
        --count_;
    }

    template <class Visit>
    void for_each(Visit visit) const {
        for (std::size_t i = 0; i != size_; ++i)
            if (slots_[i].b) visit(*slots_[i].b);
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    // With the address beside it, so that a search does not look at the records of others.
    struct slot {
        void const* at = nullptr;
        block* b = nullptr;
    };

    [[nodiscard]] std::size_t home_of(void const* at) const noexcept {
        // Twice: after one multiplication, blocks at some regular distances, such as 1731840 bytes, crowd together.
        constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15u;
        auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at));
        std::uint64_t const once = address / block::granule * odd;
        return static_cast<std::size_t>((once ^ once >> 32) * odd >> shift_);
    }
    [[nodiscard]] std::size_t next(std::size_t i) const noexcept { return (i + 1) & (size_ - 1); }

    void put(void const* at, block& b) noexcept {
        std::size_t i = home_of(at);
        while (slots_[i].b) i = next(i);
        slots_[i] = {at, &b};
    }
    void grow() {
        std::size_t const before = size_;
        std::size_t const now = before == 0 ? 64 : 2 * before;
        auto const old = std::exchange(slots_, std::make_unique<slot[]>(now));
        size_ = now;
        shift_ = 64 - std::countr_zero(now);
        for (std::size_t i = 0; i != before; ++i)
            if (old[i].b) put(old[i].at, *old[i].b);
    }

    std::unique_ptr<slot[]> slots_;
    std::size_t size_ = 0;  // a power of two, or 0
    int shift_ = 0;
    std::size_t count_ = 0;
};

}  // namespace cuota::inline v0::detail
