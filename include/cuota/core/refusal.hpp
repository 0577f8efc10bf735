// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as data: what was asked, who holds what, and what would have fitted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Bytes that somebody holds of a budget, under one tag and from one place.
struct holding {
    tag name{};
    place where{};
    std::size_t bytes = 0;
};

/// A budget at the moment of a refusal. Bytes.
struct budget_facts {
    std::string name;
    std::size_t limit = 0;
    std::size_t held = 0;
    std::size_t peak = 0;

    [[nodiscard]] std::size_t free() const noexcept { return limit - held; }
};

/// What one pool or cache was asked for before a refusal, and gave. Bytes.
struct reclaim_facts {
    std::string name;
    std::size_t asked = 0;
    std::size_t given = 0;
};

/// The device at the moment of a refusal, as its driver tells it. Bytes.
struct device_facts {
    int ordinal = 0;
    std::string name;
    std::size_t total = 0;
    std::size_t free = 0;
    std::size_t ours = 0;  ///< held through cuota in this process

    /// Other programs, the CUDA context and libraries: what is gone and not ours.
    [[nodiscard]] std::size_t elsewhere() const noexcept {
        std::size_t const used = total - free;
        return used > ours ? used - ours : 0;
    }
};

/// Everything known when a request was refused. Sizes are bytes.
struct refusal {
    std::size_t asked = 0;    ///< what the caller wanted
    std::size_t charged = 0;  ///< what it would have cost: asked, rounded up to the granule of its source
    std::size_t granule = 1;  ///< the rounding
    label request{};          ///< who asked, where, in which unit
    std::vector<budget_facts> budgets{};   ///< the budget that was asked, then its ancestors up to the root
    std::size_t refused_by = 0;            ///< which of them refused
    std::optional<device_facts> device{};  ///< absent for host memory
    std::vector<holding> holders{};        ///< largest first
    std::size_t reclaimed = 0;             ///< what caches gave back before the refusal
    std::vector<reclaim_facts> reclaimers{};  ///< who was asked for it, in order
    std::size_t largest_free = 0;             ///< the largest block a pool had ready, when a pool was asked
    std::size_t would_fit = 0;                ///< the most that a request from here could have got
    std::string cause{};  ///< what a lower layer said, when it was not a budget that refused

    /// The largest count of the request's unit that would have fitted.
    [[nodiscard]] std::size_t fitting_count() const noexcept { return would_fit / request.unit_bytes; }
    /// What is missing at the budget that refused; 0 when no budget did.
    [[nodiscard]] std::size_t missing() const noexcept {
        if (budgets.empty() || charged <= budgets[refused_by].free()) return 0;
        return charged - budgets[refused_by].free();
    }
};

namespace detail {

// In columns where the text allows it; never run into what follows.
inline std::string padded(std::string text, std::size_t width) {
    text.append(text.size() + 2 < width ? width - text.size() : 2, ' ');
    return text;
}

inline std::string holders_text(std::vector<holding> const& holders) {
    constexpr std::size_t shown = 4;
    std::string text;
    std::size_t rest = 0;
    for (std::size_t i = 0; i != holders.size(); ++i) {
        if (i >= shown) {
            rest += holders[i].bytes;
            continue;
        }
        holding const& h = holders[i];
        std::string const place = place_text(h.where);
        text += (i ? "   " : "") + std::string{h.name.is_empty() ? "untagged" : h.name.text()} + ' ' +
                bytes_text(h.bytes) + (place.empty() ? "" : " (" + place + ')');
    }
    if (rest != 0) text += "   others " + bytes_text(rest);
    return text;
}

inline std::string budget_text(budget_facts const& b) {
    bool const bounded = b.limit != unlimited;
    return padded("budget " + b.name, 22) + "limit " + padded(bounded ? bytes_text(b.limit) : "none", 12) +
           "held " + padded(bytes_text(b.held), 12) + "free " +
           padded(bounded ? bytes_text(b.free()) : "any", 12) + "peak " + bytes_text(b.peak);
}

inline std::string device_text(device_facts const& d) {
    return padded("device " + std::to_string(d.ordinal) + " (" + d.name + ')', 22) + "total " +
           padded(bytes_text(d.total), 12) + "free " + padded(bytes_text(d.free), 12) + "elsewhere " +
           bytes_text(d.elsewhere());
}

inline std::string reclaimed_text(refusal const& r) {
    if (r.reclaimed != 0) return bytes_text(r.reclaimed);
    // What no cache could make room for is not asked of any.
    return r.charged > r.budgets[r.refused_by].limit ? "0 B: it would not fit an empty budget"
                                                     : "0 B: nothing cached could be given back";
}

inline std::string would_fit_text(refusal const& r) {
    std::string text = r.request.unit_bytes == 1 ? bytes_text(r.would_fit)
                                                 : count_text(r.fitting_count()) + ' ' + r.request.unit;
    if (std::string_view{r.request.unit} == "elements") text += " of " + bytes_text(r.request.unit_bytes);
    if (r.budgets.empty() || r.missing() == 0) return text;
    budget_facts const& refused = r.budgets[r.refused_by];
    if (auto const limit = checked_add(refused.held, r.charged))
        text += "; or a limit of " + bytes_text(*limit);
    if (refused.held != 0)
        text += "; or release " + bytes_text(r.missing()) +
                (r.missing() > refused.held ? " (more than is held)" : "");
    return text;
}

}  // namespace detail

/// The refusal on one screen: the first line says what and where, the rest who holds what and what would fit.
/// `type` is the name of the exception that carries it.
[[nodiscard]] inline std::string refusal_text(char const* type, refusal const& r) {
    std::string const place = place_text(r.request.where);
    std::string const amount =
        r.asked == unlimited ? "more than any address space holds" : bytes_text(r.asked);
    std::string text = std::string{"cuota::"} + type + ": " + amount + " refused" +
                       (place.empty() ? "" : " at " + place) +
                       (r.request.name.is_empty() ? "" : std::string{" for "} + r.request.name.text()) +
                       ", before anything was allocated";
    if (!r.cause.empty()) text += "\n  because   " + r.cause;

    for (std::size_t i = 0; i != r.budgets.size(); ++i)
        text += "\n  " + detail::budget_text(r.budgets[i]) +
                (r.budgets.size() > 1 && i == r.refused_by ? "   <- refused" : "");
    if (r.device) text += "\n  " + detail::device_text(*r.device);
    if (!r.holders.empty()) text += "\n  held by   " + detail::holders_text(r.holders);
    if (!r.budgets.empty()) text += "\n  reclaimed " + detail::reclaimed_text(r);
    bool const is_known = r.would_fit != 0 || !r.budgets.empty() || r.device;  // nobody counts pinned memory
    if (is_known) text += "\n  would fit: " + detail::would_fit_text(r);
    return text;
}

}  // namespace cuota::inline v0
