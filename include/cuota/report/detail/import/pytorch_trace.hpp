// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Converts the trace of one device in a PyTorch snapshot to events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/detail/import/pytorch_sites.hpp>
#include <cuota/report/detail/import/repair_counter.hpp>
#include <cuota/report/recording/memory_event.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0::detail {

/// An event; its time is in microseconds, and its source is not set.
struct pytorch_event {
    memory_event event;
    std::size_t device;  ///< index in the importer
};

struct pytorch_repairs {
    repair_counter early, unknown, twice_freed, taken_twice, gaps;
};

class pytorch_trace {
public:
    /// Events are appended to `into`.
    pytorch_trace(std::size_t device, pytorch_sites& sites, pytorch_repairs& repairs,
                  std::vector<pytorch_event>& into)
        : device_{device}, sites_{sites}, repairs_{repairs}, events_{into}, begin_{into.size()} {}

    void read(pickle_value one);
    /// Sets the peaks of the pool, whose final state must be known, the bytes that were reserved at refusals, and the sizes of live blocks.
    /// Returns the bytes that the device had at the last refusal; `unlimited` without one.
    [[nodiscard]] std::size_t finish(pool_info& pool) const;
    /// Returns whether the entries have times.
    [[nodiscard]] bool has_times() const noexcept { return has_times_; }

private:
    /// PyTorch rounds the sizes of blocks up to a multiple.
    static constexpr std::size_t block_granularity = 512;
    static constexpr std::uint64_t most_us = (~std::uint64_t{0} >> 1) / 1000;

    // A sum of bytes along the trace, relative to its beginning.
    struct running_sum {
        std::int64_t now = 0;
        std::int64_t most = 0;
        void add(std::size_t bytes) noexcept {
            most = std::max(most, now += static_cast<std::int64_t>(bytes));
        }
        void subtract(std::size_t bytes) noexcept { now -= static_cast<std::int64_t>(bytes); }
        // Returns the absolute value at `then`, if the value at the end is `last`.
        [[nodiscard]] std::size_t at(std::int64_t then, std::size_t last) const noexcept;
    };
    struct open_block {
        std::size_t bytes;
        bool is_freed;                     // but not completed
        std::optional<std::size_t> entry;  // of the allocation, unless it is older than the trace
    };

    [[nodiscard]] std::uint64_t time_of(pickle_value one);
    void begin(memory_event& e, pickle_value one);
    [[nodiscard]] bool end(memory_event& e, pickle_value one);
    void refuse(pickle_value one);

    std::size_t device_;
    pytorch_sites& sites_;
    pytorch_repairs& repairs_;
    std::vector<pytorch_event>& events_;
    std::size_t begin_;  // its first entry in events_
    bool has_times_ = false;
    std::uint64_t last_us_ = 0;
    std::map<std::uint64_t, open_block> open_;
    running_sum requested_, allocated_, reserved_;
    std::vector<std::pair<std::size_t, std::int64_t>> refusals_;  // index in events_, reserved_ then
    std::size_t last_free_ = 0;                                   // at the last refusal
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t pytorch_trace::running_sum::at(std::int64_t then, std::size_t last) const noexcept {
    std::int64_t const change = then - now;
    if (change >= 0) return saturating_add(last, static_cast<std::size_t>(change));
    return last - std::min(last, static_cast<std::size_t>(-change));
}

CUOTA_INLINE std::uint64_t pytorch_trace::time_of(pickle_value one) {
    auto const time = one.find("time_us");
    if (!time) return events_.size() == begin_ ? 0 : last_us_ + 1;
    std::uint64_t const us = time->size("time_us");
    if (us > most_us) time->fail("time_us {} is out of range", {as_count(us)});
    has_times_ = true;
    if (us < last_us_) repairs_.early.count(one.offset());
    return std::max(us, last_us_);
}

CUOTA_INLINE void pytorch_trace::read(pickle_value one) {
    std::string_view const action = one.at("action", "an entry").text("action");
    memory_event e;
    if (action == "alloc") e.kind = event_kind::allocated;
    else if (action == "free_requested") e.kind = event_kind::free_requested;
    else if (action == "free_completed") e.kind = event_kind::free_completed;
    else if (action == "segment_alloc" || action == "segment_map") e.kind = event_kind::segment_allocated;
    else if (action == "segment_free" || action == "segment_unmap") e.kind = event_kind::segment_freed;
    else if (action == "oom") e.kind = event_kind::refused;
    else if (action == "snapshot") e.kind = event_kind::marker;
    else return repairs_.unknown.count(one.offset());
    e.at = last_us_ = time_of(one);
    if (e.kind == event_kind::marker) {
        e.site = sites_.note("snapshot");
        events_.push_back({e, device_});
        return;
    }
    e.site = sites_.of(one);
    e.bytes = one.at("size", "an entry").size("size");
    if (e.bytes > std::size_t{1} << 60) one.fail("the size {} is out of range", {as_count(e.bytes)});
    if (auto const stream = one.find("stream")) e.stream = stream->bits("stream");
    if (e.kind == event_kind::refused) {
        refuse(one);
    } else {
        e.address = one.at("addr", "an entry").bits("addr");
        if (e.kind == event_kind::segment_allocated) reserved_.add(e.bytes);
        else if (e.kind == event_kind::segment_freed) reserved_.subtract(e.bytes);
        else if (e.kind == event_kind::allocated) begin(e, one);
        else if (!end(e, one)) return;
        constexpr std::int64_t most = std::int64_t{1} << 61;
        for (running_sum const* sum : {&reserved_, &allocated_})
            if (sum->now > most || sum->now < -most)
                one.fail("the sizes of the trace add up to more than 2^61", {});
    }
    events_.push_back({e, device_});
}

CUOTA_INLINE void pytorch_trace::begin(memory_event& e, pickle_value one) {
    e.size = round_up(e.bytes, block_granularity);
    auto const [at, is_new] = open_.try_emplace(e.address);
    if (!is_new && !at->second.is_freed) {
        repairs_.taken_twice.count(one.offset());
        requested_.subtract(at->second.bytes);
        allocated_.subtract(round_up(at->second.bytes, block_granularity));
    }
    at->second = {e.bytes, false, events_.size()};
    requested_.add(e.bytes);
    allocated_.add(e.size);
}

// Returns whether the event counts.
CUOTA_INLINE bool pytorch_trace::end(memory_event& e, pickle_value one) {
    auto const [at, is_older] = open_.try_emplace(e.address, open_block{e.bytes, false, {}});
    open_block& block = at->second;
    bool const is_request = e.kind == event_kind::free_requested;
    if (is_request && block.is_freed) return repairs_.twice_freed.count(one.offset()), false;
    e.bytes = block.bytes;
    e.size = round_up(e.bytes, block_granularity);
    bool const was_requested_before = is_older && !is_request;  // before the trace
    if (!block.is_freed && !was_requested_before) {
        requested_.subtract(e.bytes);
        allocated_.subtract(e.size);
        if (!is_request) {
            memory_event request = e;
            request.kind = event_kind::free_requested;
            events_.push_back({request, device_});
        }
    }
    block.is_freed = true;
    if (!is_request) open_.erase(at);
    return true;
}

CUOTA_INLINE void pytorch_trace::refuse(pickle_value one) {
    last_free_ = one.at("device_free", "an oom entry").size("device_free");
    if (last_free_ > std::size_t{1} << 60) one.fail("device_free {} is out of range", {as_count(last_free_)});
    refusals_.emplace_back(events_.size(), reserved_.now);
}

CUOTA_INLINE std::size_t pytorch_trace::finish(pool_info& pool) const {
    pool_stats& s = pool.stats;
    for (auto const& [index, then] : refusals_) events_[index].event.size = reserved_.at(then, s.reserved);
    // Blocks that are still live have the size that the segments show.
    for (segment_info const& segment : pool.segments)
        for (block_info const& b : segment.blocks) {
            if (b.use != block_use::live) continue;
            auto const open = open_.find(b.address);
            if (open != open_.end() && open->second.entry && b.size >= open->second.bytes)
                events_[*open->second.entry].event.size = b.size;
        }
    s.peak_requested = std::max(s.requested, requested_.at(requested_.most, s.requested));
    s.peak_allocated = std::max({s.allocated, s.peak_requested, allocated_.at(allocated_.most, s.allocated)});
    s.peak_active = std::max(s.active, s.peak_allocated);
    s.peak_reserved = std::max({s.reserved, s.peak_active, reserved_.at(reserved_.most, s.reserved)});
    if (refusals_.empty()) return unlimited;
    return saturating_add(events_[refusals_.back().first].event.size, last_free_);
}

}  // namespace cuota::inline v0::detail

#endif
