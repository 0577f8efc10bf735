// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats a snapshot for one screen.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/export/budget_order.hpp>
#include <cuota/report/detail/export/columns.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>
#include <cuota/report/snapshot/tag_totals.hpp>

namespace cuota::inline v0 {

/// Style of a summary, and lengths of its lists.
struct summary_options {
    bool utf8 = false;  ///< bars of block characters
    /// Colors the bars of budgets: yellow from 75 %, red from 90 %.
    bool color = false;
    std::size_t max_budgets = 14;  ///< lines of budgets
    std::size_t max_pools = 4;     ///< pools
    std::size_t max_tags = 12;     ///< lines of tags
    std::size_t max_holders = 6;   ///< lines of other holders
    std::size_t max_devices = 4;   ///< lines of devices
};

namespace detail::screen {

/// Formats "2026-11-24 00:28:34 UTC".
[[nodiscard]] std::string time_text(std::chrono::system_clock::time_point at);

[[nodiscard]] std::string budget_name(memory_snapshot const& all, std::size_t index);

// Sums up the items after `most`.
template <class Items, class Line, class Bytes>
[[nodiscard]] std::string table(std::string heading, Items const& items, std::size_t most, Line line,
                                Bytes bytes_of) {
    if (items.empty()) return {};
    std::string text = "\n\n" + std::move(heading);
    std::size_t count = 0;
    std::size_t left_out = 0;
    for (auto const& item : items) {
        if (count++ < most) text += '\n' + line(item);
        else left_out = saturating_add(left_out, bytes_of(item));
    }
    return count > most ? text + "\n  " + rest_text(count - most, left_out) : text;
}

// --- budgets ---

[[nodiscard]] std::string budget_bar(budget_info const& b, summary_options const& how);

[[nodiscard]] std::string budget_row(budget_entry const& e, std::size_t available,
                                     summary_options const& how);

[[nodiscard]] std::string budget_table(memory_snapshot const& all, summary_options const& how);

// --- pools ---

[[nodiscard]] std::string pool_title(memory_snapshot const& all, pool_info const& p);

[[nodiscard]] std::string free_text(pool_stats const& s);

[[nodiscard]] std::string pool_rows(memory_snapshot const& all, pool_info const& p);

[[nodiscard]] std::string pool_table(memory_snapshot const& all, summary_options const& how);

// --- tags ---

[[nodiscard]] std::string name_or(tag name, std::size_t columns);

[[nodiscard]] std::string tag_row(memory_snapshot const& all, tag_total const& t, std::size_t live);

[[nodiscard]] std::string tag_table(memory_snapshot const& all, summary_options const& how);

// --- other holders ---

struct holder_sum {
    holder_info const* who = nullptr;
    std::size_t used = 0;
    std::size_t cached = 0;
    [[nodiscard]] std::size_t bytes() const noexcept { return saturating_add(used, cached); }
};

[[nodiscard]] std::vector<holder_sum> holder_sums(memory_snapshot const& all);

[[nodiscard]] std::string largest_holding(holder_info const& who);

[[nodiscard]] std::string holder_table(memory_snapshot const& all, summary_options const& how);

// --- devices ---

[[nodiscard]] std::size_t in_pools(memory_snapshot const& all, int device) noexcept;

[[nodiscard]] std::size_t unaccounted(device_info const& d) noexcept;

[[nodiscard]] std::string device_row(memory_snapshot const& all, device_info const& d);

[[nodiscard]] std::string device_table(memory_snapshot const& all, summary_options const& how);

}  // namespace detail::screen

/// Formats the snapshot for one screen of 100 columns, without a final newline.
///
/// budgets  available: the largest charge that fits without reclaiming. A reservation's limit is held by its parent.
/// pools    current values, and below them peaks. Free is reserved - allocated; fragmentation is 1 - largest free block / free.
/// tags     allocated bytes in all pools, and share of all live bytes; steps: age of the oldest block. A peak is "-" if a pool has no
///          recorder; of several pools, "<=" the sum of their peaks.
/// others   holders other than pools: bytes in use, cached bytes, and the largest part.
/// devices  external: used outside cuota; at start: the baseline of budget::record_baseline, or "-"; unknown: the difference.
///
/// Lists except devices are sorted by descending bytes, then by name. Control characters and invalid UTF-8 become question marks.
/// Throws: std::bad_alloc. Cost: that of sorting; blocks are not read.
/// Units: bytes. Threads: any. Example: examples/look.cpp
[[nodiscard]] std::string summary(memory_snapshot const& all, summary_options how = {});

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::screen {

CUOTA_INLINE std::string time_text(std::chrono::system_clock::time_point at) {
    auto const second = std::chrono::floor<std::chrono::seconds>(at);
    auto const day = std::chrono::floor<std::chrono::days>(second);
    std::chrono::year_month_day const date{day};
    auto const clock = (second - day).count();
    char text[64];
    (void)std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d:%02d UTC", static_cast<int>(date.year()),
                        static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                        static_cast<int>(clock / 3600), static_cast<int>(clock / 60 % 60),
                        static_cast<int>(clock % 60));
    return text;
}

CUOTA_INLINE std::string budget_name(memory_snapshot const& all, std::size_t index) {
    return index < all.budgets.size() ? all.budgets[index].facts.name : "?";
}

CUOTA_INLINE std::string budget_bar(budget_info const& b, summary_options const& how) {
    constexpr std::size_t cells = 14;
    if (b.limit == unlimited) return std::string(cells + 2, ' ');
    double const share = b.limit != 0 ? *share_of(b.held, b.limit) : b.held != 0 ? 1.0 : 0.0;
    std::string bar = '[' + bar_text(share, cells, how.utf8) + ']';
    if (!how.color || share < 0.75) return bar;
    return (share < 0.9 ? "\x1b[33m" : "\x1b[31m") + bar + "\x1b[0m";
}

CUOTA_INLINE std::string budget_row(budget_entry const& e, std::size_t available,
                                    summary_options const& how) {
    constexpr std::size_t width = 30;
    budget_info const& b = e.facts;
    std::string const kind =
        std::string{b.is_released ? "ended " : ""} + (b.is_reservation ? "reservation " : "");
    std::size_t const indent = 2 * std::min(e.depth, (width - 5 - kind.size()) / 4);
    std::string const begin = std::string(indent, ' ') + kind;
    return left(begin + fitted(b.name, width - 1 - begin.size()), width) + budget_bar(b, how) +
           right(percent_text(share_of(b.held, b.limit)), 7) + right(b.held, 11) + right(b.limit, 11) +
           right(available, 11) + right(b.peak, 11);
}

CUOTA_INLINE std::string budget_table(memory_snapshot const& all, summary_options const& how) {
    if (all.budgets.empty()) return {};
    std::vector<std::size_t> const order = budgets_in_order(all);
    std::vector<std::size_t> const available = available_of(all);
    std::vector<bool> const is_shown = largest_budgets(all, order, how.max_budgets);
    std::string text = "\n\n" + left("budget", 46) + right("full", 7) + right("held", 11) +
                       right("limit", 11) + right("available", 11) + right("peak", 11);
    std::size_t left_out = 0;
    // Bytes held by omitted budgets without an omitted parent: each byte once.
    std::size_t bytes = 0;
    for (std::size_t const i : order) {
        if (is_shown[i]) {
            text += '\n' + budget_row(all.budgets[i], available[i], how);
            continue;
        }
        ++left_out;
        auto const parent = parent_of(all, i);
        if (!parent || is_shown[*parent]) bytes = saturating_add(bytes, all.budgets[i].facts.held);
    }
    return left_out != 0 ? text + "\n  " + rest_text(left_out, bytes) : text;
}

CUOTA_INLINE std::string pool_title(memory_snapshot const& all, pool_info const& p) {
    static constexpr char const* kinds[] = {"", "pinned, ", "managed, "};
    std::string const device = p.device ? "device " + std::to_string(*p.device) + ", " : "";
    std::string const of = " (" + device + kinds[static_cast<std::size_t>(p.memory) % 3] + "budget " +
                           fitted(budget_name(all, p.budget), 12) + ')';
    return fitted(p.name, 44 - columns_of(of)) + of;
}

CUOTA_INLINE std::string free_text(pool_stats const& s) {
    std::size_t const free = s.reserved - std::min(s.reserved, s.allocated);
    if (free == 0) return "no free memory";
    std::size_t const pending = s.active - std::min(s.active, s.allocated);
    double const largest = std::min(1.0, *share_of(s.largest_free, free));
    return "free " + bytes_text(free) + " in " + counted(s.free_blocks, "block") + ", the largest " +
           bytes_text(s.largest_free) + ": " + percent_text(1.0 - largest) + " fragmented" +
           (pending == 0 ? "" : "; " + bytes_text(pending) + " pending");
}

CUOTA_INLINE std::string pool_rows(memory_snapshot const& all, pool_info const& p) {
    pool_stats const& s = p.stats;
    std::string const counts = counted(s.live_blocks, "block") + " in " + counted(s.segments, "segment");
    return left(pool_title(all, p), 45) + right(s.requested, 12) + right(s.allocated, 12) +
           right(s.active, 12) + right(s.reserved, 12) + "\n  " + left(counts, 36) + right("peak", 7) +
           right(s.peak_requested, 12) + right(s.peak_allocated, 12) + right(s.peak_active, 12) +
           right(s.peak_reserved, 12) + "\n  " + free_text(s);
}

CUOTA_INLINE std::string pool_table(memory_snapshot const& all, summary_options const& how) {
    std::vector<pool_info const*> pools;
    for (pool_info const& p : all.pools) pools.push_back(&p);
    sort_stably(pools, [](pool_info const* a, pool_info const* b) {
        return a->stats.reserved != b->stats.reserved ? a->stats.reserved > b->stats.reserved
                                                      : a->name < b->name;
    });
    std::string const heading = left("pool", 45) + right("requested", 12) + right("allocated", 12) +
                                right("active", 12) + right("reserved", 12);
    return table(
        heading, pools, how.max_pools, [&](pool_info const* p) { return pool_rows(all, *p); },
        [](pool_info const* p) { return p->stats.reserved; });
}

CUOTA_INLINE std::string name_or(tag name, std::size_t columns) {
    return name.is_empty() ? "untagged" : fitted(name.text(), columns);
}

CUOTA_INLINE std::string tag_row(memory_snapshot const& all, tag_total const& t, std::size_t live) {
    std::string const peak =
        t.peak ? (t.is_peak_exact() ? "" : "<= ") + (*t.peak == unlimited ? "?" : bytes_text(*t.peak)) : "-";
    return left(name_or(t.name, 27), 28) + right(t.allocated, 11) +
           right(percent_text(share_of(t.allocated, live)), 8) + right(peak, 15) +
           right(count_text(t.live_blocks), 10) + right(count_text(t.oldest), 10) + "  " +
           (t.pools == 1 ? fitted(all.pools[t.first_pool].name, 16) : count_text(t.pools) + " pools");
}

CUOTA_INLINE std::string tag_table(memory_snapshot const& all, summary_options const& how) {
    std::vector<tag_total> const tags = tag_totals(all);
    std::size_t live = 0;
    for (tag_total const& t : tags) live = saturating_add(live, t.allocated);
    std::string const heading = left("tag", 28) + right("live", 11) + right("share", 8) + right("peak", 15) +
                                right("blocks", 10) + right("steps", 10) + "  pool";
    return table(
        heading, tags, how.max_tags, [&](tag_total const& t) { return tag_row(all, t, live); },
        [](tag_total const& t) { return t.allocated; });
}

CUOTA_INLINE std::vector<holder_sum> holder_sums(memory_snapshot const& all) {
    std::vector<holder_sum> sums;
    for (holder_info const& who : all.holders) {
        holder_sum sum{&who};
        for (allocation_group const& h : who.allocation_groups) {
            std::size_t& part = h.is_cached ? sum.cached : sum.used;
            part = saturating_add(part, h.bytes);
        }
        sums.push_back(sum);
    }
    sort_stably(sums, [](holder_sum const& a, holder_sum const& b) {
        return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.who->name < b.who->name;
    });
    return sums;
}

CUOTA_INLINE std::string largest_holding(holder_info const& who) {
    if (who.allocation_groups.empty()) return {};
    allocation_group const& h = who.allocation_groups.front();
    std::string const where = source_location_text(h.where);
    return fitted(
        (h.name.is_empty() ? "untagged" : h.name.text()) + (where.empty() ? "" : " (" + where + ')'), 25);
}

CUOTA_INLINE std::string holder_table(memory_snapshot const& all, summary_options const& how) {
    std::string const heading = left("other holders", 31) + right("in use", 11) + right("cached", 11) + "  " +
                                left("budget", 18) + "  largest";
    return table(
        heading, holder_sums(all), how.max_holders,
        [&](holder_sum const& h) {
            std::string const most = largest_holding(*h.who);
            std::string const budget = fitted(budget_name(all, h.who->budget), 18);
            return left(fitted(h.who->name, 30), 31) + right(h.used, 11) + right(h.cached, 11) + "  " +
                   (most.empty() ? budget : left(budget, 20) + most);
        },
        [](holder_sum const& h) { return h.bytes(); });
}

CUOTA_INLINE std::size_t in_pools(memory_snapshot const& all, int device) noexcept {
    std::size_t bytes = 0;
    for (pool_info const& p : all.pools)
        if (p.device == device && p.memory == memory_kind::device)
            bytes = saturating_add(bytes, p.stats.reserved);
    return bytes;
}

CUOTA_INLINE std::size_t unaccounted(device_info const& d) noexcept {
    return d.external() - std::min(d.external(), d.baseline);
}

CUOTA_INLINE std::string device_row(memory_snapshot const& all, device_info const& d) {
    return left(fitted(std::to_string(d.ordinal) + ' ' + d.name, 23), 23) + right(d.total, 11) +
           right(d.free, 11) + right(d.own, 11) + right(in_pools(all, d.ordinal), 11) +
           right(d.external(), 11) + (d.baseline == 0 ? right("-", 11) : right(d.baseline, 11)) +
           right(unaccounted(d), 11);
}

CUOTA_INLINE std::string device_table(memory_snapshot const& all, summary_options const& how) {
    std::string const heading = left("device", 23) + right("total", 11) + right("free", 11) +
                                right("own", 11) + right("in pools", 11) + right("external", 11) +
                                right("at start", 11) + right("unknown", 11);
    return table(
        heading, all.devices, how.max_devices, [&](device_info const& d) { return device_row(all, d); },
        [](device_info const& d) { return d.own; });
}

}  // namespace cuota::inline v0::detail::screen

namespace cuota::inline v0 {

CUOTA_INLINE std::string summary(memory_snapshot const& all, summary_options how) {
    using namespace detail::screen;
    std::string const tables = budget_table(all, how) + pool_table(all, how) + tag_table(all, how) +
                               holder_table(all, how) + device_table(all, how);
    return "memory at " + time_text(all.taken) + (tables.empty() ? ": nothing to show" : tables);
}

}  // namespace cuota::inline v0

#endif
