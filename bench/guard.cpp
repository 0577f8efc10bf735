// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a charge costs: a pair of charge and refund, by depth of the tree and by number of threads; a refusal beside it.
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

namespace {

cuota::budget chain(std::size_t levels) {
    cuota::budget leaf{"root", cuota::unlimited};
    for (std::size_t i = 1; i != levels; ++i) leaf = cuota::budget{"child", cuota::unlimited, leaf};
    return leaf;
}

void charge_and_refund(benchmark::State& state) {
    cuota::budget budget = chain(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        budget.charge(256);
        budget.refund(256);
    }
}
BENCHMARK(charge_and_refund)->ArgName("levels")->Arg(1)->Arg(2)->Arg(4);

void charge_and_refund_on_one_root(benchmark::State& state) {
    static cuota::budget root{"root", cuota::unlimited};
    for (auto _ : state) {
        root.charge(256);
        root.refund(256);
    }
}
BENCHMARK(charge_and_refund_on_one_root)->ThreadRange(1, 2)->UseRealTime();

void refused_try_charge(benchmark::State& state) {
    cuota::budget budget{"full", 100};
    budget.charge(100);
    for (auto _ : state) benchmark::DoNotOptimize(budget.try_charge(1));
    budget.refund(100);
}
BENCHMARK(refused_try_charge);

void refusal_with_its_facts(benchmark::State& state) {
    cuota::budget budget{"full", 100};
    for (auto _ : state) {
        try {
            budget.charge(101);
        } catch (cuota::budget_exceeded const& refused) {
            benchmark::DoNotOptimize(refused.facts().would_fit);
        }
    }
}
BENCHMARK(refusal_with_its_facts);

}  // namespace
