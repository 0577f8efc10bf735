// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Converts the document of a PyTorch snapshot to a recording.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/detail/import/pytorch_sites.hpp>
#include <cuota/report/detail/import/pytorch_trace.hpp>
#include <cuota/report/import/imported_recording.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

class pytorch_importer {
public:
    explicit pytorch_importer(pickle_document const& from) : from_{from} {}
    [[nodiscard]] imported_recording run();

private:
    struct device_part {
        std::size_t ordinal;
        pool_info pool{};
        std::vector<std::uint64_t> offsets{};  // of the segments in the file
        std::size_t limit = unlimited;
    };

    [[nodiscard]] std::size_t device_at(std::uint64_t ordinal, pickle_value where);
    void read_segment(pickle_value segment);
    void read_block(pickle_value block, std::uint64_t address, segment_info& into);
    void finish_segments(device_part& d);
    void read_trace(pickle_value trace, std::size_t ordinal);
    // Converts the times of all events to nanoseconds since the first one of all devices.
    void make_times_relative();
    void add_sources();

    // Counts segments, blocks and entries. Each has a dict of its own in a snapshot, but a file may name one dict in many places.
    void visit(pickle_value one) {
        if (++visited_ > from_.bytes())
            one.fail("the file names its values more often than it has bytes", {});
    }

    pickle_document const& from_;
    imported_recording found_;
    std::vector<device_part> devices_;
    std::vector<pytorch_event> events_;
    pytorch_sites sites_;
    pytorch_repairs repairs_;
    bool has_times_ = false;
    std::size_t visited_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE imported_recording pytorch_importer::run() {
    pickle_value const root = from_.root();
    pickle_value segments = root;  // memory_snapshot() is the list of segments alone
    if (root.kind() == pickle_kind::dict) segments = root.at("segments", "the snapshot");
    segments.each("segments", [&](pickle_value s) { read_segment(s); });
    for (device_part& d : devices_) finish_segments(d);
    if (auto const traces = root.find("device_traces")) {
        std::size_t ordinal = 0;
        traces->each("device_traces", [&](pickle_value trace) { read_trace(trace, ordinal++); });
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](pytorch_event const& a, pytorch_event const& b) { return a.event.at < b.event.at; });
    make_times_relative();
    add_sources();
    recording& made = found_.content;
    made.events.reserve(events_.size());
    for (pytorch_event const& e : events_) made.events.push_back(e.event);
    made.sites = sites_.take();
    if (!made.events.empty())
        made.final_snapshot.taken = made.start_time + std::chrono::microseconds{made.events.back().at / 1000};
    repairs_.early.append_to(
        found_.repairs,
        "{} entries are earlier than their predecessors and got the same times; the first is at byte {}");
    repairs_.unknown.append_to(found_.repairs,
                               "{} entries of unknown kinds were left out; the first is at byte {}");
    repairs_.twice_freed.append_to(
        found_.repairs, "{} frees of blocks that were freed before were left out; the first is at byte {}");
    repairs_.taken_twice.append_to(
        found_.repairs,
        "{} allocations at addresses that were not freed ended the earlier blocks; the first is at byte {}");
    repairs_.gaps.append_to(
        found_.repairs,
        "{} segments are larger than their blocks, and the rest counts as free; the first is at byte {}");
    return std::move(found_);
}

CUOTA_INLINE std::size_t pytorch_importer::device_at(std::uint64_t ordinal, pickle_value where) {
    if (ordinal >= 1024) where.fail("device {} is out of range [0, 1023]", {as_count(ordinal)});
    for (std::size_t i = 0; i != devices_.size(); ++i)
        if (devices_[i].ordinal == ordinal) return i;
    devices_.push_back({.ordinal = ordinal});
    return devices_.size() - 1;
}

// ---- The final state

CUOTA_INLINE void pytorch_importer::read_segment(pickle_value segment) {
    visit(segment);
    std::uint64_t const ordinal = segment.at("device", "a segment").size("device");
    device_part& d = devices_[device_at(ordinal, segment)];
    segment_info s;
    s.address = segment.at("address", "a segment").bits("address");
    s.size = segment.at("total_size", "a segment").size("total_size");
    if (s.size > ~s.address)
        segment.fail("a segment of {} bytes ends above the last address", {as_count(s.size)});
    if (auto const paged = segment.find("is_expandable")) s.is_paged = paged->truth("is_expandable");
    std::uint64_t end = s.address;
    segment.at("blocks", "a segment").each("blocks", [&](pickle_value block) {
        std::size_t const size = block.at("size", "a block").size("size");
        if (size > s.address + s.size - end)
            block.fail("the blocks of the segment at byte {} are larger than it",
                       {as_count(segment.offset())});
        if (size == 0) block.fail("a block has no bytes", {});
        if (auto const address = block.find("address"); address && address->bits("address") != end)
            block.fail("the block does not begin where its predecessor ends", {});
        read_block(block, end, s);
        end += size;
    });
    if (end != s.address + s.size) {
        repairs_.gaps.count(segment.offset());
        s.blocks.push_back({.address = end, .size = s.address + s.size - end});
    }
    d.pool.segments.push_back(std::move(s));
    d.offsets.push_back(segment.offset());
}

CUOTA_INLINE void pytorch_importer::read_block(pickle_value block, std::uint64_t address,
                                               segment_info& into) {
    visit(block);
    block_info b;
    b.address = address;
    b.size = block.at("size", "a block").size("size");
    std::string_view const state = block.at("state", "a block").text("state");
    if (state == "active_allocated") b.use = block_use::live;
    else if (state == "active_pending_free" || state == "active_awaiting_free") b.use = block_use::pending;
    else if (state != "inactive") block.fail("a block has the unknown state {}", {as_name(state, 40)});
    if (b.use == block_use::live) {
        b.requested = b.size;
        pickle_value with_frames = block;
        if (auto const requested = block.find("requested_size")) {
            b.requested = requested->size("requested_size");
        } else if (auto const history = block.find("history")) {  // before PyTorch 2.1
            bool is_first = true;
            history->each("history", [&](pickle_value h) {
                if (!std::exchange(is_first, false)) return;
                b.requested = h.at("real_size", "a history").size("real_size");
                with_frames = h;
            });
        }
        if (b.requested > b.size)
            block.fail("{} bytes were requested of a block of {}", {as_count(b.requested), as_count(b.size)});
        event_site const site = sites_.at(sites_.of(with_frames));
        b.name = site.name;
        b.where = site.where;
    }
    into.blocks.push_back(b);
}

CUOTA_INLINE void pytorch_importer::finish_segments(device_part& d) {
    std::vector<std::size_t> order(d.pool.segments.size());
    for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return d.pool.segments[a].address < d.pool.segments[b].address;
    });
    std::vector<segment_info> sorted;
    sorted.reserve(order.size());
    for (std::size_t const i : order) {
        segment_info& s = d.pool.segments[i];
        if (s.size == 0) continue;
        if (!sorted.empty() && s.address < sorted.back().address + sorted.back().size)
            throw_data_error(from_.name(), d.offsets[i], "the segment overlaps another one of device {}",
                             {as_count(d.ordinal)});
        sorted.push_back(std::move(s));
    }
    d.pool.segments = std::move(sorted);

    pool_stats& sums = d.pool.stats;
    std::map<std::string_view, tag_info> tags;
    for (segment_info const& s : d.pool.segments) {
        sums.reserved += s.size;
        ++sums.segments;
        for (block_info const& b : s.blocks) {
            bool const is_live = b.use == block_use::live;
            if (is_live || b.use == block_use::pending) sums.active += b.size;
            if (is_live) {
                sums.requested += b.requested;
                sums.allocated += b.size;
                ++sums.live_blocks;
                tag_info& t = tags.try_emplace(b.name.text(), tag_info{.name = b.name}).first->second;
                ++t.live_blocks;
                t.requested += b.requested;
                t.allocated += b.size;
            } else {
                ++sums.free_blocks;
                sums.largest_free = std::max(sums.largest_free, b.size);
            }
        }
    }
    for (auto const& [name, t] : tags) d.pool.tags.push_back(t);
    std::stable_sort(d.pool.tags.begin(), d.pool.tags.end(),
                     [](tag_info const& a, tag_info const& b) { return a.allocated > b.allocated; });
}

CUOTA_INLINE void pytorch_importer::read_trace(pickle_value trace, std::size_t ordinal) {
    std::optional<std::size_t> device;
    std::optional<pytorch_trace> reader;
    trace.each("a device's trace", [&](pickle_value one) {
        if (!reader) {
            device = device_at(ordinal, trace);
            reader.emplace(*device, sites_, repairs_, events_);
        }
        visit(one);
        reader->read(one);
    });
    if (!reader) return;
    devices_[*device].limit = reader->finish(devices_[*device].pool);
    has_times_ = has_times_ || reader->has_times();
}

CUOTA_INLINE void pytorch_importer::make_times_relative() {
    if (events_.empty()) return;
    std::uint64_t const first = events_.front().event.at;  // they are sorted
    for (pytorch_event& e : events_) e.event.at = (e.event.at - first) * 1000;
    if (has_times_)
        found_.content.start_time = std::chrono::system_clock::time_point{
            std::chrono::microseconds{static_cast<std::int64_t>(first)}};
}

CUOTA_INLINE void pytorch_importer::add_sources() {
    recording& made = found_.content;
    made.sources.push_back({source_kind::program, "PyTorch"});
    std::vector<std::uint16_t> pool_of(devices_.size());
    for (std::size_t i = 0; i != devices_.size(); ++i) {
        device_part& d = devices_[i];
        pool_stats& s = d.pool.stats;
        s.peak_requested = std::max(s.peak_requested, s.requested);  // without a trace
        s.peak_allocated = std::max(s.peak_allocated, s.allocated);
        s.peak_active = std::max(s.peak_active, s.active);
        s.peak_reserved = std::max(s.peak_reserved, s.reserved);
        std::string const name = message("device {}", {as_count(d.ordinal)});
        d.pool.name = message("PyTorch:{}", {as_count(d.ordinal)});
        d.pool.device = static_cast<int>(d.ordinal);
        d.pool.budget = made.final_snapshot.budgets.size();
        budget_entry account;
        account.facts = {.name = name, .limit = d.limit, .held = s.reserved, .peak = s.peak_reserved};
        auto const budget = static_cast<std::uint16_t>(made.sources.size());
        made.sources.push_back(
            {.kind = source_kind::budget, .name = name, .device = d.pool.device, .limit = d.limit});
        pool_of[i] = static_cast<std::uint16_t>(made.sources.size());
        made.sources.push_back({.kind = source_kind::pool,
                                .name = d.pool.name,
                                .device = d.pool.device,
                                .budget = budget,
                                .pool = made.final_snapshot.pools.size()});
        made.final_snapshot.budgets.push_back(std::move(account));
        made.final_snapshot.pools.push_back(std::move(d.pool));
    }
    for (pytorch_event& e : events_) {
        bool const is_of_budget = e.event.kind == event_kind::refused;
        std::uint16_t const pool = pool_of[e.device];
        e.event.source = e.event.kind == event_kind::marker ? std::uint16_t{0}
                         : is_of_budget                     ? static_cast<std::uint16_t>(pool - 1)
                                                            : pool;
    }
}

}  // namespace cuota::inline v0::detail

#endif
