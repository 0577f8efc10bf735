// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines and formats the entries of a snapshot_diff.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/report/detail/export/columns.hpp>

namespace cuota::inline v0 {

/// The change of one tag and call site, in bytes of blocks.
struct site_change {
    tag name{};                        ///< tag of the blocks
    source_location where{};           ///< empty if only the tag is known
    std::size_t before = 0;            ///< bytes
    std::size_t after = 0;             ///< bytes
    std::size_t blocks_before = 0;     ///< count
    std::size_t blocks_after = 0;      ///< count
    std::size_t allocated = 0;         ///< bytes of new blocks
    std::size_t allocated_blocks = 0;  ///< new blocks
    std::size_t freed = 0;             ///< bytes of freed blocks
    std::size_t freed_blocks = 0;      ///< freed blocks
};

/// The change of a pool, in bytes; 0 while it did not exist.
struct pool_change {
    std::string name;                  ///< name
    bool is_new = false;               ///< not in the earlier snapshot
    bool is_gone = false;              ///< not in the later one
    std::size_t before = 0;            ///< reserved
    std::size_t after = 0;             ///< reserved
    std::size_t allocated_before = 0;  ///< live
    std::size_t allocated_after = 0;   ///< live
};

/// The change of a budget, in bytes; 0 while it did not exist.
struct budget_change {
    std::string name;              ///< path from the root: "gpu/training"
    bool is_new = false;           ///< not in the earlier snapshot
    bool is_gone = false;          ///< not in the later one
    std::size_t before = 0;        ///< held
    std::size_t after = 0;         ///< held
    std::size_t limit_before = 0;  ///< in the earlier snapshot
    std::size_t limit_after = 0;   ///< in the later one
};

namespace detail::changes {

[[nodiscard]] inline auto key_of(site_change const& c) noexcept {
    return std::tuple{std::string_view{c.name.text()}, std::string_view{c.where.file}, c.where.line};
}
template <class Change>
[[nodiscard]] std::string_view key_of(Change const& c) noexcept {
    return c.name;
}

// Compares growth, then loss: a signed difference would need one more bit.
template <class Change>
void most_grown_first(std::vector<Change>& all) {
    auto const growth = [](Change const& c) { return c.after > c.before ? c.after - c.before : 0; };
    auto const loss = [](Change const& c) { return c.before > c.after ? c.before - c.after : 0; };
    std::ranges::sort(all, [&](Change const& a, Change const& b) {
        if (growth(a) != growth(b)) return growth(a) > growth(b);
        return loss(a) != loss(b) ? loss(a) < loss(b) : key_of(a) < key_of(b);
    });
}

// --- in words ---

/// Formats "+3.2 MiB", "-512 B", "same".
[[nodiscard]] std::string step_text(std::size_t before, std::size_t after);

[[nodiscard]] std::string row(std::string const& title, std::size_t before, std::size_t after,
                              std::string const& more);

[[nodiscard]] std::string title_of(site_change const& c);
template <class Change>
[[nodiscard]] std::string title_of(Change const& c) {
    std::string const fate = c.is_new ? " (new)" : c.is_gone ? " (removed)" : "";
    return screen::fitted(c.name, 37 - fate.size()) + fate;
}

[[nodiscard]] std::string line_of(site_change const& c);
[[nodiscard]] std::string line_of(pool_change const& c);
[[nodiscard]] std::string line_of(budget_change const& c);

template <class Change>
[[nodiscard]] std::string list_of(char const* heading, std::vector<Change> const& all,
                                  std::size_t max_lines) {
    if (all.empty()) return {};
    std::string text = std::string{"\n"} + heading;
    for (std::size_t i = 0; i != std::min(max_lines, all.size()); ++i) text += line_of(all[i]);
    return all.size() > max_lines ? text + "\n  and " + count_text(all.size() - max_lines) + " more" : text;
}

[[nodiscard]] std::string lists_of(std::vector<site_change> const& all, std::size_t max_lines);

/// Formats "12.3 s".
[[nodiscard]] std::string span_text(std::chrono::nanoseconds span);

template <class Diff>
[[nodiscard]] std::string text_of(Diff const& d, std::size_t max_lines) {
    std::string const after = "after " + span_text(d.to - d.from);
    if (d.is_empty()) return after + ": nothing changed";
    return after + lists_of(d.sites, max_lines) + list_of("pools, reserved", d.pools, max_lines) +
           list_of("budgets, held", d.budgets, max_lines);
}

// --- as JSON ---

[[nodiscard]] std::string json_change(site_change const& c);
[[nodiscard]] std::string json_change(pool_change const& c);
[[nodiscard]] std::string json_change(budget_change const& c);

template <class Diff>
[[nodiscard]] std::string json_of(Diff const& d) {
    auto const each = [](auto const& c) { return json_change(c); };
    auto const span = std::chrono::duration_cast<std::chrono::milliseconds>(d.to - d.from).count();
    return json_object{}
        .add_json("span_ms", std::to_string(span))
        .add_json("sites", json_list(d.sites, each))
        .add_json("pools", json_list(d.pools, each))
        .add_json("budgets", json_list(d.budgets, each))
        .text();
}

}  // namespace detail::changes

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::changes {

CUOTA_INLINE std::string step_text(std::size_t before, std::size_t after) {
    if (before == after) return "same";
    return after > before ? '+' + bytes_text(after - before) : '-' + bytes_text(before - after);
}

CUOTA_INLINE std::string row(std::string const& title, std::size_t before, std::size_t after,
                             std::string const& more) {
    return "\n  " + screen::left(title, 38) + screen::right(step_text(before, after), 12) +
           screen::right(before, 12) + " ->" + screen::right(after, 11) + (more.empty() ? "" : "  " + more);
}

CUOTA_INLINE std::string title_of(site_change const& c) {
    std::string const where = source_location_text(c.where);
    return screen::fitted((c.name.is_empty() ? "untagged" : std::string{c.name.text()}) +
                              (where.empty() ? "" : " (" + where + ')'),
                          37);
}

CUOTA_INLINE std::string line_of(site_change const& c) {
    std::string const came = c.allocated_blocks == 0 ? "" : count_text(c.allocated_blocks) + " allocated";
    std::string const went = c.freed_blocks == 0 ? "" : count_text(c.freed_blocks) + " freed";
    return row(title_of(c), c.before, c.after, came + (came.empty() || went.empty() ? "" : ", ") + went);
}

CUOTA_INLINE std::string line_of(pool_change const& c) {
    return row(title_of(c), c.before, c.after, "live " + step_text(c.allocated_before, c.allocated_after));
}

CUOTA_INLINE std::string line_of(budget_change const& c) {
    bool const is_moved = !c.is_new && !c.is_gone && c.limit_before != c.limit_after;
    std::string const limit = c.limit_after == unlimited ? "none" : bytes_text(c.limit_after);
    return row(title_of(c), c.before, c.after, is_moved ? "limit " + limit : "");
}

CUOTA_INLINE std::string lists_of(std::vector<site_change> const& all, std::size_t max_lines) {
    std::vector<site_change> grew;
    std::vector<site_change> shrank;
    std::vector<site_change> same;
    for (site_change const& c : all)
        (c.after > c.before ? grew : c.after < c.before ? shrank : same).push_back(c);
    sort_stably(shrank, [](site_change const& a, site_change const& b) {
        return a.before - a.after > b.before - b.after;
    });
    return list_of("grew", grew, max_lines) + list_of("shrank", shrank, max_lines) +
           list_of("same size, other blocks", same, max_lines);
}

CUOTA_INLINE std::string span_text(std::chrono::nanoseconds span) {
    auto const tenths = std::chrono::duration_cast<std::chrono::milliseconds>(span).count() / 100;
    auto const size = tenths < 0 ? -tenths : tenths;
    return (tenths < 0 ? "-" : "") + std::to_string(size / 10) + '.' + std::to_string(size % 10) + " s";
}

CUOTA_INLINE std::string json_change(site_change const& c) {
    return json_object{}
        .add("tag", c.name.text())
        .add_json("location", json_location(c.where))
        .add("before", c.before)
        .add("after", c.after)
        .add("blocks_before", c.blocks_before)
        .add("blocks_after", c.blocks_after)
        .add("allocated", c.allocated)
        .add("allocated_blocks", c.allocated_blocks)
        .add("freed", c.freed)
        .add("freed_blocks", c.freed_blocks)
        .text();
}

CUOTA_INLINE std::string json_change(pool_change const& c) {
    return json_object{}
        .add("name", c.name)
        .add("new", c.is_new)
        .add("gone", c.is_gone)
        .add("reserved_before", c.before)
        .add("reserved_after", c.after)
        .add("allocated_before", c.allocated_before)
        .add("allocated_after", c.allocated_after)
        .text();
}

CUOTA_INLINE std::string json_change(budget_change const& c) {
    return json_object{}
        .add("name", c.name)
        .add("new", c.is_new)
        .add("gone", c.is_gone)
        .add("held_before", c.before)
        .add("held_after", c.after)
        .add("limit_before", c.limit_before)
        .add("limit_after", c.limit_after)
        .text();
}

}  // namespace cuota::inline v0::detail::changes

#endif
