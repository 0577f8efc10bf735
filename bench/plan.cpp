// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a plan of offsets costs, and how close it comes to what is alive at once: traces in the shape of a training
/// step, one simple rule beside the whole planner, and the checker.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

namespace {

// A forward pass leaves activations of many sizes, a backward pass takes them in turn, the last first; both have
// scratch that lives for a step or three.
std::vector<cuota::lifetime> training_step(std::size_t count) {
    std::mt19937_64 random{7};
    auto const up_to = [&](std::uint64_t most) { return 1 + random() % most; };
    std::vector<cuota::lifetime> blocks;
    std::vector<std::pair<std::uint64_t, std::size_t>> kept;  // from, size
    std::uint64_t now = 0;
    for (std::size_t layer = 0; layer != count / 4; ++layer, now += 2) {
        kept.emplace_back(now, (std::size_t{256} << up_to(13)) * up_to(16));
        blocks.push_back({now, now + up_to(3), 512 * up_to(2'000)});
    }
    for (; !kept.empty(); kept.pop_back(), ++now) {
        auto const [from, size] = kept.back();
        blocks.push_back({from, now + 1, size});
        blocks.push_back({now, now + 1 + up_to(2), size});
        blocks.push_back({now, now + 1, 512 * up_to(4'000)});
    }
    return blocks;
}

void by_blocks(benchmark::internal::Benchmark* b) {
    b->ArgName("blocks")->Arg(1'000)->Arg(10'000)->Arg(20'000)->Unit(benchmark::kMillisecond);
}

void plan_a_training_step(benchmark::State& state) {
    auto const blocks = training_step(static_cast<std::size_t>(state.range(0)));
    cuota::offset_plan plan;
    for (auto _ : state) plan = cuota::plan_offsets(blocks, {.alignment = 512});
    state.counters["ratio"] = plan.ratio();
}
BENCHMARK(plan_a_training_step)->Apply(by_blocks);

// No time for more than the first order, by size.
void plan_by_one_simple_rule(benchmark::State& state) {
    auto const blocks = training_step(static_cast<std::size_t>(state.range(0)));
    cuota::offset_plan plan;
    for (auto _ : state)
        plan = cuota::plan_offsets(blocks, {.alignment = 512, .time_limit = std::chrono::seconds{0}});
    state.counters["ratio"] = plan.ratio();
}
BENCHMARK(plan_by_one_simple_rule)->Apply(by_blocks);

void check_a_plan(benchmark::State& state) {
    auto const blocks = training_step(static_cast<std::size_t>(state.range(0)));
    auto const plan = cuota::plan_offsets(blocks, {.alignment = 512, .time_limit = std::chrono::seconds{0}});
    for (auto _ : state) benchmark::DoNotOptimize(cuota::check_offsets(blocks, plan).has_value());
}
BENCHMARK(check_a_plan)->Apply(by_blocks);

}  // namespace
