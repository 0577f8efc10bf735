// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What to do about a refusal, computed from its facts: for programs as data, for people as a line each.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/text.hpp>

namespace cuota::inline v0 {

/// What a step changes. Example: tests/core/next_steps.cpp
enum class step_kind {
    ask_again,     ///< nothing: what was asked would fit by now
    ask_less,      ///< the request
    release,       ///< what others hold of the budget
    raise_limits,  ///< the limits on the way to the root; a reservation's by growing it
    free_device,   ///< what the device holds for anybody
};

/// "ask_less": the name of the kind.
[[nodiscard]] constexpr char const* name_of(step_kind kind) noexcept {
    constexpr char const* names[] = {"ask_again", "ask_less", "release", "raise_limits", "free_device"};
    return names[static_cast<std::size_t>(kind)];
}

/// A budget of a refusal, and the least limit (bytes) with which it would not have refused.
/// Example: tests/core/next_steps.cpp
struct raised_limit {
    std::string budget;       ///< its name
    std::size_t level = 0;    ///< its index in refusal::budgets
    std::size_t limit = 0;    ///< what is held there and the charge
    std::size_t grow_by = 0;  ///< of a reservation: the bytes to grow it by, which is how it gets that limit
};

/// One thing that can be done about a refusal. Example: tests/core/next_steps.cpp
struct next_step {
    step_kind kind{};       ///< what it changes
    bool suffices = false;  ///< alone, as far as the facts tell; a step in vain is listed to say so
    double change = 0;      ///< the share that it changes: of the request, of what is held, of the limits
    std::size_t bytes = 0;  ///< what would fit; what the holders release together; what limits or device lack
    std::size_t count = 0;  ///< ask_less: bytes in whole units of the request
    std::vector<holding> holders{};      ///< release: whose; empty when nobody is named
    std::vector<raised_limit> limits{};  ///< raise_limits: each of them, from the budget asked to the root
    std::string text{};                  ///< for people: one line, without the line's begin or end
};

namespace detail {

// A line of a screen, behind its heading.
inline constexpr std::size_t step_columns = screen_columns - 12;

// "weights (train.cpp:10)": with bytes, between name and place, where several stand in a row.
[[nodiscard]] std::string holder_text(holding const& h, bool with_bytes);

// The begin, then "a, b and c" or "a, b and 3 more": as many as a line has room for.
template <class ItemText>
[[nodiscard]] std::string listed(std::string begin, std::size_t count, std::size_t most, ItemText item) {
    for (std::size_t i = 0; i != count; ++i) {
        bool const is_last = i + 1 == count;
        std::string const next = (i == 0 ? "" : is_last ? " and " : ", ") + item(i);
        std::size_t const for_the_rest = is_last ? 0 : 20;
        if (i != 0 && begin.size() + next.size() + for_the_rest > most)
            return begin + " and " + count_text(count - i) + " more";
        begin += next;
    }
    return begin;
}

// What is missing where the most is missing.
[[nodiscard]] std::size_t lacking(refusal const& r) noexcept;

// What budgets and device would give, as far as anybody knows.
[[nodiscard]] std::size_t fitting(refusal const& r) noexcept;

[[nodiscard]] double share(std::size_t part, std::size_t whole) noexcept;

// To be asked for literally, so it is told to the last unit.
[[nodiscard]] std::string exact_text(label const& request, std::size_t bytes, std::size_t count);

[[nodiscard]] std::optional<next_step> step_ask(refusal const& r);

// One that covers the rest alone, the smallest of those; else the largest, and the same for what is missing then.
// `users` in the order of refusal::holders, and enough of them.
[[nodiscard]] std::vector<holding> fewest_that_cover(std::vector<holding> const& users, std::size_t missing);

[[nodiscard]] std::string why_release_is_in_vain(refusal const& r, std::size_t missing);

[[nodiscard]] std::optional<next_step> step_release(refusal const& r);

// "raise the limits of model to 110 B, gpu to 120 B and grow the reservation loader by 10 B"
[[nodiscard]] std::string raise_text(std::vector<raised_limit> const& limits);

// Empty when limits are all that is in the way.
[[nodiscard]] std::string why_raise_is_in_vain(refusal const& r, std::vector<raised_limit> const& limits);

[[nodiscard]] std::optional<next_step> step_raise(refusal const& r);

[[nodiscard]] std::optional<next_step> step_free_device(refusal const& r);

// What suffices first, and then what changes the smaller share; else in the order of the kinds, in which they come.
void put_in_order(std::vector<next_step>& steps, next_step step);

}  // namespace detail

/// The next steps after a refusal, three at most, the most useful first.
///
/// At most one about the request (ask again, or for how much less), one about what is held, one about limits or
/// device. A step that alone suffices comes before one that does not; among those, the one that changes the smaller
/// share of what it is about; then in the order of step_kind. What does not suffice is listed last, with the reason.
/// Whose memory to release: one holder that alone covers what is missing, the smallest such; else the largest, and
/// by the same rule for the rest. `holders` have to be the largest first for that.
/// Empty when nothing is known: nobody counts what pinned memory a machine can give.
/// Throws: std::bad_alloc. Cost: linear in the facts. Example: examples/train.cpp
[[nodiscard]] std::vector<next_step> next_steps(refusal const& r);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string holder_text(holding const& h, bool with_bytes) {
    std::string const place = shown(h.where, 20);
    return (h.name.is_empty() ? "untagged" : shown(h.name.text(), 24)) +
           (with_bytes ? ' ' + bytes_text(h.bytes) : "") + (place.empty() ? "" : " (" + place + ')');
}

CUOTA_INLINE std::size_t lacking(refusal const& r) noexcept {
    std::size_t most = r.missing_on_device();
    for (budget_facts const& b : r.budgets)
        if (std::size_t const here = b.missing_for(r.charged); here > most) most = here;
    return most;
}

CUOTA_INLINE std::size_t fitting(refusal const& r) noexcept {
    if (!r.device) return r.would_fit;
    std::size_t const on_device = round_down(r.device->free, r.granule);
    std::size_t const ready = r.largest_free > on_device ? r.largest_free : on_device;
    return r.would_fit < ready ? r.would_fit : ready;
}

CUOTA_INLINE double share(std::size_t part, std::size_t whole) noexcept {
    return static_cast<double>(part) / (whole == 0 ? 1.0 : static_cast<double>(whole));
}

CUOTA_INLINE std::string exact_text(label const& request, std::size_t bytes, std::size_t count) {
    if (request.unit_bytes == 1 && bytes < 1024) return bytes_text(bytes);
    bool const has_no_name = std::string_view{request.unit} == "elements";
    return count_text(count) + ' ' + shown(request.unit, 24) +
           (has_no_name ? " of " + bytes_text(request.unit_bytes) : "") + " (" + bytes_text(bytes) + ')';
}

CUOTA_INLINE std::optional<next_step> step_ask(refusal const& r) {
    bool const is_known = r.would_fit != 0 || r.refuser() || r.device;  // nobody counts pinned memory
    std::size_t const bytes = fitting(r);
    if (!is_known) return std::nullopt;
    if (lacking(r) == 0 && bytes >= r.charged)
        return next_step{.kind = step_kind::ask_again,
                         .suffices = true,
                         .bytes = bytes,
                         .text = "ask again: " + bytes_text(bytes) +
                                 " are free by now, if perhaps not in one piece"};
    if (bytes >= r.asked) return std::nullopt;
    std::size_t const unit = r.request.unit_bytes == 0 ? 1 : r.request.unit_bytes;
    std::size_t const count = bytes / unit;
    std::string const text =
        count != 0  ? "ask for what would fit: " + exact_text(r.request, count * unit, count)
        : unit == 1 ? "ask for less: not even 1 B would fit"
                    : "ask for less: one of the " + shown(r.request.unit, 24) + " takes " + bytes_text(unit) +
                          ", and " + bytes_text(bytes) + " would fit";
    return next_step{.kind = step_kind::ask_less,
                     .suffices = count != 0,
                     .change = share(r.asked - bytes, r.asked),
                     .bytes = count * unit,
                     .count = count,
                     .text = text};
}

CUOTA_INLINE std::vector<holding> fewest_that_cover(std::vector<holding> const& users, std::size_t missing) {
    std::vector<holding> chosen;
    for (std::size_t i = 0; i != users.size() && missing != 0; ++i) {
        std::size_t pick = i;
        for (std::size_t j = i; j != users.size() && users[j].bytes >= missing; ++j) pick = j;
        chosen.push_back(users[pick]);
        missing -= users[pick].bytes < missing ? users[pick].bytes : missing;
    }
    return chosen;
}

CUOTA_INLINE std::string why_release_is_in_vain(refusal const& r, std::size_t missing) {
    for (budget_facts const& b : r.budgets)
        if (r.charged > b.limit)
            return "the request alone is " + bytes_text(r.charged - b.limit) + " over " +
                   (&b == r.refuser() ? "its limit" : "the limit of " + shown(b.name, 24));
    bool const is_device = r.missing_on_device() != 0 && r.missing_on_device() == lacking(r);
    return bytes_text(missing) + " would still be missing" +
           (is_device ? " on device " + std::to_string(r.device->ordinal) : "");
}

CUOTA_INLINE std::optional<next_step> step_release(refusal const& r) {
    budget_facts const* const at = r.refuser();
    // Caches give theirs as soon as that is enough.
    std::size_t const missing = lacking(r) - (r.reclaimable < lacking(r) ? r.reclaimable : lacking(r));
    if (!at || at->held == 0 || missing == 0) return std::nullopt;
    if (r.budgets.back().has_ended) return std::nullopt;  // what is released goes to its parent

    // What lies free in a pool is nobody's to release; it follows when all of its neighbours are gone.
    std::vector<holding> users;
    std::size_t in_use = 0;
    std::size_t named = 0;
    for (holding const& h : r.holders) {
        named = saturating_add(named, h.bytes);
        if (h.is_cached || h.bytes == 0) continue;
        in_use = saturating_add(in_use, h.bytes);
        users.push_back(h);
    }
    std::size_t reach = r.holders.empty() || named > at->held ? at->held : named;
    if (r.missing_on_device() == missing && r.device && r.device->ours < reach) reach = r.device->ours;

    next_step step{.kind = step_kind::release, .suffices = missing <= reach};
    if (!step.suffices) {
        step.holders = std::move(users);
        step.bytes = reach;
        step.text = "release all " + bytes_text(at->held) + " that " + shown(at->name, 24) +
                    " holds: " + why_release_is_in_vain(r, missing - reach);
    } else if (users.empty()) {
        step.bytes = missing;
        step.text = "release " + bytes_text(missing) + " of what " + shown(at->name, 24) + " holds";
    } else {
        step.holders = in_use < missing ? std::move(users) : fewest_that_cover(users, missing);
        for (holding const& h : step.holders) step.bytes = saturating_add(step.bytes, h.bytes);
        bool const several = step.holders.size() != 1;
        step.text = listed("release " + bytes_text(step.bytes) + ": ", step.holders.size(), step_columns,
                           [&](std::size_t i) { return holder_text(step.holders[i], several); });
    }
    step.change = share(step.bytes, at->held);
    return step;
}

CUOTA_INLINE std::string raise_text(std::vector<raised_limit> const& limits) {
    std::size_t plain = 0;
    for (raised_limit const& l : limits) plain += l.grow_by == 0;
    return listed(plain == 0   ? ""
                  : plain == 1 ? "raise the limit of "
                               : "raise the limits of ",
                  limits.size(), step_columns, [&](std::size_t i) {
                      raised_limit const& l = limits[i];
                      if (l.grow_by == 0) return shown(l.budget, 28) + " to " + at_least_text(l.limit);
                      return "grow the reservation " + shown(l.budget, 28) + " by " +
                             at_least_text(l.grow_by);
                  });
}

CUOTA_INLINE std::string why_raise_is_in_vain(refusal const& r, std::vector<raised_limit> const& limits) {
    for (raised_limit const& l : limits) {
        std::string const grow = "grow the reservation " + shown(l.budget, 28);
        if (r.budgets[l.level].has_ended) return grow + ": it has ended";
        if (l.grow_by > r.room_to_grow)
            return grow + " by " + at_least_text(l.grow_by) + ": its parent has " +
                   bytes_text(r.room_to_grow) + " to give";
    }
    if (r.missing_on_device() == 0) return {};
    return (limits[0].grow_by == 0 ? "raise limits" : "grow the reservation " + shown(limits[0].budget, 28)) +
           ": device " + std::to_string(r.device->ordinal) + " has " + bytes_text(r.device->free) +
           " free, " + bytes_text(r.missing_on_device()) + " less than it takes";
}

CUOTA_INLINE std::optional<next_step> step_raise(refusal const& r) {
    next_step step{.kind = step_kind::raise_limits};
    for (std::size_t level = 0; level != r.budgets.size(); ++level) {
        budget_facts const& b = r.budgets[level];
        std::size_t const missing = b.missing_for(r.charged);
        auto const limit = checked_add(b.held, r.charged);
        if (missing == 0) continue;
        if (!limit || r.charged == unlimited) return std::nullopt;  // no limit can say that
        step.limits.push_back({b.name, level, *limit, b.is_prepaid ? missing : 0});
        step.change += share(missing, b.limit);
        if (missing > step.bytes) step.bytes = missing;
    }
    if (step.limits.empty()) return std::nullopt;
    step.text = why_raise_is_in_vain(r, step.limits);
    step.suffices = step.text.empty();
    if (step.suffices) step.text = raise_text(step.limits);
    return step;
}

CUOTA_INLINE std::optional<next_step> step_free_device(refusal const& r) {
    std::size_t const missing = r.missing_on_device();
    if (missing == 0) return std::nullopt;
    for (budget_facts const& b : r.budgets)
        if (b.missing_for(r.charged) != 0) return std::nullopt;  // said with the limits
    device_facts const& d = *r.device;
    std::string const name = "device " + std::to_string(d.ordinal);
    bool const can_do = r.charged <= d.total;
    return next_step{.kind = step_kind::free_device,
                     .suffices = can_do,
                     .change = share(missing, d.total),
                     .bytes = missing,
                     .text = can_do ? "free " + bytes_text(missing) + " of " + name + ": " +
                                          bytes_text(d.elsewhere()) + " are held outside cuota, " +
                                          bytes_text(d.ours) + " by this process"
                                    : "free all of " + name + ": it has " + bytes_text(d.total)};
}

CUOTA_INLINE void put_in_order(std::vector<next_step>& steps, next_step step) {
    auto const is_better = [](next_step const& a, next_step const& b) {
        return a.suffices != b.suffices ? a.suffices : a.suffices && a.change < b.change;
    };
    auto at = steps.begin();
    while (at != steps.end() && !is_better(step, *at)) ++at;
    steps.insert(at, std::move(step));
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<next_step> next_steps(refusal const& r) {
    std::vector<next_step> steps;
    for (auto* const make :
         {detail::step_ask, detail::step_release, detail::step_raise, detail::step_free_device})
        if (auto step = make(r)) detail::put_in_order(steps, std::move(*step));
    return steps;
}

}  // namespace cuota::inline v0

#endif
