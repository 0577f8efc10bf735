// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Schedules without a search: keep all records, or only the outputs of about sqrt(L) segments.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Appends saving forward runs of stages [first, last), then their backward runs.
void add_saved_run(chain_schedule& to, std::size_t first, std::size_t last);

/// Appends forward runs of stages [first, last), keeping only the last output.
void add_dropping_run(chain_schedule& to, std::size_t first, std::size_t last);

/// Returns the schedule that runs all but the last of `segments` segments forward for their last outputs alone, then each segment, from the
/// last to the first, saving and backward.
[[nodiscard]] chain_schedule segment_plan(std::size_t stages, std::size_t segments);

}  // namespace detail

/// Returns the schedule that keeps the records of all stages: nothing is recomputed, and no schedule needs more memory.
/// Throws:  usage_error for an invalid chain (chain::check).
/// Threads: any.
/// Cost:    linear in the stages.
[[nodiscard]] chain_schedule store_all_plan(chain const& c,
                                            source_location where = source_location::current());

/// Divides the chain into segments of equal length, keeps the last output of each, and recomputes each segment but the last before its
/// backward run: about sqrt(L) segments need about 2 sqrt(L) records of equal stages, for one more forward run (Chen, Xu, Zhang and
/// Guestrin, "Training deep nets with sublinear memory cost", 2016).
///
/// Chooses the number of segments with the smallest simulated peak, then time. Takes no memory limit; `simulate` returns its peak. A
/// chain_plan within that peak is never slower.
/// Throws:  usage_error for an invalid chain.
/// Cost:    O(stages^2).
/// Threads: any.
[[nodiscard]] chain_schedule sqrt_plan(chain const& c, source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void add_saved_run(chain_schedule& to, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i != last; ++i) to.push_back({chain_op_kind::forward_saving, i});
    for (std::size_t i = last; i != first; --i) to.push_back({chain_op_kind::backward, i - 1});
}

CUOTA_INLINE void add_dropping_run(chain_schedule& to, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i != last; ++i) {
        to.push_back({chain_op_kind::forward, i});
        if (i != first) to.push_back({chain_op_kind::drop, i - 1});
    }
}

CUOTA_INLINE chain_schedule segment_plan(std::size_t stages, std::size_t segments) {
    auto const start = [&](std::size_t segment) {  // lengths differ by at most one
        std::size_t const longer = stages % segments;
        return segment * (stages / segments) + (segment < longer ? segment : longer);
    };
    chain_schedule plan;
    for (std::size_t k = 0; k + 1 < segments; ++k) add_dropping_run(plan, start(k), start(k + 1));
    for (std::size_t k = segments; k != 0; --k) {
        if (k != segments) plan.push_back({chain_op_kind::drop, start(k) - 1});
        add_saved_run(plan, start(k - 1), start(k));
    }
    return plan;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE chain_schedule store_all_plan(chain const& c, source_location where) {
    c.check(where);
    return detail::segment_plan(c.stages.size(), 1);
}

CUOTA_INLINE chain_schedule sqrt_plan(chain const& c, source_location where) {
    chain_schedule best = store_all_plan(c, where);
    chain_cost least = simulate(c, best, where);
    for (std::size_t segments = 2; segments <= c.stages.size(); ++segments) {
        chain_schedule plan = detail::segment_plan(c.stages.size(), segments);
        chain_cost const run = simulate(c, plan, where);
        if (std::pair{run.peak, run.time} >= std::pair{least.peak, least.time}) continue;
        least = run;
        best = std::move(plan);
    }
    return best;
}

}  // namespace cuota::inline v0

#endif
