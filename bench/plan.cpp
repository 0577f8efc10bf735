// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cost of offset planning, and its result relative to the peak of live bytes: traces in the shape of a training step, one greedy rule, the
/// whole planner, and the checker. Then the cost of a step that is served from a plan, compared with the pool below it and with the lower
/// bound, a bump allocator. Items are pairs of allocation and deallocation.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/pool/planning/step_plan.hpp>

#include "training_step.hpp"

namespace {

void by_blocks(benchmark::internal::Benchmark* b) {
    b->ArgName("blocks")->Arg(1'000)->Arg(10'000)->Arg(20'000)->Unit(benchmark::kMillisecond);
}

void plan_a_training_step(benchmark::State& state) {
    auto const blocks = bench::training_step(static_cast<std::size_t>(state.range(0)));
    cuota::offset_plan plan;
    for (auto _ : state) plan = cuota::plan_offsets(blocks, {.alignment = 512});
    state.counters["ratio"] = plan.ratio();
}
BENCHMARK(plan_a_training_step)->Apply(by_blocks);

// A time limit that allows only the first order, by size.
void plan_by_one_simple_rule(benchmark::State& state) {
    auto const blocks = bench::training_step(static_cast<std::size_t>(state.range(0)));
    cuota::offset_plan plan;
    for (auto _ : state)
        plan = cuota::plan_offsets(blocks, {.alignment = 512, .time_limit = std::chrono::seconds{0}});
    state.counters["ratio"] = plan.ratio();
}
BENCHMARK(plan_by_one_simple_rule)->Apply(by_blocks);

void check_a_plan(benchmark::State& state) {
    auto const blocks = bench::training_step(static_cast<std::size_t>(state.range(0)));
    auto const plan = cuota::plan_offsets(blocks, {.alignment = 512, .time_limit = std::chrono::seconds{0}});
    for (auto _ : state) benchmark::DoNotOptimize(cuota::check_offsets(blocks, plan).has_value());
}
BENCHMARK(check_a_plan)->Apply(by_blocks);

// Allocates and frees the blocks of a step in order of time, on one stream.
class program {
public:
    explicit program(std::vector<cuota::lifetime> const& blocks) : blocks_{blocks}, at_(blocks.size()) {
        for (std::size_t row = 0; row != blocks.size(); ++row) {
            edges_.push_back({blocks[row].from, true, row});
            edges_.push_back({blocks[row].until, false, row});
        }
        std::stable_sort(edges_.begin(), edges_.end(), [](auto const& a, auto const& b) {
            return a.step != b.step ? a.step < b.step : a.begins < b.begins;
        });
    }
    template <class Memory>
    void run(Memory& memory, cuota::stream_ref s) {
        for (auto const& edge : edges_) {
            if (edge.begins) at_[edge.row] = memory.allocate(s, blocks_[edge.row].size, 256);
            else memory.deallocate(s, at_[edge.row], blocks_[edge.row].size, 256);
        }
    }
    [[nodiscard]] std::int64_t pairs() const { return static_cast<std::int64_t>(blocks_.size()); }

private:
    std::vector<cuota::lifetime> blocks_;
    std::vector<cuota::detail::lifetime_edge> edges_;
    std::vector<void*> at_;
};

void serve_a_planned_step(benchmark::State& state) {
    program step{bench::training_step(static_cast<std::size_t>(state.range(0)))};
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, cuota::dry_run_memory{}};
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    auto const run = [&] {
        auto const scope = plan.begin();
        step.run(memory, stream);
    };
    run();  // recorded
    run();  // starts with the planning
    for (auto _ : state) run();
    state.SetItemsProcessed(state.iterations() * step.pairs());
    auto const stats = plan.stats();
    state.counters["fallbacks"] = static_cast<double>(stats.fallbacks());
    state.counters["ratio"] = stats.ratio();
}
BENCHMARK(serve_a_planned_step)->ArgName("blocks")->Arg(100)->Arg(1'000)->Arg(10'000);

void serve_a_step_by_the_pool(benchmark::State& state) {
    program step{bench::training_step(static_cast<std::size_t>(state.range(0)))};
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, cuota::dry_run_memory{}};
    cuota::pool_resource memory = pool.resource();
    for (auto _ : state) step.run(memory, stream);
    state.SetItemsProcessed(state.iterations() * step.pairs());
}
BENCHMARK(serve_a_step_by_the_pool)->ArgName("blocks")->Arg(100)->Arg(1'000)->Arg(10'000);

// A bump allocator that never frees; no slab would be large enough for it.
class rising_pointer {
public:
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t) noexcept {
        next_ += (bytes + 255) & ~std::uintptr_t{255};
        return reinterpret_cast<void*>(next_);
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t, std::size_t) noexcept {
        benchmark::DoNotOptimize(p);
    }

private:
    std::uintptr_t next_ = 0;
};

void serve_a_step_by_a_rising_pointer(benchmark::State& state) {
    program step{bench::training_step(static_cast<std::size_t>(state.range(0)))};
    cuota::stream const stream;
    rising_pointer memory;
    for (auto _ : state) step.run(memory, stream);
    state.SetItemsProcessed(state.iterations() * step.pairs());
}
BENCHMARK(serve_a_step_by_a_rising_pointer)->ArgName("blocks")->Arg(100)->Arg(1'000)->Arg(10'000);

}  // namespace
