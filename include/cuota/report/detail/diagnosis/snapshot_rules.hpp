// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Applies the rules on snapshots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// Returns for each budget the reclaimable free bytes of pools, caches and loaders below it.
[[nodiscard]] std::vector<std::size_t> cached_below(memory_snapshot const& s);

/// Reports nearly full budgets, except reservations, which are meant to be full.
void find_full_budgets(memory_snapshot const& s, diagnosis_options const& o, std::vector<finding>& to);

void find_elsewhere(device_info const& d, diagnosis_options const& o, std::vector<finding>& to);

void find_rounding(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to);

/// `owner` names the holder, as in "pool work".
void add_pinned(std::string const& owner, std::string const& name, std::size_t asked, std::size_t taken,
                diagnosis_options const& o, std::vector<finding>& to);

/// Compares the peaks of reserved and requested bytes of a pinned pool.
void find_pinned(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to);

/// Maps each byte of a pool to the stream of its last free.
class last_frees {
public:
    last_frees() = default;  ///< empty map
    last_frees(recording const& r, std::size_t pool);

    void count(std::uint64_t address, std::size_t size,
               std::map<std::uint64_t, std::size_t>& by_stream) const;

private:
    struct range {
        std::uint64_t end;
        std::uint64_t stream;
    };
    using ranges = std::map<std::uint64_t, range>;  // by their first address; disjoint

    [[nodiscard]] ranges::const_iterator first_that_ends_after(std::uint64_t address) const;
    void add(memory_event const& e);

    ranges ranges_;
};

/// Names the stream with most pending bytes, known from the blocks, or from the events in `before` of the pool with this index.
void find_pending(pool_info const& p, recording const* before, std::size_t index, diagnosis_options const& o,
                  std::vector<finding>& to);

void find_untagged(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to);

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE std::vector<std::size_t> cached_below(memory_snapshot const& s) {
    std::vector<std::size_t> cached(s.budgets.size());
    auto const add = [&](std::size_t budget, std::size_t bytes) {
        if (budget < cached.size()) cached[budget] = saturating_add(cached[budget], bytes);
    };
    for (pool_info const& p : s.pools) add(p.budget, beyond(p.stats.reserved, p.stats.active));
    for (holder_info const& h : s.holders)
        for (allocation_group const& one : h.allocation_groups)
            if (one.is_cached) add(h.budget, one.bytes);
    for (std::size_t i = cached.size(); i-- != 0;)  // children follow their parents
        if (auto const parent = s.budgets[i].parent; parent && *parent < i) add(*parent, cached[i]);
    return cached;
}

CUOTA_INLINE void find_full_budgets(memory_snapshot const& s, diagnosis_options const& o,
                                    std::vector<finding>& to) {
    std::vector<std::size_t> const cached = cached_below(s);
    for (std::size_t i = 0; i != s.budgets.size(); ++i) {
        budget_info const& b = s.budgets[i].facts;
        std::size_t const in_use = beyond(b.held, cached[i]);
        if (b.limit == unlimited || b.is_reservation || !is_share(in_use, o.budget_share, b.limit)) continue;
        std::size_t const left = beyond(b.limit, in_use);
        finding f{finding_kind::budget_full, severity::warning};
        f.text = words_for("budget", b.name) + " is nearly full: " + bytes_text(in_use) + " in use, " +
                 percent_text(in_use, b.limit) + " of its limit of " + bytes_text(b.limit) + "; " +
                 bytes_text(left) + (left == 1 ? " is left" : " are left");
        f.bytes = in_use;
        f.subject = b.name;
        f.reference_bytes = b.limit;
        to.push_back(std::move(f));
    }
}

CUOTA_INLINE void find_elsewhere(device_info const& d, diagnosis_options const& o, std::vector<finding>& to) {
    std::size_t const all = d.external();
    std::size_t const grown = d.baseline == 0 ? 0 : beyond(all, d.baseline);
    bool const grew = grown != 0 && grown >= o.external_growth;
    if (!grew && (all < o.external_bytes || !is_share(all, o.external_ratio, d.own))) return;
    finding f{finding_kind::external, grew ? severity::warning : severity::note};
    f.text =
        "device " + std::to_string(d.ordinal) + ": " + bytes_text(all) + " are held outside cuota, by the " +
        "CUDA context, libraries or other programs" +
        (grew ? "; at the start it was " + bytes_text(d.baseline) : "; cuota holds " + bytes_text(d.own));
    f.bytes = grew ? grown : all;
    f.subject = d.name;
    f.reference_bytes = d.own;
    to.push_back(std::move(f));
}

CUOTA_INLINE void find_rounding(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to) {
    if (p.memory == memory_kind::pinned) return;  // checked by find_pinned
    for (tag_info const& t : p.tags) {
        std::size_t const lost = beyond(t.allocated, t.requested);
        if (lost < o.rounding_bytes || !is_share(t.allocated, o.rounding_ratio, t.requested)) continue;
        finding f{finding_kind::rounding, severity::note};
        f.text = "rounding in " + words_for("pool", p.name) + ": " + counted(t.live_blocks, "block") +
                 " of " + words_for(t.name) + " requested " + bytes_text(t.requested) + " and occupy " +
                 bytes_text(t.allocated) + ": combine them into one allocation";
        f.bytes = lost;
        f.subject = p.name;
        f.name = t.name;
        f.reference_bytes = t.requested;
        f.count = t.live_blocks;
        to.push_back(std::move(f));
    }
}

CUOTA_INLINE void add_pinned(std::string const& owner, std::string const& name, std::size_t asked,
                             std::size_t taken, diagnosis_options const& o, std::vector<finding>& to) {
    std::size_t const more = beyond(taken, asked);
    if (asked == 0 || more < o.pinned_bytes || !is_share(taken, o.pinned_ratio, asked)) return;
    finding f{finding_kind::pinned, severity::warning};
    f.text = "pinned memory of " + owner + " is " + ratio_text(taken, asked) +
             " the requested size: " + bytes_text(taken) + " for " + bytes_text(asked);
    f.bytes = more;
    f.subject = name;
    f.reference_bytes = asked;
    to.push_back(std::move(f));
}

CUOTA_INLINE void find_pinned(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to) {
    if (p.memory != memory_kind::pinned) return;
    add_pinned(words_for("pool", p.name), p.name, p.stats.peak_requested, p.stats.peak_reserved, o, to);
}

CUOTA_INLINE last_frees::last_frees(recording const& r, std::size_t pool) {
    for (memory_event const& e : r.events)
        if (e.kind == event_kind::free_requested && e.source < r.sources.size() &&
            r.sources[e.source].pool == pool && e.stream != memory_event::no_stream && e.size != 0)
            add(e);
}

CUOTA_INLINE void last_frees::count(std::uint64_t address, std::size_t size,
                                    std::map<std::uint64_t, std::size_t>& by_stream) const {
    std::uint64_t const end = address + size;
    for (auto r = first_that_ends_after(address); r != ranges_.end() && r->first < end; ++r)
        by_stream[r->second.stream] += std::min(end, r->second.end) - std::max(address, r->first);
}

CUOTA_INLINE auto last_frees::first_that_ends_after(std::uint64_t address) const -> ranges::const_iterator {
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    return at;
}

CUOTA_INLINE void last_frees::add(memory_event const& e) {
    std::uint64_t const end = e.address + e.size;
    auto at = first_that_ends_after(e.address);
    while (at != ranges_.end() && at->first < end) {  // cuts older ranges
        auto const [from, old] = *at;
        at = ranges_.erase(at);
        if (from < e.address) ranges_[from] = {e.address, old.stream};
        if (old.end > end) ranges_[end] = old;
    }
    ranges_[e.address] = {end, e.stream};
}

CUOTA_INLINE void find_pending(pool_info const& p, recording const* before, std::size_t index,
                               diagnosis_options const& o, std::vector<finding>& to) {
    std::size_t const pending = beyond(p.stats.active, p.stats.allocated);
    if (pending < o.pending_bytes || !is_share(pending, o.pending_share, p.stats.active)) return;
    last_frees const frees = before ? last_frees{*before, index} : last_frees{};
    std::map<std::uint64_t, std::size_t> by_stream;
    std::size_t blocks = 0;
    for (segment_info const& s : p.segments)
        for (block_info const& b : s.blocks)
            if (b.use == block_use::pending) {
                ++blocks;
                if (b.stream) by_stream[*b.stream] += b.size;
                else frees.count(b.address, b.size, by_stream);
            }
    finding f{finding_kind::pending, severity::note};
    f.text = words_for("pool", p.name) + ": " + bytes_text(pending) +
             " were freed, but work enqueued before may still use them";
    if (!by_stream.empty()) {
        auto const most = std::ranges::max_element(
            by_stream, [](auto const& a, auto const& b) { return a.second < b.second; });
        f.text += ": " + bytes_text(most->second) + " wait for stream " + std::to_string(most->first);
    }
    f.bytes = pending;
    f.subject = p.name;
    f.reference_bytes = p.stats.active;
    f.count = blocks;
    to.push_back(std::move(f));
}

CUOTA_INLINE void find_untagged(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to) {
    for (tag_info const& t : p.tags) {
        if (!t.name.is_empty() || t.allocated < o.untagged_bytes) continue;
        if (!is_share(t.allocated, o.untagged_share, p.stats.allocated)) continue;
        finding f{finding_kind::untagged, severity::note};
        f.text = words_for("pool", p.name) + ": " + percent_text(t.allocated, p.stats.allocated) +
                 " of live memory has no tag (" + bytes_text(t.allocated) + " in " +
                 counted(t.live_blocks, "block") + "): tag these allocations";
        f.bytes = t.allocated;
        f.subject = p.name;
        f.reference_bytes = p.stats.allocated;
        f.count = t.live_blocks;
        to.push_back(std::move(f));
    }
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
