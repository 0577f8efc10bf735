// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Ways to do a training step in so many bytes: the plan of each, and the fastest of those that fit.
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

#include <cuota/pool/planned_step.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/chain_plan.hpp>
#include <cuota/training/chain_requests.hpp>
#include <cuota/training/chain_simulation.hpp>
#include <cuota/training/find_batch_size.hpp>
#include <cuota/training/offload_plan.hpp>
#include <cuota/training/store_plans.hpp>

namespace train {

/// A plan that does not fit; the message names the option and what would.
struct plan_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// How a step is done.
struct deep_plan {
    std::string name{};
    std::size_t part = 0;   ///< samples that run at once
    std::size_t parts = 0;  ///< of a batch
    cuota::chain_schedule schedule{};
    cuota::chain_run run{};      ///< what the schedule takes, for one part
    std::size_t slab_bytes = 0;  ///< what it is served from: that, and holes
    std::string why{};

    /// Where in the slab: by simple rules alone, which take no time to speak of, and give the same each time.
    [[nodiscard]] static cuota::plan_options simple_offsets() {
        return {.time_limit = std::chrono::nanoseconds{0}};
    }
    [[nodiscard]] double seconds() const { return static_cast<double>(parts) * run.time; }
    /// The forward work that is done again, as a share of what has to be done.
    [[nodiscard]] double recomputed_share(cuota::chain const& c) const {
        double once = 0;
        for (cuota::chain_stage const& s : c.stages) once += s.forward_time;
        return once > 0 ? run.recomputed_time / once : 0;
    }
};

/// The slab that serves a schedule's step: its peak, and the holes that it leaves. Of equal plans by simple rules, so that it is
/// the same each time.
[[nodiscard]] inline std::size_t slab_bytes(cuota::chain const& c, cuota::chain_schedule const& schedule) {
    cuota::planned_step const step = plan_requests(chain_requests(c, schedule), deep_plan::simple_offsets());
    return cuota::round_up(step.peak, cuota::device_memory::granule());
}

/// What the executor takes of host memory, from beginning to end: a place for each record that it ever sends there.
[[nodiscard]] inline std::size_t host_bytes(cuota::chain const& c, cuota::chain_schedule const& schedule) {
    std::vector<bool> is_sent(c.stages.size());
    std::size_t bytes = 0;
    for (cuota::chain_op const op : schedule) {
        if (op.act != cuota::chain_act::offload || is_sent[op.stage]) continue;
        is_sent[op.stage] = true;
        bytes += cuota::round_up(c.stages[op.stage].output_bytes + c.stages[op.stage].saved_bytes,
                                 cuota::pinned_memory::granule());
    }
    return bytes;
}

/// Finds plans for batches of one network. `chain_of_part` gives the chain, with its times, of so many samples at once.
class deep_planner {
public:
    using chain_of_part = std::function<cuota::chain(std::size_t)>;
    using schedule_in_room = std::function<cuota::chain_schedule(cuota::chain const&, std::size_t)>;

    deep_planner(std::size_t batch, std::size_t pinned, chain_of_part chains)
        : batch_{batch}, pinned_{pinned}, chains_{std::move(chains)} {}

    /// All at once, everything kept: what the others are compared with.
    [[nodiscard]] deep_plan naive() const {
        return *in_room("naive", batch_, cuota::unlimited,
                        [](auto const& c, std::size_t) { return store_all_plan(c); });
    }
    /// Throws: plan_error when it does not fit.
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
    /// The most samples that fit at once with everything kept; nothing when one does not.
    [[nodiscard]] std::optional<std::size_t> largest_part(std::size_t room) const {
        try {
            return cuota::find_batch_size(
                       [&](std::size_t part) {
                           cuota::chain const c = chains_(part);
                           if (slab_bytes(c, store_all_plan(c)) > room)
                               (void)cuota::chain_plan(c, 0);  // refuses
                       },
                       {.largest = batch_})
                .batch;
        } catch (cuota::out_of_memory const&) { return std::nullopt; }
    }

private:
    // A schedule in the room, less what holes take of it.
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
        } catch (cuota::out_of_memory const&) {}  // the planner's: it does not go in less
        return std::nullopt;
    }

    [[nodiscard]] std::optional<deep_plan> keeping_all(std::size_t part, std::size_t room) const {
        return in_room("naive", part, room, [&](auto const& c, std::size_t target) {
            auto schedule = store_all_plan(c);
            if (simulate(c, schedule).peak > target) return cuota::chain_plan(c, 0);  // refuses
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
    // As few parts as can be, of equal sizes.
    [[nodiscard]] std::optional<deep_plan> micro(std::size_t room) const {
        auto const largest = largest_part(room);
        if (!largest) return std::nullopt;
        return keeping_all(evenly(*largest), room);
    }
    [[nodiscard]] std::size_t evenly(std::size_t part) const {
        std::size_t const parts = (batch_ + part - 1) / part;
        return (batch_ + parts - 1) / parts;
    }

    // Of everything, whole and in parts.
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
            if (largest && part <= largest->part) break;  // kept whole, it is faster
            add(checkpoint(part, room));
            add(offload(part, room));
        }
        if (fitting.empty()) return std::nullopt;
        std::ranges::stable_sort(fitting, {}, &deep_plan::seconds);
        // Measured times are not sure to a tenth: of those about as fast, the one that does the least twice.
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

    // The least that it can do with.
    [[nodiscard]] std::string needs(std::string const& strategy) const {
        cuota::chain const whole = chains_(batch_);
        if (strategy == "naive") return cuota::bytes_text(naive().slab_bytes);
        if (strategy == "micro") {
            cuota::chain const one = chains_(1);
            return cuota::bytes_text(simulate(one, store_all_plan(one)).peak) + " for a single sample";
        }
        std::size_t const least = cuota::least_chain_bytes(strategy == "auto" ? chains_(1) : whole);
        return cuota::bytes_text(least) + " and room for holes" +
               (strategy == "offload" ? ", or more of --pinned-budget" : "");
    }

    std::size_t batch_;
    std::size_t pinned_;
    chain_of_part chains_;
};

}  // namespace train
