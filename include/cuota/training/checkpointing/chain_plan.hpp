// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Fastest checkpointing schedule within a memory limit (Rotor).
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>
#include <cuota/training/detail/chain_table.hpp>
#include <cuota/training/detail/plan_refusal.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Reconstructs the optimal schedule from the tables; if `times` is null, one of least memory.
class chain_planner {
public:
    chain_planner(chain_sizes const& sizes, least_table const& least, time_table const* times) noexcept
        : sizes_{sizes}, least_{least}, times_{times} {}

    /// Precondition: `memory_limit` >= the chain's minimum.
    [[nodiscard]] chain_schedule plan(std::size_t memory_limit);

private:
    // Best known time of [first, last] within `bytes`, or infinity. Takes exact bytes, so that those lost to rounding are available to
    // subranges.
    [[nodiscard]] double time(std::size_t first, std::size_t last, std::size_t bytes) const noexcept;
    [[nodiscard]] double time(std::size_t first, std::size_t last, std::size_t bytes,
                              chain_choice const& choice) const noexcept;

    void add(std::size_t first, std::size_t last, std::size_t bytes);

    chain_sizes const& sizes_;
    least_table const& least_;
    time_table const* times_;
    chain_schedule schedule_;
};

}  // namespace detail

/// Returns the smallest `memory_limit` for which chain_plan finds a plan with any number of slots.
/// Throws:  as chain::check.
/// Cost:    O(stages^3): about 0.1 ms for 50 stages.
/// Threads: any.
[[nodiscard]] std::size_t min_chain_bytes(chain const& c, source_location where = source_location::current());

/// Returns the fastest schedule that never holds more than `memory_limit` bytes: each stage keeps its record, its output or nothing, and
/// missing values are recomputed (Rotor: Beaumont et al., "Optimal checkpointing for heterogeneous chains", 2019).
///
/// Sizes are rounded up to multiples of memory_limit / slots. Without rounding (slots = memory_limit), the plan is optimal among
/// *memory-persistent* schedules: a value kept after a use is kept until the backward run that needs it. With any rounding, a plan is found
/// within min_chain_bytes, no slower than sqrt_plan or store_all_plan where these fit. For a resource with a granularity, plan for
/// c.rounded_to(granularity).
///
/// Throws:  out_of_memory if memory_limit < min_chain_bytes: `requested` is that minimum; usage_error for an invalid chain, no slots, or
///          too many.
/// Cost:    for L stages, L^3/6 * slots additions and L^2/2 * slots * 8 bytes of host memory: 40 ms and 20 MB for 100 stages and 500 slots.
/// Threads: any.
/// Example: examples/deep_plan.hpp
[[nodiscard]] chain_schedule chain_plan(chain const& c, std::size_t memory_limit, std::size_t slots = 500,
                                        source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE chain_schedule chain_planner::plan(std::size_t memory_limit) {
    add(0, sizes_.stages() - 1, memory_limit);
    return std::move(schedule_);
}

CUOTA_INLINE double chain_planner::time(std::size_t first, std::size_t last,
                                        std::size_t bytes) const noexcept {
    least_table::cell const& least = least_(first, last);
    if (bytes < least.bytes) return std::numeric_limits<double>::infinity();
    return times_ ? std::min(least.time, (*times_)(first, last, bytes)) : least.time;
}

CUOTA_INLINE double chain_planner::time(std::size_t first, std::size_t last, std::size_t bytes,
                                        chain_choice const& choice) const noexcept {
    if (bytes < choice.need) return std::numeric_limits<double>::infinity();
    double const rest = choice.time + time(choice.next, last, bytes - choice.kept);
    return choice.is_saving ? rest : rest + time(first, choice.next - 1, bytes);
}

CUOTA_INLINE void chain_planner::add(std::size_t first, std::size_t last, std::size_t bytes) {
    if (first == last) return add_saved_run(schedule_, first, last + 1);
    chain_choice best{};
    double fastest = std::numeric_limits<double>::infinity();
    sizes_.for_each_choice(first, last, [&](chain_choice const& choice) {
        double const found = time(first, last, bytes, choice);
        if (found >= fastest) return;
        fastest = found;
        best = choice;
    });
    if (best.is_saving) {
        schedule_.push_back({chain_op_kind::forward_saving, first});
        add(best.next, last, bytes - best.kept);
        schedule_.push_back({chain_op_kind::backward, first});
    } else {
        add_dropping_run(schedule_, first, best.next);
        add(best.next, last, bytes - best.kept);
        schedule_.push_back({chain_op_kind::drop, best.next - 1});
        add(first, best.next - 1, bytes);
    }
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t min_chain_bytes(chain const& c, source_location where) {
    c.check(where);
    detail::chain_sizes const sizes{c};
    return detail::least_table{sizes}(0, c.stages.size() - 1).bytes;
}

CUOTA_INLINE chain_schedule chain_plan(chain const& c, std::size_t memory_limit, std::size_t slots,
                                       source_location where) {
    if (slots == 0) detail::throw_usage_error(where, "chain_plan: the number of slots must be at least 1");
    chain_schedule everything = store_all_plan(c, where);
    if (simulate(c, everything, where).peak <= memory_limit) return everything;

    detail::chain_sizes const sizes{c};
    detail::least_table const least{sizes};
    std::size_t const bytes = least(0, c.stages.size() - 1).bytes;
    if (memory_limit < bytes)
        throw detail::plan_refusal(c, detail::chain_planner{sizes, least, nullptr}.plan(bytes), memory_limit,
                                   "recomputation", "chain_plan", where);
    detail::time_table const times{sizes, least, memory_limit, slots, where};
    chain_schedule plan = detail::chain_planner{sizes, least, &times}.plan(memory_limit);
    chain_cost const run = simulate(c, plan, where);
    if (run.peak > memory_limit) throw std::logic_error{"cuota: a chain_plan exceeds its memory limit"};

    chain_schedule segments = sqrt_plan(c, where);  // may be faster because of rounding
    chain_cost const other = simulate(c, segments, where);
    return other.peak <= memory_limit && other.time < run.time ? segments : plan;
}

}  // namespace cuota::inline v0

#endif
