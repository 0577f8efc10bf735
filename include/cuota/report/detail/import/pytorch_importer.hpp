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
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/detail/import/repair_counter.hpp>
#include <cuota/report/import/imported_recording.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// PyTorch rounds the sizes of blocks up to a multiple.
inline constexpr std::size_t block_granularity = 512;

/// Finds the call site of a stack of frames, the innermost first.
class pytorch_sites {
public:
    /// Returns the index of the site: of the frames of an entry, and its `user_metadata`.
    [[nodiscard]] std::uint32_t of(pickle_value entry);
    /// Returns the index of a site with only a tag.
    [[nodiscard]] std::uint32_t note(tag name) { return index_of({name, {}}); }
    [[nodiscard]] std::vector<event_site> take() { return std::move(sites_); }
    [[nodiscard]] event_site const& at(std::uint32_t index) const { return sites_[index]; }

private:
    [[nodiscard]] event_site site_of(pickle_value frames);
    [[nodiscard]] std::uint32_t index_of(event_site const& site);
    // Stores a text until the program ends.
    [[nodiscard]] tag stored(std::string_view text);

    std::vector<event_site> sites_{event_site{}};
    std::unordered_map<std::uint32_t, event_site> of_frames_;  // by the number of the list
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, std::uint32_t> known_;
};

class pytorch_importer {
public:
    explicit pytorch_importer(pickle_document const& from) : from_{from} {}
    [[nodiscard]] imported_recording run();

private:
    // A sum of bytes along a trace, relative to its beginning.
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
    struct device_part {
        std::size_t ordinal;
        pool_info pool{};
        std::vector<std::uint64_t> offsets{};  // of the segments in the file
        std::size_t limit = unlimited;
    };
    struct timed_event {
        memory_event event;
        std::size_t device;  // index in devices_
    };
    [[nodiscard]] std::size_t device_at(std::uint64_t ordinal, pickle_value where);
    void read_segment(pickle_value segment);
    void read_block(pickle_value block, std::uint64_t address, segment_info& into);
    void finish_segments(device_part& d);

    void read_trace(pickle_value trace, std::size_t ordinal);
    void read_entry(pickle_value one);
    [[nodiscard]] std::uint64_t time_of(pickle_value one);
    void begin(memory_event& e, pickle_value one);
    [[nodiscard]] bool end(memory_event& e, pickle_value one);
    void refuse(pickle_value one);
    void finish_trace(device_part& d);
    void add_sources();

    // Counts segments, blocks and entries. Each has a dict of its own in a snapshot, but a file may name one dict in many places.
    void visit(pickle_value one) {
        if (++visited_ > from_.bytes())
            one.fail("the file names its values more often than it has bytes", {});
    }

    pickle_document const& from_;
    imported_recording found_;
    std::vector<device_part> devices_;
    std::vector<timed_event> events_;
    pytorch_sites sites_;
    std::optional<std::uint64_t> first_us_;
    std::size_t visited_ = 0;
    repair_counter early_, unknown_, twice_freed_, taken_twice_, gaps_;

    // These belong to the trace that is being read.
    std::size_t device_ = 0;
    std::size_t begin_ = 0;  // its first entry in events_
    std::uint64_t last_at_ = 0;
    std::map<std::uint64_t, open_block> open_;
    running_sum requested_, allocated_, reserved_;
    std::vector<std::pair<std::size_t, std::int64_t>> refusals_;  // index in events_, reserved_ then
    std::size_t last_free_ = 0;                                   // at the last refusal
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE tag pytorch_sites::stored(std::string_view text) {
    constexpr std::size_t most = 200;  // bytes of a name in a report
    return tag::named(text.substr(0, most));
}

CUOTA_INLINE event_site pytorch_sites::site_of(pickle_value frames) {
    if (auto const known = of_frames_.find(frames.number()); known != of_frames_.end()) return known->second;
    std::optional<event_site> first, own;
    frames.each("frames", [&](pickle_value frame) {
        if (own) return;
        std::string_view const file = frame.at("filename", "a frame").text("filename");
        event_site site;
        site.name = stored(frame.at("name", "a frame").text("name"));
        site.where = {stored(file).text(), static_cast<unsigned>(frame.at("line", "a frame").bits("line"))};
        bool const is_python = file.ends_with(".py") && file.find("/torch/") == std::string_view::npos;
        if (!first) first = site;
        if (is_python) own = site;
    });
    event_site const site = own ? *own : first.value_or(event_site{});
    of_frames_.emplace(frames.number(), site);
    return site;
}

CUOTA_INLINE std::uint32_t pytorch_sites::of(pickle_value entry) {
    event_site site;
    if (auto const frames = entry.find("frames")) site = site_of(*frames);
    if (auto const more = entry.find("user_metadata"); more && more->kind() == pickle_kind::text)
        if (std::string_view const text = more->text("user_metadata"); !text.empty())
            site.name = stored(text);
    return index_of(site);
}

CUOTA_INLINE std::uint32_t pytorch_sites::index_of(event_site const& site) {
    if (site.name.is_empty() && *site.where.file == '\0') return 0;
    auto const [at, is_new] = known_.try_emplace({site.name.text(), site.where.file, site.where.line}, 0);
    if (is_new) {
        at->second = static_cast<std::uint32_t>(sites_.size());
        sites_.push_back(site);
    }
    return at->second;
}

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
                     [](timed_event const& a, timed_event const& b) { return a.event.at < b.event.at; });
    add_sources();
    recording& made = found_.content;
    made.events.reserve(events_.size());
    for (timed_event const& e : events_) made.events.push_back(e.event);
    made.sites = sites_.take();
    if (first_us_)
        made.start_time = std::chrono::system_clock::time_point{
            std::chrono::microseconds{static_cast<std::int64_t>(*first_us_)}};
    if (!made.events.empty())
        made.final_snapshot.taken = made.start_time + std::chrono::microseconds{made.events.back().at / 1000};
    early_.append_to(
        found_.repairs,
        "{} entries are earlier than their predecessors and got the same times; the first is at byte {}");
    unknown_.append_to(found_.repairs, "{} entries of unknown kinds were left out; the first is at byte {}");
    twice_freed_.append_to(
        found_.repairs, "{} frees of blocks that were freed before were left out; the first is at byte {}");
    taken_twice_.append_to(
        found_.repairs,
        "{} allocations at addresses that were not freed ended the earlier blocks; the first is at byte {}");
    gaps_.append_to(
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
        gaps_.count(segment.offset());
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

// ---- The trace

CUOTA_INLINE std::size_t pytorch_importer::running_sum::at(std::int64_t then,
                                                           std::size_t last) const noexcept {
    std::int64_t const change = then - now;
    if (change >= 0) return saturating_add(last, static_cast<std::size_t>(change));
    return last - std::min(last, static_cast<std::size_t>(-change));
}

CUOTA_INLINE void pytorch_importer::read_trace(pickle_value trace, std::size_t ordinal) {
    open_.clear();
    refusals_.clear();
    requested_ = allocated_ = reserved_ = {};
    last_at_ = 0;
    begin_ = events_.size();
    bool is_empty = true;
    trace.each("a device's trace", [&](pickle_value one) {
        if (std::exchange(is_empty, false)) device_ = device_at(ordinal, trace);
        read_entry(one);
    });
    if (!is_empty) finish_trace(devices_[device_]);
}

CUOTA_INLINE std::uint64_t pytorch_importer::time_of(pickle_value one) {
    constexpr std::uint64_t ns_per_us = 1000;
    auto const time = one.find("time_us");
    if (!time) return events_.size() == begin_ ? 0 : last_at_ + ns_per_us;
    std::uint64_t const us = time->size("time_us");
    if (us > ~std::uint64_t{0} / ns_per_us) time->fail("time_us {} is out of range", {as_count(us)});
    if (!first_us_) first_us_ = us;
    std::uint64_t const at = us < *first_us_ ? 0 : (us - *first_us_) * ns_per_us;
    if (at < last_at_ || us < *first_us_) early_.count(one.offset());
    return std::max(at, last_at_);
}

CUOTA_INLINE void pytorch_importer::read_entry(pickle_value one) {
    visit(one);
    std::string_view const action = one.at("action", "an entry").text("action");
    memory_event e;
    if (action == "alloc") e.kind = event_kind::allocated;
    else if (action == "free_requested") e.kind = event_kind::free_requested;
    else if (action == "free_completed") e.kind = event_kind::free_completed;
    else if (action == "segment_alloc" || action == "segment_map") e.kind = event_kind::segment_allocated;
    else if (action == "segment_free" || action == "segment_unmap") e.kind = event_kind::segment_freed;
    else if (action == "oom") e.kind = event_kind::refused;
    else if (action == "snapshot") e.kind = event_kind::marker;
    else return unknown_.count(one.offset());
    e.at = last_at_ = time_of(one);
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

CUOTA_INLINE void pytorch_importer::begin(memory_event& e, pickle_value one) {
    e.size = round_up(e.bytes, block_granularity);
    auto const [at, is_new] = open_.try_emplace(e.address);
    if (!is_new && !at->second.is_freed) {
        taken_twice_.count(one.offset());
        requested_.subtract(at->second.bytes);
        allocated_.subtract(round_up(at->second.bytes, block_granularity));
    }
    at->second = {e.bytes, false, events_.size()};
    requested_.add(e.bytes);
    allocated_.add(e.size);
}

// Returns whether the event counts.
CUOTA_INLINE bool pytorch_importer::end(memory_event& e, pickle_value one) {
    auto const [at, is_older] = open_.try_emplace(e.address, open_block{e.bytes, false, {}});
    open_block& block = at->second;
    bool const is_request = e.kind == event_kind::free_requested;
    if (is_request && block.is_freed) return twice_freed_.count(one.offset()), false;
    // The completion of a free before the trace.
    if (is_older && !is_request) {
        block.is_freed = true;
        e.size = round_up(e.bytes, block_granularity);
        open_.erase(at);
        return true;
    }
    e.bytes = block.bytes;
    e.size = round_up(e.bytes, block_granularity);
    if (!block.is_freed) {
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

CUOTA_INLINE void pytorch_importer::refuse(pickle_value one) {
    last_free_ = one.at("device_free", "an oom entry").size("device_free");
    if (last_free_ > std::size_t{1} << 60) one.fail("device_free {} is out of range", {as_count(last_free_)});
    refusals_.emplace_back(events_.size(), reserved_.now);
}

CUOTA_INLINE void pytorch_importer::finish_trace(device_part& d) {
    pool_stats& s = d.pool.stats;
    for (auto const& [index, then] : refusals_) events_[index].event.size = reserved_.at(then, s.reserved);
    if (!refusals_.empty()) d.limit = saturating_add(events_[refusals_.back().first].event.size, last_free_);
    // Blocks that are still live have the size that the segments show.
    for (segment_info const& segment : d.pool.segments)
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
    for (timed_event& e : events_) {
        bool const is_of_budget = e.event.kind == event_kind::refused;
        std::uint16_t const pool = pool_of[e.device];
        e.event.source = e.event.kind == event_kind::marker ? std::uint16_t{0}
                         : is_of_budget                     ? static_cast<std::uint16_t>(pool - 1)
                                                            : pool;
    }
}

}  // namespace cuota::inline v0::detail

#endif
