// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Happens-before tracking: when memory freed on one stream may be used on another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/pool/detail/blocks/host_waits.hpp>
#include <cuota/pool/detail/blocks/wait_set.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// The streams of a pool. A free increments a ticket; an event is recorded only when another stream needs the memory, and covers all
/// earlier frees of its stream. Requires the pool's lock.
/// Throws: cuda_error, std::bad_alloc where not noexcept. On a throw, no stream is registered, no point is created and nothing waits.
class stream_order {
public:
    /// The index for the host.
    static constexpr std::uint32_t no_stream = ~std::uint32_t{0};

    /// The index of a registered stream, by id, as handles are reused.
    [[nodiscard]] std::optional<std::uint32_t> find(stream_ref s);
    [[nodiscard]] bool was_last(stream_ref s) const { return is_last(s.id()); }
    [[nodiscard]] std::uint32_t last() const noexcept { return last_; }
    /// Registers a new stream, possibly at the index of a finished one.
    [[nodiscard]] std::uint32_t index_of(stream_ref s);

    /// Returns the point after all work enqueued on that stream. For a native handle, records the event now: the handle may mean another
    /// stream or none later.
    [[nodiscard]] wait_point release_on(std::uint32_t stream);

    /// The last free on stream last().
    [[nodiscard]] wait_point last_release() const noexcept { return {last_, slots_[last_].ticket}; }

    /// release_on for a stream kept alive by its owner.
    [[nodiscard]] wait_point release_on_owned(std::uint32_t stream) noexcept;

    /// Whether `stream` need not wait: the point is its own, it has waited for that or a later point, or the work is known to have
    /// completed.
    [[nodiscard]] bool is_ordered(wait_point point, std::uint32_t stream) const noexcept;

    /// While references to an index exist, it is not reused and its stream is kept alive.
    void keep(std::uint32_t stream) noexcept { ++slots_[stream].keepers; }
    void let_go(std::uint32_t stream) noexcept { --slots_[stream].keepers; }

    /// is_ordered, or a recorded event has completed.
    [[nodiscard]] bool is_ready(wait_point point, std::uint32_t stream);

    /// Returns false while the point's stream is in a foreign capture and no event was recorded before.
    [[nodiscard]] bool can_be_waited_for(wait_point point) const;

    /// Makes later work on s, of index `stream`, wait for a point, and so for all that its stream had waited for before the event. A
    /// captured stream cannot: the host has to wait (take_host_waits).
    /// Throws: usage_error for a point of captured work, or one that cannot be waited for.
    void wait(stream_ref s, std::uint32_t stream, wait_point point);

    /// Queries which streams have pending work of earlier frees; true if none has. A captured stream counts as busy.
    [[nodiscard]] bool look();
    /// Looks, and records an event on each busy stream without a pending one, so that a later look finds the frees up to now complete,
    /// although the stream is never idle. Throws: cuda_error, std::bad_alloc.
    void look_and_mark();
    /// Whether the work had completed at the last look().
    [[nodiscard]] bool was_over(wait_point point) const noexcept;
    /// Whether that of all these points had.
    [[nodiscard]] bool was_over(wait_set const& waits) const noexcept;

    /// Leaves the wait to the host (take_host_waits).
    void wait_on_host(wait_point point);
    [[nodiscard]] bool has_host_waits() const noexcept { return static_cast<bool>(host_waits_); }
    /// Returns the waits left to the host, for after the lock's release; may be null.
    /// Requires has_host_waits().
    [[nodiscard]] host_waits& host_waits_now() noexcept { return *host_waits_; }
    [[nodiscard]] light_unique_ptr<host_waits> take_host_waits() noexcept { return std::move(host_waits_); }
    /// Returns f(). On a throw, drops the waits left to the host: they are not the next caller's.
    template <class F>
    decltype(auto) drop_host_waits_on_throw(F f) {
        try {
            return f();
        } catch (...) {
            host_waits_ = nullptr;
            throw;
        }
    }
    void note_done(host_waits const& over) noexcept;
    /// Waits on the host, for destructors, which hold no lock.
    void wait_now(wait_point point);
    /// Waits on the host by rt::drain, which allocates no host memory.
    void drain(wait_point point) noexcept;

    // --- captures: frees on captured streams cannot be waited for, and are void afterwards ---

    /// Throws: usage_error during another capture.
    void begin_capture(std::span<std::uint64_t const> ids);
    void end_capture() noexcept;

    [[nodiscard]] std::size_t waits() const noexcept { return waits_; }  ///< enqueued so far
    [[nodiscard]] std::size_t streams() const noexcept { return slots_.size(); }

private:
    static constexpr std::uint64_t none_captured = ~std::uint64_t{0};

    struct stream_slot {
        std::uint64_t id;
        shared_stream stream;
        std::uint64_t ticket = 0;
        std::uint64_t recorded = 0;  // ticket that mark covers
        std::uint64_t done = 0;      // frees known to be complete
        std::size_t keepers = 0;
        std::uint64_t captured_above = none_captured;  // later tickets are captured
        bool is_busy = false;                          // at the last look
        intrusive_ptr<stream_mark> mark{};
        // Vector clocks (Fidge, 1988; Mattern, 1989): `seen`, the last ticket of each stream that future work here comes after; `mark_saw`,
        // `seen` when mark was recorded.
        std::vector<std::uint64_t> seen{};
        std::vector<std::uint64_t> mark_saw{};

        [[nodiscard]] bool has_seen(wait_point point) const noexcept;
    };

    void leave_to_host(stream_slot const& l, std::uint32_t stream);
    [[nodiscard]] bool is_last(std::uint64_t id) const noexcept;
    [[nodiscard]] std::uint32_t look_up(stream_ref s);

    [[nodiscard]] wait_point release_on_native(std::uint32_t stream);

    [[nodiscard]] static bool has_run(stream_slot const& l);

    // Returns null if the point has completed, as all work before a capture has.
    [[nodiscard]] event const* mark_of(wait_point point);

    // Whether all work is complete and no owner can enqueue more. Tickets continue, so that earlier points stay complete.
    [[nodiscard]] bool is_vacant(std::uint32_t i);

    [[nodiscard]] bool is_of_capture(std::uint64_t id) const noexcept;
    [[nodiscard]] std::uint32_t enter(stream_ref s, std::uint64_t id);
    [[nodiscard]] std::uint32_t enter_stream(stream_ref s, std::uint64_t id);

    dynamic_array<stream_slot> slots_;
    std::vector<std::uint64_t> captured_;
    std::uint32_t last_ = 0;
    light_unique_ptr<host_waits> host_waits_;
    std::size_t waits_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::optional<std::uint32_t> stream_order::find(stream_ref s) {
    std::uint64_t const id = s.id();
    if (is_last(id)) return last_;
    for (std::uint32_t i = 0; i != slots_.size(); ++i)
        if (slots_[i].id == id) return last_ = i;
    return std::nullopt;
}

CUOTA_INLINE std::uint32_t stream_order::index_of(stream_ref s) {
    if (s.is_owned() && is_last(s.id())) [[likely]]
        return last_;
    return look_up(s);
}

CUOTA_INLINE wait_point stream_order::release_on(std::uint32_t stream) {
    if (slots_[stream].stream.is_owned()) [[likely]]
        return release_on_owned(stream);
    return release_on_native(stream);
}

CUOTA_INLINE wait_point stream_order::release_on_owned(std::uint32_t stream) noexcept {
    return {stream, ++slots_[stream].ticket};
}

CUOTA_INLINE bool stream_order::is_ordered(wait_point point, std::uint32_t stream) const noexcept {
    return point.stream == stream || point.ticket <= slots_[point.stream].done ||
           (stream < slots_.size() && slots_[stream].has_seen(point));
}

CUOTA_INLINE bool stream_order::is_ready(wait_point point, std::uint32_t stream) {
    stream_slot& from = slots_[point.stream];
    if (is_ordered(point, stream)) return true;
    if (from.recorded >= point.ticket && from.mark->is_done()) from.done = from.recorded;
    return point.ticket <= from.done;
}

CUOTA_INLINE bool stream_order::can_be_waited_for(wait_point point) const {
    stream_slot const& from = slots_[point.stream];
    return std::max(from.recorded, from.done) >= point.ticket || foreign_capture_of(from.stream) == 0;
}

CUOTA_INLINE void stream_order::wait(stream_ref s, std::uint32_t stream, wait_point point) {
    if (is_captured(s)) [[unlikely]]
        return wait_on_host(point);
    stream_slot& to = slots_[stream];
    to.seen.resize(slots_.size());
    event const* const mark = mark_of(point);
    if (!mark) return;
    stream_slot const& from = slots_[point.stream];
    if (!try_order_after(s, *mark)) [[unlikely]]
        return leave_to_host(from, point.stream);
    ++waits_;
    for (std::size_t i = 0; i != from.mark_saw.size(); ++i)
        to.seen[i] = std::max(to.seen[i], from.mark_saw[i]);
    to.seen[point.stream] = std::max(to.seen[point.stream], from.recorded);
}

CUOTA_INLINE bool stream_order::look() {
    for (stream_slot& l : slots_) l.is_busy = l.done != l.ticket;  // pessimistic until queried
    for (stream_slot& l : slots_) l.is_busy = l.is_busy && !has_run(l);
    return slots_.find_if([](stream_slot const& l) { return l.is_busy; }) == slots_.end();
}

CUOTA_INLINE void stream_order::look_and_mark() {
    if (look()) return;
    for (std::uint32_t i = 0; i != slots_.size(); ++i) {
        stream_slot& l = slots_[i];
        if (!l.is_busy) continue;
        if (l.recorded > l.done && l.mark->is_done()) l.done = l.recorded;
        bool const is_pending = l.recorded > l.done;
        bool const is_captured_now = l.captured_above != none_captured;
        if (!is_pending && !is_captured_now && l.stream.is_owned() && can_be_waited_for({i, l.ticket}))
            (void)mark_of({i, l.ticket});
    }
}

CUOTA_INLINE bool stream_order::was_over(wait_point point) const noexcept {
    return !slots_[point.stream].is_busy || is_ordered(point, no_stream);
}

CUOTA_INLINE bool stream_order::was_over(wait_set const& waits) const noexcept {
    bool over = true;
    waits.for_each([&](wait_point point) { over = over && was_over(point); });
    return over;
}

CUOTA_INLINE void stream_order::wait_on_host(wait_point point) {
    if (is_ready(point, no_stream) || !mark_of(point)) return;
    stream_slot const& from = slots_[point.stream];
    leave_to_host(from, point.stream);
}

CUOTA_INLINE void stream_order::leave_to_host(stream_slot const& l, std::uint32_t stream) {
    if (!host_waits_) host_waits_ = light_unique_ptr<host_waits>::make();
    host_waits_->add(l.mark, {stream, l.recorded});
}

CUOTA_INLINE void stream_order::note_done(host_waits const& over) noexcept {
    over.for_each_point([this](wait_point point) {
        stream_slot& from = slots_[point.stream];  // tickets go on in the next stream
        from.done = std::max(from.done, point.ticket);
    });
}

CUOTA_INLINE void stream_order::wait_now(wait_point point) {
    stream_slot& from = slots_[point.stream];
    if (point.ticket <= from.done) return;
    event const* const mark = mark_of(point);
    if (!mark) return;
    mark->synchronize();
    from.done = from.recorded;
}

CUOTA_INLINE void stream_order::drain(wait_point point) noexcept {
    stream_slot& from = slots_[point.stream];
    if (point.ticket > from.done && rt::drain(from.stream))
        from.done = std::min(from.ticket, from.captured_above);
}

CUOTA_INLINE void stream_order::begin_capture(std::span<std::uint64_t const> ids) {
    if (!captured_.empty())
        throw_usage_error(
            "step_plan: cannot allocate in a capture while another capture uses it; capture one "
            "step at a time");
    captured_.assign(ids.begin(), ids.end());
    for (stream_slot& l : slots_)
        if (is_of_capture(l.id)) l.captured_above = l.ticket;
}

CUOTA_INLINE void stream_order::end_capture() noexcept {
    captured_.clear();
    for (stream_slot& l : slots_)
        if (std::exchange(l.captured_above, none_captured) != none_captured) l.done = l.ticket;
}

CUOTA_INLINE bool stream_order::stream_slot::has_seen(wait_point point) const noexcept {
    return point.stream < seen.size() && point.ticket <= seen[point.stream];
}

CUOTA_INLINE bool stream_order::is_last(std::uint64_t id) const noexcept {
    return !slots_.empty() && slots_[last_].id == id;
}

CUOTA_INLINE std::uint32_t stream_order::look_up(stream_ref s) {
    if (auto const known = find(s)) return *known;
    return last_ = enter(s, s.id());
}

CUOTA_INLINE wait_point stream_order::release_on_native(std::uint32_t stream) {
    wait_point const point = release_on_owned(stream);
    try {
        (void)mark_of(point);
    } catch (...) {
        --slots_[stream].ticket;  // undone: mark covers all recorded frees
        throw;
    }
    return point;
}

CUOTA_INLINE bool stream_order::has_run(stream_slot const& l) {
    stream_ref const s = l.stream;
    if (!s.is_owned()) return l.mark && l.mark->is_done();  // recorded at each free
    return rt::is_idle_outside_captures(s);
}

CUOTA_INLINE event const* stream_order::mark_of(wait_point point) {
    stream_slot& from = slots_[point.stream];
    if (from.recorded >= point.ticket) return from.mark.get();
    if (point.ticket > from.captured_above)
        throw_usage_error(
            "capture: memory freed on one captured stream cannot be reused on another; use a single stream");
    from.mark_saw.reserve(from.seen.size());
    if (foreign_capture_of(from.stream) != 0)
        throw_usage_error(
            "cannot reuse memory on another stream than the one that freed it while that one is "
            "captured outside cuota::capture; end the capture first");
    bool const is_marked = mark_outside_capture(from.stream, [&from] {
        if (from.mark) from.mark->record_in(from.stream, 0);
        else from.mark = intrusive_ptr<stream_mark>::make(from.stream);
    });
    if (!is_marked) {
        from.done = std::min(from.ticket, from.captured_above);
        return nullptr;
    }
    from.recorded = from.ticket;
    from.mark_saw = from.seen;
    return from.mark.get();
}

CUOTA_INLINE bool stream_order::is_vacant(std::uint32_t i) {
    stream_slot& l = slots_[i];
    if (l.keepers != 0 || l.captured_above != none_captured || (l.stream.is_owned() && !l.stream.is_unique()))
        return false;
    if (l.done < l.ticket && l.recorded < l.ticket && l.stream.is_owned()) {
        if (!can_be_waited_for({i, l.ticket})) return false;
        (void)mark_of({i, l.ticket});
    }
    return is_ready({i, l.ticket}, no_stream);
}

CUOTA_INLINE bool stream_order::is_of_capture(std::uint64_t id) const noexcept {
    for (std::uint64_t const known : captured_)
        if (known == id) return true;
    return false;
}

CUOTA_INLINE std::uint32_t stream_order::enter(stream_ref s, std::uint64_t id) {
    std::uint32_t const entered = enter_stream(s, id);
    if (is_of_capture(id)) slots_[entered].captured_above = slots_[entered].ticket;
    return entered;
}

CUOTA_INLINE std::uint32_t stream_order::enter_stream(stream_ref s, std::uint64_t id) {
    for (std::uint32_t i = 0; i != slots_.size(); ++i) {
        if (!is_vacant(i)) continue;
        stream_slot& l = slots_[i];
        l.mark = {};  // possibly of another device
        l.id = id;
        l.stream = s;
        l.recorded = l.done = l.ticket;
        l.seen.clear();
        l.mark_saw.clear();
        return i;
    }
    slots_.push_back({id, shared_stream{s}});
    return static_cast<std::uint32_t>(slots_.size() - 1);
}

}  // namespace cuota::inline v0::detail

#endif
