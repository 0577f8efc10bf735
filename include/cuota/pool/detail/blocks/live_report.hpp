// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The live blocks of a pool in groups. Throws: std::bad_alloc where not noexcept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>
#include <cuota/pool/detail/blocks/stream_order.hpp>
#include <cuota/pool/pool_stats.hpp>

namespace cuota::inline v0::detail {

/// Returns text such as "weights 3.8 MiB (train.cpp:10)".
[[nodiscard]] std::string describe(block const& b);

void append_allocation_groups(block_index const& blocks, std::vector<allocation_group>& into);

/// Returns one entry per tag, most bytes first.
[[nodiscard]] std::vector<tag_stats> stats_by_tag(block_index const& blocks, step_time now);

/// Bytes of free blocks with work not known to be complete. A failed query is reported and counts as busy. Cost: one or two CUDA calls per
/// stream with frees since the last query; O(free blocks).
[[nodiscard]] std::size_t bytes_in_flight(block_index const& blocks, stream_order& order) noexcept;

template <class Which>
[[nodiscard]] leak_summary survivors_of(block_index const& blocks, step_time now, Which is_meant) {
    leak_summary alive;
    blocks.for_each_live([&](block const& b) {
        if (is_meant(b)) alive.add(b.note->name, b.note->where, b.requested, b.note->epoch.age(now));
    });
    return alive;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string describe(block const& b) {
    return leak_summary::line_of(b.note->name, b.note->where, b.requested);
}

CUOTA_INLINE void append_allocation_groups(block_index const& blocks, std::vector<allocation_group>& into) {
    std::vector<allocation_group> sums;
    blocks.for_each_live([&](block const& b) { add_up(sums, {b.note->name, b.note->where, b.size, false}); });
    for (allocation_group const& h : sums) into.push_back(h);
}

CUOTA_INLINE std::vector<tag_stats> stats_by_tag(block_index const& blocks, step_time now) {
    std::map<std::string_view, tag_stats> by_tag;
    // so that each text is compared once
    std::unordered_map<char const*, tag_stats*> by_address;
    blocks.for_each_live([&](block const& b) {
        tag_stats*& known = by_address[b.note->name.text()];
        if (!known) known = &by_tag[b.note->name.text()];
        tag_stats& t = *known;
        t.name = b.note->name;
        ++t.live_blocks;
        t.requested += b.requested;
        t.allocated += b.size;
        t.oldest = std::max<std::size_t>(t.oldest, b.note->epoch.age(now));
    });
    std::vector<tag_stats> most_first;
    most_first.reserve(by_tag.size());
    for (auto const& [name, t] : by_tag) most_first.push_back(t);
    sort_stably(most_first, std::greater<>{}, &tag_stats::allocated);
    return most_first;
}

CUOTA_INLINE std::size_t bytes_in_flight(block_index const& blocks, stream_order& order) noexcept {
    bool over = false;
    report_failure_of([&] { over = order.look(); });
    std::size_t bytes = 0;
    if (over) return bytes;
    blocks.for_each_free([&](block const& b) {
        if (!order.was_over(b.waits)) bytes += b.size;
    });
    return bytes;
}

}  // namespace cuota::inline v0::detail

#endif
