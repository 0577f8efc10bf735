// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The facts about a refusal, for its text and its suggestions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <cuota/core/config.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/ledger_node.hpp>
#include <cuota/guard/detail/reclaim/reclaim_round.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

/// The pool of a request.
class asked_pool {
public:
    virtual ~asked_pool() = default;
    /// Returns the largest request that its present memory can serve.
    [[nodiscard]] virtual std::size_t largest_free() const noexcept = 0;
    /// Returns whether it could serve the request if these allocation groups were freed.
    [[nodiscard]] virtual bool could_serve_if(std::span<allocation_group const> released) const = 0;
};

/// Returns the facts about a refusal of `bytes`, or of `new_limit` for the node; shortfall() is 0 if they fit now.
[[nodiscard]] refusal facts_of(ledger_node& node, std::size_t bytes, charge_request const& request,
                               reclaim_record const& record = {}, asked_pool const* pool = nullptr,
                               std::optional<std::size_t> new_limit = std::nullopt);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <string_view>
#include <vector>

#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/suggestions.hpp>
#include <cuota/guard/detail/limits/device_limit.hpp>

namespace cuota::inline v0::detail {

inline constexpr char const* untagged_charge = "charged without a tag";

[[nodiscard]] CUOTA_INLINE bool is_untagged_charge(allocation_group const& h) noexcept {
    return h.where.line == 0 && std::string_view{h.name.text()} == untagged_charge;
}

CUOTA_INLINE void sum_up(std::vector<allocation_group>& holders) {
    std::vector<allocation_group> sums;
    for (allocation_group const& h : holders) add_up(sums, h);
    sort_stably(sums, std::greater{}, &allocation_group::bytes);
    holders = std::move(sums);
}

CUOTA_INLINE bool is_one_of(std::span<allocation_group const> holders, tag name,
                            source_location where) noexcept {
    for (allocation_group const& h : holders)
        if (compare_uses(h.name, h.where, name, where) == 0) return true;
    return false;
}

CUOTA_INLINE_IN_PLACE std::size_t reclaimable_holder::reclaimable_if(
    std::span<allocation_group const> released) const {
    std::vector<allocation_group> mine;
    allocation_groups(mine);
    std::size_t sum = reclaimable(unlimited);
    for (allocation_group const& h : mine)
        if (!h.is_cached && is_one_of(released, h.name, h.where)) sum = saturating_add(sum, h.bytes);
    return sum;
}

/// Returns whether the request would succeed if these allocation groups were freed.
[[nodiscard]] CUOTA_INLINE bool would_be_served(refusal const& r, std::span<ledger_node const* const> way,
                                                reclaim_record const& record, asked_pool const* pool,
                                                std::span<allocation_group const> released) {
    if (pool && pool->could_serve_if(released)) return true;
    std::size_t untagged = 0;
    for (allocation_group const& h : released)
        if (is_untagged_charge(h)) untagged = h.bytes;
    for (std::size_t i = 0; i != way.size(); ++i) {
        std::size_t given = i >= r.refused_by ? untagged : 0;
        for (auto const& [at, who] :
             way[i]->reclaimable_holders([&](ledger_node const& of) { return of.refunds_in(*way[i]); }))
            if (record.counts_on(*who)) given = saturating_add(given, who->reclaimable_if(released));
        if (given < (r.new_limit ? r.shortfall() : r.budgets[i].shortfall_for(r.charged))) return false;
    }
    if (!r.device) return true;
    std::size_t on_device = saturating_add(r.device->free, r.device->pooled);
    if (on_device >= r.charged) return true;
    for (auto const& holder : idle_registry::of(device{r.device->ordinal}))
        on_device = saturating_add(on_device, holder->reclaimable_if(released));
    return on_device >= r.charged;
}

/// Sets r.release: the fewest allocation groups that cover the shortfall, or more because of fragmentation.
CUOTA_INLINE void find_release(refusal& r, std::span<ledger_node const* const> way,
                               reclaim_record const& record, asked_pool const* pool) {
    std::vector<allocation_group> users;
    for (allocation_group const& h : r.holders)
        if (!h.is_cached && h.bytes != 0) users.push_back(h);
    std::size_t wanted = std::max(lacking(r) - std::min(lacking(r), r.reclaimable), std::size_t{1});
    constexpr int most_looks = 6;
    for (int looks = 0; !users.empty() && looks != most_looks; ++looks) {
        bool const is_last = looks + 1 == most_looks;
        std::vector<allocation_group> chosen = is_last ? users : fewest_that_cover(users, wanted);
        if (would_be_served(r, way, record, pool, chosen)) {
            r.release = std::move(chosen);
            return;
        }
        if (chosen.size() == users.size()) break;
        std::size_t sum = 0;
        for (allocation_group const& h : chosen) sum = saturating_add(sum, h.bytes);
        wanted = saturating_add(std::max(sum, wanted), 1);
    }
    r.release.emplace();
}

CUOTA_INLINE refusal facts_of(ledger_node& node, std::size_t bytes, charge_request const& request,
                              reclaim_record const& record, asked_pool const* pool,
                              std::optional<std::size_t> new_limit) {
    refusal r;
    r.requested = request.requested;
    r.charged = bytes;
    r.granularity = request.granularity;
    r.request = request.who;
    r.new_limit = new_limit;
    dynamic_array<ledger_node const*> way;
    ledger_node const* const refuser = node.look_up(bytes, [&](ledger_node const& at, budget_info facts) {
        if (new_limit && !way.empty()) return;  // its ancestors do not matter
        way.push_back(&at);
        r.budgets.push_back(std::move(facts));
    });
    while (refuser && !new_limit && way[r.refused_by] != refuser) ++r.refused_by;

    ledger_node const& holds = *way[r.refused_by];
    std::vector<std::size_t> reclaimable(way.size());
    for (std::size_t i = 0; i != way.size(); ++i) {
        std::vector<reclaimer_info> givers = who_could_give(*way[i], record);
        reclaimable[i] = sum_of(givers);
        if (i == r.refused_by) r.reclaimers = std::move(givers);
    }
    for (auto const& [at, who] :
         node.reclaimable_holders([&](ledger_node const& of) { return of.is_under(holds); })) {
        who->allocation_groups(r.holders);
        r.largest_free = std::max(r.largest_free, who->largest_free());
    }
    if (pool) r.largest_free = pool->largest_free();
    std::size_t available = unlimited;
    for (std::size_t i = 0; i != way.size(); ++i)
        available = std::min(available, most_of(r.budgets[i], reclaimable[i]));
    r.max_fit = round_down(available, request.granularity);
    r.reclaimable = reclaimable[r.refused_by];
    if (budget_info const& last = r.budgets.back(); last.is_reservation && !last.is_released)
        r.growth_available = most_at(*way.back()->above(), record);

    std::size_t named = 0;
    for (allocation_group const& h : r.holders) named = saturating_add(named, h.bytes);
    std::size_t const held = r.budgets[r.refused_by].held;
    if (held > named) r.holders.push_back({untagged_charge, {}, held - named});
    sum_up(r.holders);
    auto* const queried = dynamic_cast<queried_limit const*>(node.outer());
    auto* const driver = dynamic_cast<device_limit const*>(node.outer());
    if (new_limit) {
        // The device's memory does not matter.
    } else if (request.on && !(driver && driver->where() == *request.on)) {
        r.device = facts_of(*request.on);
    } else if (queried) {
        r.device = queried->facts();
    }
    if (request.on && r.device) {
        std::size_t const free =
            round_down(saturating_add(r.device->free, r.reclaimable), request.granularity);
        r.max_fit = std::min(r.max_fit, std::max(free, r.largest_free));
    }
    find_release(r, {way.data(), way.size()}, record, pool);
    return r;
}

}  // namespace cuota::inline v0::detail

#endif
