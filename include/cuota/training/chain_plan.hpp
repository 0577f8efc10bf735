// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The fastest schedule of a chain that fits in so much room, recomputing what it cannot keep.
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
#include <cuota/training/chain.hpp>
#include <cuota/training/chain_simulation.hpp>
#include <cuota/training/chain_table.hpp>
#include <cuota/training/plan_refusal.hpp>
#include <cuota/training/store_plans.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Writes the schedule that the tables promise; without times, one that takes the least.
class chain_planner {
public:
    chain_planner(chain_sizes const& sizes, least_table const& least, time_table const* times) noexcept
        : sizes_{sizes}, least_{least}, times_{times} {}

    /// Throws: nothing but std::bad_alloc, where `room` is no less than the least of all.
    [[nodiscard]] chain_schedule plan(std::size_t room);

private:
    // What a part is known to take in so many bytes. Exact bytes are handed down: what rounding took of a part's room
    // is there again for the parts of it.
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

/// The least room in which chain_plan finds a plan: exactly, whatever its slots. Bytes.
/// Throws: misuse for a chain that is none. Cost: the cube of the number of stages; some 0.1 ms for 50.
/// Threads: any.
[[nodiscard]] std::size_t least_chain_bytes(chain const& c, place where = place::here());

/// The fastest schedule of a chain that never holds more than `room` bytes: each stage is kept whole, by its output
/// alone, or not at all, and what is missing is run again (Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal
/// checkpointing for heterogeneous chains", 2019; their Rotor).
///
/// Optimal, where sizes are not rounded, among the schedules that are *memory-persistent*: what is kept after it was
/// used is kept until the backward run that it is for. Others can be faster, and can fit in less room; to find the best
/// of all is NP-hard. Sizes count in `slots` parts of the room, rounded up, so no plan is ever over the room: as many
/// slots as bytes round nothing, fewer make a plan a little slower at times. Whatever the rounding, a plan is found in
/// least_chain_bytes, and none is slower than the sqrt_plan or the store_all_plan where these fit. Every plan was run by
/// `simulate` before it is returned. For a source with a granule, plan for c.rounded_to(granule).
///
/// Throws: out_of_memory where the room is less than least_chain_bytes: `asked` is that, and the cause names the stage;
///         misuse for a chain that is none, for no slots, or for more than a table can have.
/// Cost:   L stages: L^3/6 x slots additions and L^2/2 x slots x 8 bytes of host memory; for 100 stages and 500 slots
///         some 40 ms and 20 MB. Put many small layers into one stage.
/// Threads: any; the host alone. Example: examples/deep_plan.hpp
[[nodiscard]] chain_schedule chain_plan(chain const& c, std::size_t room, std::size_t slots = 500,
                                        place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE chain_schedule chain_planner::plan(std::size_t room) {
    add(0, sizes_.stages() - 1, room);
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
        schedule_.push_back({chain_act::forward_saving, first});
        add(best.next, last, bytes - best.kept);
        schedule_.push_back({chain_act::backward, first});
    } else {
        add_dropping_run(schedule_, first, best.next);
        add(best.next, last, bytes - best.kept);
        schedule_.push_back({chain_act::drop, best.next - 1});
        add(first, best.next - 1, bytes);
    }
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t least_chain_bytes(chain const& c, place where) {
    c.check(where);
    detail::chain_sizes const sizes{c};
    return detail::least_table{sizes}(0, c.stages.size() - 1).bytes;
}

CUOTA_INLINE chain_schedule chain_plan(chain const& c, std::size_t room, std::size_t slots, place where) {
    if (slots == 0) detail::throw_misuse(where, "a plan has no slots to count its room in");
    chain_schedule everything = store_all_plan(c, where);
    if (simulate(c, everything, where).peak <= room) return everything;

    detail::chain_sizes const sizes{c};
    detail::least_table const least{sizes};
    std::size_t const bytes = least(0, c.stages.size() - 1).bytes;
    if (room < bytes)
        throw detail::plan_refusal(c, detail::chain_planner{sizes, least, nullptr}.plan(bytes), room,
                                   "all plans that recompute", "chain_plan", where);
    detail::time_table const times{sizes, least, room, slots, where};
    chain_schedule plan = detail::chain_planner{sizes, least, &times}.plan(room);
    chain_run const run = simulate(c, plan, where);
    if (run.peak > room) throw std::logic_error{"cuota: a chain_plan takes more than its room"};

    chain_schedule segments = sqrt_plan(c, where);  // rounding may have hurt
    chain_run const other = simulate(c, segments, where);
    return other.peak <= room && other.time < run.time ? segments : plan;
}

}  // namespace cuota::inline v0

#endif
