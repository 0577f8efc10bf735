// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Orders budgets as a tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0::detail::screen {

/// Ignores links to later indices, which hand-made snapshots may have.
[[nodiscard]] std::optional<std::size_t> parent_of(memory_snapshot const& all, std::size_t budget) noexcept;

/// Returns for each budget the least available bytes on the path to the root; for a reservation its own; for an ended budget 0.
[[nodiscard]] std::vector<std::size_t> available_of(memory_snapshot const& all);

/// Returns parents before children, and siblings by descending held bytes, then by name.
[[nodiscard]] std::vector<std::size_t> budgets_in_order(memory_snapshot const& all);

/// Marks the `most` budgets with the most held bytes, and their ancestors.
[[nodiscard]] std::vector<bool> largest_budgets(memory_snapshot const& all, std::vector<std::size_t> order,
                                                std::size_t most);

}  // namespace cuota::inline v0::detail::screen

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::screen {

CUOTA_INLINE std::optional<std::size_t> parent_of(memory_snapshot const& all, std::size_t budget) noexcept {
    auto const parent = all.budgets[budget].parent;
    return parent && *parent < budget ? parent : std::nullopt;
}

CUOTA_INLINE std::vector<std::size_t> available_of(memory_snapshot const& all) {
    std::vector<std::size_t> available;
    for (std::size_t i = 0; i != all.budgets.size(); ++i) {
        budget_info const& b = all.budgets[i].facts;
        std::size_t here = b.limit == unlimited ? unlimited : b.free();
        auto const parent = parent_of(all, i);
        if (parent && !b.is_reservation) here = std::min(here, available[*parent]);
        available.push_back(b.is_released ? 0 : here);
    }
    return available;
}

CUOTA_INLINE std::vector<std::size_t> budgets_in_order(memory_snapshot const& all) {
    // The last list has the roots.
    std::vector<std::vector<std::size_t>> children(all.budgets.size() + 1);
    for (std::size_t i = 0; i != all.budgets.size(); ++i)
        children[parent_of(all, i).value_or(all.budgets.size())].push_back(i);
    for (auto& siblings : children)
        sort_stably(siblings, [&](std::size_t a, std::size_t b) {
            budget_info const& x = all.budgets[a].facts;
            budget_info const& y = all.budgets[b].facts;
            return x.held != y.held ? x.held < y.held : x.name > y.name;
        });  // in reverse: `open` is consumed from its back
    std::vector<std::size_t> order;
    std::vector<std::size_t> open = children.back();
    while (!open.empty()) {
        std::size_t const next = open.back();
        open.pop_back();
        order.push_back(next);
        open.insert(open.end(), children[next].begin(), children[next].end());
    }
    return order;
}

CUOTA_INLINE std::vector<bool> largest_budgets(memory_snapshot const& all, std::vector<std::size_t> order,
                                               std::size_t most) {
    sort_stably(order, [&](std::size_t a, std::size_t b) {
        return all.budgets[a].facts.held > all.budgets[b].facts.held;
    });
    std::vector<bool> is_among(all.budgets.size());
    for (std::size_t i = 0; i != std::min(most, order.size()); ++i)
        for (std::optional<std::size_t> b = order[i]; b; b = parent_of(all, *b)) is_among[*b] = true;
    return is_among;
}

}  // namespace cuota::inline v0::detail::screen

#endif
