// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Usable share of a pool of 8 GiB that several streams share: 60,000 allocations of 64 KiB to 256 MiB, log-uniform, on random streams;
/// random blocks are freed to keep the live bytes below a given share. A request that fails although enough bytes are free counts as a
/// refusal. The streams are busy throughout, so each reuse across streams needs a wait.
///
/// Compared with the design of the peers (listed_pool.hpp), and with a pool that grows by mapping large ranges up to the same cap.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

#include "addresses.hpp"
#include "listed_pool.hpp"
#include "shared_by_streams.hpp"

namespace {

using namespace cuota::literals;

using bench::busy;
using bench::cap;
using bench::request;
using bench::run;

void streams_on_one_pool(benchmark::State& state) {
    auto const streams = static_cast<std::size_t>(state.range(0));
    double const share = static_cast<double>(state.range(1)) / 100;
    for (auto _ : state) {
        cuota::budget const account{"bench", cap};
        cuota::scoped_pool pool{account, bench::addresses{}, {.initial_size = cap}};
        std::vector<cuota::stream> lanes(streams);
        std::size_t refusals = 0;
        {
            busy const work{lanes};
            refusals = run<void*>(
                streams, share, static_cast<unsigned>(state.range(2)),
                [&](request r) -> std::optional<void*> {
                    try {
                        return pool.allocate(lanes[r.stream], r.bytes);
                    } catch (cuota::out_of_memory const&) { return std::nullopt; }
                },
                [&](request r, void* at) { pool.deallocate(lanes[r.stream], at, r.bytes); });
        }
        state.counters["refusals"] = static_cast<double>(refusals);
        state.counters["waits"] = static_cast<double>(pool.stats().stream_waits);
    }
}

// A pool that grows up to the same cap by mappings, which start large. `live` is the maximum live share, in ten-thousandths of the cap.
void grown_by_mappings(benchmark::State& state) {
    for (auto _ : state) {
        cuota::budget const account{"bench", cap};
        cuota::scoped_pool pool{account, cuota::dry_run_memory{}};
        cuota::stream const lane;
        std::size_t const refusals = run<void*>(
            1, static_cast<double>(state.range(0)) / 10'000, static_cast<unsigned>(state.range(1)),
            [&](request r) -> std::optional<void*> {
                try {
                    return pool.allocate(lane, r.bytes);
                } catch (cuota::out_of_memory const&) { return std::nullopt; }
            },
            [&](request r, void* at) { pool.deallocate(lane, at, r.bytes); });
        state.counters["refusals"] = static_cast<double>(refusals);
    }
}
BENCHMARK(grown_by_mappings)
    ->ArgNames({"live", "seed"})
    ->ArgsProduct({{9'000, 9'500, 9'700}, {1, 2, 3}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void streams_on_one_list_each(benchmark::State& state) {
    auto const streams = static_cast<std::size_t>(state.range(0));
    double const share = static_cast<double>(state.range(1)) / 100;
    for (auto _ : state) {
        bench::listed_pool pool{streams, cap};
        std::size_t const refusals = run<std::size_t>(
            streams, share, static_cast<unsigned>(state.range(2)),
            [&](request r) { return pool.allocate(r.stream, r.bytes); },
            [&](request r, std::size_t at) { pool.deallocate(r.stream, at, r.bytes); });
        state.counters["refusals"] = static_cast<double>(refusals);
        state.counters["waits"] = static_cast<double>(pool.waits());
    }
}
#define CUOTA_TABLE                                                                                          \
    ->ArgNames({"streams", "live%", "seed"})                                                                 \
        ->ArgsProduct({{1, 2, 4, 16}, {50, 60, 70}, {1, 2, 3}})                                              \
        ->Iterations(1)                                                                                      \
        ->Unit(benchmark::kMillisecond)
BENCHMARK(streams_on_one_pool) CUOTA_TABLE;
BENCHMARK(streams_on_one_list_each) CUOTA_TABLE;

}  // namespace
