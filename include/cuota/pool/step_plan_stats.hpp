// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How a step plan behaves, and what it did, in numbers.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0 {

/// How a step plan behaves. Example: tests/pool/step_state.cpp
struct step_plan_options {
    tag name = "step plan";  ///< of the slab, for those who account for it
    /// How long a better plan is looked for.
    std::chrono::nanoseconds time_limit = std::chrono::seconds{5};
};

/// What became of the requests of all steps so far, and what the plan of now takes.
/// Example: tests/pool/step_plan.sim.cpp
struct step_plan_stats {
    std::size_t steps = 0;     ///< begun, those that are recorded too
    std::size_t recorded = 0;  ///< requests of recorded steps
    std::size_t served = 0;    ///< from the slab

    std::size_t unplanned = 0;     ///< not: was still alive when the recorded step ended
    std::size_t other_size = 0;    ///< not: none of that size comes next
    std::size_t too_many = 0;      ///< not: the recorded step had no more
    std::size_t in_use = 0;        ///< not: somebody has the bytes
    std::size_t without_slab = 0;  ///< not: the slab was refused
    std::size_t outside = 0;       ///< not: allocate_sync, between steps, or aligned to more than 256
    std::size_t skipped = 0;       ///< planned requests that did not come

    std::size_t requests = 0;      ///< of the planned step
    std::size_t peak = 0;          ///< bytes of its slab
    std::size_t lower_bound = 0;   ///< bytes that it has alive at once: no slab is smaller
    std::size_t live = 0;          ///< blocks in the slab that are somebody's
    std::size_t stream_waits = 0;  ///< waits put into streams to hand bytes from one to another
    bool has_slab = false;         ///< it was taken, and not given back

    /// Requests that the upstream served, of steps that were not recorded.
    [[nodiscard]] std::size_t fell_back() const noexcept;
    /// peak / lower_bound; 1 for a plan of nothing.
    [[nodiscard]] double ratio() const noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t step_plan_stats::fell_back() const noexcept {
    return unplanned + other_size + too_many + in_use + without_slab;
}

CUOTA_INLINE double step_plan_stats::ratio() const noexcept {
    return lower_bound == 0 ? 1 : static_cast<double>(peak) / static_cast<double>(lower_bound);
}

}  // namespace cuota::inline v0

#endif
