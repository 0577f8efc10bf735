// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Rate at which samples in memory reach the device, with a loader and with a loop that fills a slot, copies it and waits; and the time to
/// stop a loader.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>

namespace {

constexpr std::size_t sample_bytes = 1024;
constexpr std::uint64_t samples = 64 * 1024;

cuota::memory_dataset in_memory() {
    return {"memory", std::vector<std::uint8_t>(samples * sample_bytes, 7), {sample_bytes}};
}

void loader_from_memory(benchmark::State& state) {
    auto const batch = static_cast<std::size_t>(state.range(0));
    cuota::batch_loader loader{in_memory(), {.batch_size = batch, .seed = 1}};
    cuota::stream stream;
    std::uint64_t epoch = 0;
    std::int64_t batches = 0;
    for (auto _ : state) {
        for (cuota::batch b : loader.epoch(epoch)) {
            benchmark::DoNotOptimize(b.view<std::uint8_t>(stream).data());
            ++batches;
        }
        ++epoch;
    }
    state.SetItemsProcessed(batches);
    state.SetBytesProcessed(batches * static_cast<std::int64_t>(batch * sample_bytes));
}
BENCHMARK(loader_from_memory)->ArgName("batch")->Arg(16)->Arg(1024)->UseRealTime();

void fill_copy_wait(benchmark::State& state) {
    auto const batch = static_cast<std::size_t>(state.range(0));
    cuota::memory_dataset const from = in_memory();
    cuota::keyed_permutation const order{samples, 1};
    cuota::stream stream;
    cuota::pinned_buffer<std::byte> slot{batch * sample_bytes};
    cuota::device_buffer<std::byte> target{batch * sample_bytes, stream, cuota::device_memory{}};
    std::vector<std::uint64_t> indices(batch);
    std::int64_t batches = 0;
    for (auto _ : state) {
        for (std::uint64_t first = 0; first != samples; first += batch) {
            for (std::size_t i = 0; i != batch; ++i) indices[i] = order(first + i);
            std::span<std::byte> const out = slot.write();
            from.gather(indices, {&out, 1});
            slot.upload(target, stream);
            stream.synchronize();
            ++batches;
        }
    }
    state.SetItemsProcessed(batches);
    state.SetBytesProcessed(batches * static_cast<std::int64_t>(batch * sample_bytes));
}
BENCHMARK(fill_copy_wait)->ArgName("batch")->Arg(16)->Arg(1024)->UseRealTime();

// Measures the time from leaving the epoch loop until all threads of the loader have ended, while workers are in reads of 5 ms each. Fails
// if this takes over 50 ms longer than a read.
void left_early(benchmark::State& state) {
    using clock_type = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds read{5};
    auto const workers = static_cast<std::size_t>(state.range(0));
    std::chrono::duration<double> most{0};
    for (auto _ : state) {
        cuota::batch_loader loader{cuota::callable_dataset{"slow",
                                                           samples,
                                                           {{"byte"}},
                                                           [&](std::span<std::uint64_t const>,
                                                               std::span<std::span<std::byte> const>) {
                                                               std::this_thread::sleep_for(read);
                                                           }},
                                   {.batch_size = 16, .workers = workers}};
        auto begin = clock_type::now();
        for (cuota::batch b : loader.epoch(0)) {
            begin = clock_type::now();
            if (b.index() == 3) break;
        }
        loader.close();
        std::chrono::duration<double> const taken = clock_type::now() - begin;
        state.SetIterationTime(taken.count());
        most = std::max(most, taken);
    }
    state.counters["most_ms"] = most.count() * 1000;
    if (most > read + std::chrono::milliseconds{50}) state.SkipWithError("it took longer to end");
}
BENCHMARK(left_early)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(8)
    ->UseManualTime()
    ->Iterations(100)
    ->Unit(benchmark::kMillisecond);

}  // namespace
