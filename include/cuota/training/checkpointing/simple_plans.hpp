// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Schedules without a search.
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

/// Returns the schedule of sqrt_plan with `segments` segments.
[[nodiscard]] chain_schedule segment_plan(std::size_t stages, std::size_t segments);

}  // namespace detail

/// Returns the schedule that keeps the records of all stages and recomputes nothing.
/// Throws:  as chain::check.
/// Threads: any.
/// Cost:    linear in the stages.
[[nodiscard]] chain_schedule store_all_plan(chain const& c,
                                            source_location where = source_location::current());

/// Returns the schedule that keeps the last outputs of equal segments and recomputes each segment but the last before its backward run:
/// sqrt(L) segments need about 2 sqrt(L) records of equal stages, for one more forward run (Chen et al., "Training deep nets with sublinear
/// memory cost", 2016).
///
/// Chooses the number of segments with the smallest simulated peak, then time.
/// Throws:  as chain::check.
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
