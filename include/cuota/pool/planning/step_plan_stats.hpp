// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Options and statistics of a step plan.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Options of a step plan. Example: tests/pool/detail/steps/step_state.cpp
struct step_plan_options {
    tag name = "step plan";  ///< tag of the slab
    /// Time limit of the search.
    std::chrono::nanoseconds time_limit = std::chrono::seconds{5};
};

/// Requests of all steps by result, and the current plan. Example: tests/pool/planning/step_plan.sim.cpp
struct step_plan_stats {
    std::size_t steps = 0;     ///< steps begun
    std::size_t recorded = 0;  ///< requests of recorded steps
    std::size_t served = 0;    ///< requests in the slab

    std::size_t not_plannable = 0;       ///< miss: live when the recorded step ended
    std::size_t missed_size = 0;         ///< miss: no upcoming request of that size
    std::size_t missed_beyond_plan = 0;  ///< miss: after the last planned request
    std::size_t missed_busy = 0;         ///< miss: its bytes are in use
    std::size_t missed_no_slab = 0;      ///< miss: the slab was refused
    std::size_t outside = 0;             ///< allocate_sync, between steps, or alignment above 256
    std::size_t skipped = 0;             ///< planned requests left out

    std::size_t requests = 0;      ///< requests of the planned step
    std::size_t peak = 0;          ///< bytes of its slab
    std::size_t lower_bound = 0;   ///< maximum of live bytes
    std::size_t live = 0;          ///< live blocks in slabs
    std::size_t stream_waits = 0;  ///< waits enqueued to reuse bytes across streams
    bool has_slab = false;         ///< whether the slab is allocated

    /// Returns the misses: requests of planned steps that were passed upstream, also if refused there.
    [[nodiscard]] std::size_t fallbacks() const noexcept;
    /// Returns peak / lower_bound; 1 for an empty plan.
    [[nodiscard]] double ratio() const noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t step_plan_stats::fallbacks() const noexcept {
    return not_plannable + missed_size + missed_beyond_plan + missed_busy + missed_no_slab;
}

CUOTA_INLINE double step_plan_stats::ratio() const noexcept {
    return lower_bound == 0 ? 1 : static_cast<double>(peak) / static_cast<double>(lower_bound);
}

}  // namespace cuota::inline v0

#endif
