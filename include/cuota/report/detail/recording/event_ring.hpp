// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a lock-free ring buffer for events.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/recording/memory_event.hpp>

namespace cuota::inline v0::detail {

/// `what.at` is in ticks of the writer's clock.
struct numbered_event {
    std::uint64_t ticket = 0;
    memory_event what{};
};

struct ring_reading {
    /// Sorted by ticket; consecutive except for events that were being written.
    std::vector<numbered_event> events{};
    /// Number of requested events before the first one, overwritten or lost.
    std::uint64_t dropped = 0;
};

/// Stores the last `capacity` events; writing does not allocate.
///
/// A writer draws a ticket t, claims slot t mod capacity, writes and publishes. Each slot is a seqlock with state 0 initially, 2t + 1 while
/// the event of ticket t is written, and 2t + 2 afterwards. A reader detects a changed state and omits the event; words are atomics, so
/// this is no data race (Boehm, "Can seqlocks get along with programming language memory models?", 2012).
///
/// If a writer one lap behind still occupies the slot, the event is counted as lost.
///
/// Threads: any. Cost: two atomic exchanges and a cache line per event; readers do not block writers.
class event_ring {
public:
    static constexpr std::size_t most = std::size_t{1} << 32;

    /// Rounds `capacity` up to a power of two. Throws: usage_error if it is 0 or exceeds `most`; std::bad_alloc.
    explicit event_ring(std::size_t capacity, source_location where = source_location::current());

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    /// Returns the number of events so far.
    [[nodiscard]] std::uint64_t next() const noexcept { return next_.load(std::memory_order_acquire); }

    void put(memory_event const& e) noexcept;

    // Steps of put, for tests.
    [[nodiscard]] std::uint64_t draw() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] bool claim(std::uint64_t ticket) noexcept;
    // Release order on every word: a reader that sees one also sees the changed state.
    void fill(std::uint64_t ticket, memory_event const& e) noexcept;

    /// Returns the events with tickets in [from, up_to), except those being written. A lost or overwritten event discards all events before
    /// it. Throws: std::bad_alloc. Cost: about 10 ns per event.
    [[nodiscard]] ring_reading read(std::uint64_t from = 0, std::uint64_t up_to = ~std::uint64_t{0}) const;

private:
    using word = std::atomic<std::uint64_t>;
    struct alignas(64) slot {
        word state = 0;
        word lost = 0;  // t + 1 for the last ticket t that could not claim it
        word what = 0;
        word at = 0;
        word address = 0;
        word bytes = 0;
        word size = 0;
        word stream = 0;
    };
    static_assert(sizeof(slot) == 64 && word::is_always_lock_free);
    enum class found_as { there, being_written, gone };

    [[nodiscard]] static std::size_t checked(std::size_t capacity, source_location where);
    [[nodiscard]] static constexpr std::uint64_t being_written(std::uint64_t ticket) noexcept {
        return 2 * ticket + 1;
    }
    [[nodiscard]] static constexpr std::uint64_t there(std::uint64_t ticket) noexcept {
        return 2 * ticket + 2;
    }
    [[nodiscard]] slot& slot_of(std::uint64_t ticket) const noexcept;

    [[nodiscard]] static std::uint64_t packed(memory_event const& e) noexcept;
    static void unpack(std::uint64_t what, memory_event& e) noexcept;

    [[gnu::cold]] static void note_lost(slot& s, std::uint64_t ticket) noexcept {
        std::uint64_t last = s.lost.load(std::memory_order_relaxed);
        while (last < ticket + 1 && !s.lost.compare_exchange_weak(last, ticket + 1, std::memory_order_release,
                                                                  std::memory_order_relaxed)) {}
    }
    // Acquire order on every word: none is read after the second read of the state.
    [[nodiscard]] found_as look(std::uint64_t ticket, memory_event& e) const noexcept;

    std::size_t const capacity_;
    std::unique_ptr<slot[]> const slots_;
    alignas(64) word next_ = 0;  // own cache line
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE event_ring::event_ring(std::size_t capacity, source_location where)
    : capacity_{checked(capacity, where)}, slots_{std::make_unique<slot[]>(capacity_)} {}

CUOTA_INLINE void event_ring::put(memory_event const& e) noexcept {
    std::uint64_t const ticket = draw();
    if (claim(ticket)) [[likely]]
        fill(ticket, e);
}

CUOTA_INLINE bool event_ring::claim(std::uint64_t ticket) noexcept {
    slot& s = slot_of(ticket);
    std::uint64_t seen = s.state.load(std::memory_order_relaxed);
    // Acquire: the previous writer's stores precede ours.
    while (seen % 2 == 0 && seen < there(ticket))
        if (s.state.compare_exchange_weak(seen, being_written(ticket), std::memory_order_acquire,
                                          std::memory_order_relaxed))
            return true;
    note_lost(s, ticket);
    return false;
}

CUOTA_INLINE void event_ring::fill(std::uint64_t ticket, memory_event const& e) noexcept {
    slot& s = slot_of(ticket);
    s.what.store(packed(e), std::memory_order_release);
    s.at.store(e.at, std::memory_order_release);
    s.address.store(e.address, std::memory_order_release);
    s.bytes.store(e.bytes, std::memory_order_release);
    s.size.store(e.size, std::memory_order_release);
    s.stream.store(e.stream, std::memory_order_release);
    s.state.store(there(ticket), std::memory_order_release);
}

CUOTA_INLINE ring_reading event_ring::read(std::uint64_t from, std::uint64_t up_to) const {
    ring_reading found;
    std::uint64_t const newest = next();
    std::uint64_t const end = std::min(newest, up_to);
    if (from >= end) return found;
    std::uint64_t first = std::max(from, newest - std::min<std::uint64_t>(newest, capacity_));
    first = std::min(first, end);
    found.events.reserve(end - first);
    for (std::uint64_t t = first; t != end; ++t) {
        numbered_event e{t, {}};
        switch (look(t, e.what)) {
            case found_as::there: found.events.push_back(e); break;
            case found_as::being_written: break;
            case found_as::gone:
                found.events.clear();
                first = t + 1;
                break;
        }
    }
    found.dropped = first - from;
    return found;
}

CUOTA_INLINE std::size_t event_ring::checked(std::size_t capacity, source_location where) {
    if (capacity == 0 || capacity > most)
        throw_usage_error(where, "recorder: the number of events must be from 1 to {}, got {}",
                          {as_count(most), as_count(capacity)});
    return std::bit_ceil(capacity);
}

CUOTA_INLINE auto event_ring::slot_of(std::uint64_t ticket) const noexcept -> slot& {
    return slots_[ticket & (capacity_ - 1)];
}

CUOTA_INLINE std::uint64_t event_ring::packed(memory_event const& e) noexcept {
    return std::uint64_t{e.site} << 32 | std::uint64_t{e.source} << 16 | static_cast<std::uint64_t>(e.kind);
}

CUOTA_INLINE void event_ring::unpack(std::uint64_t what, memory_event& e) noexcept {
    e.kind = static_cast<event_kind>(what & 0xffff);
    e.source = static_cast<std::uint16_t>(what >> 16);
    e.site = static_cast<std::uint32_t>(what >> 32);
}

CUOTA_INLINE auto event_ring::look(std::uint64_t ticket, memory_event& e) const noexcept -> found_as {
    slot const& s = slot_of(ticket);
    std::uint64_t const state = s.state.load(std::memory_order_acquire);
    if (state > there(ticket)) return found_as::gone;
    if (state < there(ticket))
        return s.lost.load(std::memory_order_acquire) > ticket ? found_as::gone : found_as::being_written;
    unpack(s.what.load(std::memory_order_acquire), e);
    e.at = s.at.load(std::memory_order_acquire);
    e.address = s.address.load(std::memory_order_acquire);
    e.bytes = s.bytes.load(std::memory_order_acquire);
    e.size = s.size.load(std::memory_order_acquire);
    e.stream = s.stream.load(std::memory_order_acquire);
    return s.state.load(std::memory_order_relaxed) == state ? found_as::there : found_as::gone;
}

}  // namespace cuota::inline v0::detail

#endif
