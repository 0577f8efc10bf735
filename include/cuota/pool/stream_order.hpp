// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// When memory freed on one stream may be used on another: tickets, and the fewest events that can tell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// A point in a stream: everything enqueued there before its `ticket`-th release.
struct wait_point {
    std::uint32_t stream = 0;  // index in stream_order
    std::uint64_t ticket = 0;
    friend bool operator==(wait_point, wait_point) noexcept = default;
};

/// The points that a free block must wait for: the latest one of each stream. Mostly one, kept in place.
class wait_set {
public:
    wait_set() noexcept = default;
    explicit wait_set(wait_point only) noexcept : first_{only} {}

    [[nodiscard]] bool is_empty() const noexcept { return !first_; }

    template <class Visit>
    void for_each(Visit visit) const {
        if (first_) visit(*first_);
        for (wait_point const& point : more_) visit(point);
    }

    /// All points of both. Throws: std::bad_alloc; unchanged then.
    void merge(wait_set const& other) {
        wait_set merged = *this;
        other.for_each([&](wait_point point) { merged.add(point); });
        *this = std::move(merged);
    }

private:
    void add(wait_point point) {
        if (!first_) {
            first_ = point;
            return;
        }
        auto const later = [&](wait_point& mine) {
            if (mine.stream != point.stream) return false;
            mine.ticket = std::max(mine.ticket, point.ticket);
            return true;
        };
        if (later(*first_) || std::ranges::any_of(more_, later)) return;
        more_.push_back(point);
    }

    std::optional<wait_point> first_;
    std::vector<wait_point> more_;
};

/// The streams that a pool has seen. A release costs a number; an event is recorded only when another stream wants
/// the memory, and then serves every release before it. Not thread-safe: under the pool's lock.
class stream_order {
public:
    /// The index of a stream, entering it when it is new. Keyed by id: handles are reused, ids are not.
    /// Throws: cuda_error, std::bad_alloc; unchanged then.
    [[nodiscard]] std::uint32_t index_of(stream_ref s) {
        std::uint64_t const id = s.id();
        if (last_ < lanes_.size() && lanes_[last_].id == id) return last_;
        for (std::uint32_t i = 0; i != lanes_.size(); ++i)
            if (lanes_[i].id == id) return last_ = i;
        return last_ = enter(s, id);
    }

    /// The point after everything enqueued so far on the stream of that index. A handle whose owner is not known here
    /// may be destroyed, or mean another stream in another thread, by the time the memory is wanted: its event is
    /// recorded at once. Throws: cuda_error; no point is waited for then.
    [[nodiscard]] wait_point release_on(std::uint32_t stream) {
        lane& from = lanes_[stream];
        wait_point const point{stream, ++from.ticket};
        if (!from.stream->is_owned()) (void)mark_of(point);
        return point;
    }

    /// Nothing to wait for: on that stream itself, or the work is known to be over. Makes no CUDA call.
    [[nodiscard]] bool is_ordered(wait_point point, std::uint32_t stream) const noexcept {
        return point.stream == stream || point.ticket <= lanes_[point.stream].done;
    }

    /// As is_ordered, and looks whether an event that was recorded anyway is done by now. Throws: cuda_error.
    [[nodiscard]] bool is_ready(wait_point point, std::uint32_t stream) {
        lane& from = lanes_[point.stream];
        if (is_ordered(point, stream)) return true;
        if (from.recorded >= point.ticket && from.mark->is_done()) from.done = from.recorded;
        return point.ticket <= from.done;
    }

    /// Makes work enqueued later on s wait for the point. Throws: cuda_error; nothing waits then.
    void wait(stream_ref s, wait_point point) {
        s.wait(mark_of(point));
        ++waits_;
    }

    /// Waits on the host. Throws: cuda_error.
    void wait_on_host(wait_point point) {
        lane& from = lanes_[point.stream];
        if (point.ticket <= from.done) return;
        mark_of(point).synchronize();
        from.done = from.recorded;
    }

    [[nodiscard]] std::size_t waits() const noexcept { return waits_; }  ///< waits put into streams so far
    [[nodiscard]] std::size_t streams() const noexcept { return lanes_.size(); }

private:
    struct lane {
        std::uint64_t id;
        std::optional<stream_share> stream;  // none: gone, and all its work done
        std::uint64_t ticket = 0;            // releases so far
        std::uint64_t recorded = 0;          // the ticket that mark stands for
        std::uint64_t done = 0;              // releases known to be over
        std::optional<event> mark{};
    };

    event& mark_of(wait_point point) {
        lane& from = lanes_[point.stream];
        if (from.recorded < point.ticket) {
            if (from.mark) from.mark->record(*from.stream);
            else from.mark.emplace(*from.stream);
            from.recorded = from.ticket;
        }
        return *from.mark;
    }

    // A lane can be taken over when all its work is over and nobody will enqueue more. Tickets go on counting, so
    // that points of the stream before are done points of the stream after.
    [[nodiscard]] bool is_over(std::uint32_t i) {
        lane& l = lanes_[i];
        if (!l.stream) return true;
        if (l.stream->is_owned() && !l.stream->is_last()) return false;
        if (l.done < l.ticket && l.recorded < l.ticket && l.stream->is_owned()) (void)mark_of({i, l.ticket});
        return is_ready({i, l.ticket}, ~std::uint32_t{0});
    }

    [[nodiscard]] std::uint32_t enter(stream_ref s, std::uint64_t id) {
        for (std::uint32_t i = 0; i != lanes_.size(); ++i) {
            if (!is_over(i)) continue;
            lane& l = lanes_[i];
            l.mark.reset();  // of another device, perhaps
            l.id = id;
            l.stream.emplace(s);
            l.recorded = l.done = l.ticket;
            return i;
        }
        lanes_.push_back({id, stream_share{s}});
        return static_cast<std::uint32_t>(lanes_.size() - 1);
    }

    std::vector<lane> lanes_;
    std::uint32_t last_ = 0;
    std::size_t waits_ = 0;
};

}  // namespace cuota::inline v0::detail
