// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Check of a recording's indices: a program may make or change one itself.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// Throws usage_error if an index of an event or a source is out of range, or if budgets are their own ancestors.
/// Cost: linear in events and sources.
void check_recording(recording const& r, source_location where);

/// Returns a site of a recording; an empty one if it has none at this index, as for site 0 in an empty list.
[[nodiscard]] inline event_site site_in(recording const& r, std::size_t index) {
    return index < r.sites.size() ? r.sites[index] : event_site{};
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_recording(recording const& r, source_location where) {
    auto const check = [&](char const* what, std::size_t number, char const* index_of, std::size_t index,
                           std::size_t count) {
        if (index >= count) [[unlikely]]
            throw_usage_error(where, "recording: {} {} has {} {}, which is out of range: {} exist",
                              {what, as_count(number), index_of, as_count(index), as_count(count)});
    };
    for (std::size_t i = 0; i != r.events.size(); ++i) {
        check("event", i, "source", r.events[i].source, r.sources.size());
        if (r.events[i].site != 0) check("event", i, "site", r.events[i].site, r.sites.size());
    }
    for (std::size_t i = 0; i != r.sources.size(); ++i) {
        event_source const& s = r.sources[i];
        if (s.budget) check("source", i, "budget", *s.budget, r.sources.size());
        if (s.parent) check("source", i, "parent", *s.parent, r.sources.size());
        if (s.pool) check("source", i, "pool", *s.pool, r.final_snapshot.pools.size());
    }
    for (std::size_t i = 0; i != r.sources.size(); ++i) {
        std::size_t steps = 0;
        for (auto above = r.sources[i].parent; above; above = r.sources[*above].parent)
            if (++steps > r.sources.size())
                throw_usage_error(where, "recording: source {} is its own ancestor", {as_count(i)});
    }
}

}  // namespace cuota::inline v0::detail

#endif
