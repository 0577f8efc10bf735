// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Sums live bytes by tag.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// Live bytes of one tag.
struct tag_total {
    tag name{};                   ///< matched by text
    std::size_t pools = 0;        ///< pools with the tag
    std::size_t first_pool = 0;   ///< index of the first in memory_snapshot::pools
    std::size_t live_blocks = 0;  ///< count
    std::size_t requested = 0;    ///< as requested
    std::size_t allocated = 0;    ///< rounded up
    std::size_t oldest = 0;       ///< age of its oldest block, in steps
    /// Peak of `allocated` since recorders observe; none if one of the pools has no recorder; for several pools an upper bound, the sum of
    /// their peaks.
    std::optional<std::size_t> peak{};

    /// Returns whether `peak` is exact, not a bound.
    [[nodiscard]] bool is_peak_exact() const noexcept { return pools <= 1; }
};

/// Returns an entry per tag, by descending bytes, then by peak, then by name.
/// Throws: std::bad_alloc. Cost: O(n log n) in the pools' tags; blocks are not read. Threads: any.
/// Example: auto const totals = cuota::tag_totals(cuota::snapshot_of(budget));
[[nodiscard]] std::vector<tag_total> tag_totals(memory_snapshot const& all);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<tag_total> tag_totals(memory_snapshot const& all) {
    std::map<std::string_view, tag_total> by_name;
    for (std::size_t pool = 0; pool != all.pools.size(); ++pool)
        for (tag_info const& t : all.pools[pool].tags) {
            tag_total& sum = by_name[t.name.text()];
            if (sum.pools++ == 0) sum = {t.name, 1, pool, 0, 0, 0, 0, 0};
            sum.live_blocks = detail::saturating_add(sum.live_blocks, t.live_blocks);
            sum.requested = detail::saturating_add(sum.requested, t.requested);
            sum.allocated = detail::saturating_add(sum.allocated, t.allocated);
            sum.oldest = std::max(sum.oldest, t.oldest);
            if (!t.peak || !sum.peak) sum.peak.reset();
            else sum.peak = detail::saturating_add(*sum.peak, *t.peak);
        }
    std::vector<tag_total> most_first;
    most_first.reserve(by_name.size());
    for (auto const& [name, sum] : by_name) most_first.push_back(sum);
    detail::sort_stably(most_first, [](tag_total const& a, tag_total const& b) {
        return std::pair{a.allocated, a.peak} > std::pair{b.allocated, b.peak};
    });
    return most_first;
}

}  // namespace cuota::inline v0

#endif
