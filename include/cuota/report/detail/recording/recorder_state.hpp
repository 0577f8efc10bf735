// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines the state that a recorder shares with its probes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/detail/recording/event_clock.hpp>
#include <cuota/report/detail/recording/event_ring.hpp>
#include <cuota/report/detail/recording/site_table.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// Collects events of sources, which are numbers.
///
/// Threads: any. Events recorded under a lock of their source are read in the order of that lock.
class recorder_state final : public ref_counted {
public:
    static constexpr std::size_t max_sources = 65'535;

    /// Throws: as event_ring and site_table.
    recorder_state(std::size_t events, std::size_t sites, source_location where);

    /// Returns a new number, because events with old numbers may remain. Throws: usage_error if `max_sources` exist; std::bad_alloc.
    [[nodiscard]] std::uint16_t add_source(event_source facts,
                                           source_location where = source_location::current());
    /// Ends a source; its entry remains, without a pool.
    void end_source(std::uint16_t id) noexcept;
    [[nodiscard]] bool has_ended(std::uint16_t id) const noexcept;

    /// Records an event, unless paused. Does not allocate; locks only for a new site.
    void put(event_kind kind, std::uint16_t source, tag name, source_location where, std::uint64_t address,
             std::size_t bytes, std::size_t size, std::uint64_t stream) noexcept;
    /// Returns the next ticket; under the lock of a source, all its events so far have smaller ones.
    [[nodiscard]] std::uint64_t next() const noexcept { return ring_.next(); }

    [[nodiscard]] bool is_recording() const noexcept { return is_recording_.load(std::memory_order_relaxed); }
    void set_recording(bool on) noexcept { is_recording_.store(on, std::memory_order_relaxed); }
    /// Excludes the events so far from readings.
    void clear() noexcept { begin_.store(ring_.next(), std::memory_order_release); }

    [[nodiscard]] std::size_t capacity() const noexcept { return ring_.capacity(); }
    [[nodiscard]] std::uint64_t sites_without_room() const noexcept { return sites_.without_room(); }

    /// Returns the events, without `final_snapshot`; of source i < cuts.size(), only those with tickets below `cuts[i]`. Times are
    /// monotonic. Cost: about 20 ns per event; writers are not blocked.
    [[nodiscard]] recording read(std::span<std::uint64_t const> cuts = {}) const;

    /// Converts ticks to nanoseconds. A time earlier than that of the previous ticket becomes equal to it.
    static void set_times(std::span<numbered_event> events, tick_scale const& scale) noexcept;

private:
    struct source_entry {
        event_source facts{};
        bool is_released = false;
    };

    [[nodiscard]] std::vector<event_source> sources() const;

    event_clock const clock_;
    std::atomic<bool> is_recording_ = true;
    std::atomic<std::uint64_t> begin_ = 0;  // the first ticket that is read
    site_table sites_;
    mutable object_lock guard_;  // guards sources_
    std::vector<source_entry> sources_;
    event_ring ring_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE recorder_state::recorder_state(std::size_t events, std::size_t sites, source_location where)
    : sites_{sites, where}, sources_(1), ring_{events, where} {
    sources_[0].facts.name = "program";
}

CUOTA_INLINE std::uint16_t recorder_state::add_source(event_source facts, source_location where) {
    region_lock const lock{guard_};
    if (sources_.size() == max_sources)
        throw_usage_error(where, "recorder: the maximum of {} sources is reached; cannot add {}",
                          {as_count(max_sources), facts.name});
    sources_.push_back({std::move(facts), false});
    return static_cast<std::uint16_t>(sources_.size() - 1);
}

CUOTA_INLINE void recorder_state::end_source(std::uint16_t id) noexcept {
    region_lock const lock{guard_};
    sources_[id].is_released = true;
    sources_[id].facts.pool.reset();
}

CUOTA_INLINE bool recorder_state::has_ended(std::uint16_t id) const noexcept {
    region_lock const lock{guard_};
    return sources_[id].is_released;
}

CUOTA_INLINE void recorder_state::put(event_kind kind, std::uint16_t source, tag name, source_location where,
                                      std::uint64_t address, std::size_t bytes, std::size_t size,
                                      std::uint64_t stream) noexcept {
    if (!is_recording()) return;
    // Reads the clock before drawing the ticket: a thread delayed in between does not shift the times of others.
    std::uint64_t const at = clock_.now();
    ring_.put({kind, source, sites_.intern(name, where), at, address, bytes, size, stream});
}

CUOTA_INLINE recording recorder_state::read(std::span<std::uint64_t const> cuts) const {
    ring_reading found = ring_.read(begin_.load(std::memory_order_acquire));
    // All sites and sources of these events are visible, and their ticks have passed.
    set_times(found.events, clock_.scale());
    merged_sites known = sites_.merged();
    recording r;
    r.start_time = clock_.began();
    r.dropped = found.dropped;
    r.sources = sources();
    r.events.reserve(found.events.size());
    for (numbered_event const& e : found.events) {
        if (e.what.source < cuts.size() && e.ticket >= cuts[e.what.source]) continue;
        r.events.push_back(e.what);
        r.events.back().site = known.index_of[e.what.site];
    }
    r.sites = std::move(known.sites);
    return r;
}

CUOTA_INLINE void recorder_state::set_times(std::span<numbered_event> events,
                                            tick_scale const& scale) noexcept {
    std::uint64_t latest = 0;
    for (numbered_event& e : events) e.what.at = latest = std::max(latest, scale.nanoseconds(e.what.at));
}

CUOTA_INLINE std::vector<event_source> recorder_state::sources() const {
    region_lock const lock{guard_};
    std::vector<event_source> all;
    all.reserve(sources_.size());
    for (source_entry const& s : sources_) all.push_back(s.facts);
    return all;
}

}  // namespace cuota::inline v0::detail

#endif
