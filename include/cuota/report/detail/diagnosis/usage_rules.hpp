// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Applies the rules on idle memory and refusals.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/detail/diagnosis/step_account.hpp>
#include <cuota/report/detail/diagnosis/step_rules.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// Live and reserved bytes of a pool, event by event. A destroyed pool ends with 0.
struct pool_usage {
    std::int64_t live = 0;  ///< rounded up
    std::int64_t reserved = 0;

    [[nodiscard]] std::size_t free() const noexcept;
    void apply(memory_event const& e, std::int64_t sign = 1) noexcept;
};

/// Computes the usage before the first event backwards from the end.
[[nodiscard]] std::vector<pool_usage> first_usage(recording const& r);

/// The most live and the least reserved bytes of each pool in its last `window` steps, if it has more steps.
class idle_tracker {
public:
    struct extent {
        std::size_t source = 0;
        std::int64_t most_live = 0;
        std::int64_t least_reserved = 0;
    };

    idle_tracker(recording const& r, step_account const& steps, std::size_t window);

    [[nodiscard]] std::vector<extent> extents() const;

private:
    void apply(memory_event const& e);

    std::vector<pool_usage> levels_;
    std::vector<extent> seen_;
    std::vector<std::size_t> begins_;                            // by clock: step ends before the window
    std::vector<std::size_t> ends_;                              // by source: step ends so far
    std::map<std::size_t, std::vector<std::size_t>> followers_;  // by clock: sources that use its steps
};

/// Free bytes between live blocks at the busiest moment count as idle.
void find_idle(recording const& r, step_account const& steps, diagnosis_options const& o,
               std::vector<finding>& to);

/// The refusals of one source.
struct refused_requests {
    std::size_t count = 0;
    std::size_t most_asked = 0;
    /// Largest shortfall; 0 if the limit was raised later or the device refused.
    std::size_t most_missing = 0;
    std::size_t free_in_pools = 0;  ///< refusals while its pools had the bytes free
    std::map<std::uint32_t, std::size_t> by_site{};

    void add(memory_event const& e, std::size_t limit, std::size_t free);
};

// Formats "budget gpu refused 12 requests, short by 64.0 MiB at most; 9 of them for ...".
[[nodiscard]] std::string words_for(refused_requests const& seen, std::string const& subject,
                                    std::string const& top, std::size_t top_count);

/// Computes shortfalls with the final limit.
void find_refusals(recording const& r, std::vector<finding>& to);

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE std::size_t pool_usage::free() const noexcept {
    return reserved > live ? static_cast<std::size_t>(reserved - std::max<std::int64_t>(live, 0)) : 0;
}

CUOTA_INLINE void pool_usage::apply(memory_event const& e, std::int64_t sign) noexcept {
    auto const by = [&](std::size_t bytes) { return sign * static_cast<std::int64_t>(bytes); };
    switch (e.kind) {
        case event_kind::allocated: live += by(e.size); break;
        case event_kind::free_requested: live -= by(e.size); break;
        case event_kind::segment_allocated: reserved += by(e.bytes); break;
        case event_kind::segment_freed: reserved -= by(e.bytes); break;
        default: break;
    }
}

CUOTA_INLINE std::vector<pool_usage> first_usage(recording const& r) {
    std::vector<pool_usage> levels(r.sources.size());
    for (std::size_t i = 0; i != levels.size(); ++i)
        if (auto const pool = r.sources[i].pool; pool && *pool < r.final_snapshot.pools.size()) {
            levels[i].live = static_cast<std::int64_t>(r.final_snapshot.pools[*pool].stats.allocated);
            levels[i].reserved = static_cast<std::int64_t>(r.final_snapshot.pools[*pool].stats.reserved);
        }
    for (memory_event const& e : r.events)
        if (e.source < levels.size()) levels[e.source].apply(e, -1);
    return levels;
}

CUOTA_INLINE idle_tracker::idle_tracker(recording const& r, step_account const& steps, std::size_t window)
    : levels_{first_usage(r)}, seen_(levels_.size()), begins_(levels_.size()), ends_(levels_.size()) {
    for (std::size_t i = 0; i != levels_.size(); ++i) {
        auto const source = static_cast<std::uint16_t>(i);
        std::size_t const all = steps.steps_of(source);
        if (!r.sources[i].pool || *r.sources[i].pool >= r.final_snapshot.pools.size() || all <= window)
            continue;
        begins_[steps.clock_of(source)] = all - window;
        followers_[steps.clock_of(source)].push_back(i);
    }
    for (memory_event const& e : r.events)
        if (e.source < levels_.size()) apply(e);
}

CUOTA_INLINE auto idle_tracker::extents() const -> std::vector<extent> {
    std::vector<extent> some;
    for (auto const& [clock, who] : followers_)
        for (std::size_t const i : who) some.push_back(seen_[i]);
    return some;
}

CUOTA_INLINE void idle_tracker::apply(memory_event const& e) {
    pool_usage& level = levels_[e.source];
    level.apply(e);
    extent& s = seen_[e.source];
    s.most_live = std::max(s.most_live, level.live);
    s.least_reserved = std::min(s.least_reserved, level.reserved);
    if (e.kind == event_kind::step_ended && ++ends_[e.source] == begins_[e.source])
        for (std::size_t const i : followers_[e.source]) seen_[i] = {i, levels_[i].live, levels_[i].reserved};
}

CUOTA_INLINE void find_idle(recording const& r, step_account const& steps, diagnosis_options const& o,
                            std::vector<finding>& to) {
    for (idle_tracker::extent const& seen : idle_tracker{r, steps, o.idle_steps}.extents()) {
        event_source const& source = r.sources[seen.source];
        std::size_t const reserved = r.final_snapshot.pools[*source.pool].stats.reserved;
        std::int64_t const used = std::max<std::int64_t>(seen.most_live, 0);
        if (seen.least_reserved <= used) continue;
        auto const idle = static_cast<std::size_t>(seen.least_reserved - used);
        if (idle < o.idle_bytes || !is_share(idle, o.idle_share, reserved)) continue;
        finding f{finding_kind::idle, severity::warning};
        f.text = words_for(source) + " holds " + bytes_text(idle) + " that were not used in the last " +
                 (o.idle_steps == 1 ? "step" : counted(o.idle_steps, "step")) + " (" + bytes_text(reserved) +
                 " reserved, at most " + bytes_text(static_cast<std::size_t>(used)) +
                 " in use): trim it or set a release_threshold";
        f.bytes = idle;
        f.subject = source.name;
        f.reference_bytes = reserved;
        f.steps = o.idle_steps;
        to.push_back(std::move(f));
    }
}

CUOTA_INLINE void refused_requests::add(memory_event const& e, std::size_t limit, std::size_t free) {
    ++count;
    most_asked = std::max(most_asked, e.bytes);
    if (limit != unlimited) most_missing = std::max(most_missing, beyond(e.bytes, beyond(limit, e.size)));
    free_in_pools += e.bytes != 0 && free >= e.bytes;
    ++by_site[e.site];
}

CUOTA_INLINE std::string words_for(refused_requests const& seen, std::string const& subject,
                                   std::string const& top, std::size_t top_count) {
    std::string text = subject + " refused " + counted(seen.count, "request");
    text += seen.most_missing != 0
                ? ", short by " + bytes_text(seen.most_missing) + (seen.count == 1 ? "" : " at most")
                : " of " + bytes_text(seen.most_asked) + (seen.count == 1 ? "" : " at most");
    text += "; " +
            (top_count == seen.count ? std::string{seen.count == 1 ? "" : "all "}
                                     : count_text(top_count) + " of them ") +
            "for " + top;
    if (seen.free_in_pools == 0) return text;
    return text + "; " +
           (seen.free_in_pools == seen.count
                ? std::string{seen.count == 1 ? "at that time" : "each time"}
                : count_text(seen.free_in_pools) + (seen.free_in_pools == 1 ? " time" : " times")) +
           " its pools had that much free, fragmented or pending";
}

CUOTA_INLINE void find_refusals(recording const& r, std::vector<finding>& to) {
    std::vector<pool_usage> levels = first_usage(r);
    std::vector<std::vector<std::size_t>> above(levels.size());  // ancestors of each pool, up to the root
    std::vector<std::size_t> free_below(levels.size());
    for (std::size_t i = 0; i != levels.size(); ++i)
        for (auto b = r.sources[i].budget; b && *b < levels.size() && above[i].size() < levels.size();
             b = r.sources[*b].parent) {
            above[i].push_back(*b);
            free_below[*b] += levels[i].free();
        }
    std::map<std::uint16_t, refused_requests> by_budget;
    for (memory_event const& e : r.events) {
        if (e.source >= levels.size()) continue;
        if (e.kind == event_kind::refused) {
            by_budget[e.source].add(e, r.sources[e.source].limit, free_below[e.source]);
            continue;
        }
        std::size_t const before = levels[e.source].free();
        levels[e.source].apply(e);
        for (std::size_t const b : above[e.source]) free_below[b] += levels[e.source].free() - before;
    }
    for (auto const& [source, seen] : by_budget) {
        auto const top = std::ranges::max_element(
            seen.by_site, [](auto const& a, auto const& b) { return a.second < b.second; });
        event_site const site = site_in(r, top->first);
        event_source const& s = r.sources[source];
        finding f{finding_kind::refusals, severity::problem};
        f.text = words_for(seen, words_for(s), words_for(site.name, site.where), top->second);
        f.bytes = seen.most_missing != 0 ? seen.most_missing : seen.most_asked;
        f.subject = s.name;
        f.name = site.name;
        f.where = site.where;
        f.reference_bytes = seen.most_asked;
        f.count = seen.count;
        to.push_back(std::move(f));
    }
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
