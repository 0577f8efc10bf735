// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The fewest forward runs for equal stages when only so many outputs can be kept: revolve, in closed form.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/chain.hpp>
#include <cuota/training/store_plans.hpp>

namespace cuota::inline v0 {

namespace detail {

__extension__ typedef unsigned __int128 wide_count;  // NOLINT(modernize-use-using)

/// n over k; `unlimited` when that is more than a std::size_t holds.
[[nodiscard]] constexpr std::size_t choose(std::size_t n, std::size_t k) noexcept {
    if (k > n) return 0;
    k = std::min(k, n - k);
    wide_count product = 1;
    for (std::size_t i = 1; i <= k; ++i) {
        product = product * (n - k + i) / i;  // a binomial at each turn, so the division leaves nothing
        if (product >= unlimited) return unlimited;
    }
    return static_cast<std::size_t>(product);
}

/// The most stages for which `slots` slots suffice when none is run forward more than `rounds` times to drop.
[[nodiscard]] constexpr std::size_t revolve_reach(std::size_t slots, std::size_t rounds) noexcept {
    std::size_t const n = slots > unlimited - rounds ? unlimited : slots + rounds;
    return choose(n, slots);
}

/// The fewest rounds that reach so many stages. Their number by halves: with one slot there are as many as stages.
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

// Stages [first, last), the input of the first in one of the slots.
void add_revolve(chain_schedule& to, std::size_t first, std::size_t last, std::size_t slots);

}  // namespace detail

/// The fewest runs beyond one for each stage with which `stages` stages can be run back in `slots` slots: with r the
/// smallest number for which C(slots + r, slots) >= stages, r stages - C(slots + r, r - 1) (Griewank and Walther,
/// "Algorithm 799: revolve", 2000). It is what simulate counts as `recomputed` of the uniform_plan.
/// `unlimited` for more than a std::size_t holds. Throws: misuse for no stages and for no slots.
/// Threads: any. Cost: a logarithm of the stages, times the slots.
[[nodiscard]] std::size_t revolve_forwards(std::size_t stages, std::size_t slots,
                                           place where = place::here());

/// The schedule of the fewest forward runs for stages that are all alike: revolve.
///
/// A *slot* holds an output that is kept while other stages than the one that reads it are run. The first slot holds the
/// input of the chain, which is the caller's: at most `slots` - 1 outputs are kept, and beside them at any moment the
/// input, the record and (running back) the two gradients of the stage that runs. One slot keeps nothing: every stage
/// starts anew from the input. Saved bytes are kept of one stage at a time, so even with a slot for each stage all but
/// the last one are run twice; with room for the saved bytes of several, a chain_plan recomputes less.
///
/// Throws: misuse for no stages and for no slots.
/// Cost:   that of the schedule: stages + revolve_forwards(stages, slots) runs.
/// Threads: any. Example: auto const run = cuota::simulate(sizes, cuota::uniform_plan(sizes.stages.size(), 4));
[[nodiscard]] chain_schedule uniform_plan(std::size_t stages, std::size_t slots, place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void add_revolve(chain_schedule& to, std::size_t first, std::size_t last, std::size_t slots) {
    for (std::size_t length = last - first; length != 1; length = last - first) {
        std::size_t const rounds = revolve_rounds(length, slots);
        // Either part within its reach: the first with all slots and a round less, the second with a slot less.
        std::size_t const part =
            std::min(revolve_reach(slots, rounds - 1), length - revolve_reach(slots - 1, rounds - 1));
        add_dropping_run(to, first, first + part);
        add_revolve(to, first + part, last, slots - 1);
        to.push_back({chain_act::drop, first + part - 1});
        last = first + part;
    }
    add_saved_run(to, first, last);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t revolve_forwards(std::size_t stages, std::size_t slots, place where) {
    if (stages == 0) detail::throw_misuse(where, "a chain has no stages");
    if (slots == 0) detail::throw_misuse(where, "a uniform plan needs a slot for the input of the chain");
    std::size_t const rounds = detail::revolve_rounds(stages, slots);
    if (rounds == 0) return 0;
    std::size_t const n = slots > unlimited - rounds ? unlimited : slots + rounds;
    // In wide numbers: what is taken away is up to half of the product. Where it is `unlimited`, so is the rest.
    detail::wide_count const runs =
        static_cast<detail::wide_count>(rounds) * stages - detail::choose(n, rounds - 1);
    return runs < unlimited ? static_cast<std::size_t>(runs) : unlimited;
}

CUOTA_INLINE chain_schedule uniform_plan(std::size_t stages, std::size_t slots, place where) {
    (void)revolve_forwards(stages, slots, where);  // what it refuses
    chain_schedule plan;
    detail::add_revolve(plan, 0, stages, slots);
    return plan;
}

}  // namespace cuota::inline v0

#endif
