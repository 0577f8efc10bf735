// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Static memory planning: offsets in one slab for known lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace cuota::inline v0 {

/// Constraints and search limits of a plan.
/// Example: examples/plan_trace.cpp
struct plan_options {
    /// Bytes of the slab: any plan that fits is accepted; without it, the lowest peak is searched for.
    std::size_t capacity = unlimited;
    /// Alignment of offsets and sizes; a power of two.
    std::size_t alignment = 1;
    /// Maximum duration, after which the best plan so far is returned.
    std::chrono::nanoseconds time_limit = std::chrono::seconds{5};
    /// Cancellation by another thread, to the same effect.
    stop_signal stop{};
};

/// The offset of each block in one slab. Example: examples/plan_trace.cpp
struct offset_plan {
    std::vector<std::size_t> offsets;  ///< by row; 0 for an empty block
    std::size_t peak = 0;              ///< bytes of the slab
    std::size_t lower_bound = 0;       ///< maximum of live bytes
    std::size_t alignment = 1;         ///< the requested alignment
    bool proven = false;               ///< whether no plan has a lower peak

    /// whether peak <= capacity
    [[nodiscard]] bool fits(std::size_t capacity) const noexcept { return peak <= capacity; }
    /// Returns peak / lower_bound; 1 for an empty plan.
    [[nodiscard]] double ratio() const noexcept;
};

/// Two rows that overlap in bytes and time, or a row twice, with an invalid offset.
/// Example: tests/pool/planning/offset_plan.cpp
struct offset_conflict {
    std::size_t first;   ///< a row, from 0
    std::size_t second;  ///< a later row, or the same
};

/// Finds offsets with a low peak such that no two blocks overlap in both time and bytes: by greedy placement, and if that misses the lower
/// bound or the capacity, by backtracking in parts of up to 2,048 blocks. Deterministic and independent of the row order, unless the time
/// limit or a cancellation ended the search. A plan above the capacity is not an error: check `fits`.
///
/// Threads: any.
/// Throws:  usage_error if the alignment is not a power of two; usage_error that names the row, if a lifetime is empty or reversed or the
///          sum of sizes overflows.
/// Cost:    at least one greedy placement, O(n log n) plus a step per overlapping pair; otherwise at most about `time_limit`.
/// Example: examples/plan_trace.cpp
[[nodiscard]] offset_plan plan_offsets(std::span<lifetime const> blocks, plan_options const& options = {},
                                       source_location where = source_location::current());

/// Checks a plan. Returns the first conflict: two rows that overlap in time and bytes; or a row twice, if its offset is not aligned or its
/// end is above the peak. Throws: usage_error if the number of rows differs; as plan_offsets. Cost: O(n log n).
/// Example: examples/plan_trace.cpp
[[nodiscard]] std::optional<offset_conflict> check_offsets(
    std::span<lifetime const> blocks, offset_plan const& plan,
    source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include <cuota/pool/detail/offsets/greedy_offsets.hpp>
#include <cuota/pool/detail/offsets/packing_search.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE double offset_plan::ratio() const noexcept {
    return lower_bound == 0 ? 1 : static_cast<double>(peak) / static_cast<double>(lower_bound);
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

class plan_deadline {
public:
    plan_deadline(std::chrono::nanoseconds limit, stop_signal stop) : limit_{limit}, stop_{std::move(stop)} {}

    [[nodiscard]] bool is_over() const;
    [[nodiscard]] plan_deadline share(int of) const;

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::chrono::nanoseconds limit_;
    stop_signal stop_;
};

/// The planner of one part, in a common unit.
class part_planner {
public:
    explicit part_planner(lifetime_part part) : part_{std::move(part)}, least_{part_.most_alive} {}

    [[nodiscard]] lifetime_part const& part() const noexcept { return part_; }
    [[nodiscard]] part_offsets const& best() const noexcept { return best_; }
    [[nodiscard]] std::size_t least() const noexcept { return least_; }

    void place_simply(std::size_t enough, plan_deadline const& deadline);

    /// Searches for a peak of `enough`, at least most_alive.
    void reach(std::size_t enough, plan_deadline const& deadline);

    /// Searches for `enough`; if that fails, bisects between it and the best peak.
    void lower(std::size_t enough, plan_deadline const& deadline);

private:
    [[nodiscard]] bool is_searchable() const;

    search_result try_peak(packing_search& search, std::size_t peak, plan_deadline const& deadline);

    lifetime_part part_;
    part_offsets best_;
    std::size_t least_;
};

/// The common divisor of sizes, and thereby of offsets.
[[nodiscard]] std::size_t common_unit(std::span<std::size_t const> sizes, std::size_t alignment);

[[nodiscard]] offset_plan joined(std::span<part_planner const> parts, std::size_t rows, std::size_t bound,
                                 std::size_t unit, std::size_t alignment);

/// The live rows at one time, by their first byte.
class layout_sweep {
public:
    layout_sweep(std::span<lifetime const> blocks, std::span<std::size_t const> offsets)
        : blocks_{blocks}, offsets_{offsets} {}

    /// Returns an overlapping row, if any.
    [[nodiscard]] std::optional<std::size_t> add(std::size_t row);
    void remove(std::size_t row);

private:
    std::span<lifetime const> blocks_;
    std::span<std::size_t const> offsets_;
    std::map<std::size_t, std::size_t> alive_;
};

CUOTA_INLINE bool plan_deadline::is_over() const {
    return stop_.stop_requested() || std::chrono::steady_clock::now() - start_ >= limit_;
}

CUOTA_INLINE plan_deadline plan_deadline::share(int of) const {
    auto const used = std::chrono::steady_clock::now() - start_;
    return {used < limit_ ? (limit_ - used) / of : std::chrono::nanoseconds{0}, stop_};
}

CUOTA_INLINE void part_planner::place_simply(std::size_t enough, plan_deadline const& deadline) {
    best_ = greedy_offsets(part_, enough, 12, [&] { return deadline.is_over(); });
}

CUOTA_INLINE void part_planner::reach(std::size_t enough, plan_deadline const& deadline) {
    if (best_.peak <= enough || !is_searchable()) return;
    packing_search search{part_};
    try_peak(search, enough, deadline);
}

CUOTA_INLINE void part_planner::lower(std::size_t enough, plan_deadline const& deadline) {
    if (best_.peak <= enough || !is_searchable()) return;
    packing_search search{part_};
    if (try_peak(search, enough, deadline.share(2)) == search_result::found) return;
    // Giving up counts as a failure.
    for (std::size_t no = enough; best_.peak - no > 1 && !deadline.is_over();) {
        std::size_t const middle = no + (best_.peak - no) / 2;
        if (try_peak(search, middle, deadline.share(4)) != search_result::found) no = middle;
    }
}

CUOTA_INLINE bool part_planner::is_searchable() const {
    std::size_t total = 0;
    for (sectioned_block const& block : part_.blocks) total += block.size;
    return part_.blocks.size() <= 2048 && total < std::size_t{1} << 62;
}

CUOTA_INLINE search_result part_planner::try_peak(packing_search& search, std::size_t peak,
                                                  plan_deadline const& deadline) {
    search_result const result = search.run(peak, [&] { return deadline.is_over(); });
    if (result == search_result::none) least_ = peak + 1;
    if (result != search_result::found) return result;
    best_.offsets = search.offsets();
    best_.peak = 0;
    for (std::size_t i = 0; i != part_.blocks.size(); ++i)
        best_.peak = std::max(best_.peak, best_.offsets[i] + part_.blocks[i].size);
    return result;
}

CUOTA_INLINE std::size_t common_unit(std::span<std::size_t const> sizes, std::size_t alignment) {
    std::size_t unit = 0;
    for (std::size_t const size : sizes) unit = std::gcd(unit, size);
    return unit == 0 ? alignment : unit;
}

CUOTA_INLINE offset_plan joined(std::span<part_planner const> parts, std::size_t rows, std::size_t bound,
                                std::size_t unit, std::size_t alignment) {
    offset_plan plan{std::vector<std::size_t>(rows, 0), 0, bound * unit, alignment, false};
    std::size_t least = bound;
    for (part_planner const& part : parts) {
        least = std::max(least, part.least());
        plan.peak = std::max(plan.peak, part.best().peak * unit);
        for (std::size_t i = 0; i != part.part().blocks.size(); ++i)
            plan.offsets[part.part().blocks[i].row] = part.best().offsets[i] * unit;
    }
    plan.proven = plan.peak == least * unit;
    return plan;
}

CUOTA_INLINE void layout_sweep::remove(std::size_t row) { alive_.erase(offsets_[row]); }

CUOTA_INLINE std::optional<std::size_t> layout_sweep::add(std::size_t row) {
    auto const above = alive_.lower_bound(offsets_[row]);
    if (above != alive_.end() && above->first - offsets_[row] < blocks_[row].size) return above->second;
    if (above != alive_.begin()) {
        auto const below = std::prev(above);
        if (offsets_[row] - below->first < blocks_[below->second].size) return below->second;
    }
    alive_.emplace_hint(above, offsets_[row], row);
    return std::nullopt;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE offset_plan plan_offsets(std::span<lifetime const> blocks, plan_options const& options,
                                      source_location where) {
    detail::plan_deadline const deadline{options.time_limit, options.stop};
    std::vector<std::size_t> sizes = detail::checked_sizes(blocks, options.alignment, where);
    std::size_t const unit = detail::common_unit(sizes, options.alignment);
    for (std::size_t& size : sizes) size /= unit;
    std::vector<detail::part_planner> parts;
    std::size_t bound = 0;
    for (detail::lifetime_part& part : detail::independent_parts(blocks, sizes)) {
        bound = std::max(bound, part.most_alive);
        parts.emplace_back(std::move(part));
    }
    bool const has_capacity = options.capacity != unlimited;
    std::size_t const capacity = options.capacity / unit;
    // No part needs to be below the highest lower bound.
    std::size_t enough = has_capacity ? std::max(capacity, bound) : bound;
    for (detail::part_planner& part : parts) part.place_simply(enough, deadline);
    std::sort(parts.begin(), parts.end(), [](detail::part_planner const& a, detail::part_planner const& b) {
        return a.best().peak > b.best().peak;
    });
    for (detail::part_planner& part : parts) {
        if (!has_capacity) part.lower(enough, deadline);
        else if (capacity >= bound) part.reach(enough, deadline);
        enough = std::max(enough, part.best().peak);
    }
    return detail::joined(parts, blocks.size(), bound, unit, options.alignment);
}

CUOTA_INLINE std::optional<offset_conflict> check_offsets(std::span<lifetime const> blocks,
                                                          offset_plan const& plan, source_location where) {
    if (plan.offsets.size() != blocks.size())
        detail::throw_usage_error(where, "check_offsets: the plan has {} offsets for {} blocks",
                                  {detail::as_count(plan.offsets.size()), detail::as_count(blocks.size())});
    static_cast<void>(detail::checked_sizes(blocks, plan.alignment, where));
    for (std::size_t row = 0; row != blocks.size(); ++row) {
        bool const aligned = plan.offsets[row] % plan.alignment == 0;
        bool const inside =
            blocks[row].size <= plan.peak && plan.offsets[row] <= plan.peak - blocks[row].size;
        if (!aligned || !inside) return offset_conflict{row, row};
    }
    detail::layout_sweep layout{blocks, plan.offsets};
    for (detail::lifetime_edge const& edge : detail::sorted_edges(blocks)) {
        if (!edge.begins) layout.remove(edge.row);
        else if (auto const other = layout.add(edge.row)) return offset_conflict{*other, edge.row};
    }
    return std::nullopt;
}

}  // namespace cuota::inline v0

#endif
