// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Converts a recording to a trace per device for PyTorch's viewer; no address has two owners.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// Assigns the chosen sources to devices of the viewer.
struct memory_viz_plan {
    std::vector<std::optional<std::size_t>> device_of{};  ///< by source
    /// Indexed by source: releases parts of segments.
    std::vector<bool> is_paged{};
    std::size_t devices = 0;  ///< highest device + 1
    /// Indexed by device: segments are pages (segment_map, segment_unmap).
    std::vector<bool> has_pages{};
    memory_lifetimes all{};

    [[nodiscard]] bool shows(std::uint16_t source, std::size_t device) const;
};

struct memory_viz_entry {
    char const* action;
    std::uint16_t source;
    std::uint32_t site;
    std::uint64_t at;
    std::uint64_t address;
    std::size_t bytes;
    std::uint64_t stream;
    std::optional<std::size_t> device_free{};
};

struct memory_viz_block {
    std::uint16_t source;
    std::uint32_t site;
    std::uint64_t address;
    std::size_t bytes;  ///< as requested
    std::size_t size;
    std::uint64_t stream;
};

/// Returns a source's pool in the final snapshot; null if it, or the segments of its live blocks, are missing.
[[nodiscard]] pool_info const* memory_viz_pool(recording const& r, std::size_t source);

/// Makes the entries of one device in event order. A block freed while the recorder was paused ends when its address is allocated again, or
/// at the end if the snapshot does not have it.
template <class OnEntry>
class memory_viz_trace {
public:
    memory_viz_trace(recording const& r, memory_viz_plan const& plan, std::size_t device,
                     std::uint64_t& next_address, OnEntry on_entry)
        : all_{r}, plan_{plan}, device_{device}, next_address_{next_address}, on_entry_{on_entry} {}

    void run() {
        if (std::ranges::find(plan_.device_of, device_) == plan_.device_of.end()) return;
        for (segment_lifetime const& s : plan_.all.segments)
            if (!s.from && plan_.shows(s.source, device_)) runs_[{s.source, s.address}] = s.bytes;
        for (memory_event const& e : all_.events) {
            last_ = std::max(last_, e.at);
            if (plan_.shows(e.source, device_)) apply(e);
        }
        end_what_is_not_there();
    }
    /// Returns live blocks outside pools; each is a segment.
    [[nodiscard]] std::vector<memory_viz_block> pieces() const {
        std::vector<memory_viz_block> found;
        for (auto const& [where, b] : open_)
            if (is_piece(b.source)) found.push_back(b);
        return found;
    }

private:
    using key = std::pair<std::uint16_t, std::uint64_t>;  // a source and an address

    void apply(memory_event const& e) {
        switch (e.kind) {
            case event_kind::allocated: return begin(e);
            case event_kind::free_requested: return end(e);
            case event_kind::segment_allocated:
                give_back(e.source, e.site, e.address, e.address + e.bytes, e.at);
                runs_[{e.source, e.address}] = e.bytes;
                return put(taken(), e);
            case event_kind::segment_freed:
                return give_back(e.source, e.site, e.address, e.address + e.bytes, e.at);
            case event_kind::refused: return refuse(e);
            default: return;
        }
    }

    // Going backwards, the viewer inserts the highest freed segment before the last one and finds no neighbors for pages, so segments are
    // pages on such devices.
    [[nodiscard]] char const* taken() const {
        return plan_.has_pages[device_] ? "segment_map" : "segment_alloc";
    }
    [[nodiscard]] char const* returned() const {
        return plan_.has_pages[device_] ? "segment_unmap" : "segment_free";
    }

    [[nodiscard]] bool is_piece(std::uint16_t source) const {
        return all_.sources[source].kind != source_kind::pool;
    }
    // Pieces get unique addresses: theirs may be those of objects or of upstream memory.
    [[nodiscard]] memory_viz_block shown(memory_event const& e) {
        memory_viz_block b{e.source, e.site, e.address, e.bytes, std::max(e.bytes, e.size), e.stream};
        if (is_piece(e.source)) {
            b.address = next_address_;
            next_address_ += (b.size | 511) + 1;
        }
        return b;
    }
    void begin(memory_event const& e) {
        auto const open = open_.find({e.source, e.address});
        if (open != open_.end()) finish(open->second, open->second.site, e.at);
        memory_viz_block const b = shown(e);
        open_.insert_or_assign({e.source, e.address}, b);
        if (is_piece(e.source)) put(taken(), b, b.site, b.size, e.at);
        put("alloc", b, b.site, b.bytes, e.at);
    }
    void end(memory_event const& e) {
        auto const open = open_.find({e.source, e.address});
        // Older than the recording.
        if (open == open_.end()) return finish(shown(e), e.site, e.at);
        memory_viz_block b = open->second;
        open_.erase(open);
        b.stream = e.stream;
        finish(b, e.site, e.at);
    }
    void finish(memory_viz_block const& b, std::uint32_t site, std::uint64_t at) {
        put("free_requested", b, site, b.bytes, at);
        put("free_completed", b, site, b.bytes, at);
        if (is_piece(b.source)) put(returned(), b, site, b.size, at);
    }

    void give_back(std::uint16_t source, std::uint32_t site, std::uint64_t first, std::uint64_t last,
                   std::uint64_t at) {
        auto run = runs_.lower_bound({source, first});
        if (run != runs_.begin() && std::prev(run)->first.first == source) --run;
        while (run != runs_.end() && run->first < key{source, last}) {
            std::uint64_t const begin = run->first.second;
            std::uint64_t const end = begin + run->second;
            if (end <= first) {
                ++run;
                continue;
            }
            run = runs_.erase(run);
            std::uint64_t const from = std::max(begin, first);
            std::uint64_t const until = std::min(end, last);
            if (begin < from) runs_[{source, begin}] = from - begin;
            if (until < end) runs_[{source, until}] = end - until;
            put_returned(source, site, from, until - from, at);
            run = runs_.lower_bound({source, until});
        }
    }
    void put_returned(std::uint16_t source, std::uint32_t site, std::uint64_t address, std::uint64_t bytes,
                      std::uint64_t at) {
        on_entry_(memory_viz_entry{returned(), source, site, at, address, bytes, memory_event::no_stream});
    }

    void refuse(memory_event const& e) {
        std::size_t const limit = all_.sources[e.source].limit;
        std::size_t const free = limit == unlimited ? driver_free() : limit - std::min(limit, e.size);
        on_entry_(memory_viz_entry{"oom", e.source, e.site, e.at, 0, e.bytes, e.stream, free});
    }
    [[nodiscard]] std::size_t driver_free() const {
        for (device_info const& d : all_.final_snapshot.devices)
            if (d.ordinal == static_cast<int>(device_)) return d.free;
        return 0;
    }

    void end_what_is_not_there() {
        std::vector<key> live;
        for (std::size_t i = 0; i != all_.sources.size(); ++i)
            if (auto const* const pool = memory_viz_pool(all_, i))
                for (segment_info const& s : pool->segments)
                    for (block_info const& b : s.blocks)
                        if (b.use == block_use::live)
                            live.emplace_back(static_cast<std::uint16_t>(i), b.address);
        std::ranges::sort(live);
        for (auto const& [where, b] : open_)
            if (memory_viz_pool(all_, where.first) && !std::ranges::binary_search(live, where))
                finish(b, b.site, last_);
        auto const held = runs_;  // modified by give_back
        for (auto const& [where, bytes] : held)
            if (auto const* const pool = memory_viz_pool(all_, where.first))
                keep_only(*pool, where, where.second + bytes);
    }
    void keep_only(pool_info const& pool, key where, std::uint64_t stop) {
        std::uint64_t known = where.second;
        for (segment_info const& s : pool.segments) {
            if (s.address + s.size <= known || s.address >= stop) continue;
            if (known < s.address) give_back(where.first, 0, known, s.address, last_);
            known = s.address + s.size;
        }
        if (known < stop) give_back(where.first, 0, known, stop, last_);
    }

    void put(char const* action, memory_event const& e) {
        on_entry_(memory_viz_entry{action, e.source, e.site, e.at, e.address, e.bytes, e.stream});
    }
    void put(char const* action, memory_viz_block const& b, std::uint32_t site, std::size_t bytes,
             std::uint64_t at) {
        on_entry_(memory_viz_entry{action, b.source, site, at, b.address, bytes, b.stream});
    }

    recording const& all_;
    memory_viz_plan const& plan_;
    std::size_t const device_;
    std::uint64_t& next_address_;
    OnEntry on_entry_;
    std::uint64_t last_ = 0;
    std::map<key, memory_viz_block> open_;
    std::map<key, std::uint64_t> runs_;  // reserved bytes
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE bool memory_viz_plan::shows(std::uint16_t source, std::size_t device) const {
    return source < device_of.size() && device_of[source] == device;
}

CUOTA_INLINE pool_info const* memory_viz_pool(recording const& r, std::size_t source) {
    auto const& index = r.sources[source].pool;
    if (!index || *index >= r.final_snapshot.pools.size()) return nullptr;
    pool_info const& pool = r.final_snapshot.pools[*index];
    return pool.segments.empty() && pool.stats.live_blocks != 0 ? nullptr : &pool;
}

}  // namespace cuota::inline v0::detail

#endif
