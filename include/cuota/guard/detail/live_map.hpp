// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Table of live blocks by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/hash_mix.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

struct alignas(64) live_record {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    void* at = nullptr;  // null: empty slot
    std::size_t bytes = 0;
    std::uint64_t number = 0;  // order of allocation, within a part of a tracker
    std::uint64_t stream = no_stream;
    tag name{};
    source_location where{};
    void* extra = nullptr;  // for the owner of the map
};

/// Hash table with linear probing and a load factor <= 3/4. Slots are reserved beforehand: neither insertion nor removal fails. Not
/// thread-safe.
class live_map {
public:
    /// Returns false if the table must grow.
    [[nodiscard]] bool try_reserve() noexcept;
    /// Throws: std::bad_alloc; nothing is changed.
    void reserve();
    void cancel() noexcept { --reserved_; }

    void insert(live_record const& r) noexcept;
    [[nodiscard]] live_record* find(void const* at) const noexcept;
    /// Removes a found record (backward-shift deletion), and keeps a copy for for_each_gone.
    void erase(live_record& r) noexcept;

    template <class Visit>
    void for_each(Visit visit) const {
        for (std::size_t i = 0; i != size_; ++i)
            if (slots_[i].at) visit(slots_[i]);
    }
    /// Visits the last `kept` removed records.
    template <class Visit>
    void for_each_gone(Visit visit) const {
        for (std::size_t i = 0; gone_ && i != kept; ++i)
            if (gone_[i].at) visit(gone_[i]);
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    static constexpr std::size_t kept = 32;

    [[nodiscard]] std::size_t home_of(void const* at) const noexcept;
    [[nodiscard]] std::size_t next(std::size_t i) const noexcept { return (i + 1) & (size_ - 1); }
    void put(live_record const& r) noexcept;
    void grow();

    light_unique_array<live_record> slots_;
    light_unique_array<live_record> gone_;
    std::size_t gone_next_ = 0;
    std::size_t size_ = 0;  // a power of two, or 0
    int shift_ = 0;
    std::size_t count_ = 0;
    std::size_t reserved_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <bit>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool live_map::try_reserve() noexcept {
    if (4 * (count_ + reserved_ + 1) > 3 * size_) return false;
    ++reserved_;
    return true;
}

CUOTA_INLINE void live_map::reserve() {
    if (try_reserve()) return;
    grow();
    ++reserved_;
}

CUOTA_INLINE void live_map::insert(live_record const& r) noexcept {
    put(r);
    ++count_;
    --reserved_;
}

CUOTA_INLINE live_record* live_map::find(void const* at) const noexcept {
    if (size_ == 0) return nullptr;
    for (std::size_t i = home_of(at); slots_[i].at; i = next(i))
        if (slots_[i].at == at) return &slots_[i];
    return nullptr;
}

CUOTA_INLINE void live_map::erase(live_record& r) noexcept {
    gone_[gone_next_] = r;
    gone_next_ = (gone_next_ + 1) % kept;
    auto hole = static_cast<std::size_t>(&r - slots_.get());
    for (std::size_t i = next(hole); slots_[i].at; i = next(i)) {
        bool const may_move = ((i - home_of(slots_[i].at)) & (size_ - 1)) >= ((i - hole) & (size_ - 1));
        if (!may_move) continue;
        slots_[hole] = slots_[i];
        hole = i;
    }
    slots_[hole].at = nullptr;
    --count_;
}

CUOTA_INLINE std::size_t live_map::home_of(void const* at) const noexcept {
    return mix64(reinterpret_cast<std::uintptr_t>(at)) >> shift_;
}

CUOTA_INLINE void live_map::put(live_record const& r) noexcept {
    std::size_t i = home_of(r.at);
    while (slots_[i].at) i = next(i);
    slots_[i] = r;
}

CUOTA_INLINE void live_map::grow() {
    std::size_t const before = size_;
    std::size_t const now = before == 0 ? 64 : 2 * before;
    auto fresh = light_unique_array<live_record>::make(now);
    if (!gone_) gone_ = light_unique_array<live_record>::make(kept);
    auto const old = std::exchange(slots_, std::move(fresh));
    size_ = now;
    shift_ = 64 - std::countr_zero(now);
    for (std::size_t i = 0; i != before; ++i)
        if (old[i].at) put(old[i]);
}

}  // namespace cuota::inline v0::detail

#endif
