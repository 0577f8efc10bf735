// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads a pool and its blocks at one moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0::detail {

/// Reads a heap for a snapshot. Requires the pool's lock, and stats computed before, which polls the streams.
class heap_view {
public:
    heap_view(block_heap& heap, tag_peaks const* peaks) : heap_{heap}, peaks_{peaks} {}

    /// Returns the tags by descending bytes.
    [[nodiscard]] std::vector<tag_info> tags() const;

    [[nodiscard]] std::vector<segment_info> segments() const;

private:
    // Adds runs of mapped pages, without those being mapped.
    void add_range(std::vector<segment_info>& all) const;
    void add_segments(std::vector<segment_info>& all) const;
    [[nodiscard]] static std::size_t size_from(block const* first) noexcept;
    void append(segment_info& to, block const& b) const;
    [[nodiscard]] block_info facts_of(block const& b) const;
    [[nodiscard]] block_use use_of(block const& b) const;
    [[nodiscard]] static std::uint64_t address(block const& b) noexcept;

    block_heap& heap_;
    tag_peaks const* peaks_;
};

/// Reads a pool except its budget, and calls at_that_instant() under its lock.
template <class AtThatInstant>
[[nodiscard]] pool_info view_of(pool_state const& pool, bool with_blocks, AtThatInstant at_that_instant) {
    pool_info facts;
    facts.name = pool.blocks().name().is_empty() ? "pool" : pool.blocks().name().text();
    if (auto const on = pool.on()) facts.device = on->ordinal();
    facts.memory = pool.kind();
    pool.blocks().at_rest([&](block_heap& heap, pool_stats const& now, tag_peaks const* peaks) {
        heap_view const view{heap, peaks};
        facts.stats = now;
        facts.tags = view.tags();
        if (with_blocks) {
            facts.segments = view.segments();
            // The pool's own count includes pages being mapped.
            facts.stats.segments = facts.segments.size();
        }
        at_that_instant();
    });
    return facts;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<tag_info> heap_view::tags() const {
    std::map<std::string_view, tag_info> by_name;
    for (tag_stats const& t : stats_by_tag(heap_.blocks(), heap_.steps().now()))
        by_name[t.name.text()] = {t.name, t.live_blocks, t.requested, t.allocated, t.oldest, {}};
    if (peaks_)
        peaks_->for_each([&](tag name, std::size_t peak) {
            tag_info& t = by_name[name.text()];
            t.name = name;
            t.peak = std::max(t.peak.value_or(0), peak);
        });
    std::vector<tag_info> most_first;
    most_first.reserve(by_name.size());
    for (auto const& [name, t] : by_name) most_first.push_back(t);
    sort_stably(most_first, std::greater<>{}, &tag_info::allocated);
    return most_first;
}

CUOTA_INLINE std::vector<segment_info> heap_view::segments() const {
    std::vector<segment_info> all;
    add_range(all);
    add_segments(all);
    std::ranges::sort(all, {}, &segment_info::address);
    return all;
}

CUOTA_INLINE void heap_view::add_range(std::vector<segment_info>& all) const {
    bool is_in_run = false;
    heap_.blocks().for_each_in_range([&](block const& b) {
        bool const has_memory = !b.is_hole() && !b.has_state(block::state::growing);
        if (has_memory && !is_in_run) all.push_back({address(b), 0, true, {}});
        is_in_run = has_memory;
        if (has_memory) append(all.back(), b);
    });
}

CUOTA_INLINE void heap_view::add_segments(std::vector<segment_info>& all) const {
    std::map<std::uint64_t, block const*> first;  // of each segment, by address
    auto const note_first = [&](block const& b) {
        // A block that waits for the host is neither live nor free.
        if (b.before && !b.before->has_state(block::state::in_transition)) return;
        block const* at = &b;
        while (at->before) at = at->before;
        first.emplace(address(*at), at);
    };
    heap_.blocks().for_each_live(note_first);
    heap_.blocks().for_each_free(note_first);
    heap_.for_each_segment([&](segment const& s) {
        segment_info facts{reinterpret_cast<std::uintptr_t>(s.at), 0, false, {}};
        auto const found = first.find(facts.address);
        // A segment being returned to the driver has no blocks, and a new one may have its address.
        if (found != first.end() && size_from(found->second) == s.bytes) {
            for (block const* b = found->second; b; b = b->after) append(facts, *b);
            first.erase(found);
        }
        if (facts.blocks.empty()) {  // the whole segment is being returned
            block_info whole;
            whole.address = facts.address;
            whole.size = facts.size = s.bytes;
            whole.use = block_use::releasing;
            facts.blocks.push_back(whole);
        }
        all.push_back(std::move(facts));
    });
}

CUOTA_INLINE std::size_t heap_view::size_from(block const* first) noexcept {
    std::size_t all = 0;
    for (block const* b = first; b; b = b->after) all += b->size;
    return all;
}

CUOTA_INLINE void heap_view::append(segment_info& to, block const& b) const {
    to.size += b.size;
    to.blocks.push_back(facts_of(b));
}

CUOTA_INLINE block_info heap_view::facts_of(block const& b) const {
    block_info facts;
    facts.address = address(b);
    facts.size = b.size;
    facts.use = use_of(b);
    if (facts.use != block_use::live) return facts;
    facts.requested = b.requested;
    facts.name = b.note->name;
    facts.where = b.note->where;
    facts.lifetime = b.note->epoch.lifetime();
    facts.age = b.note->epoch.age(heap_.steps().now());
    if (b.note->stream != block_metadata::no_stream) facts.stream = b.note->stream;
    return facts;
}

CUOTA_INLINE block_use heap_view::use_of(block const& b) const {
    // A block that the host frees after a wait counts as live during the wait.
    if (heap_.blocks().find_live(b.at()) == &b) return block_use::live;
    if (!b.may_merge()) return block_use::releasing;
    bool in_use = false;
    b.waits.for_each([&](wait_point point) { in_use |= !heap_.order().was_over(point); });
    return in_use ? block_use::pending : block_use::free;
}

CUOTA_INLINE std::uint64_t heap_view::address(block const& b) noexcept {
    return reinterpret_cast<std::uintptr_t>(b.at());
}

}  // namespace cuota::inline v0::detail

#endif
