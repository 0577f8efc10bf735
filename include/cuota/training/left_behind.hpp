// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory of a budget in use, without caches, and the check that a step has freed its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/budget.hpp>

namespace cuota::inline v0::detail {

/// Returns the holders of a budget and its descendants, and one entry for bytes charged without a tag.
[[nodiscard]] std::vector<holding> holders_of(budget const& b);

/// Returns the idle bytes in pools and caches.
[[nodiscard]] std::size_t cached_in(std::vector<holding> const& all) noexcept;

/// Returns the largest charge that fits after caches have released their memory.
[[nodiscard]] std::size_t most_with_caches(budget const& b);

/// Bytes of a budget in use at construction; idle memory of pools is not in use.
///
/// No other thread may allocate from the budget in between: that would be attributed to the step.
/// Throws: std::bad_alloc.
/// Cost:   a list of all holders at construction and at each check.
class use_mark {
public:
    explicit use_mark(budget b) : budget_{std::move(b)}, before_{in_use()} {}

    /// Throws misuse that names bytes and holders if more is in use than at construction. `after` names the operation.
    void check(std::string const& after, place where) const;

private:
    [[nodiscard]] std::vector<holding> in_use() const;
    [[nodiscard]] static std::size_t sum_of(std::vector<holding> const& all) noexcept;
    [[nodiscard]] std::size_t before(holding const& now) const noexcept;
    // Holders that have grown, largest growth first.
    [[nodiscard]] std::string grown_text(std::vector<holding> now) const;

    budget budget_;
    std::vector<holding> before_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

#include <algorithm>
#include <functional>

#include <cuota/core/error.hpp>
#include <cuota/core/next_steps.hpp>
#include <cuota/core/sort_stably.hpp>
#include <cuota/core/text.hpp>
#include <cuota/guard/pressure.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<holding> holders_of(budget const& b) {
    std::vector<holding> all;
    ledger& node = budget_access::node(b);
    for (auto const& [at, who] : node.stakeholders([&](ledger_node const& of) { return of.is_under(node); }))
        who->holdings(all);
    std::size_t named = 0;
    for (holding const& h : all) named = saturating_add(named, h.bytes);
    if (std::size_t const held = b.held(); held > named)
        all.push_back({"charged without a tag", {}, held - named});
    return all;
}

CUOTA_INLINE std::size_t cached_in(std::vector<holding> const& all) noexcept {
    std::size_t cached = 0;
    for (holding const& h : all)
        if (h.is_cached) cached = saturating_add(cached, h.bytes);
    return cached;
}

CUOTA_INLINE std::size_t most_with_caches(budget const& b) { return most_at(budget_access::node(b)); }

CUOTA_INLINE void use_mark::check(std::string const& after, place where) const {
    std::vector<holding> const now = in_use();
    std::size_t const was = sum_of(before_);
    if (sum_of(now) <= was) return;
    throw_misuse(where, "budget {}: {} more in use after {} than before it: {}",
                 {budget_.name(), as_bytes(sum_of(now) - was), after, grown_text(now)});
}

CUOTA_INLINE std::vector<holding> use_mark::in_use() const {
    std::vector<holding> all = holders_of(budget_);
    std::erase_if(all, [](holding const& h) { return h.is_cached; });
    sum_up(all);
    return all;
}

CUOTA_INLINE std::size_t use_mark::sum_of(std::vector<holding> const& all) noexcept {
    std::size_t sum = 0;
    for (holding const& h : all) sum = saturating_add(sum, h.bytes);
    return sum;
}

CUOTA_INLINE std::size_t use_mark::before(holding const& now) const noexcept {
    for (holding const& h : before_)
        if (h.name == now.name && h.where.line == now.where.line &&
            std::string_view{h.where.file} == now.where.file)
            return h.bytes;
    return 0;
}

CUOTA_INLINE std::string use_mark::grown_text(std::vector<holding> now) const {
    for (holding& h : now) h.bytes -= std::min(h.bytes, before(h));
    std::erase_if(now, [](holding const& h) { return h.bytes == 0; });
    sort_stably(now, std::greater{}, &holding::bytes);
    std::vector<std::string> whose(now.size());
    for (std::size_t i = 0; i != now.size(); ++i) append_holder(whose[i], now[i], true);
    std::string text;
    append_list(text, whose, screen_columns);
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
