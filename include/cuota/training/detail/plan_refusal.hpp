// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Refusal of a plan by its memory limit.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>

namespace cuota::inline v0::detail {

/// Returns a refusal with the peak of `least`, the schedule with the least memory. `what` names the class of plans.
[[nodiscard]] out_of_memory plan_refusal(chain const& c, chain_schedule const& least,
                                         std::size_t memory_limit, char const* what, tag name,
                                         source_location where);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE out_of_memory plan_refusal(chain const& c, chain_schedule const& least, std::size_t memory_limit,
                                        char const* what, tag name, source_location where) {
    chain_cost const run = simulate(c, least, where);
    chain_op const op = least[run.peak_op];
    refusal r;
    r.requested = r.charged = run.peak;
    r.request = label{name, where};
    r.cause =
        message("the smallest plan with {} needs {} ({}{}); the limit is {}",
                {what, as_bytes(run.peak), stage_text(op.stage),
                 op.kind == chain_op_kind::backward ? " backward" : " forward", as_bytes(memory_limit)});
    return out_of_memory{std::move(r)};
}

}  // namespace cuota::inline v0::detail

#endif
