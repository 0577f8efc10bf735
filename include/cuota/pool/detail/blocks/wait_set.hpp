// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pending work that a free block must wait for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>

namespace cuota::inline v0::detail {

/// All work in a stream before its `ticket`-th free.
struct wait_point {
    std::uint32_t stream = 0;
    std::uint64_t ticket = 0;
    friend bool operator==(wait_point, wait_point) noexcept = default;
};

/// The latest point of each stream to wait for; a single one is stored in place. Throws: std::bad_alloc, only for several streams.
class wait_set {
public:
    wait_set() noexcept = default;
    explicit wait_set(wait_point only) noexcept : ticket_{only.ticket}, stream_{only.stream} {}
    wait_set(wait_set&& other) noexcept { take_over(other); }
    wait_set& operator=(wait_set&& other) noexcept;
    ~wait_set() { clear(); }

    [[nodiscard]] bool is_empty() const noexcept { return stream_ == none; }

    template <class Visit>
    void for_each(Visit visit) const {
        if (stream_ == none) return;
        if (stream_ != many) visit(wait_point{stream_, ticket_});
        else
            for (wait_point const& point : *several_) visit(point);
    }

    [[nodiscard]] wait_set copy() const;

    /// Moves the points of `other` here. Strong guarantee.
    void merge(wait_set& other);

private:
    using points = dynamic_array<wait_point>;
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    static constexpr std::uint32_t many = none - 1;

    static void add(points& all, wait_point point);
    [[gnu::noinline]] void merge_others(wait_set& other) { merge_several(other); }
    void merge_several(wait_set& other);
    void take_over(wait_set& other) noexcept;
    void clear() noexcept;
    // Not inlined, so that clear() is two instructions.
    [[gnu::noinline]] void drop_several() noexcept { delete several_; }

    union {
        std::uint64_t ticket_ = 0;
        points* several_;
    };
    std::uint32_t stream_ = none;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE wait_set& wait_set::operator=(wait_set&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take_over(other);
    return *this;
}

CUOTA_INLINE wait_set wait_set::copy() const {
    wait_set same;
    if (stream_ == many) same.several_ = new points(*several_);
    else same.ticket_ = ticket_;
    same.stream_ = stream_;
    return same;
}

CUOTA_INLINE void wait_set::merge(wait_set& other) {
    if (stream_ != other.stream_ || stream_ == many) return merge_others(other);
    if (stream_ != none) ticket_ = std::max(ticket_, other.ticket_);
    other.stream_ = none;
}

CUOTA_INLINE void wait_set::add(points& all, wait_point point) {
    for (wait_point& mine : all)
        if (mine.stream == point.stream) {
            mine.ticket = std::max(mine.ticket, point.ticket);
            return;
        }
    all.push_back(point);
}

CUOTA_INLINE void wait_set::merge_several(wait_set& other) {
    if (other.is_empty()) return;
    if (is_empty()) {
        *this = std::move(other);
        return;
    }
    auto all = std::make_unique<points>();
    for_each([&](wait_point point) { all->push_back(point); });
    other.for_each([&](wait_point point) { add(*all, point); });
    clear();
    several_ = all.release();
    stream_ = many;
    other.clear();
}

CUOTA_INLINE void wait_set::take_over(wait_set& other) noexcept {
    if (other.stream_ == many) several_ = other.several_;
    else ticket_ = other.ticket_;
    stream_ = std::exchange(other.stream_, none);
}

CUOTA_INLINE void wait_set::clear() noexcept {
    if (stream_ == many) [[unlikely]]
        drop_several();
    stream_ = none;
}

}  // namespace cuota::inline v0::detail

#endif
