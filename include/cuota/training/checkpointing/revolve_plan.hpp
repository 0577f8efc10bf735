// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Schedule for equal stages: revolve.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

namespace cuota::inline v0 {

namespace detail {

__extension__ typedef unsigned __int128 wide_count;  // NOLINT(modernize-use-using)

/// Returns the binomial coefficient n over k; `unlimited` on overflow.
[[nodiscard]] constexpr std::size_t choose(std::size_t n, std::size_t k) noexcept {
    if (k > n) return 0;
    k = std::min(k, n - k);
    wide_count product = 1;
    for (std::size_t i = 1; i <= k; ++i) {
        product = product * (n - k + i) / i;  // exact: each intermediate value is a binomial coefficient
        if (product >= unlimited) return unlimited;
    }
    return static_cast<std::size_t>(product);
}

/// Returns the largest number of stages for `slots` slots and at most `rounds` non-saving forward runs of each.
[[nodiscard]] constexpr std::size_t revolve_reach(std::size_t slots, std::size_t rounds) noexcept {
    std::size_t const n = slots > unlimited - rounds ? unlimited : slots + rounds;
    return choose(n, slots);
}

/// Returns the fewest rounds that reach `stages`: almost one per stage with one slot.
[[nodiscard]] constexpr std::size_t revolve_rounds(std::size_t stages, std::size_t slots) noexcept {
    if (stages == 1) return 0;
    if (slots >= stages - 1) return 1;
    std::size_t low = 1;
    std::size_t high = stages;
    while (low != high) {
        std::size_t const middle = low + (high - low) / 2;
        if (revolve_reach(slots, middle) >= stages) high = middle;
        else low = middle + 1;
    }
    return low;
}

// Schedules [first, last), with the input of `first` in a slot.
void add_revolve(chain_schedule& to, std::size_t first, std::size_t last, std::size_t slots);

}  // namespace detail

/// Returns the smallest number of recomputed forward runs: r stages - C(slots + r, r - 1), with r the smallest number for which C(slots +
/// r, slots) >= stages (Griewank and Walther, "Algorithm 799: revolve", 2000). `unlimited` on overflow.
/// Throws:  usage_error if `stages` or `slots` is 0.
/// Threads: any.
/// Cost:    O(log(stages) slots).
[[nodiscard]] std::size_t revolve_forwards(std::size_t stages, std::size_t slots,
                                           source_location where = source_location::current());

/// Returns the schedule with the fewest forward runs for equal stages: revolve.
///
/// A *slot* holds an output that is kept while stages other than its reader run; the first slot holds the chain's input. Saved bytes are
/// kept for one stage at a time; with memory for more, a chain_plan recomputes less.
///
/// Throws:  as revolve_forwards.
/// Cost:    linear in its ops.
/// Threads: any.
/// Example: auto const run = cuota::simulate(sizes, cuota::revolve_plan(sizes.stages.size(), 4));
[[nodiscard]] chain_schedule revolve_plan(std::size_t stages, std::size_t slots,
                                          source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void add_revolve(chain_schedule& to, std::size_t first, std::size_t last, std::size_t slots) {
    for (std::size_t length = last - first; length != 1; length = last - first) {
        std::size_t const rounds = revolve_rounds(length, slots);
        // Both parts are within reach: the first with all slots and one round less, the second with one slot less.
        std::size_t const part =
            std::min(revolve_reach(slots, rounds - 1), length - revolve_reach(slots - 1, rounds - 1));
        add_dropping_run(to, first, first + part);
        add_revolve(to, first + part, last, slots - 1);
        to.push_back({chain_op_kind::drop, first + part - 1});
        last = first + part;
    }
    add_saved_run(to, first, last);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t revolve_forwards(std::size_t stages, std::size_t slots, source_location where) {
    if (stages == 0) detail::throw_usage_error(where, "chain: no stages");
    if (slots == 0)
        detail::throw_usage_error(where, "chain: at least one slot is required, for the input of the chain");
    std::size_t const rounds = detail::revolve_rounds(stages, slots);
    if (rounds == 0) return 0;
    std::size_t const n = slots > unlimited - rounds ? unlimited : slots + rounds;
    // Wide, because the subtrahend is up to half of the product; if it is `unlimited`, so is the result.
    detail::wide_count const runs =
        static_cast<detail::wide_count>(rounds) * stages - detail::choose(n, rounds - 1);
    return runs < unlimited ? static_cast<std::size_t>(runs) : unlimited;
}

CUOTA_INLINE chain_schedule revolve_plan(std::size_t stages, std::size_t slots, source_location where) {
    (void)revolve_forwards(stages, slots, where);  // checks the arguments
    chain_schedule plan;
    detail::add_revolve(plan, 0, stages, slots);
    return plan;
}

}  // namespace cuota::inline v0

#endif
