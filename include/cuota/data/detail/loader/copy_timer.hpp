// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Measures the time of copies.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// Times the copies of one stream by two events around each; waits enqueued before `begin` do not count. A copy not known to be complete
/// when `room` later ones have begun is not counted.
/// Threads: one at a time. Throws: cuda_error.
class copy_timer {
public:
    explicit copy_timer(std::size_t room) : copies_(room) {}

    void begin(stream_ref s);
    void end(stream_ref s);

    /// Returns the time of the copies completed since `forget`.
    [[nodiscard]] std::chrono::nanoseconds busy();
    void forget() noexcept;

private:
    struct copy {
        std::optional<timed_event> begin{};
        std::optional<timed_event> end{};
        bool is_counted = true;
    };

    static void mark(std::optional<timed_event>& m, stream_ref s);
    void count(copy& c);

    dynamic_array<copy> copies_;
    std::size_t next_ = 0;
    std::chrono::nanoseconds busy_{0};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE void copy_timer::begin(stream_ref s) {
    copy& here = copies_[next_];
    count(here);
    here.is_counted = true;  // until its end is marked
    mark(here.begin, s);
}

CUOTA_INLINE void copy_timer::end(stream_ref s) {
    copy& here = copies_[next_];
    mark(here.end, s);
    here.is_counted = false;
    next_ = (next_ + 1) % copies_.size();
}

CUOTA_INLINE std::chrono::nanoseconds copy_timer::busy() {
    for (copy& c : copies_) count(c);
    return busy_;
}

CUOTA_INLINE void copy_timer::forget() noexcept {
    busy_ = {};
    for (copy& c : copies_) c.is_counted = true;
}

CUOTA_INLINE void copy_timer::mark(std::optional<timed_event>& m, stream_ref s) {
    if (m) m->record(s);
    else m.emplace(s);
}

CUOTA_INLINE void copy_timer::count(copy& c) {
    if (c.is_counted) return;
    auto const taken = c.end->since(*c.begin);
    if (!taken) return;
    busy_ += *taken;
    c.is_counted = true;
}

}  // namespace cuota::inline v0::detail

#endif
