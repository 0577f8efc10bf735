// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as one screen of text: twelve lines at most, whatever the numbers and the names.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/next_steps.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/text.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] std::string kind_of(budget_facts const& b);

// Where a headline gives way when it is too long: first names, then what can be read below.
struct headline_room {
    std::size_t name;
    bool with_charge;
    bool with_promise;
};

[[nodiscard]] std::string headline(char const* type, refusal const& r, headline_room room);

// Nothing was asked for here: it is refused because another was, and the first line says why.
[[nodiscard]] bool is_for_another(refusal const& r);
[[nodiscard]] std::string headline_of_cause(char const* type, refusal const& r);

[[nodiscard]] std::string headline(char const* type, refusal const& r);

[[nodiscard]] std::string budget_name(budget_facts const& b, std::size_t most);

[[nodiscard]] std::string budget_line(budget_facts const& b, std::size_t width, std::size_t most);

[[nodiscard]] std::string device_line(device_facts const& d, std::size_t width);

// Of a long way to the root: the budget asked, the one that refused, the root; a fourth line for all others.
[[nodiscard]] std::vector<std::size_t> levels_shown(refusal const& r);

[[nodiscard]] std::string budget_lines(refusal const& r);

// "2 others 7 B": those from index `first` on; empty when there are none.
[[nodiscard]] std::string others_text(std::vector<holding> const& holders, std::size_t first);

[[nodiscard]] std::string holders_text(std::vector<holding> const& holders);

// Nobody has anything to give: because there is nothing, or because what is free in pools lies between live blocks.
[[nodiscard]] std::string nothing_to_give_text(std::vector<holding> const& holders);

[[nodiscard]] std::string reclaimed_text(refusal const& r);

[[nodiscard]] std::string steps_lines(refusal const& r);

}  // namespace detail

/// The refusal on one screen: twelve lines of 110 columns at most. The first says what, where, for what and by which
/// budget, or why where nothing was asked for; the rest who holds what, and what to do next. Names are cut in the middle,
/// long lists and ways are summed.
/// `type` is the name of the exception that carries it.
/// Throws: std::bad_alloc. Cost: microseconds. Example: tests/core/refusal_text.cpp
[[nodiscard]] std::string refusal_text(char const* type, refusal const& r);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string kind_of(budget_facts const& b) { return b.is_prepaid ? "reservation " : "budget "; }

CUOTA_INLINE std::string headline(char const* type, refusal const& r, headline_room room) {
    std::string const place = shown(r.request.where, room.name);
    std::string const charged = bytes_text(r.charged);
    std::string text = std::string{"cuota::"} + type + ": " +
                       (r.asked == unlimited ? "more than any address space holds" : bytes_text(r.asked)) +
                       " refused" + (place.empty() ? "" : " at " + place);
    if (!r.request.name.is_empty()) text += " for " + shown(r.request.name.text(), room.name);
    if (r.missing() != 0) text += " by " + kind_of(*r.refuser()) + shown(r.refuser()->name, room.name);
    if (room.with_charge && r.asked != unlimited && charged != bytes_text(r.asked))
        text += ", at a charge of " + charged;
    return text + (room.with_promise ? ", before anything was allocated" : "");
}

CUOTA_INLINE bool is_for_another(refusal const& r) {
    return r.asked == 0 && r.charged == 0 && !r.cause.empty();
}

CUOTA_INLINE std::string headline_of_cause(char const* type, refusal const& r) {
    std::string const place = shown(r.request.where, 28);
    std::string text = std::string{"cuota::"} + type + ": refused" + (place.empty() ? "" : " at " + place) +
                       (r.request.name.is_empty() ? "" : " for " + shown(r.request.name.text(), 16)) + ": ";
    return text + shown(r.cause, screen_columns - text.size());
}

CUOTA_INLINE std::string headline(char const* type, refusal const& r) {
    if (is_for_another(r)) return headline_of_cause(type, r);
    constexpr headline_room ways[] = {{60, true, true},   {28, true, true},   {28, true, false},
                                      {28, false, false}, {16, false, false}, {6, false, false}};
    std::string text;
    for (headline_room const& room : ways)
        if (text = headline(type, r, room); text.size() <= screen_columns) break;
    return text;
}

CUOTA_INLINE std::string budget_name(budget_facts const& b, std::size_t most) {
    std::string const kind = kind_of(b);
    return kind + shown(b.name, most - kind.size() - 2);
}

CUOTA_INLINE std::string budget_line(budget_facts const& b, std::size_t width, std::size_t most) {
    bool const is_bounded = b.limit != unlimited;
    return padded(budget_name(b, most), width) + "limit " +
           padded(is_bounded ? bytes_text(b.limit) : "none", 12) + "held " + padded(bytes_text(b.held), 12) +
           "free " + padded(is_bounded ? bytes_text(b.free()) : "any", 12) + "peak " + bytes_text(b.peak);
}

CUOTA_INLINE std::string device_line(device_facts const& d, std::size_t width) {
    std::string const figures = "total " + padded(bytes_text(d.total), 12) + "free " +
                                padded(bytes_text(d.free), 12) + "elsewhere " + bytes_text(d.elsewhere()) +
                                (d.overhead == 0 ? "" : " (at the start " + bytes_text(d.overhead) + ')');
    std::string const begin = "device " + std::to_string(d.ordinal) + " (";
    std::size_t const room = screen_columns - 2 - figures.size();
    std::size_t const for_name = std::min<std::size_t>(32, room - begin.size() - 3);
    return padded(begin + shown(d.name, for_name) + ')', std::min(width, room)) + figures;
}

CUOTA_INLINE std::vector<std::size_t> levels_shown(refusal const& r) {
    std::size_t const count = r.budgets.size();
    std::vector<std::size_t> levels;
    for (std::size_t i = 0; i != count; ++i) {
        bool const is_named = i == 0 || i == r.refused_by || i + 1 == count;
        bool const is_spare = r.refused_by == 0 || r.refused_by + 1 >= count;  // then the second is, too
        if (count <= 4 || is_named || (is_spare && i == 1)) levels.push_back(i);
    }
    return levels;
}

CUOTA_INLINE std::string budget_lines(refusal const& r) {
    constexpr std::size_t figures = 69;
    bool const is_marked = r.budgets.size() > 1 && r.missing() != 0;
    std::size_t const most = screen_columns - figures - (is_marked ? 13 : 0);
    std::vector<std::size_t> const levels = levels_shown(r);
    std::size_t width = 22;
    for (std::size_t const i : levels)
        if (std::size_t const own = columns_of(budget_name(r.budgets[i], most)) + 2; own > width) width = own;

    std::string text;
    std::size_t next = 0;
    bool is_told = false;
    for (std::size_t const i : levels) {
        if (i != next && !std::exchange(is_told, true))
            text += "\n  ... and " + count_text(r.budgets.size() - levels.size()) + " more on the way to " +
                    shown(r.budgets.back().name, 60);
        text += "\n  " + budget_line(r.budgets[i], width, most) +
                (is_marked && i == r.refused_by ? "   <- refused" : "");
        next = i + 1;
    }
    return r.device ? text + "\n  " + device_line(*r.device, width) : text;
}

CUOTA_INLINE std::string others_text(std::vector<holding> const& holders, std::size_t first) {
    if (first >= holders.size()) return {};
    std::size_t bytes = 0;
    for (std::size_t i = first; i != holders.size(); ++i) bytes = saturating_add(bytes, holders[i].bytes);
    std::size_t const count = holders.size() - first;
    return "   " + count_text(count) + (count == 1 ? " other " : " others ") + bytes_text(bytes);
}

CUOTA_INLINE std::string holders_text(std::vector<holding> const& holders) {
    constexpr std::size_t named = 4;
    std::string text;
    std::size_t i = 0;
    for (; i != holders.size() && i != named; ++i) {
        std::string const next = (i == 0 ? "" : "   ") + holder_text(holders[i], true);
        std::size_t const for_others = others_text(holders, i + 1).size();
        if (i != 0 && text.size() + next.size() + for_others > step_columns) break;
        text += next;
    }
    return text + others_text(holders, i);
}

CUOTA_INLINE std::string nothing_to_give_text(std::vector<holding> const& holders) {
    std::size_t free = 0;
    for (holding const& h : holders)
        if (h.is_cached) free = saturating_add(free, h.bytes);
    return free == 0 ? "0 B: no pool or cache here has anything to give"
                     : "0 B: the " + bytes_text(free) + " free in pools are held there by live blocks";
}

CUOTA_INLINE std::string reclaimed_text(refusal const& r) {
    constexpr std::size_t most = step_columns - 35;  // the largest free block follows
    std::vector<reclaimer_facts> const asked = r.reclaimers.value_or(std::vector<reclaimer_facts>{});
    std::vector<reclaimer_facts> gave;
    for (reclaimer_facts const& who : asked)
        if (who.given != 0) gave.push_back(who);
    if (r.reclaimed != 0)
        return listed(bytes_text(r.reclaimed) + (gave.empty() ? "" : ": "), gave.size(), most,
                      [&](std::size_t i) {
                          return shown(gave[i].name, 24) + " gave " + bytes_text(gave[i].given) + " of " +
                                 bytes_text(gave[i].asked);
                      });
    // What no cache could make room for is not asked of any.
    if (r.refuser() && r.charged > r.refuser()->limit) return "0 B: it would not fit an empty budget";
    if (!r.reclaimers) return "0 B: nothing cached could be given back";
    if (asked.empty()) return nothing_to_give_text(r.holders);
    if (r.reclaimable != 0)
        return listed("0 B: not enough, the " + bytes_text(r.reclaimable) + " of ", asked.size(), most,
                      [&](std::size_t i) { return shown(asked[i].name, 24); });
    return listed("0 B: ", asked.size(), most - 20, [&](std::size_t i) { return shown(asked[i].name, 24); }) +
           " had nothing to give";
}

CUOTA_INLINE std::string steps_lines(refusal const& r) {
    std::string text;
    std::vector<next_step> const steps = next_steps(r);
    std::size_t useful = 0;
    for (next_step const& s : steps) useful += s.suffices;
    for (std::size_t i = 0; i != steps.size(); ++i) {
        char const* const alternative = i != 0 ? "or        " : useful == 1 ? "next      " : "either    ";
        text += (steps[i].suffices ? std::string{"\n  "} + alternative : "\n  in vain   ") +
                cut(steps[i].text, step_columns);
    }
    return text;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string refusal_text(char const* type, refusal const& r) {
    std::string text = detail::headline(type, r);
    auto const add = [&](char const* heading, std::string line) {
        text += heading + detail::cut(std::move(line), detail::step_columns);
    };
    bool const is_told = detail::is_for_another(r) && text.ends_with(detail::printable(r.cause));
    if (!r.cause.empty() && !is_told) add("\n  because   ", detail::printable(r.cause));
    text += detail::budget_lines(r);
    if (!r.holders.empty()) add("\n  held by   ", detail::holders_text(r.holders));
    std::string const largest =
        r.largest_free == 0 ? "" : "; largest free block " + bytes_text(r.largest_free);
    if (r.refuser()) add("\n  reclaimed ", detail::reclaimed_text(r) + largest);
    return text + detail::steps_lines(r);
}

}  // namespace cuota::inline v0

#endif
