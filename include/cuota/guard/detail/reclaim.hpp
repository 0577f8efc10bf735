// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reclaims idle memory for a charge that does not fit, or refuses it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/device_limit.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>

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

/// Reclaims `missing` bytes and notifies observers. Returns false if nothing was released.
[[nodiscard]] bool ask(reclaim_round& round, std::size_t missing, ledger_node const& node,
                       reclaim_record const& record);

/// Charges by attempt(), which returns the node that refused; reclaims its shortfall and tries again. Returns false if the holders cannot
/// release enough.
template <class Attempt>
[[nodiscard]] bool try_charge_by(Attempt attempt, ledger_node& node, std::size_t bytes,
                                 reclaim_record& record) {
    if (node.is_of_parent()) [[unlikely]]
        throw_forked();
    node.refresh_if_stale();
    for (;;) {
        ledger_node::outcome const met = attempt();
        if (!met.refuser) return true;
        if (node.refresh_after(met)) continue;
        // A larger request never fits.
        if (bytes > met.refuser->limit() || reclaiming::is_on()) return false;
        reclaim_round round{*met.refuser, record};
        // Not met.missing, which includes other threads' idle stocks: caches cannot release those.
        std::size_t const missing = met.refuser->shortfall_for(bytes);
        if (missing != 0 && !ask(round, missing, node, record)) return false;
    }
}

struct nothing_to_add {
    void operator()(refusal&) const noexcept {}
};

/// Like try_charge_by, but in place of false throws budget_exceeded, and stores it in every budget up to the root. add(refusal&) adds
/// facts.
template <class Attempt, class Add = nothing_to_add>
void charge_by(Attempt attempt, ledger_node& node, std::size_t bytes, charge_request const& request,
               reclaim_record& record, Add add = {}, asked_pool const* pool = nullptr) {
    node.refuse_other_state(request.who.where);
    while (!try_charge_by(attempt, node, bytes, record)) {
        refusal r = facts_of(node, bytes, request, record, pool);
        if (r.shortfall() == 0) continue;  // memory was released meanwhile
        note_given(r, record.told);
        add(r);
        budget_exceeded refused{std::move(r)};
        node.remember(refused);
        throw refused;
    }
}

/// Changes the limit of `node`, as budget::set_limit describes. Throws: budget_exceeded.
void change_limit(ledger_node& node, std::size_t bytes, bool keeps_excess, source_location where);

/// Charges for memory not allocated yet.
template <class Add>
void charge_coming(ledger& node, std::size_t bytes, charge_request const& request, reclaim_record& record,
                   Add add, asked_pool const* pool = nullptr) {
    charge_by([&] { return node.charge_coming_or_say(bytes, &request.who); }, node, bytes, request, record,
              add, pool);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/suggestions.hpp>

namespace cuota::inline v0::detail {

inline constexpr char const* untagged_charge = "charged without a tag";

[[nodiscard]] CUOTA_INLINE bool is_untagged_charge(allocation_group const& h) noexcept {
    return h.where.line == 0 && std::string_view{h.name.text()} == untagged_charge;
}

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

CUOTA_INLINE void sum_up(std::vector<allocation_group>& holders) {
    std::vector<allocation_group> sums;
    for (allocation_group const& h : holders) add_up(sums, h);
    sort_stably(sums, std::greater{}, &allocation_group::bytes);
    holders = std::move(sums);
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

CUOTA_INLINE bool ask(reclaim_round& round, std::size_t missing, ledger_node const& node,
                      reclaim_record const& record) {
    std::size_t const before = record.told.size();
    std::size_t const given = round.ask_for(missing);
    for (std::size_t i = before; i != record.told.size(); ++i)
        node.tell_observers([&](budget_observer& o) { o.reclaimed(node, record.told[i]); });
    return given != 0;
}

CUOTA_INLINE void change_limit(ledger_node& node, std::size_t bytes, bool keeps_excess,
                               source_location where) {
    node.refuse_other_state(where);
    if (node.is_of_parent()) throw_forked();
    reclaim_record record;
    for (;;) {
        std::size_t const excess = node.change_limit(bytes, false);
        if (excess == 0) return;
        // Without enough for all of it no holder is called: `keeps_excess` asks for no more than they have.
        std::size_t const wanted =
            keeps_excess ? std::min(excess, sum_of(who_could_give(node, record))) : excess;
        bool has_given = false;
        if (wanted != 0 && !reclaiming::is_on()) {
            reclaim_round round{node, record};
            has_given = ask(round, wanted, node, record);
        }
        if (keeps_excess) return (void)node.change_limit(bytes, true);
        if (has_given) continue;
        refusal r = facts_of(node, 0, {0, 1, label{{}, where}, std::nullopt}, record, nullptr, bytes);
        if (r.shortfall() == 0) continue;  // memory was released meanwhile
        note_given(r, record.told);
        budget_exceeded refused{std::move(r)};
        node.remember(refused);
        throw refused;
    }
}

CUOTA_INLINE void join(ledger& node, reclaimable_holder& s) { node.join(s); }

CUOTA_INLINE void leave(ledger& node, reclaimable_holder& s) noexcept { node.leave(s); }

CUOTA_INLINE void charge(ledger& node, std::size_t bytes, charge_request const& request) {
    if (node.try_charge_alone(bytes)) [[likely]]
        return;
    reclaim_record record;
    charge_by([&] { return node.charge_or_say(bytes, &request.who); }, node, bytes, request, record);
}

CUOTA_INLINE void charge_coming(ledger& node, std::size_t bytes, charge_request const& request) {
    reclaim_record record;
    charge_coming(node, bytes, request, record, nothing_to_add{});
}

}  // namespace cuota::inline v0::detail

#endif
