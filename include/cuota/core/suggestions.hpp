// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Suggestions after a refusal, as data and as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0 {

/// The thing that a suggestion changes. Example: tests/core/suggestions.cpp
enum class suggestion_kind {
    retry,               ///< nothing: the same request would fit now
    request_less,        ///< the request
    free_memory,         ///< memory held in the budget
    raise_limit,         ///< limits of budgets up to the root, or the one to set; reservations grow
    free_device_memory,  ///< memory on the device, also of other programs
};

/// Returns for example "request_less".
[[nodiscard]] constexpr char const* name_of(suggestion_kind kind) noexcept {
    constexpr char const* names[] = {"retry", "request_less", "free_memory", "raise_limit",
                                     "free_device_memory"};
    return names[static_cast<std::size_t>(kind)];
}

/// A budget, and the smallest limit with which it would not have refused. Sizes are bytes. Example: tests/core/suggestions.cpp
struct raised_limit {
    std::string budget;       ///< its name
    std::size_t level = 0;    ///< index in refusal::budgets
    std::size_t limit = 0;    ///< held there plus the charge
    std::size_t grow_by = 0;  ///< reservations: bytes to grow by; else 0
};

/// One suggestion. Example: tests/core/suggestions.cpp
struct suggestion {
    suggestion_kind kind{};  ///< its kind
    /// Whether this suggestion alone lets the request succeed; if not, `text` has the reason.
    bool suffices = false;
    /// The changed fraction of the request, the memory held or the limits.
    double change = 0;
    /// retry, request_less: bytes that fit; free_memory: sum of `holders`; otherwise the shortfall.
    std::size_t bytes = 0;
    std::size_t count = 0;                    ///< request_less: `bytes` in units of the request
    std::vector<allocation_group> holders{};  ///< free_memory: allocations to free; empty if unknown
    /// raise_limit: from the charged budget to the root.
    std::vector<raised_limit> limits{};
    std::string text{};  ///< one line, without newline
};

namespace detail {

// Columns of a line after its heading.
inline constexpr std::size_t suggestion_columns = screen_columns - 13;

// Appends "weights (train.cpp:10)"; with_bytes inserts the size.
void append_holder(std::string& text, allocation_group const& h, bool with_bytes);

// Appends "a, b and c", or "a, b and 3 more" if the line would exceed `most` bytes.
void append_list(std::string& text, std::vector<std::string> const& items, std::size_t most);

// For example "device 0", or "the host".
[[nodiscard]] std::string memory_place(device_info const& d);

// Returns the largest shortfall among the budgets and the device.
[[nodiscard]] std::size_t lacking(refusal const& r) noexcept;

// Returns the largest request that budgets and device allow.
[[nodiscard]] std::size_t fitting(refusal const& r) noexcept;

[[nodiscard]] double share(std::size_t part, std::size_t whole) noexcept;

// Appends an amount, exact to the unit.
void append_exact(std::string& text, label const& request, std::size_t bytes, std::size_t count);

// Chooses holders as `suggestions` describes. Requires `users` largest first, in total at least `missing`.
[[nodiscard]] std::vector<allocation_group> fewest_that_cover(std::vector<allocation_group> const& users,
                                                              std::size_t missing);

void append_why_release_is_in_vain(std::string& text, refusal const& r, std::size_t missing);

// For example "raise the limit of model to 110 B".
[[nodiscard]] std::string raise_text(std::vector<raised_limit> const& limits);

// Returns why raising the limits does not suffice; empty if it does.
[[nodiscard]] std::string why_raise_is_in_vain(refusal const& r, std::vector<raised_limit> const& limits);

// Fill in their suggestion; return false if it does not apply.
[[nodiscard]] bool suggest_request(refusal const& r, suggestion& step);
[[nodiscard]] bool suggest_release(refusal const& r, suggestion& step);
[[nodiscard]] bool suggest_limits(refusal const& r, suggestion& step);
[[nodiscard]] bool suggest_new_limit(refusal const& r, suggestion& step);
[[nodiscard]] bool suggest_free_device(refusal const& r, suggestion& step);

[[nodiscard]] bool is_better(suggestion const& a, suggestion const& b) noexcept;

}  // namespace detail

/// Returns at most three suggestions: one for the request, one for the memory held, and one for the limits or the device.
///
/// Suggestions that suffice come first, ordered by `change`, then by suggestion_kind. The holders to free are the smallest one that covers
/// the shortfall alone; without one, the largest and, by the same rule, holders for the rest. Requires r.holders largest first. Empty if no
/// limit is known, as for pinned memory.
/// Throws: std::bad_alloc. Cost: linear in the facts. Example: examples/train.cpp
[[nodiscard]] std::vector<suggestion> suggestions(refusal const& r);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstring>

namespace cuota::inline v0::detail {

CUOTA_INLINE void append_holder(std::string& text, allocation_group const& h, bool with_bytes) {
    text += h.name.is_empty() ? "untagged" : shown(h.name.text(), 24);
    if (with_bytes) append_message(text, " {}", {as_bytes(h.bytes)});
    if (h.where.line != 0) append_message(text, " ({})", {as_location(h.where, 24)});
}

CUOTA_INLINE void append_list(std::string& text, std::vector<std::string> const& items, std::size_t most) {
    for (std::size_t i = 0; i != items.size(); ++i) {
        bool const is_last = i + 1 == items.size();
        char const* const before = i == 0 ? "" : is_last ? " and " : ", ";
        std::size_t const for_the_rest = is_last ? 0 : 20;
        if (i != 0 && text.size() + std::strlen(before) + items[i].size() + for_the_rest > most)
            return append_message(text, " and {} more", {as_count(items.size() - i)});
        append_message(text, "{}{}", {before, items[i]});
    }
}

CUOTA_INLINE std::string memory_place(device_info const& d) {
    return d.ordinal == device_info::host ? "the host" : message("device {}", {d.ordinal});
}

CUOTA_INLINE std::size_t lacking(refusal const& r) noexcept {
    if (r.new_limit) return r.shortfall();
    std::size_t most = r.device_shortfall();
    for (budget_info const& b : r.budgets)
        if (std::size_t const here = b.shortfall_for(r.charged); here > most) most = here;
    return most;
}

CUOTA_INLINE std::size_t fitting(refusal const& r) noexcept {
    if (!r.device) return r.max_fit;
    std::size_t const on_device = round_down(r.device->free, r.granularity);
    std::size_t const ready = r.largest_free > on_device ? r.largest_free : on_device;
    return r.max_fit < ready ? r.max_fit : ready;
}

CUOTA_INLINE double share(std::size_t part, std::size_t whole) noexcept {
    return static_cast<double>(part) / (whole == 0 ? 1.0 : static_cast<double>(whole));
}

CUOTA_INLINE void append_exact(std::string& text, label const& request, std::size_t bytes,
                               std::size_t count) {
    if (request.unit_bytes == 1 && bytes < 1024) return as_bytes(bytes).append_to(text);
    append_message(text, "{} {}", {as_count(count), as_name(unit_of(count, request.unit), 24)});
    if (std::string_view{request.unit} == "elements")  // which name no type
        append_message(text, " of {}", {as_bytes(request.unit_bytes)});
    append_message(text, " ({})", {as_bytes(bytes)});
}

CUOTA_INLINE bool suggest_request(refusal const& r, suggestion& step) {
    // The limit of pinned memory is unknown.
    bool const is_known = r.max_fit != 0 || r.refusing_budget() || r.device;
    std::size_t const bytes = fitting(r);
    if (!is_known || r.new_limit) return false;
    if (lacking(r) == 0 && bytes >= r.charged) {
        step.kind = suggestion_kind::retry;
        step.suffices = true;
        step.bytes = bytes;
        append_message(step.text, "retry: {} are free now, though possibly not contiguous",
                       {as_bytes(bytes)});
        return true;
    }
    if (bytes >= r.requested) return false;
    std::size_t const unit = r.request.unit_bytes == 0 ? 1 : r.request.unit_bytes;
    std::size_t const count = bytes / unit;
    step.kind = suggestion_kind::request_less;
    step.suffices = count != 0;
    step.change = share(r.requested - bytes, r.requested);
    step.bytes = count * unit;
    step.count = count;
    if (count != 0) {
        step.text = "request at most ";
        append_exact(step.text, r.request, count * unit, count);
    } else if (unit == 1) {
        step.text = "nothing fits: 0 B are available";
    } else {
        append_message(step.text, "nothing fits: one of the {} needs {}, {} are available",
                       {as_name(r.request.unit, 24), as_bytes(unit), as_bytes(bytes)});
    }
    return true;
}

CUOTA_INLINE std::vector<allocation_group> fewest_that_cover(std::vector<allocation_group> const& users,
                                                             std::size_t missing) {
    std::vector<allocation_group> chosen;
    for (std::size_t i = 0; i != users.size() && missing != 0; ++i) {
        std::size_t pick = i;
        for (std::size_t j = i; j != users.size() && users[j].bytes >= missing; ++j) pick = j;
        chosen.push_back(users[pick]);
        missing -= users[pick].bytes < missing ? users[pick].bytes : missing;
    }
    return chosen;
}

CUOTA_INLINE void append_why_release_is_in_vain(std::string& text, refusal const& r, std::size_t missing) {
    for (budget_info const& b : r.budgets)
        if (r.charged > b.limit) {
            append_message(text, "the request alone is {} over ", {as_bytes(r.charged - b.limit)});
            if (&b == r.refusing_budget()) text += "its limit";
            else append_message(text, "the limit of {}", {as_name(b.name, 24)});
            return;
        }
    append_message(text, "it would still be {} short", {as_bytes(missing)});
    if (r.device_shortfall() != 0 && r.device_shortfall() == lacking(r))
        append_message(text, " on {}", {memory_place(*r.device)});
}

CUOTA_INLINE bool suggest_release(refusal const& r, suggestion& step) {
    budget_info const* const at = r.refusing_budget();
    // Caches release this memory as soon as it covers the shortfall.
    std::size_t const missing = lacking(r) - (r.reclaimable < lacking(r) ? r.reclaimable : lacking(r));
    if (!at || at->held == 0 || missing == 0) return false;
    if (r.budgets.back().is_released) return false;  // its memory is refunded to its parent

    // Only pools can release cached blocks, once their neighbors are free.
    std::vector<allocation_group> users;
    std::size_t in_use = 0;
    std::size_t named = 0;
    for (allocation_group const& h : r.holders) {
        named = saturating_add(named, h.bytes);
        if (h.is_cached || h.bytes == 0) continue;
        in_use = saturating_add(in_use, h.bytes);
        users.push_back(h);
    }
    std::size_t reach = r.holders.empty() || named > at->held ? at->held : named;
    if (r.device_shortfall() == missing && r.device && r.device->own < reach) reach = r.device->own;

    step.kind = suggestion_kind::free_memory;
    step.suffices = missing <= reach && !(r.release && r.release->empty());
    if (!step.suffices && missing <= reach) {
        step.holders = std::move(users);
        step.bytes = reach;
        append_message(step.text, "free all {} held in {}: it may be freed in pieces that do not fit",
                       {as_bytes(at->held), as_name(at->name, 24)});
    } else if (!step.suffices) {
        step.holders = std::move(users);
        step.bytes = reach;
        append_message(step.text, "free all {} held in {}: ", {as_bytes(at->held), as_name(at->name, 24)});
        append_why_release_is_in_vain(step.text, r, missing - reach);
    } else if (users.empty()) {
        step.bytes = missing;
        append_message(step.text, "free {} held in {}", {as_bytes(missing), as_name(at->name, 24)});
    } else {
        if (r.release) step.holders = *r.release;
        else step.holders = in_use < missing ? std::move(users) : fewest_that_cover(users, missing);
        std::vector<std::string> whose(step.holders.size());
        for (std::size_t i = 0; i != whose.size(); ++i) {
            step.bytes = saturating_add(step.bytes, step.holders[i].bytes);
            append_holder(whose[i], step.holders[i], whose.size() != 1);
        }
        append_message(step.text, "free {}: ", {as_bytes(step.bytes)});
        append_list(step.text, whose, suggestion_columns);
    }
    step.change = share(step.bytes, at->held);
    return true;
}

CUOTA_INLINE std::string raise_text(std::vector<raised_limit> const& limits) {
    std::size_t plain = 0;
    std::vector<std::string> changes(limits.size());
    for (std::size_t i = 0; i != limits.size(); ++i) {
        raised_limit const& l = limits[i];
        plain += l.grow_by == 0;
        if (l.grow_by == 0)
            append_message(changes[i], "{} to {}", {as_name(l.budget, 28), at_least(l.limit)});
        else
            append_message(changes[i], "grow reservation {} by {}",
                           {as_name(l.budget, 28), at_least(l.grow_by)});
    }
    std::string text = plain == 0 ? "" : plain == 1 ? "raise the limit of " : "raise the limits of ";
    append_list(text, changes, suggestion_columns);
    return text;
}

CUOTA_INLINE std::string why_raise_is_in_vain(refusal const& r, std::vector<raised_limit> const& limits) {
    for (raised_limit const& l : limits) {
        message_value const name = as_name(l.budget, 28);
        if (r.budgets[l.level].is_released)
            return message("grow reservation {}: it has been released", {name});
        if (l.grow_by > r.growth_available)
            return message("grow reservation {} by {}: its parent has only {} available",
                           {name, at_least(l.grow_by), as_bytes(r.growth_available)});
    }
    std::string text;
    if (r.device_shortfall() == 0) return text;
    if (limits[0].grow_by == 0) text = "raise the limits";
    else append_message(text, "grow reservation {}", {as_name(limits[0].budget, 28)});
    append_message(text, ": {} has only {} free, {} less than needed",
                   {memory_place(*r.device), as_bytes(r.device->free), as_bytes(r.device_shortfall())});
    return text;
}

CUOTA_INLINE bool suggest_new_limit(refusal const& r, suggestion& step) {
    budget_info const* const b = r.refusing_budget();
    if (!b || r.shortfall() == 0) return false;
    std::size_t const kept = b->held - (r.reclaimable < b->held ? r.reclaimable : b->held);
    std::size_t const least = kept < *r.new_limit ? *r.new_limit : kept;
    step.limits.push_back({b->name, r.refused_by, least, 0});
    step.suffices = true;
    step.change = share(least - *r.new_limit, b->held);
    step.bytes = least - *r.new_limit;
    append_message(step.text, "set it to at least {}, or lower it now with when_held::keep",
                   {at_least(least)});
    return true;
}

CUOTA_INLINE bool suggest_limits(refusal const& r, suggestion& step) {
    step.kind = suggestion_kind::raise_limit;
    if (r.new_limit) return suggest_new_limit(r, step);
    for (std::size_t level = 0; level != r.budgets.size(); ++level) {
        budget_info const& b = r.budgets[level];
        std::size_t const missing = b.shortfall_for(r.charged);
        auto const limit = checked_add(b.held, r.charged);
        if (missing == 0) continue;
        if (!limit || r.charged == unlimited) return false;  // a limit cannot be that high
        step.limits.push_back({b.name, level, *limit, b.is_reservation ? missing : 0});
        step.change += share(missing, b.limit);
        if (missing > step.bytes) step.bytes = missing;
    }
    if (step.limits.empty()) return false;
    step.text = why_raise_is_in_vain(r, step.limits);
    step.suffices = step.text.empty();
    if (step.suffices) step.text = raise_text(step.limits);
    return true;
}

CUOTA_INLINE bool suggest_free_device(refusal const& r, suggestion& step) {
    std::size_t const missing = r.device_shortfall();
    if (missing == 0) return false;
    for (budget_info const& b : r.budgets)
        if (b.shortfall_for(r.charged) != 0) return false;  // covered by raise_limit
    device_info const& d = *r.device;
    step.kind = suggestion_kind::free_device_memory;
    step.suffices = r.charged <= d.total;
    step.change = share(missing, d.total);
    step.bytes = missing;
    if (step.suffices)
        append_message(step.text, "free {} on {}: {} are used outside cuota, {} through cuota",
                       {as_bytes(missing), memory_place(d), as_bytes(d.external()), as_bytes(d.own)});
    else
        append_message(step.text, "free all of {}: it has only {} in total",
                       {memory_place(d), as_bytes(d.total)});
    return true;
}

CUOTA_INLINE bool is_better(suggestion const& a, suggestion const& b) noexcept {
    return a.suffices != b.suffices ? a.suffices : a.suffices && a.change < b.change;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<suggestion> suggestions(refusal const& r) {
    std::vector<suggestion> steps;
    for (auto* const fill_in : {detail::suggest_request, detail::suggest_release, detail::suggest_limits,
                                detail::suggest_free_device}) {
        suggestion step;
        if (!fill_in(r, step)) continue;
        steps.push_back(std::move(step));
        for (std::size_t i = steps.size() - 1; i != 0 && detail::is_better(steps[i], steps[i - 1]); --i)
            std::swap(steps[i], steps[i - 1]);
    }
    return steps;
}

}  // namespace cuota::inline v0

#endif
