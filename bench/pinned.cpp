// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cost of locking host memory: by the driver alone (pinned_memory), and for pages that threads touch first (registered_memory); and the
/// touching alone, which needs no driver. The simulator locks nothing; rows that measure a driver are skipped there by name.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/resource/detail/host_pages.hpp>
#include <cuota/resource/registered_memory.hpp>

namespace {

template <class Memory>
void locks(benchmark::State& state) {
    Memory memory;
    auto const bytes = static_cast<std::size_t>(state.range(0)) << 20;
    for (auto _ : state) {
        void* const p = memory.allocate_sync(bytes);
        benchmark::DoNotOptimize(p);
        state.PauseTiming();
        memory.deallocate_sync(p, bytes);
        state.ResumeTiming();
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

void touches(benchmark::State& state) {
    auto const bytes = static_cast<std::size_t>(state.range(0)) << 20;
    for (auto _ : state) {
        std::byte* const p = cuota::detail::map_pages(bytes);
        if (!p) {
            state.SkipWithError("no room for the pages");
            break;
        }
        cuota::detail::touch_pages(p, bytes, static_cast<std::size_t>(state.range(1)));
        state.PauseTiming();
        cuota::detail::unmap_pages(p, bytes);
        state.ResumeTiming();
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

BENCHMARK(touches)
    ->ArgNames({"MiB", "threads"})
    ->ArgsProduct({{64, 512}, {1, 2, 4}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (cuota::is_simulated()) {
        std::printf("SKIPPED: pinned_memory, registered_memory (the simulated runtime locks nothing)\n");
    } else {
        for (auto* const row :
             {benchmark::RegisterBenchmark("pinned_memory", locks<cuota::pinned_memory>),
              benchmark::RegisterBenchmark("registered_memory", locks<cuota::registered_memory>)})
            row->ArgName("MiB")->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
    }
    benchmark::RunSpecifiedBenchmarks();
}
