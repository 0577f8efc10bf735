// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reclaims idle memory for a charge that does not fit, or refuses it.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaim/reclaim_round.hpp>
#include <cuota/guard/detail/reclaim/refusal_facts.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

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

namespace cuota::inline v0::detail {

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
