// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the fastest way to run a training step within a memory limit, among several strategies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/planning/planned_step.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/batches/find_batch_size.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/chain_requests.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

namespace train {

/// Thrown if a plan does not fit; the message names the option and a value that would fit.
struct plan_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct deep_plan {
    std::string name{};
    std::size_t part = 0;   ///< samples that run at once
    std::size_t parts = 0;  ///< parts of a batch
    cuota::chain_schedule schedule{};
    cuota::chain_cost run{};     ///< time and peak of the schedule, for one part
    std::size_t slab_bytes = 0;  ///< slab that serves the schedule: its peak and the holes of the offset plan
    std::string why{};

    /// Options for offset plans by greedy rules alone: no search, negligible time, the same result each time.
    [[nodiscard]] static cuota::plan_options simple_offsets() {
        return {.time_limit = std::chrono::nanoseconds{0}};
    }
    [[nodiscard]] double seconds() const { return static_cast<double>(parts) * run.time; }
    /// Forward work that is repeated, as a share of the forward work of one pass.
    [[nodiscard]] double recomputed_share(cuota::chain const& c) const {
        double once = 0;
        for (cuota::chain_stage const& s : c.stages) once += s.forward_time;
        return once > 0 ? run.recomputed_time / once : 0;
    }
};

/// Returns the size of the slab that serves a schedule: its peak and the holes of the offset plan. Planned by greedy rules, so equal
/// schedules give equal sizes.
[[nodiscard]] inline std::size_t slab_bytes(cuota::chain const& c, cuota::chain_schedule const& schedule) {
    cuota::planned_step const step = plan_requests(chain_requests(c, schedule), deep_plan::simple_offsets());
    return cuota::round_up(step.peak, cuota::device_memory::granularity());
}

/// Returns the pinned memory that the executor allocates: one buffer for each record that the schedule ever offloads.
[[nodiscard]] inline std::size_t host_bytes(cuota::chain const& c, cuota::chain_schedule const& schedule) {
    std::vector<bool> is_sent(c.stages.size());
    std::size_t bytes = 0;
    for (cuota::chain_op const op : schedule) {
        if (op.kind != cuota::chain_op_kind::offload || is_sent[op.stage]) continue;
        is_sent[op.stage] = true;
        bytes += cuota::round_up(c.stages[op.stage].output_bytes + c.stages[op.stage].saved_bytes,
                                 cuota::pinned_memory::granularity());
    }
    return bytes;
}

/// Finds plans for the batches of one network. `chain_of_part` returns the chain, with its times, for a number of samples that run at once.
class deep_planner {
public:
    using chain_of_part = std::function<cuota::chain(std::size_t)>;
    using schedule_in_room = std::function<cuota::chain_schedule(cuota::chain const&, std::size_t)>;

    deep_planner(std::size_t batch, std::size_t pinned, chain_of_part chains)
        : batch_{batch}, pinned_{pinned}, chains_{std::move(chains)} {}

    /// Returns the plan that runs the whole batch at once and keeps all activations; the baseline of the others.
    [[nodiscard]] deep_plan naive() const {
        return *in_room("naive", batch_, cuota::unlimited,
                        [](auto const& c, std::size_t) { return store_all_plan(c); });
    }
    /// Returns the plan of a strategy within `room` bytes. Throws: plan_error if none fits.
    [[nodiscard]] deep_plan of(std::string const& strategy, std::size_t room) const {
        std::optional<deep_plan> found;
        if (strategy == "naive") found = naive();
        else if (strategy == "micro") found = micro(room);
        else if (strategy == "checkpoint") found = checkpoint(batch_, room);
        else if (strategy == "offload") found = offload(batch_, room);
        else if (strategy == "half") found = checkpoint(batch_, room);
        else found = fastest(room);
        if (found && found->slab_bytes <= room) {
            found->name = strategy;
            return *std::move(found);
        }
        throw plan_error{"--memory leaves " + cuota::bytes_text(room) + " for activations, and --strategy " +
                         strategy + " needs " + needs(strategy)};
    }
    /// Returns the largest number of samples that fit at once with all activations kept, or nullopt if one sample does not fit.
    [[nodiscard]] std::optional<std::size_t> largest_part(std::size_t room) const {
        try {
            return cuota::find_batch_size(
                       [&](std::size_t part) {
                           cuota::chain const c = chains_(part);
                           if (slab_bytes(c, store_all_plan(c)) > room)
                               (void)cuota::chain_plan(c, 0);  // throws out_of_memory
                       },
                       {.largest = batch_})
                .batch;
        } catch (cuota::out_of_memory const&) { return std::nullopt; }
    }

private:
    // Lowers the planner's limit until the slab, including the holes between blocks, fits into `room`.
    [[nodiscard]] std::optional<deep_plan> in_room(char const* name, std::size_t part, std::size_t room,
                                                   schedule_in_room const& schedule) const {
        cuota::chain const c = chains_(part);
        deep_plan p{name, part, (batch_ + part - 1) / part};
        try {
            for (std::size_t target = room; target != 0;) {
                p.schedule = schedule(c, target);
                p.run = simulate(c, p.schedule);
                p.slab_bytes = slab_bytes(c, p.schedule);
                if (p.slab_bytes <= room) return p;
                target = std::min(target, p.run.peak);
                target -= std::min(target, room / 32 + 1);
            }
        } catch (cuota::out_of_memory const&) {}  // thrown by the planner: no schedule fits into `target`
        return std::nullopt;
    }

    [[nodiscard]] std::optional<deep_plan> keeping_all(std::size_t part, std::size_t room) const {
        return in_room("naive", part, room, [&](auto const& c, std::size_t target) {
            auto schedule = store_all_plan(c);
            if (simulate(c, schedule).peak > target) return cuota::chain_plan(c, 0);  // throws out_of_memory
            return schedule;
        });
    }
    [[nodiscard]] std::optional<deep_plan> checkpoint(std::size_t part, std::size_t room) const {
        return in_room("checkpoint", part, room,
                       [](auto const& c, std::size_t target) { return cuota::chain_plan(c, target); });
    }
    [[nodiscard]] std::optional<deep_plan> offload(std::size_t part, std::size_t room) const {
        auto found = in_room("offload", part, room, [](auto const& c, std::size_t target) {
            return cuota::offload_plan(c, target);
        });
        if (found && host_bytes(chains_(part), found->schedule) > pinned_) return std::nullopt;
        return found;
    }
    // Splits the batch into as few parts of equal size as fit.
    [[nodiscard]] std::optional<deep_plan> micro(std::size_t room) const {
        auto const largest = largest_part(room);
        if (!largest) return std::nullopt;
        return keeping_all(evenly(*largest), room);
    }
    [[nodiscard]] std::size_t evenly(std::size_t part) const {
        std::size_t const parts = (batch_ + part - 1) / part;
        return (batch_ + parts - 1) / parts;
    }

    // Compares all strategies, for the whole batch and for parts of it.
    [[nodiscard]] std::optional<deep_plan> fastest(std::size_t room) const {
        std::vector<deep_plan> fitting;
        auto const add = [&](std::optional<deep_plan> const& p) {
            if (p) fitting.push_back(*p);
        };
        if (auto all = keeping_all(batch_, room)) {
            all->why = "everything fits";
            return all;
        }
        auto const largest = micro(room);
        add(largest);
        for (std::size_t parts = 1; parts <= batch_; parts *= 2) {
            std::size_t const part = (batch_ + parts - 1) / parts;
            if (largest && part <= largest->part) break;  // with all activations kept it is faster
            add(checkpoint(part, room));
            add(offload(part, room));
        }
        if (fitting.empty()) return std::nullopt;
        std::ranges::stable_sort(fitting, {}, &deep_plan::seconds);
        // Measured times vary by a tenth: among plans within 10% of the fastest, choose the one with the least recomputation.
        auto const slower =
            std::ranges::upper_bound(fitting, 1.1 * fitting.front().seconds(), {}, &deep_plan::seconds);
        auto const least = std::ranges::min_element(fitting.begin(), slower, {}, recomputed_runs);
        std::rotate(fitting.begin(), least, least + 1);
        fitting.front().why = reason(fitting);
        return fitting.front();
    }

    [[nodiscard]] static std::size_t recomputed_runs(deep_plan const& p) {
        return p.parts * p.run.recomputed;
    }
    [[nodiscard]] static std::string text(deep_plan const& p) {
        std::string const how = p.name == "naive" ? "" : ", each with " + p.name;
        std::string const whole = p.name == "naive" ? "all at once" : p.name;
        return p.parts == 1 ? whole : std::to_string(p.parts) + " parts of " + std::to_string(p.part) + how;
    }
    [[nodiscard]] static std::string reason(std::vector<deep_plan> const& sorted) {
        std::string why = text(sorted.front()) + ": " + milliseconds(sorted.front().seconds());
        if (sorted.size() > 1) why += "; next: " + text(sorted[1]) + ", " + milliseconds(sorted[1].seconds());
        return why + "; of " + std::to_string(sorted.size()) + " plans that fit";
    }
    [[nodiscard]] static std::string milliseconds(double seconds) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.3g ms", 1e3 * seconds);
        return digits;
    }

    // Returns the smallest limit that the strategy can run in, as text.
    [[nodiscard]] std::string needs(std::string const& strategy) const {
        cuota::chain const whole = chains_(batch_);
        if (strategy == "naive") return cuota::bytes_text(naive().slab_bytes);
        if (strategy == "micro") {
            cuota::chain const one = chains_(1);
            return cuota::bytes_text(simulate(one, store_all_plan(one)).peak) + " for a single sample";
        }
        std::size_t const least = cuota::min_chain_bytes(strategy == "auto" ? chains_(1) : whole);
        return cuota::bytes_text(least) + " and room for holes" +
               (strategy == "offload" ? ", or more of --pinned-budget" : "");
    }

    std::size_t batch_;
    std::size_t pinned_;
    chain_of_part chains_;
};

}  // namespace train
