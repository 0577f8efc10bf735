// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cost of finding chain plans, cost of the planned steps (in the model's time units), and overhead of the executor over the work of the
/// stages. Runs on the simulated device or on a GPU; the stages enqueue nothing.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/training.hpp>

namespace {

// Layers of a network: sizes from 1 to 4 MiB, backward time of about twice the forward time, a cheap loss.
cuota::chain layers(std::size_t count) {
    std::mt19937 random{7};
    auto const between = [&](unsigned least, unsigned most) {
        return std::uniform_int_distribution<unsigned>{least, most}(random);
    };
    cuota::chain c;
    c.stages.resize(count);
    for (cuota::chain_stage& s : c.stages) {
        s.output_bytes = std::size_t{between(1024, 4096)} << 10;
        s.saved_bytes = s.output_bytes / 4 * between(0, 8);
        s.forward_scratch = s.backward_scratch = s.output_bytes / 2;
        s.forward_time = between(10, 30);
        s.backward_time = 2 * s.forward_time;
    }
    c.stages.back().output_bytes = 1 << 10;
    return c;
}

// Plans within range(1) percent of the memory for keeping all activations; reports the step time relative to keeping all.
void plan_chain(benchmark::State& state) {
    cuota::chain const c = layers(static_cast<std::size_t>(state.range(0)));
    cuota::chain_cost const all = simulate(c, cuota::store_all_plan(c));
    std::size_t const room = all.peak / 100 * static_cast<std::size_t>(state.range(1));
    cuota::chain_cost run;
    for (auto _ : state) run = simulate(c, cuota::chain_plan(c, room));
    state.counters["time_of_step"] = run.time / all.time;
    state.counters["peak_of_room"] = static_cast<double>(run.peak) / static_cast<double>(room);
}
BENCHMARK(plan_chain)->ArgsProduct({{20, 50, 100}, {50, 25}})->Unit(benchmark::kMillisecond);

void plan_offload(benchmark::State& state) {
    cuota::chain c = layers(static_cast<std::size_t>(state.range(0)));
    c.offload_time_per_byte = c.fetch_time_per_byte = 10.0 / (1 << 20);
    cuota::chain_cost const all = simulate(c, cuota::store_all_plan(c));
    std::size_t const room = all.peak / 100 * static_cast<std::size_t>(state.range(1));
    cuota::chain_cost run;
    for (auto _ : state) run = simulate(c, cuota::offload_plan(c, room));
    state.counters["time_of_step"] = run.time / all.time;
}
BENCHMARK(plan_offload)->ArgsProduct({{20, 50, 100}, {50, 25}})->Unit(benchmark::kMillisecond);

// Stages without work, so that only allocations, records and calls are measured. Time per stage run.
void run_stages(benchmark::State& state, bool from_slab) {
    std::vector<cuota::checkpoint_stage> stages(50);
    for (cuota::checkpoint_stage& s : stages) {
        s.output_bytes = s.saved_bytes = 64 << 10;
        s.forward = s.backward = [](cuota::stage_context const&) {};
    }
    cuota::stream const stream;
    cuota::budget const account{"device", cuota::unlimited};
    cuota::chain const sizes = cuota::chain_of(stages, 256);
    std::size_t const room = simulate(sizes, cuota::store_all_plan(sizes)).peak / 2;
    cuota::chain_schedule const plan = cuota::chain_plan(sizes, room);
    std::size_t const runs = simulate(sizes, plan).forward_runs + stages.size();
    cuota::scoped_pool pool{account};
    cuota::step_plan slab{pool};
    slab.set_plan(chain_requests(sizes, plan));
    cuota::checkpointed net{stages, plan, stream,
                            from_slab ? cuota::any_resource{slab.resource()}
                                      : cuota::any_resource{pool.resource()}};
    std::uint64_t step = 0;
    for (auto _ : state) {
        auto const scope = slab.begin();
        net.run(cuota::device_span<float const>{}, ++step);
    }
    state.counters["time_by_run"] =
        benchmark::Counter(static_cast<double>(runs),
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(run_stages, pool, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_stages, slab, true)->Unit(benchmark::kMicrosecond);

}  // namespace
