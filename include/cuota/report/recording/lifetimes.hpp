// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the lifetimes in a recording.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// Lifetime of a block. Times are nanoseconds since recording::start_time.
struct block_lifetime {
    std::uint16_t source = 0;                        ///< index in recording::sources
    std::uint32_t site = 0;                          ///< index in recording::sites; 0: unknown
    std::uint64_t address = 0;                       ///< of its first byte
    std::size_t bytes = 0;                           ///< as requested
    std::size_t size = 0;                            ///< rounded up
    std::uint64_t stream = memory_event::no_stream;  ///< id of the allocating stream
    std::optional<std::uint64_t> from{};             ///< allocated; none: before the first event
    std::optional<std::uint64_t> until{};            ///< freed; none: still live
    std::optional<std::uint64_t> completed{};        ///< observed as unused; none: unknown
};

/// Lifetime of a segment, or of a part if pages were released singly.
struct segment_lifetime {
    std::uint16_t source = 0;              ///< index in recording::sources
    std::uint64_t address = 0;             ///< of its first byte
    std::size_t bytes = 0;                 ///< bytes
    std::optional<std::uint64_t> from{};   ///< none: before the first event
    std::optional<std::uint64_t> until{};  ///< none: still reserved
};

/// Lifetimes by beginning; those from before the recording come first.
struct memory_lifetimes {
    std::vector<block_lifetime> blocks{};      ///< of all sources
    std::vector<segment_lifetime> segments{};  ///< of all pools
};

namespace detail {

class lifetime_builder {
public:
    explicit lifetime_builder(recording const& r) : all_{r} {}

    [[nodiscard]] memory_lifetimes run();

private:
    using key = std::pair<std::uint16_t, std::uint64_t>;  // a source and an address

    void apply(memory_event const& e);
    // Ends an open block at this address, freed while the recorder was paused.
    void begin(memory_event const& e);
    void end(memory_event const& e);
    void complete(memory_event const& e);
    void end_segments(memory_event const& e);
    [[nodiscard]] std::map<key, std::size_t>::iterator first_that_ends_after(std::uint16_t source,
                                                                             std::uint64_t address);
    void add_ended(memory_event const& e, std::uint64_t first, std::uint64_t last);
    void reopen(segment_lifetime part, std::uint64_t first, std::uint64_t last);

    // Ends blocks that a complete snapshot lacks: they were freed while the recorder was paused.
    void end_what_is_gone(std::uint16_t source, pool_info const& pool);
    void add_what_never_changed(std::uint16_t source, segment_info const& s);
    [[nodiscard]] std::uint32_t site_of(block_info const& b);
    using site_key = std::tuple<std::string_view, std::string_view, unsigned>;
    [[nodiscard]] static site_key key_of(tag name, source_location where) noexcept;

    recording const& all_;
    memory_lifetimes found_;
    std::map<key, std::size_t> open_blocks_;    // indices in found_.blocks
    std::map<key, std::size_t> ended_;          // the last one freed there and not completed
    std::map<key, std::size_t> open_segments_;  // indices in found_.segments
    std::map<site_key, std::uint32_t> sites_;
};

}  // namespace detail

/// Returns the lifetimes in a recording. Blocks allocated before the first event are known from their free events or the final snapshot.
/// Throws: std::bad_alloc. Cost: O(n log n) in the events. Threads: any.
/// Example: auto const blocks = cuota::lifetimes_of(recorder.read()).blocks;
[[nodiscard]] inline memory_lifetimes lifetimes_of(recording const& r,
                                                   source_location where = source_location::current()) {
    detail::check_recording(r, where);
    return detail::lifetime_builder{r}.run();
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE memory_lifetimes lifetime_builder::run() {
    for (memory_event const& e : all_.events) apply(e);
    for (std::size_t i = 0; i != all_.sources.size(); ++i)
        if (auto const pool = all_.sources[i].pool)
            end_what_is_gone(static_cast<std::uint16_t>(i), all_.final_snapshot.pools[*pool]);
    auto const older = [](auto const& a, auto const& b) { return a.from < b.from; };  // none precedes all
    sort_stably(found_.blocks, older);
    sort_stably(found_.segments, older);
    return std::move(found_);
}

CUOTA_INLINE void lifetime_builder::apply(memory_event const& e) {
    switch (e.kind) {
        case event_kind::allocated: return begin(e);
        case event_kind::free_requested: return end(e);
        case event_kind::free_completed: return complete(e);
        case event_kind::segment_allocated:
            open_segments_[{e.source, e.address}] = found_.segments.size();
            found_.segments.push_back({e.source, e.address, e.bytes, e.at, std::nullopt});
            return;
        case event_kind::segment_freed: return end_segments(e);
        default: return;
    }
}

CUOTA_INLINE void lifetime_builder::begin(memory_event const& e) {
    if (auto const open = open_blocks_.find({e.source, e.address}); open != open_blocks_.end())
        found_.blocks[open->second].until = e.at;
    open_blocks_[{e.source, e.address}] = found_.blocks.size();
    found_.blocks.push_back({e.source, e.site, e.address, e.bytes, e.size, e.stream, e.at, {}, {}});
}

CUOTA_INLINE void lifetime_builder::end(memory_event const& e) {
    auto const open = open_blocks_.find({e.source, e.address});
    std::size_t at = found_.blocks.size();
    if (open == open_blocks_.end()) {
        found_.blocks.push_back({e.source, e.site, e.address, e.bytes, e.size, e.stream, {}, {}, {}});
    } else {
        at = open->second;
        open_blocks_.erase(open);
    }
    found_.blocks[at].until = e.at;
    ended_[{e.source, e.address}] = at;
}

CUOTA_INLINE void lifetime_builder::complete(memory_event const& e) {
    auto const ended = ended_.find({e.source, e.address});
    if (ended == ended_.end()) return;  // freed before the first event
    found_.blocks[ended->second].completed = e.at;
    ended_.erase(ended);
}

CUOTA_INLINE void lifetime_builder::end_segments(memory_event const& e) {
    if (e.bytes == 0) return;  // an empty range must not split a segment
    std::uint64_t const stop = e.address + e.bytes;
    std::uint64_t known = e.address;  // end of the part found so far
    auto open = first_that_ends_after(e.source, e.address);
    while (open != open_segments_.end() && open->first < key{e.source, stop}) {
        std::size_t const index = open->second;
        open_segments_.erase(open);
        segment_lifetime const whole = found_.segments[index];
        std::uint64_t const first = std::max(whole.address, e.address);
        std::uint64_t const last = std::min(whole.address + whole.bytes, stop);
        if (known < first) add_ended(e, known, first);
        found_.segments[index] = {e.source, first, last - first, whole.from, e.at};
        if (whole.address < first) reopen(whole, whole.address, first);
        if (last < whole.address + whole.bytes) reopen(whole, last, whole.address + whole.bytes);
        known = last;
        open = first_that_ends_after(e.source, known);
    }
    if (known < stop) add_ended(e, known, stop);
}

CUOTA_INLINE auto lifetime_builder::first_that_ends_after(std::uint16_t source, std::uint64_t address)
    -> std::map<key, std::size_t>::iterator {
    auto at = open_segments_.upper_bound({source, address});
    if (at == open_segments_.begin()) return at;
    auto const before = std::prev(at);
    segment_lifetime const& s = found_.segments[before->second];
    return s.source == source && s.address + s.bytes > address ? before : at;
}

CUOTA_INLINE void lifetime_builder::add_ended(memory_event const& e, std::uint64_t first,
                                              std::uint64_t last) {
    found_.segments.push_back({e.source, first, last - first, std::nullopt, e.at});
}

CUOTA_INLINE void lifetime_builder::reopen(segment_lifetime part, std::uint64_t first, std::uint64_t last) {
    part.address = first;
    part.bytes = last - first;
    open_segments_[{part.source, first}] = found_.segments.size();
    found_.segments.push_back(part);
}

CUOTA_INLINE void lifetime_builder::end_what_is_gone(std::uint16_t source, pool_info const& pool) {
    std::set<std::uint64_t> live;
    for (segment_info const& s : pool.segments) {
        add_what_never_changed(source, s);
        for (block_info const& b : s.blocks)
            if (b.use == block_use::live) live.insert(b.address);
    }
    if (pool.segments.empty() || live.size() != pool.stats.live_blocks) return;
    for (auto const& [at, index] : open_blocks_)
        if (at.first == source && !live.contains(at.second))
            found_.blocks[index].until = all_.events.back().at;
}

CUOTA_INLINE void lifetime_builder::add_what_never_changed(std::uint16_t source, segment_info const& s) {
    std::uint64_t known = s.address;
    std::uint64_t const stop = s.address + s.size;
    auto const add = [&](std::uint64_t first, std::uint64_t last) {
        if (first < last) found_.segments.push_back({source, first, last - first, {}, {}});
    };
    for (auto open = first_that_ends_after(source, known);
         open != open_segments_.end() && open->first < key{source, stop}; ++open) {
        segment_lifetime const part = found_.segments[open->second];
        add(known, part.address);
        known = part.address + part.bytes;
    }
    add(known, stop);
    for (block_info const& b : s.blocks)
        if (b.use == block_use::live && !open_blocks_.contains({source, b.address}))
            found_.blocks.push_back({source,
                                     site_of(b),
                                     b.address,
                                     b.requested,
                                     b.size,
                                     b.stream.value_or(memory_event::no_stream),
                                     {},
                                     {},
                                     {}});
}

CUOTA_INLINE std::uint32_t lifetime_builder::site_of(block_info const& b) {
    if (sites_.empty())
        for (std::size_t i = all_.sites.size(); i-- != 0;)
            sites_[key_of(all_.sites[i].name, all_.sites[i].where)] = static_cast<std::uint32_t>(i);
    auto const found = sites_.find(key_of(b.name, b.where));
    return found == sites_.end() ? 0 : found->second;
}

CUOTA_INLINE auto lifetime_builder::key_of(tag name, source_location where) noexcept -> site_key {
    return {name.text(), where.file, where.line};
}

}  // namespace cuota::inline v0::detail

#endif
