// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as text.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/holders_text.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/suggestions.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] char const* kind_of(budget_info const& b) noexcept;

// Ways to shorten a headline: names are cut first, then parts that later lines repeat are omitted.
struct headline_limits {
    std::size_t name;
    bool with_charge;
    bool with_owner;  // the budget or the device that refused
};

[[nodiscard]] std::string headline(char const* type, refusal const& r, headline_limits room);

// Appends " for weights at train.cpp:17", as far as known.
void append_request(std::string& text, label const& request, std::size_t max_of_location,
                    std::size_t most_of_name);

// Whether the refusal has no request of its own, but follows from another one, described by `cause`.
[[nodiscard]] bool is_for_another(refusal const& r);
[[nodiscard]] std::string headline_of_cause(char const* type, refusal const& r);

// For budget::set_limit.
[[nodiscard]] std::string headline_of_limit(char const* type, refusal const& r);

[[nodiscard]] std::string headline(char const* type, refusal const& r);

[[nodiscard]] std::string budget_name(budget_info const& b, std::size_t most);

void append_budget(std::string& text, budget_info const& b, std::size_t width, std::size_t most);

void append_device(std::string& text, device_info const& d, std::size_t width);
void append_pooled(std::string& text, device_info const& d, std::size_t width);
void append_soft_limit(std::string& text, device_info const& d, std::size_t width);

// Returns the indices of the budgets to list: all if they fit; otherwise the charged one, the one that refused, the root, and index 1 if a
// line is left. A further line counts the others.
[[nodiscard]] std::vector<std::size_t> levels_shown(refusal const& r);

void append_budgets(std::string& text, refusal const& r);

// Explains why caches released nothing.
[[nodiscard]] std::string nothing_to_give_text(std::vector<allocation_group> const& holders);

[[nodiscard]] std::string reclaimed_text(refusal const& r);

void append_suggestions(std::string& text, std::vector<suggestion> const& steps);

}  // namespace detail

/// Formats a refusal in at most twelve lines of 110 columns: the first has size, tag, call site and budget, or the cause if it has no
/// request of its own; holders and suggestions follow. Long names, lists and paths are cut.
/// `type` is the name of the exception.
/// Throws: std::bad_alloc. Cost: microseconds. Example: tests/core/refusal_text.cpp
[[nodiscard]] std::string refusal_text(char const* type, refusal const& r);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstdint>
#include <cstring>

#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE char const* kind_of(budget_info const& b) noexcept {
    return b.is_reservation ? "reservation " : "budget ";
}

CUOTA_INLINE void append_request(std::string& text, label const& request, std::size_t max_of_location,
                                 std::size_t most_of_name) {
    if (!request.name.is_empty())
        append_message(text, " for {}", {as_name(request.name.text(), most_of_name)});
    if (request.where.line != 0)
        append_message(text, " at {}",
                       {as_location(request.where, static_cast<std::uint32_t>(max_of_location))});
}

CUOTA_INLINE std::string headline(char const* type, refusal const& r, headline_limits room) {
    std::string const requested =
        r.requested == unlimited ? "more than SIZE_MAX bytes" : bytes_text(r.requested);
    std::string const charged = bytes_text(r.charged);
    std::string text = message("cuota::{}: cannot allocate {}", {type, requested});
    if (room.with_charge && r.requested != unlimited && charged != requested)
        append_message(text, " ({} after rounding)", {charged});
    append_request(text, r.request, room.name, room.name);
    if (r.shortfall() != 0) {
        budget_info const& b = *r.refusing_budget();
        bool const is_shown_equal = bytes_text(b.free()) == charged;  // although it is less: both are rounded
        if (!is_shown_equal || room.name < 28) append_message(text, ": {} free", {as_bytes(b.free())});
        else append_message(text, ": {} bytes free", {as_count(b.free())});
        if (room.with_owner) append_message(text, " in {}{}", {kind_of(b), as_name(b.name, room.name)});
    } else if (r.device_shortfall() != 0) {
        append_message(text, ": {} free", {as_bytes(r.device->free)});
        if (room.with_owner) append_message(text, " on {}", {memory_place(*r.device)});
    }
    return text;
}

CUOTA_INLINE bool is_for_another(refusal const& r) {
    return r.requested == 0 && r.charged == 0 && !r.cause.empty();
}

CUOTA_INLINE std::string headline_of_cause(char const* type, refusal const& r) {
    std::string text = message("cuota::{}: cancelled", {type});
    append_request(text, r.request, 28, 16);
    text += ": ";
    append_message(text, "{}", {as_name(r.cause, screen_columns - text.size())});
    return text;
}

CUOTA_INLINE std::string headline_of_limit(char const* type, refusal const& r) {
    constexpr std::size_t ways[] = {60, 28, 16, 6};
    budget_info const& b = *r.refusing_budget();
    std::string text;
    for (std::size_t const most : ways) {
        text = message("cuota::{}: cannot lower the limit of {} to {}",
                       {type, as_name(b.name, most), as_bytes(*r.new_limit)});
        append_request(text, r.request, most, most);
        append_message(text, ": {} held", {as_bytes(b.held)});
        if (text.size() <= screen_columns) break;
    }
    return text;
}

CUOTA_INLINE std::string headline(char const* type, refusal const& r) {
    if (is_for_another(r)) return headline_of_cause(type, r);
    if (r.new_limit && r.refusing_budget()) return headline_of_limit(type, r);
    constexpr headline_limits ways[] = {{60, true, true},   {28, true, true},   {28, false, true},
                                        {28, false, false}, {16, false, false}, {6, false, false}};
    std::string text;
    for (headline_limits const& room : ways)
        if (text = headline(type, r, room); text.size() <= screen_columns) break;
    return text;
}

CUOTA_INLINE std::string budget_name(budget_info const& b, std::size_t most) {
    char const* const kind = kind_of(b);
    return message("{}{}", {kind, as_name(b.name, most - std::strlen(kind) - 2)});
}

CUOTA_INLINE void append_budget(std::string& text, budget_info const& b, std::size_t width,
                                std::size_t most) {
    bool const is_bounded = b.limit != unlimited;
    append_message(text, "{}limit {}held {}free {}peak {}",
                   {message_value{budget_name(b, most)}.padded_to(width),
                    (is_bounded ? as_bytes(b.limit) : message_value{"none"}).padded_to(12),
                    as_bytes(b.held).padded_to(12),
                    (is_bounded ? as_bytes(b.free()) : message_value{"unlimited"}).padded_to(12),
                    as_bytes(b.peak)});
}

CUOTA_INLINE void append_device(std::string& text, device_info const& d, std::size_t width) {
    std::string figures =
        message("total {}free {}outside cuota {}",
                {as_bytes(d.total).padded_to(12), as_bytes(d.free).padded_to(12), as_bytes(d.external())});
    if (d.baseline != 0) append_message(figures, " ({} at startup)", {as_bytes(d.baseline)});
    std::string name = d.ordinal == device_info::host ? "host" : memory_place(d);
    std::size_t const room = screen_columns - 2 - figures.size();
    if (!d.name.empty())
        append_message(name, " ({})", {as_name(d.name, std::min<std::size_t>(32, room - name.size() - 5))});
    append_message(text, "{}{}", {message_value{name}.padded_to(std::min(width, room)), figures});
}

CUOTA_INLINE void append_pooled(std::string& text, device_info const& d, std::size_t width) {
    append_message(text, "{}idle {}freed on streams and kept for cudaMallocAsync",
                   {message_value{"driver's own pool"}.padded_to(width), as_bytes(d.pooled).padded_to(13)});
}

CUOTA_INLINE void append_soft_limit(std::string& text, device_info const& d, std::size_t width) {
    constexpr std::size_t most = 26;  // columns that the figures leave
    append_message(text, "{}limit {}used {}above it the driver may terminate this process",
                   {message_value{"soft limit"}.padded_to(std::min(width, most)),
                    as_bytes(d.soft_limit).padded_to(12), as_bytes(d.soft_limit_used).padded_to(12)});
}

CUOTA_INLINE std::vector<std::size_t> levels_shown(refusal const& r) {
    std::size_t const count = r.budgets.size();
    // The soft limit, or else the driver's pool, takes a line.
    std::size_t const lines =
        r.device && (r.device->pooled != 0 || r.device->soft_limit != unlimited) ? 3 : 4;
    std::vector<std::size_t> levels;
    for (std::size_t i = 0; i != count; ++i) {
        bool const is_named = i == 0 || i == r.refused_by || i + 1 == count;
        bool const is_spare = r.refused_by == 0 || r.refused_by + 1 >= count;  // a line is left for index 1
        if (count <= lines || is_named || (lines == 4 && is_spare && i == 1)) levels.push_back(i);
    }
    return levels;
}

CUOTA_INLINE void append_budgets(std::string& text, refusal const& r) {
    constexpr std::size_t figures = 69;
    bool const is_marked = r.budgets.size() > 1 && r.shortfall() != 0;
    std::size_t const most = screen_columns - figures - (is_marked ? 13 : 0);
    std::vector<std::size_t> const levels = levels_shown(r);
    std::size_t width = 22;
    for (std::size_t const i : levels)
        if (std::size_t const own = columns_of(budget_name(r.budgets[i], most)) + 2; own > width) width = own;

    std::size_t next = 0;
    bool is_told = false;
    for (std::size_t const i : levels) {
        if (i != next && !std::exchange(is_told, true))
            append_message(text, "\n  ... {} more budgets up to {}",
                           {as_count(r.budgets.size() - levels.size()), as_name(r.budgets.back().name, 60)});
        text += "\n  ";
        append_budget(text, r.budgets[i], width, most);
        if (is_marked && i == r.refused_by) text += "   <- refused";
        next = i + 1;
    }
    if (!r.device) return;
    text += "\n  ";
    append_device(text, *r.device, width);
    std::size_t lines_used = 1;
    for (char const c : text) lines_used += c == '\n';
    if (lines_used >= 7) return;  // holders, reclaimed bytes and three suggestions follow
    if (r.device->soft_limit != unlimited) {
        text += "\n  ";
        append_soft_limit(text, *r.device, width);
    } else if (r.device->pooled != 0) {
        text += "\n  ";
        append_pooled(text, *r.device, width);
    }
}

CUOTA_INLINE std::string nothing_to_give_text(std::vector<allocation_group> const& holders) {
    std::size_t free = 0;
    for (allocation_group const& h : holders)
        if (h.is_cached) free = saturating_add(free, h.bytes);
    if (free == 0) return "nothing: no pool or cache has cached memory";
    return message("nothing: {} cached in pools share pages with live blocks", {as_bytes(free)});
}

CUOTA_INLINE std::string reclaimed_text(refusal const& r) {
    constexpr std::size_t most = suggestion_columns - 35;  // leaves room for the largest free block
    std::vector<std::string> whose;
    std::string text;
    if (r.reclaimed != 0) {
        if (r.reclaimers)
            for (reclaimer_info const& who : *r.reclaimers)
                if (who.released != 0)
                    whose.push_back(
                        message("{} released {} of {}",
                                {as_name(who.name, 24), as_bytes(who.released), as_bytes(who.requested)}));
        text = bytes_text(r.reclaimed);
        if (!whose.empty()) text += ": ";
        append_list(text, whose, most);
        return text;
    }
    // Caches are not asked for a charge that exceeds the limit.
    if (r.refusing_budget() && r.charged > r.refusing_budget()->limit)
        return "nothing: the request exceeds the budget's limit";
    if (!r.reclaimers) return "nothing: no cache had memory to release";
    if (r.reclaimers->empty()) return nothing_to_give_text(r.holders);
    for (reclaimer_info const& who : *r.reclaimers) whose.push_back(shown(who.name, 24));
    text = "nothing: ";
    append_list(text, whose, most - 20);
    if (r.reclaimable == 0) return text += " had nothing cached";
    append_message(text, " could release only {}", {as_bytes(r.reclaimable)});
    return text;
}

CUOTA_INLINE void append_suggestions(std::string& text, std::vector<suggestion> const& steps) {
    for (suggestion const& s : steps) {
        bool const is_first = &s == steps.data();
        char const* const heading = !s.suffices ? "won't help " : is_first ? "help       " : "or         ";
        append_message(text, "\n  {}{}", {heading, cut(s.text, suggestion_columns)});
    }
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string refusal_text(char const* type, refusal const& r) {
    std::string text = detail::headline(type, r);
    auto const add = [&](char const* heading, std::string line) {
        detail::append_message(text, "\n  {}{}",
                               {heading, detail::cut(std::move(line), detail::suggestion_columns)});
    };
    if (!r.cause.empty()) {
        std::string cause = detail::printable(r.cause);
        if (!detail::is_for_another(r) || !text.ends_with(cause)) add("cause      ", std::move(cause));
    }
    detail::append_budgets(text, r);
    std::vector<suggestion> const steps = suggestions(r);
    if (!r.holders.empty()) {
        constexpr std::size_t most = 12;  // lines
        std::size_t used = steps.size() + (r.refusing_budget() ? 2 : 1);
        for (char const c : text) used += c == '\n';
        std::size_t const lines = used + 3 <= most ? 3 : used + 2 == most ? 2 : 1;
        detail::append_message(text, "\n  held by    {}", {detail::holders_text(r.holders, lines)});
    }
    if (r.refusing_budget()) {
        std::string reclaimed = detail::reclaimed_text(r);
        if (r.largest_free != 0)
            detail::append_message(reclaimed, "; largest free block {}", {detail::as_bytes(r.largest_free)});
        add("reclaimed  ", std::move(reclaimed));
    }
    detail::append_suggestions(text, steps);
    return text;
}

}  // namespace cuota::inline v0

#endif
