// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What must be over before freed memory is used: points in streams, mostly one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cuota::inline v0::detail {

/// A point in a stream: everything enqueued there before its `ticket`-th release.
struct wait_point {
    std::uint32_t stream = 0;  // index in stream_order
    std::uint64_t ticket = 0;
    friend bool operator==(wait_point, wait_point) noexcept = default;
};

/// The points that a free block must wait for: the latest one of each stream. Mostly one, kept in place. Move-only.
class wait_set {
public:
    wait_set() noexcept = default;
    explicit wait_set(wait_point only) noexcept : first_{only}, is_empty_{false} {}
    wait_set(wait_set&& other) noexcept
        : first_{other.first_},
          is_empty_{std::exchange(other.is_empty_, true)},
          more_{std::move(other.more_)} {}
    wait_set& operator=(wait_set&& other) noexcept {
        first_ = other.first_;
        is_empty_ = std::exchange(other.is_empty_, true);
        more_ = std::move(other.more_);
        return *this;
    }
    ~wait_set() = default;

    [[nodiscard]] bool is_empty() const noexcept { return is_empty_; }

    template <class Visit>
    void for_each(Visit visit) const {
        if (is_empty_) return;
        visit(first_);
        if (more_)
            for (wait_point const& point : *more_) visit(point);
    }

    /// Takes over all points of `other`, which is empty then. Throws: std::bad_alloc, both unchanged then; only for
    /// points of several streams.
    void merge(wait_set& other) {
        if (other.is_empty_) return;
        if (is_empty_) {
            *this = std::move(other);
            return;
        }
        if (!more_ && !other.more_ && first_.stream == other.first_.stream) {
            first_.ticket = std::max(first_.ticket, other.first_.ticket);
        } else {
            auto merged = more_ ? std::make_unique<points>(*more_) : std::make_unique<points>();
            wait_point first = first_;
            other.for_each([&](wait_point point) { add(first, *merged, point); });
            first_ = first;
            more_ = std::move(merged);
            if (more_->empty()) more_.reset();
        }
        other = {};
    }

private:
    using points = std::vector<wait_point>;

    static void add(wait_point& first, points& more, wait_point point) {
        auto const later = [&](wait_point& mine) {
            if (mine.stream != point.stream) return false;
            mine.ticket = std::max(mine.ticket, point.ticket);
            return true;
        };
        if (!later(first) && !std::ranges::any_of(more, later)) more.push_back(point);
    }

    wait_point first_;
    bool is_empty_ = true;
    std::unique_ptr<points> more_;
};

}  // namespace cuota::inline v0::detail
