// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Calls the holders of idle memory for a shortfall.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/ledger_node.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/resource/detail/idle_memory.hpp>

namespace cuota::inline v0::detail {

template <class Concerns>
dynamic_array<ledger_node::stake> ledger_node::reclaimable_holders(Concerns concerns) const {
    region_lock const lock{tree_->guard};
    dynamic_array<stake> found;
    // A throwing push_back would release owners, perhaps the last ones, under the lock.
    found.reserve(tree_->reclaimable_holders.size());
    for (auto const& [at, who] : tree_->reclaimable_holders)
        if (concerns(*at) && who->try_add_ref())
            found.push_back({at, intrusive_ptr<reclaimable_holder>::adopt(who)});
    return found;
}

/// Results of the reclaim calls for one request, and the excluded reclaimers (docs/design/ledger.md).
class reclaim_record {
public:
    std::vector<reclaimer_info> told{};

    /// False for an excluded reclaimer.
    [[nodiscard]] bool counts_on(idle_holder const& who) const noexcept;
    /// Records that it claimed `claimed` bytes and the account got `shown` back. Returns the lesser.
    [[nodiscard]] std::size_t believe(intrusive_ptr<idle_holder> const& who, std::size_t claimed,
                                      std::size_t shown, ledger_node const& refuser);

private:
    struct claim {
        intrusive_ptr<idle_holder> of;
        std::size_t bytes = 0;
        bool is_spent = false;
    };
    dynamic_array<claim> claims_{};
};

/// Reclaims a shortfall from the holders of an account.
class reclaim_round {
public:
    /// Selects the holders of nodes for which refunds_in(refuser).
    reclaim_round(ledger_node& refuser, reclaim_record& record);

    /// Returns the bytes that the account got back; 0, without a call, if all together could not release `missing`.
    [[nodiscard]] std::size_t ask_for(std::size_t missing);

private:
    [[nodiscard]] dynamic_array<intrusive_ptr<idle_holder>> holders() const;
    [[nodiscard]] std::size_t ask(intrusive_ptr<idle_holder> const& who, std::size_t wanted);

    ledger_node& refuser_;
    reclaim_record& record_;
    idle_round left_;
};

/// Returns a node's holders with their reclaimable bytes.
[[nodiscard]] std::vector<reclaimer_info> who_could_give(ledger_node const& to,
                                                         reclaim_record const& record = {});
[[nodiscard]] std::size_t sum_of(std::vector<reclaimer_info> const& givers) noexcept;

/// Returns the largest charge that would fit after `reclaimable` bytes were released.
[[nodiscard]] std::size_t most_of(budget_info const& b, std::size_t reclaimable) noexcept;

/// Returns the largest charge that would fit here and at all ancestors after reclaiming all.
[[nodiscard]] std::size_t most_at(ledger_node& node, reclaim_record const& record = {});

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool reclaim_record::counts_on(idle_holder const& who) const noexcept {
    claim const* const of = claims_.find_if([&](claim const& c) { return c.of.get() == &who; });
    return of == claims_.end() || !of->is_spent;
}

CUOTA_INLINE std::size_t reclaim_record::believe(intrusive_ptr<idle_holder> const& who, std::size_t claimed,
                                                 std::size_t shown, ledger_node const& refuser) {
    claim* of = claims_.find_if([&](claim const& c) { return c.of.get() == who.get(); });
    if (of == claims_.end()) of = &claims_.emplace_back(who);
    of->bytes = saturating_add(of->bytes, claimed);
    // Bounds its claims by the limit: other threads may use all that it releases.
    of->is_spent = shown < claimed || claimed == 0 || of->bytes > refuser.limit();
    if (shown < claimed) who->report_false_claim(claimed, shown, refuser.name());
    return std::min(claimed, shown);
}

CUOTA_INLINE reclaim_round::reclaim_round(ledger_node& refuser, reclaim_record& record)
    : refuser_{refuser}, record_{record}, left_{holders()} {}

CUOTA_INLINE dynamic_array<intrusive_ptr<idle_holder>> reclaim_round::holders() const {
    dynamic_array<intrusive_ptr<idle_holder>> all;
    for (auto& [at, who] :
         refuser_.reclaimable_holders([this](ledger_node const& of) { return of.refunds_in(refuser_); }))
        if (record_.counts_on(*who)) all.push_back(intrusive_ptr<idle_holder>::adopt(who.detach()));
    return all;
}

CUOTA_INLINE std::size_t reclaim_round::ask_for(std::size_t missing) {
    if (!left_.can_give(missing)) return 0;
    reclaiming const here;
    std::size_t got = 0;
    while (got < missing && !left_.is_over()) {
        std::size_t const wanted = missing - got;
        intrusive_ptr<idle_holder> const who = left_.next(wanted);
        std::size_t const given = ask(who, wanted);
        record_.told.push_back({who->title(), wanted, given, 0});
        got = saturating_add(got, given);
    }
    return got;
}

CUOTA_INLINE std::size_t reclaim_round::ask(intrusive_ptr<idle_holder> const& who, std::size_t wanted) {
    if (!who->speaks_for_program()) return who->reclaim(wanted);
    // Freed memory is refunded, or becomes free blocks of a pool, which is reclaimed next.
    auto const of_account = holders();
    auto const came_back = [&] {
        std::size_t sum = refuser_.released_total();
        for (auto const& one : of_account) sum += one->freed();
        return sum;
    };
    std::size_t const before = came_back();
    std::size_t const claimed = who->reclaim(wanted);
    return record_.believe(who, claimed, came_back() - before, refuser_);
}

CUOTA_INLINE std::vector<reclaimer_info> who_could_give(ledger_node const& to, reclaim_record const& record) {
    std::vector<reclaimer_info> all;
    for (auto const& [at, who] :
         to.reclaimable_holders([&](ledger_node const& of) { return of.refunds_in(to); }))
        if (std::size_t const reclaimable = record.counts_on(*who) ? who->reclaimable(unlimited) : 0;
            reclaimable != 0)
            all.push_back({who->title(), 0, 0, reclaimable});
    return all;
}

CUOTA_INLINE std::size_t sum_of(std::vector<reclaimer_info> const& givers) noexcept {
    std::size_t sum = 0;
    for (reclaimer_info const& giver : givers) sum = saturating_add(sum, giver.reclaimable);
    return sum;
}

CUOTA_INLINE std::size_t most_of(budget_info const& b, std::size_t reclaimable) noexcept {
    std::size_t const excess = b.held - std::min(b.held, b.limit);
    return std::min(b.limit, saturating_add(b.free(), reclaimable - std::min(reclaimable, excess)));
}

CUOTA_INLINE std::size_t most_at(ledger_node& node, reclaim_record const& record) {
    dynamic_array<std::pair<ledger_node const*, budget_info>> way;
    (void)node.look_up(
        0, [&](ledger_node const& at, budget_info facts) { way.emplace_back(&at, std::move(facts)); });
    std::size_t most = unlimited;
    for (auto const& [at, facts] : way)
        most = std::min(most, most_of(facts, sum_of(who_could_give(*at, record))));
    return most;
}

}  // namespace cuota::inline v0::detail

#endif
