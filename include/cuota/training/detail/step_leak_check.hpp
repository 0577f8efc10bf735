// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Check that a step has freed its memory.
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

/// Returns the holders of a budget and its descendants, and one entry for untagged bytes.
[[nodiscard]] std::vector<allocation_group> holders_of(budget const& b);

[[nodiscard]] std::size_t cached_in(std::vector<allocation_group> const& all) noexcept;

/// Returns the largest charge that fits after caches have released their memory.
[[nodiscard]] std::size_t most_with_caches(budget const& b);

/// Bytes of a budget in use at construction, without idle memory. Allocations of other threads until a check are attributed to the step.
class step_leak_check {
public:
    explicit step_leak_check(budget b) : budget_{std::move(b)}, before_{in_use()} {}

    /// Throws usage_error if more is in use than at construction. `after` names the operation.
    void check(std::string const& after, source_location where) const;

private:
    [[nodiscard]] std::vector<allocation_group> in_use() const;
    [[nodiscard]] static std::size_t sum_of(std::vector<allocation_group> const& all) noexcept;
    [[nodiscard]] std::size_t before(allocation_group const& now) const noexcept;
    [[nodiscard]] std::string grown_text(std::vector<allocation_group> now) const;

    budget budget_;
    std::vector<allocation_group> before_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

#include <algorithm>
#include <functional>

#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/suggestions.hpp>
#include <cuota/guard/detail/reclaim.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<allocation_group> holders_of(budget const& b) {
    std::vector<allocation_group> all;
    ledger& node = budget_access::node(b);
    for (auto const& [at, who] :
         node.reclaimable_holders([&](ledger_node const& of) { return of.is_under(node); }))
        who->allocation_groups(all);
    std::size_t named = 0;
    for (allocation_group const& h : all) named = saturating_add(named, h.bytes);
    if (std::size_t const held = b.held(); held > named)
        all.push_back({"charged without a tag", {}, held - named});
    return all;
}

CUOTA_INLINE std::size_t cached_in(std::vector<allocation_group> const& all) noexcept {
    std::size_t cached = 0;
    for (allocation_group const& h : all)
        if (h.is_cached) cached = saturating_add(cached, h.bytes);
    return cached;
}

CUOTA_INLINE std::size_t most_with_caches(budget const& b) { return most_at(budget_access::node(b)); }

CUOTA_INLINE void step_leak_check::check(std::string const& after, source_location where) const {
    std::vector<allocation_group> const now = in_use();
    std::size_t const was = sum_of(before_);
    if (sum_of(now) <= was) return;
    throw_usage_error(where, "budget {}: {} more in use after {} than before it: {}",
                      {budget_.name(), as_bytes(sum_of(now) - was), after, grown_text(now)});
}

CUOTA_INLINE std::vector<allocation_group> step_leak_check::in_use() const {
    std::vector<allocation_group> all = holders_of(budget_);
    std::erase_if(all, [](allocation_group const& h) { return h.is_cached; });
    sum_up(all);
    return all;
}

CUOTA_INLINE std::size_t step_leak_check::sum_of(std::vector<allocation_group> const& all) noexcept {
    std::size_t sum = 0;
    for (allocation_group const& h : all) sum = saturating_add(sum, h.bytes);
    return sum;
}

CUOTA_INLINE std::size_t step_leak_check::before(allocation_group const& now) const noexcept {
    for (allocation_group const& h : before_)
        if (h.name == now.name && h.where.line == now.where.line &&
            std::string_view{h.where.file} == now.where.file)
            return h.bytes;
    return 0;
}

CUOTA_INLINE std::string step_leak_check::grown_text(std::vector<allocation_group> now) const {
    for (allocation_group& h : now) h.bytes -= std::min(h.bytes, before(h));
    std::erase_if(now, [](allocation_group const& h) { return h.bytes == 0; });
    sort_stably(now, std::greater{}, &allocation_group::bytes);
    std::vector<std::string> whose(now.size());
    for (std::size_t i = 0; i != now.size(); ++i) append_holder(whose[i], now[i], true);
    std::string text;
    append_list(text, whose, screen_columns);
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
