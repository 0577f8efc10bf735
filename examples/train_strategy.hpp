// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The strategies of train.cpp: prints the planned and measured memory of each, and its cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "sweep_svg.hpp"
#include "train_deep.hpp"
#include "train_options.hpp"

namespace train {

/// The part of a run that all strategies share: the network, the data and the bytes of 100 %.
struct deep_task {
    options const& how;
    any_samples samples;
    deep_shape shape;
    std::size_t naive_bytes;

    /// Returns the bytes for activations at `percent`.
    [[nodiscard]] std::size_t room(double percent) const {
        auto const bytes = static_cast<std::size_t>(percent / 100 * static_cast<double>(naive_bytes));
        return cuota::round_down(bytes, cuota::device_memory::granularity());
    }
};

[[nodiscard]] inline deep_task task_of(options const& how, any_samples const& samples, std::size_t classes) {
    auto const batch = static_cast<std::size_t>(std::min<std::uint64_t>(how.batch, samples.size()));
    deep_shape const shape{batch,   samples.fields()[0].count(),    how.width, how.layers,
                           classes, static_cast<float>(how.dropout)};
    cuota::stream const stream;
    deep_planner const planner{batch, 0,
                               [&](std::size_t part) { return deep_run<float>::sizes(shape, part); }};
    return {how, samples, shape, planner.naive().slab_bytes};
}

/// Returns, for example, "checkpoint" or "keep all, 4 x 16": 4 parts of at most 16 samples.
[[nodiscard]] inline std::string plan_text(deep_result const& r) {
    std::string const parts =
        r.plan.parts == 1 ? "" : std::to_string(r.plan.parts) + " x " + std::to_string(r.plan.part);
    std::string what;
    if (r.recomputed > 0) what = "checkpoint";
    if (r.plan.run.offloaded_bytes != 0) what += what.empty() ? "offload" : " + offload";
    if (what.empty()) what = "keep all";
    return parts.empty() ? what : what + ", " + parts;
}

inline void print_held(deep_result const& r) {
    std::printf("\nheld on the device             bytes\n");
    auto const row = [](char const* name, std::size_t bytes) { std::printf("  %-22s %12zu\n", name, bytes); };
    for (cuota::footprint::part const& p : r.network.parts()) row(p.name.text(), p.bytes(0));
    row("training slots", r.slots);
    for (cuota::tag_usage const& t : r.activations.by_tag)
        if (t.at_peak != 0) row(t.name.text(), t.at_peak);
    row("holes", r.plan.slab_bytes - r.plan.run.peak);
    std::printf("  activations peak bytes %zu, planned %zu\n", r.activations.peak, r.plan.run.peak);
    std::printf("  device bytes %zu, planned %zu, budget %zu\n", r.peak, r.planned(), r.limit);
    std::printf("  driver's bytes %zu, of which counted %zu\n", r.driver, r.peak);
    std::printf("  pinned bytes %zu\n", r.pinned);
}

inline void print_table(std::vector<std::pair<double, deep_result>> const& runs) {
    std::printf("\nstrategy    memory  peak bytes     planned      budget   ms/step  planned ms  recomputed  "
                "loss            how\n");
    for (auto const& [percent, r] : runs)
        std::printf("%-10s %5.4g %% %11zu %11zu %11zu %9.3f %11.3f %9.1f %%  %-14.12g  %s\n",
                    r.plan.name.c_str(), percent, r.peak, r.planned(), r.limit, 1e3 * r.step_seconds,
                    1e3 * r.plan.seconds(), 100 * r.recomputed, r.loss, plan_text(r).c_str());
}

template <class S>
[[nodiscard]] deep_result run_plan(deep_task const& task, std::string const& strategy, double percent) {
    deep_run<S> run{task.how, task.samples, task.shape, task.room(percent)};
    deep_plan const plan = run.plan(strategy);
    std::printf("\n%s at %.4g %%: %s for activations%s%s\n", strategy.c_str(), percent,
                cuota::bytes_text(task.room(percent)).c_str(), plan.why.empty() ? "" : "; ",
                plan.why.c_str());
    return run.train(plan);
}
[[nodiscard]] inline deep_result run_strategy(deep_task const& task, std::string const& strategy,
                                              double percent) {
    if (strategy == "half") return run_plan<cuota::half>(task, strategy, percent);
    return run_plan<float>(task, strategy, percent);
}

inline void sweep(deep_task const& task) {
    sweep_svg::check(task.how.sweep);
    std::vector<std::pair<double, deep_result>> runs;
    std::vector<sweep_point> points;
    for (double const percent : {100.0, 50.0, 25.0, 12.5}) {
        deep_result const& r = runs.emplace_back(percent, run_strategy(task, "auto", percent)).second;
        char text[32];
        std::snprintf(text, sizeof text, "%.4g %%", percent);
        points.push_back({text, cuota::bytes_text(r.plan.slab_bytes), plan_text(r), 1e3 * r.step_seconds,
                          100 * r.recomputed});
    }
    print_table(runs);
    sweep_svg{std::move(points)}.write(task.how.sweep);
    std::printf("\nwrote %s\n", task.how.sweep.c_str());
}

/// Trains by the strategy of the options, or runs the sweep. Throws: plan_error if it does not fit.
inline void run_deep(options const& how, any_samples const& samples, std::size_t classes) {
    auto const task = task_of(how, samples, classes);
    std::printf("\nnetwork   %zu hidden layers of %zu, batches of %zu\n"
                "          keeping all activations takes %zu bytes\n",
                how.layers, how.width, task.shape.batch, task.naive_bytes);
    if (!how.sweep.empty()) return sweep(task);
    deep_result const r = run_strategy(task, how.strategy, how.memory);
    print_held(r);
    print_table({{how.memory, r}});
}

}  // namespace train
