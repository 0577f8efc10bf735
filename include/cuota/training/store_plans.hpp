// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Schedules that need no search: keep everything, or keep the ends of about sqrt(L) segments.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/chain.hpp>
#include <cuota/training/chain_simulation.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Runs the stages [first, last) to save, then back.
void add_saved_run(chain_schedule& to, std::size_t first, std::size_t last);

/// Runs the stages [first, last) forward, each input but that of the first dropped once used; the last output is left.
void add_dropping_run(chain_schedule& to, std::size_t first, std::size_t last);

/// All but the last of so many segments run forward for their ends alone, then each, the last one first, to save.
[[nodiscard]] chain_schedule segment_plan(std::size_t stages, std::size_t segments);

}  // namespace detail

/// Keeps the records of all stages: no stage is run twice, and nothing needs more memory.
/// Throws: misuse for a chain that is none.
/// Threads: any. Cost: proportional to the stages.
[[nodiscard]] chain_schedule store_all_plan(chain const& c, place where = place::here());

/// Cuts the chain into segments of equally many stages, keeps the output that each ends with, and runs each but the
/// last a second time before its backward: about sqrt(L) segments take about 2 sqrt(L) records of equal stages, for one
/// more forward run (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost", 2016).
///
/// Of all counts of segments it takes the one with the smallest simulated peak, of equal ones the fastest. It asks for
/// no room: simulate tells what it takes. A chain_plan in that room is never slower.
///
/// Throws: misuse for a chain that is none. Cost: the square of the number of stages.
/// Threads: any.
[[nodiscard]] chain_schedule sqrt_plan(chain const& c, place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void add_saved_run(chain_schedule& to, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i != last; ++i) to.push_back({chain_act::forward_saving, i});
    for (std::size_t i = last; i != first; --i) to.push_back({chain_act::backward, i - 1});
}

CUOTA_INLINE void add_dropping_run(chain_schedule& to, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i != last; ++i) {
        to.push_back({chain_act::forward, i});
        if (i != first) to.push_back({chain_act::drop, i - 1});
    }
}

CUOTA_INLINE chain_schedule segment_plan(std::size_t stages, std::size_t segments) {
    auto const start = [&](std::size_t segment) {  // of equal lengths, but for one
        std::size_t const longer = stages % segments;
        return segment * (stages / segments) + (segment < longer ? segment : longer);
    };
    chain_schedule plan;
    for (std::size_t k = 0; k + 1 < segments; ++k) add_dropping_run(plan, start(k), start(k + 1));
    for (std::size_t k = segments; k != 0; --k) {
        if (k != segments) plan.push_back({chain_act::drop, start(k) - 1});
        add_saved_run(plan, start(k - 1), start(k));
    }
    return plan;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE chain_schedule store_all_plan(chain const& c, place where) {
    c.check(where);
    return detail::segment_plan(c.stages.size(), 1);
}

CUOTA_INLINE chain_schedule sqrt_plan(chain const& c, place where) {
    chain_schedule best = store_all_plan(c, where);
    chain_run least = simulate(c, best, where);
    for (std::size_t segments = 2; segments <= c.stages.size(); ++segments) {
        chain_schedule plan = detail::segment_plan(c.stages.size(), segments);
        chain_run const run = simulate(c, plan, where);
        if (std::pair{run.peak, run.time} >= std::pair{least.peak, least.time}) continue;
        least = run;
        best = std::move(plan);
    }
    return best;
}

}  // namespace cuota::inline v0

#endif
