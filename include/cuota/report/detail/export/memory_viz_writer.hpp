// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `memory_viz`: writes PyTorch's snapshot of a recording.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/detail/export/memory_viz_trace.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

class memory_viz_planner {
public:
    memory_viz_planner(recording const& r, std::vector<std::uint16_t> const& chosen, std::size_t elsewhere);

    [[nodiscard]] memory_viz_plan plan();

private:
    // For a budget: the device of the first pool charged to it.
    [[nodiscard]] std::size_t device_of(std::size_t source) const;
    [[nodiscard]] bool is_under(std::size_t inner, std::size_t outer) const;
    // Paged in the snapshot, or because segments were released in parts or together.
    [[nodiscard]] std::vector<bool> pages() const;

    recording const& all_;
    std::size_t const elsewhere_;
    std::vector<bool> is_chosen_;
};

template <class Encoder>
class memory_viz_writer {
public:
    memory_viz_writer(recording const& r, memory_viz_plan const& plan, Encoder& to)
        : all_{r}, plan_{plan}, to_{to} {
        auto const began =
            std::chrono::duration_cast<std::chrono::microseconds>(r.start_time.time_since_epoch());
        if (began.count() > 0) began_us_ = static_cast<std::uint64_t>(began.count());
    }

    void run() {
        to_.begin_document();
        to_.begin_object();
        to_.key("device_traces");
        to_.begin_list();
        for (std::size_t d = 0; d != plan_.devices; ++d) trace(d);
        to_.end_list();
        to_.key("segments");
        to_.begin_list();
        for (std::size_t i = 0; i != all_.sources.size(); ++i)
            if (auto const* const pool = plan_.device_of[i] ? memory_viz_pool(all_, i) : nullptr)
                for (segment_info const& s : pool->segments) segment(i, s);
        for (memory_viz_block const& b : pieces_) segment(b);
        to_.end_list();
        to_.end_object();
        to_.end_document();
    }

private:
    void add(std::string_view name, std::uint64_t value) {
        to_.key(name);
        to_.number(value);
    }
    void add(std::string_view name, std::string_view value) {
        to_.key(name);
        to_.text(value);
    }
    void add(std::string_view name, char const* value) { add(name, std::string_view{value}); }
    [[nodiscard]] static std::uint64_t known(std::uint64_t stream) {
        return stream == memory_event::no_stream ? 0 : stream;
    }

    void frames(tag name, source_location where) {
        to_.key("frames");
        to_.begin_list();
        if (!name.is_empty() || *where.file != '\0') {
            to_.begin_object();
            add("filename", where.file);
            add("line", std::uint64_t{where.line});
            add("name", name.is_empty() ? "untagged" : name.text());
            to_.end_object();
        }
        to_.end_list();
    }
    void frames(std::uint32_t site) {
        if (site < all_.sites.size()) frames(all_.sites[site].name, all_.sites[site].where);
        else frames({}, {});
    }

    void trace(std::size_t device) {
        to_.begin_list();
        auto const put = [this](memory_viz_entry const& e) { entry(e); };
        memory_viz_trace<decltype(put)> t{all_, plan_, device, next_address_, put};
        t.run();
        to_.end_list();
        auto const left = t.pieces();
        pieces_.insert(pieces_.end(), left.begin(), left.end());
    }
    void entry(memory_viz_entry const& e) {
        to_.begin_object();
        add("action", e.action);
        add("addr", e.address);
        // The viewer reads 9-byte numbers as BigInt, which its texts and sums do not accept.
        constexpr std::uint64_t most = ~std::uint64_t{0} >> 1;
        add("size", std::min(std::uint64_t{e.bytes}, most));
        add("stream", known(e.stream));
        add("time_us", began_us_ + e.at / 1000);
        if (e.device_free) add("device_free", std::min(std::uint64_t{*e.device_free}, most));
        add("user_metadata", all_.sources[e.source].name);
        frames(e.site);
        to_.end_object();
    }

    struct totals {
        std::size_t allocated = 0;
        std::size_t active = 0;
        std::size_t requested = 0;
    };
    void head(std::size_t source, std::uint64_t address, std::size_t size, totals const& sums) {
        add("device", std::uint64_t{*plan_.device_of[source]});
        add("address", address);
        add("total_size", std::uint64_t{size});
        add("stream", std::uint64_t{0});
        add("segment_type", size <= std::size_t{2} << 20 ? "small" : "large");
        add("allocated_size", std::uint64_t{sums.allocated});
        add("active_size", std::uint64_t{sums.active});
        add("requested_size", std::uint64_t{sums.requested});
        to_.key("is_expandable");
        to_.truth(plan_.is_paged[source]);
        to_.key("segment_pool_id");  // PyTorch's default pool; the viewer hides unused others
        to_.begin_list();
        to_.number(0);
        to_.number(0);
        to_.end_list();
        add("user_metadata", all_.sources[source].name);
        frames({}, {});
    }
    void block(std::uint64_t address, std::size_t size, std::size_t requested, char const* state, tag name,
               source_location where) {
        to_.begin_object();
        add("address", address);
        add("size", std::uint64_t{size});
        add("requested_size", std::uint64_t{requested});
        add("state", state);
        frames(name, where);
        to_.end_object();
    }
    // The viewer computes addresses from the sizes of blocks.
    void gap(std::uint64_t from, std::uint64_t until) {
        if (from < until) block(from, until - from, 0, "inactive", {}, {});
    }

    void segment(std::size_t source, segment_info const& s) {
        totals sums;
        for (block_info const& b : s.blocks) {
            if (b.use == block_use::live || b.use == block_use::pending) sums.active += b.size;
            if (b.use != block_use::live) continue;
            sums.allocated += b.size;
            sums.requested += b.requested;
        }
        to_.begin_object();
        head(source, s.address, s.size, sums);
        to_.key("blocks");
        to_.begin_list();
        std::uint64_t end = s.address;
        for (block_info const& b : s.blocks) {
            gap(end, b.address);
            bool const is_live = b.use == block_use::live;
            char const* const state = is_live                       ? "active_allocated"
                                      : b.use == block_use::pending ? "active_pending_free"
                                                                    : "inactive";
            block(b.address, b.size, is_live ? b.requested : 0, state, b.name, b.where);
            end = b.address + b.size;
        }
        gap(end, s.address + s.size);
        to_.end_list();
        to_.end_object();
    }
    void segment(memory_viz_block const& b) {
        event_site const site = site_in(all_, b.site);
        to_.begin_object();
        head(b.source, b.address, b.size, {b.size, b.size, b.bytes});
        to_.key("blocks");
        to_.begin_list();
        block(b.address, b.size, b.bytes, "active_allocated", site.name, site.where);
        to_.end_list();
        to_.end_object();
    }

    recording const& all_;
    memory_viz_plan const& plan_;
    Encoder& to_;
    std::uint64_t began_us_ = 0;
    // Beyond all memory, and exact in the viewer's doubles.
    std::uint64_t next_address_ = std::uint64_t{1} << 52;
    std::vector<memory_viz_block> pieces_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE memory_viz_planner::memory_viz_planner(recording const& r,
                                                    std::vector<std::uint16_t> const& chosen,
                                                    std::size_t elsewhere)
    : all_{r}, elsewhere_{elsewhere}, is_chosen_(r.sources.size(), chosen.empty()) {
    for (std::uint16_t const s : chosen) is_chosen_[s] = true;
}

CUOTA_INLINE memory_viz_plan memory_viz_planner::plan() {
    memory_viz_plan p{std::vector<std::optional<std::size_t>>(all_.sources.size()),
                      pages(),
                      1,
                      {},
                      lifetime_builder{all_}.run()};
    for (std::size_t i = 0; i != all_.sources.size(); ++i) {
        if (!is_chosen_[i]) continue;
        p.device_of[i] = device_of(i);
        p.devices = std::max(p.devices, *p.device_of[i] + 1);
    }
    p.has_pages.resize(p.devices);
    for (std::size_t i = 0; i != all_.sources.size(); ++i)
        if (p.device_of[i] && p.is_paged[i]) p.has_pages[*p.device_of[i]] = true;
    return p;
}

CUOTA_INLINE std::size_t memory_viz_planner::device_of(std::size_t source) const {
    event_source const& s = all_.sources[source];
    if (s.device) return static_cast<std::size_t>(*s.device);
    if (s.kind == source_kind::budget)
        for (event_source const& pool : all_.sources)
            if (pool.device && pool.budget && is_under(*pool.budget, source))
                return static_cast<std::size_t>(*pool.device);
    return elsewhere_;
}

CUOTA_INLINE bool memory_viz_planner::is_under(std::size_t inner, std::size_t outer) const {
    std::optional<std::size_t> at = inner;
    for (std::size_t steps = 0; at && *at < all_.sources.size() && steps <= all_.sources.size(); ++steps) {
        if (*at == outer) return true;
        at = all_.sources[*at].parent;
    }
    return false;
}

CUOTA_INLINE std::vector<bool> memory_viz_planner::pages() const {
    std::vector<bool> found(all_.sources.size());
    for (std::size_t i = 0; i != found.size(); ++i)
        if (auto const* const pool = memory_viz_pool(all_, i))
            found[i] = std::ranges::any_of(pool->segments, &segment_info::is_paged);
    std::map<std::pair<std::uint16_t, std::uint64_t>, std::uint64_t> taken;
    for (memory_event const& e : all_.events) {
        if (e.kind == event_kind::segment_allocated) taken[{e.source, e.address}] = e.bytes;
        if (e.kind != event_kind::segment_freed) continue;
        auto at = taken.lower_bound({e.source, e.address + e.bytes});
        if (at == taken.begin() || (--at)->first.first != e.source) continue;
        bool const is_same = at->first.second == e.address && at->second == e.bytes;
        if (!is_same && at->first.second + at->second > e.address) found[e.source] = true;
    }
    return found;
}

}  // namespace cuota::inline v0::detail

#endif
