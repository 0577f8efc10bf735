// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Schedule that offloads records in place of recomputation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>
#include <cuota/training/detail/plan_refusal.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Precondition: chain::check has passed.
class offload_planner {
public:
    using stage_set = std::vector<bool>;

    offload_planner(chain const& c, std::size_t memory_limit)
        : chain_{c}, memory_limit_{memory_limit}, away_(c.stages.size()) {}

    /// Returns all records that can be offloaded.
    [[nodiscard]] stage_set all() const { return first(candidates()); }

    /// Returns the peak if the records in `away` are offloaded and fetched as late as possible.
    [[nodiscard]] std::size_t least(stage_set const& away) const;

    /// Returns the schedule that offloads `away`, with each fetch as early as the memory_limit allows. Precondition: least(away) <= memory_limit.
    [[nodiscard]] chain_schedule schedule(stage_set const& away) const;

    /// Precondition: least(all()) <= memory_limit.
    [[nodiscard]] chain_schedule plan();

private:
    struct run_need {
        std::size_t forward;
        std::size_t backward;
    };

    // The last record but one would be fetched at once.
    [[nodiscard]] std::size_t candidates() const noexcept;
    [[nodiscard]] stage_set first(std::size_t count) const;
    [[nodiscard]] std::size_t record(std::size_t i) const noexcept;

    // Bytes held at each run: records that stay, those of the stage and the previous one, gradients, scratch.
    [[nodiscard]] std::vector<run_need> needs(stage_set const& away) const;

    // Fetches the record before the backward run of k, if it fits in all runs until that of the next stage, which counts it already.
    bool come_back(std::vector<run_need>& held, std::size_t stage, std::size_t k) const;

    // Keeps records on the device while they fit, the largest first.
    [[nodiscard]] stage_set thinned() const;

    bool consider(stage_set const& away);
    // Tries to add, remove or exchange one stage.
    bool improve();
    [[nodiscard]] stage_set toggled(std::size_t i, std::size_t j) const;

    chain const& chain_;
    std::size_t memory_limit_;
    stage_set away_;
    std::pair<double, std::size_t> best_{std::numeric_limits<double>::infinity(), 0};  // time, bytes sent
};

}  // namespace detail

/// Returns the smallest `memory_limit` for which offload_plan finds a plan.
/// Throws:  as chain::check.
/// Cost:    linear in the stages.
/// Threads: any.
[[nodiscard]] std::size_t min_offload_bytes(chain const& c,
                                            source_location where = source_location::current());

/// Returns a schedule that runs every stage once and never holds more than `memory_limit` bytes on the device. Some records are offloaded as soon
/// as the next stage has read them, and fetched in the order of use, as early as the memory_limit allows.
///
/// Minimizes simulated time, then bytes sent, by local search: it starts with the best of the first n stages for every n and of all but the
/// largest records that can stay, and adds, removes or exchanges one stage until nothing improves. Not proven optimal.
///
/// Faster than a chain_plan if the link keeps up: simulate both with measured times. The host holds simulate's host_peak. For a resource
/// with a granularity, plan for c.rounded_to(granularity).
///
/// Throws:  out_of_memory if memory_limit < min_offload_bytes: `requested` is that minimum; usage_error for an invalid chain.
/// Cost:    for L stages, some rounds of L^2/4 simulations; 20 to 100 ms for 100 stages.
/// Threads: any.
/// Example: examples/deep_plan.hpp
[[nodiscard]] chain_schedule offload_plan(chain const& c, std::size_t memory_limit,
                                          source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t offload_planner::least(stage_set const& away) const {
    std::size_t most = 0;
    for (run_need const& n : needs(away)) most = std::max({most, n.forward, n.backward});
    return most;
}

CUOTA_INLINE chain_schedule offload_planner::schedule(stage_set const& away) const {
    std::size_t const count = chain_.stages.size();
    chain_schedule to;
    for (std::size_t i = 0; i != count; ++i) {
        to.push_back({chain_op_kind::forward_saving, i});
        if (i != 0 && away[i - 1]) to.push_back({chain_op_kind::offload, i - 1});
    }
    std::vector<run_need> held = needs(away);
    std::size_t next = count;  // all offloaded records from `next` on have been fetched
    for (std::size_t k = count; k-- != 0;) {
        for (; next != 0 && (!away[next - 1] || come_back(held, next - 1, k)); --next)
            if (away[next - 1]) to.push_back({chain_op_kind::fetch, next - 1});
        to.push_back({chain_op_kind::backward, k});
    }
    return to;
}

CUOTA_INLINE chain_schedule offload_planner::plan() {
    consider(all());
    for (std::size_t n = 1; n < candidates(); ++n) consider(first(n));
    consider(thinned());
    while (improve()) {}
    return schedule(away_);
}

CUOTA_INLINE std::size_t offload_planner::candidates() const noexcept {
    return chain_.stages.size() < 3 ? 0 : chain_.stages.size() - 2;
}

CUOTA_INLINE auto offload_planner::first(std::size_t count) const -> stage_set {
    stage_set away(chain_.stages.size());
    std::fill_n(away.begin(), count, true);
    return away;
}

CUOTA_INLINE std::size_t offload_planner::record(std::size_t i) const noexcept {
    return chain_.stages[i].output_bytes + chain_.stages[i].saved_bytes;
}

CUOTA_INLINE auto offload_planner::needs(stage_set const& away) const -> std::vector<run_need> {
    std::size_t const count = chain_.stages.size();
    std::vector<run_need> found(count);
    std::size_t staying = 0;  // of the stages before the previous one
    for (std::size_t k = 0; k != count; ++k) {
        if (k > 1 && !away[k - 2]) staying += record(k - 2);
        chain_stage const& s = chain_.stages[k];
        std::size_t const records = staying + record(k) + (k == 0 ? 0 : record(k - 1));
        std::size_t const gradients =
            (k + 1 == count ? 0 : s.gradient()) + (k == 0 ? 0 : chain_.stages[k - 1].gradient());
        found[k] = {records + s.forward_scratch, records + gradients + s.backward_scratch};
    }
    return found;
}

CUOTA_INLINE bool offload_planner::come_back(std::vector<run_need>& held, std::size_t stage,
                                             std::size_t k) const {
    for (std::size_t at = stage + 2; at <= k; ++at)
        if (record(stage) > memory_limit_ - held[at].backward) return false;
    for (std::size_t at = stage + 2; at <= k; ++at) held[at].backward += record(stage);
    return true;
}

CUOTA_INLINE auto offload_planner::thinned() const -> stage_set {
    stage_set away = all();
    std::vector<std::size_t> order;
    for (std::size_t i = candidates(); i-- != 0;) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return record(a) > record(b); });
    for (std::size_t const i : order) {
        away[i] = false;
        if (least(away) > memory_limit_) away[i] = true;
    }
    return away;
}

CUOTA_INLINE bool offload_planner::consider(stage_set const& away) {
    if (least(away) > memory_limit_) return false;
    chain_cost const run = simulate(chain_, schedule(away));
    std::pair const found{run.time, run.offloaded_bytes};
    if (found >= best_) return false;
    best_ = found;
    away_ = away;
    return true;
}

CUOTA_INLINE bool offload_planner::improve() {
    bool is_better = false;
    for (std::size_t i = 0; i != candidates(); ++i)
        for (std::size_t j = 0; j <= i; ++j)
            if (i == j || away_[i] != away_[j]) is_better |= consider(toggled(i, j));
    return is_better;
}

CUOTA_INLINE auto offload_planner::toggled(std::size_t i, std::size_t j) const -> stage_set {
    stage_set away = away_;
    away[i] = !away[i];
    if (j != i) away[j] = !away[j];
    return away;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t min_offload_bytes(chain const& c, source_location where) {
    c.check(where);
    detail::offload_planner const planner{c, 0};
    return planner.least(planner.all());
}

CUOTA_INLINE chain_schedule offload_plan(chain const& c, std::size_t memory_limit, source_location where) {
    chain_schedule everything = store_all_plan(c, where);
    if (simulate(c, everything, where).peak <= memory_limit) return everything;
    std::size_t const least = min_offload_bytes(c, where);
    detail::offload_planner planner{c, std::max(memory_limit, least)};
    if (memory_limit < least)
        throw detail::plan_refusal(c, planner.schedule(planner.all()), memory_limit, "offloading",
                                   "offload_plan", where);
    chain_schedule plan = planner.plan();
    if (simulate(c, plan, where).peak > memory_limit)
        throw std::logic_error{"cuota: an offload_plan exceeds its memory limit"};
    return plan;
}

}  // namespace cuota::inline v0

#endif
