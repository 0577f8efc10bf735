// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What happens when a charge does not fit: who can give back is asked, then it is tried again, then it is refused.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/sort_stably.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/device_limit.hpp>
#include <cuota/guard/ledger.hpp>
#include <cuota/guard/stakeholder.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

template <class Concerns>
dynamic_array<ledger_node::stake> ledger_node::stakeholders(Concerns concerns) const {
    region_lock const lock{tree_->guard};
    dynamic_array<stake> found;
    found.reserve(
        tree_->stakeholders.size());  // an owner that went by a throw could be the last, under the lock
    for (auto const& [at, who] : tree_->stakeholders)
        if (concerns(*at) && who->try_add_owner()) found.push_back({at, shared<stakeholder>::adopt(who)});
    return found;
}

/// While one is alive, stakeholders are giving back on this thread, and what they charge meanwhile asks nobody in turn.
class reclaiming {
public:
    reclaiming() noexcept : before_{std::exchange(is_on(), true)} {}
    reclaiming(reclaiming const&) = delete;
    reclaiming& operator=(reclaiming const&) = delete;
    ~reclaiming() { is_on() = before_; }

    [[nodiscard]] static bool& is_on() noexcept;

private:
    bool before_;
};

/// Asks for `missing` bytes: by priority, and among equals so that as little as possible is given in excess.
class reclaim_round {
public:
    explicit reclaim_round(dynamic_array<ledger_node::stake> asked);

    /// Returns what was given back: 0 at once when all together could not give what is missing.
    [[nodiscard]] std::size_t ask_for(std::size_t missing, std::vector<reclaimer_facts>& told);

private:
    using candidates = dynamic_array<ledger_node::stake>;

    [[nodiscard]] bool can_give(std::size_t missing) const noexcept;
    // Of the highest priority: who covers it with the least excess, else who gives most.
    [[nodiscard]] candidates::iterator best_for(std::size_t missing) noexcept;

    candidates left_;
};

/// Who could give back to a node, and how much each of them says.
[[nodiscard]] std::vector<reclaimer_facts> who_could_give(ledger_node const& to);
[[nodiscard]] std::size_t sum_of(std::vector<reclaimer_facts> const& givers) noexcept;

/// What a charge could get of a budget when caches have given what they can.
[[nodiscard]] std::size_t most_of(budget_facts const& b, std::size_t reclaimable) noexcept;

/// What a charge could get at a node and at every one above it, caches having given what they can. As of now.
[[nodiscard]] std::size_t most_at(ledger_node& node);

/// Everything known about a refusal of `bytes`, as of now; missing() is 0 if by now they would fit.
[[nodiscard]] refusal facts_of(ledger_node& node, std::size_t bytes, charge_request const& request);

/// Asks for `missing` bytes, and tells who observes of what was given; false when it was nothing.
[[nodiscard]] bool ask(reclaim_round& round, std::size_t missing, ledger_node const& node,
                       std::vector<reclaimer_facts>& told);

/// Charges by attempt(), which says who refused; asks those who can give back for what is missing, and tries again.
/// False when that was of no use: nothing is charged then.
template <class Attempt>
[[nodiscard]] bool try_charge_by(Attempt attempt, ledger_node& node, std::size_t bytes,
                                 std::vector<reclaimer_facts>& told) {
    if (node.is_of_parent()) [[unlikely]]
        throw_forked();
    node.look_if_stale();
    for (;;) {
        ledger_node::outcome const met = attempt();
        if (!met.refuser) return true;
        if (node.look_again(met)) continue;
        // What is more than the whole limit will not fit whatever is given back.
        if (bytes > met.refuser->limit() || reclaiming::is_on()) return false;
        reclaim_round round{
            node.stakeholders([&](ledger_node const& at) { return at.makes_room_in(*met.refuser); })};
        // Not met.missing: what idles with other threads is not a cache's to give.
        std::size_t const missing = met.refuser->missing_for(bytes);
        if (missing != 0 && !ask(round, missing, node, told)) return false;
    }
}

/// What was given back before the refusal, and by whom.
void note_given(refusal& r, std::vector<reclaimer_facts> const& told);

struct nothing_to_add {
    void operator()(refusal&) const noexcept {}
};

/// As try_charge_by, before it gives up. What only the caller knows of a refusal, add(refusal&) puts into it.
/// Throws: budget_exceeded with all the facts; nothing is charged then, and every budget on the way remembers it.
template <class Attempt, class Add = nothing_to_add>
void charge_by(Attempt attempt, ledger_node& node, std::size_t bytes, charge_request const& request,
               Add add = {}) {
    std::vector<reclaimer_facts> told;
    while (!try_charge_by(attempt, node, bytes, told)) {
        refusal r = facts_of(node, bytes, request);
        if (r.missing() == 0) continue;  // somebody else has given back meanwhile
        note_given(r, told);
        add(r);
        budget_exceeded refused{std::move(r)};
        node.remember(refused);
        throw refused;
    }
}

template <class Add>
void charge(ledger& node, std::size_t bytes, charge_request const& request, Add add) {
    if (node.try_charge_alone(bytes)) [[likely]]
        return;
    charge_by([&] { return node.charge_or_say(bytes, &request.who); }, node, bytes, request, add);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool& reclaiming::is_on() noexcept {
    static thread_local bool on = false;
    return on;
}

CUOTA_INLINE reclaim_round::reclaim_round(dynamic_array<ledger_node::stake> asked) : left_{std::move(asked)} {
    sort_stably(left_, std::greater{}, [](auto const& left) { return left.who->priority(); });
}

CUOTA_INLINE std::size_t reclaim_round::ask_for(std::size_t missing, std::vector<reclaimer_facts>& told) {
    if (!can_give(missing)) return 0;
    reclaiming const here;
    std::size_t got = 0;
    while (got < missing && !left_.empty()) {
        auto const next = best_for(missing - got);
        shared<stakeholder> const who = std::move(next->who);
        left_.erase(next);
        std::size_t const wanted = missing - got;
        std::size_t const given = who->reclaim(wanted);
        told.push_back({who->title(), wanted, given, 0});
        got += given;
    }
    return got;
}

CUOTA_INLINE bool reclaim_round::can_give(std::size_t missing) const noexcept {
    std::size_t sum = 0;
    for (auto const& left : left_) sum = saturating_add(sum, left.who->reclaimable(missing));
    return sum >= missing;
}

CUOTA_INLINE auto reclaim_round::best_for(std::size_t missing) noexcept -> candidates::iterator {
    auto best = left_.begin();
    std::size_t most = best->who->reclaimable(missing);
    for (auto at = best + 1; at != left_.end() && at->who->priority() == best->who->priority(); ++at) {
        std::size_t const gives = at->who->reclaimable(missing);
        if (most >= missing ? gives >= missing && gives < most : gives > most) {
            best = at;
            most = gives;
        }
    }
    return best;
}

CUOTA_INLINE void sum_up(std::vector<holding>& holders) {
    std::vector<holding> sums;
    for (holding const& h : holders) add_up(sums, h);
    sort_stably(sums, std::greater{}, &holding::bytes);
    holders = std::move(sums);
}

CUOTA_INLINE std::vector<reclaimer_facts> who_could_give(ledger_node const& to) {
    std::vector<reclaimer_facts> all;
    for (auto const& [at, who] : to.stakeholders([&](ledger_node const& of) { return of.makes_room_in(to); }))
        if (std::size_t const could = who->reclaimable(unlimited); could != 0)
            all.push_back({who->title(), 0, 0, could});
    return all;
}

CUOTA_INLINE std::size_t sum_of(std::vector<reclaimer_facts> const& givers) noexcept {
    std::size_t sum = 0;
    for (reclaimer_facts const& giver : givers) sum = saturating_add(sum, giver.could);
    return sum;
}

CUOTA_INLINE std::size_t most_of(budget_facts const& b, std::size_t reclaimable) noexcept {
    return std::min(b.limit, saturating_add(b.free(), reclaimable));
}

CUOTA_INLINE std::size_t most_at(ledger_node& node) {
    dynamic_array<std::pair<ledger_node const*, budget_facts>> way;
    (void)node.look_up(
        0, [&](ledger_node const& at, budget_facts facts) { way.emplace_back(&at, std::move(facts)); });
    std::size_t most = unlimited;
    for (auto const& [at, facts] : way) most = std::min(most, most_of(facts, sum_of(who_could_give(*at))));
    return most;
}

CUOTA_INLINE refusal facts_of(ledger_node& node, std::size_t bytes, charge_request const& request) {
    refusal r;
    r.asked = request.asked;
    r.charged = bytes;
    r.granule = request.granule;
    r.request = request.who;
    dynamic_array<ledger_node const*> way;
    ledger_node const* const refuser = node.look_up(bytes, [&](ledger_node const& at, budget_facts facts) {
        way.push_back(&at);
        r.budgets.push_back(std::move(facts));
    });
    while (refuser && way[r.refused_by] != refuser) ++r.refused_by;

    ledger_node const& holds = *way[r.refused_by];
    std::vector<std::size_t> reclaimable(way.size());
    for (std::size_t i = 0; i != way.size(); ++i) {
        std::vector<reclaimer_facts> givers = who_could_give(*way[i]);
        reclaimable[i] = sum_of(givers);
        if (i == r.refused_by) r.reclaimers = std::move(givers);
    }
    for (auto const& [at, who] :
         node.stakeholders([&](ledger_node const& of) { return of.is_under(holds); })) {
        who->holdings(r.holders);
        r.largest_free = std::max(r.largest_free, who->largest_free());
    }
    std::size_t room = unlimited;
    for (std::size_t i = 0; i != way.size(); ++i)
        room = std::min(room, most_of(r.budgets[i], reclaimable[i]));
    r.would_fit = round_down(room, request.granule);
    r.reclaimable = reclaimable[r.refused_by];
    if (budget_facts const& last = r.budgets.back(); last.is_prepaid && !last.has_ended)
        r.room_to_grow = most_at(*way.back()->above());

    std::size_t named = 0;
    for (holding const& h : r.holders) named = saturating_add(named, h.bytes);
    std::size_t const held = r.budgets[r.refused_by].held;
    if (held > named) r.holders.push_back({"charged without a tag", {}, held - named});
    sum_up(r.holders);
    auto* const driver = dynamic_cast<device_limit const*>(node.outer());
    if (request.on || driver) r.device = facts_of(request.on ? *request.on : driver->where());
    if (r.device && driver && r.device->ordinal == driver->where().ordinal())
        r.device->overhead = driver->overhead();
    if (request.on && r.device) {
        std::size_t const free = round_down(saturating_add(r.device->free, r.reclaimable), request.granule);
        r.would_fit = std::min(r.would_fit, std::max(free, r.largest_free));
    }
    return r;
}

CUOTA_INLINE bool ask(reclaim_round& round, std::size_t missing, ledger_node const& node,
                      std::vector<reclaimer_facts>& told) {
    std::size_t const before = told.size();
    std::size_t const given = round.ask_for(missing, told);
    for (std::size_t i = before; i != told.size(); ++i)
        node.tell_observers([&](budget_observer& o) { o.reclaimed(node, told[i]); });
    return given != 0;
}

CUOTA_INLINE void note_given(refusal& r, std::vector<reclaimer_facts> const& told) {
    for (reclaimer_facts const& t : told) r.reclaimed = saturating_add(r.reclaimed, t.given);
    r.reclaimers->insert(r.reclaimers->begin(), told.begin(), told.end());
}

CUOTA_INLINE void join(ledger& node, stakeholder& s) { node.join(s); }

CUOTA_INLINE void leave(ledger& node, stakeholder& s) noexcept { node.leave(s); }

CUOTA_INLINE void charge(ledger& node, std::size_t bytes, charge_request const& request) {
    charge(node, bytes, request, nothing_to_add{});
}

}  // namespace cuota::inline v0::detail

#endif
