// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cost of calls on the simulated runtime, which should not dominate the time of a test suite. Each call is measured with race checks off
/// and on, with both schedules if it runs work, and with each kind of memory checks if it touches memory.
#include <array>
#include <cstddef>
#include <cstdint>

#include <benchmark/benchmark.h>

#include <cuda_runtime_api.h>

#include <cuota/cuota.hpp>
#include <cuota/simulator.hpp>

namespace {

namespace sim = cuota::simulator;

constexpr std::size_t bytes = 4096;

// A new machine for one benchmark: range(0) turns on race checks, range(1) selects the late schedule.
class machine {
public:
    explicit machine(benchmark::State const& state, bool has_schedule = false) {
        sim::reset();
        sim::set_race_checks(state.range(0) != 0 ? sim::race_checks::report : sim::race_checks::off);
        if (has_schedule && state.range(1) != 0) sim::set_schedule(sim::schedule::late);
        else sim::set_schedule(sim::schedule::workers);
    }
    ~machine() { sim::reset(); }
    machine(machine const&) = delete;
    machine& operator=(machine const&) = delete;
};

void off_and_on(benchmark::internal::Benchmark* b) { b->ArgName("checked")->Arg(0)->Arg(1); }
void by_both_schedules(benchmark::internal::Benchmark* b) {
    b->ArgNames({"checked", "late"})->ArgsProduct({{0, 1}, {0, 1}})->UseRealTime();
}

// Selects the kind of memory checks for one benchmark by range(0), with race checks off.
void choose_memory(benchmark::State& state) {
    constexpr std::array checks{sim::memory_checks::off, sim::memory_checks::heap,
                                sim::memory_checks::strict};
    constexpr std::array names{"off", "heap", "strict"};
    auto const i = static_cast<std::size_t>(state.range(0));
    sim::set_race_checks(sim::race_checks::off);
    sim::set_memory_checks(checks.at(i));
    state.SetLabel(names.at(i));
}
void by_memory(benchmark::internal::Benchmark* b) { b->ArgName("memory")->DenseRange(0, 2)->UseRealTime(); }

// The bookkeeping of plain device memory.
void malloc_and_free(benchmark::State& state) {
    machine const m{state};
    for (auto _ : state) {
        void* p = nullptr;
        cudaMalloc(&p, bytes);
        cudaFree(p);
    }
}
BENCHMARK(malloc_and_free)->Apply(off_and_on);

void malloc_async_and_free_async(benchmark::State& state) {
    machine const m{state};
    cuota::stream const s;
    for (auto _ : state) {
        void* p = nullptr;
        cudaMallocAsync(&p, bytes, s.get());
        cudaFreeAsync(p, s.get());
    }
}
BENCHMARK(malloc_async_and_free_async)->Apply(off_and_on);

void malloc_async_and_free_async_by_memory(benchmark::State& state) {
    machine const m{state};
    choose_memory(state);
    cuota::stream const s;
    for (auto _ : state) {
        void* p = nullptr;
        cudaMallocAsync(&p, bytes, s.get());
        cudaFreeAsync(p, s.get());
    }
}
BENCHMARK(malloc_async_and_free_async_by_memory)->Apply(by_memory);

// Strict memory is made accessible for each kernel by the fault of its first access, and protected again afterwards.
void kernel_touches_a_block_by_memory(benchmark::State& state) {
    machine const m{state};
    choose_memory(state);
    cuota::stream const s;
    void* p = nullptr;
    cudaMalloc(&p, bytes);
    for (auto _ : state) {
        cuota::for_each_index(s, 1, [to = static_cast<int*>(p)](std::size_t i) { to[i] = 1; });
        s.synchronize();
    }
    cudaFree(p);
}
BENCHMARK(kernel_touches_a_block_by_memory)->Apply(by_memory);

// Time from the call to the end of an empty host function, and back.
void host_function_and_synchronise(benchmark::State& state) {
    machine const m{state, true};
    cuota::stream const s;
    for (auto _ : state) {
        cudaLaunchHostFunc(
            s.get(), [](void*) {}, nullptr);
        cudaStreamSynchronize(s.get());
    }
}
BENCHMARK(host_function_and_synchronise)->Apply(by_both_schedules);

void kernel_and_synchronise(benchmark::State& state) {
    machine const m{state, true};
    cuota::stream const s;
    for (auto _ : state) {
        cuota::for_each_index(s, 1, [](std::size_t) {});
        s.synchronize();
    }
}
BENCHMARK(kernel_and_synchronise)->Apply(by_both_schedules);

// A hundred kernels per synchronization, as is common in programs. Reported per kernel.
void kernels_in_a_row(benchmark::State& state) {
    machine const m{state, true};
    cuota::stream const s;
    while (state.KeepRunningBatch(100)) {
        for (int i = 0; i != 100; ++i) cuota::for_each_index(s, 1, [](std::size_t) {});
        s.synchronize();
    }
}
BENCHMARK(kernels_in_a_row)->Apply(by_both_schedules);

void record_query_and_wait_on_idle_streams(benchmark::State& state) {
    machine const m{state};
    cuota::stream const s, other;
    cuota::event const e{s};
    for (auto _ : state) {
        cudaEventRecord(e.get(), s.get());
        cudaEventQuery(e.get());
        cudaStreamWaitEvent(other.get(), e.get(), 0);
    }
}
BENCHMARK(record_query_and_wait_on_idle_streams)->Apply(off_and_on);

void stream_create_and_destroy(benchmark::State& state) {
    machine const m{state};
    for (auto _ : state) {
        cudaStream_t s = nullptr;
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaStreamDestroy(s);
    }
}
BENCHMARK(stream_create_and_destroy)->Apply(off_and_on);

void event_create_and_destroy(benchmark::State& state) {
    machine const m{state};
    for (auto _ : state) {
        cudaEvent_t e = nullptr;
        cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
        cudaEventDestroy(e);
    }
}
BENCHMARK(event_create_and_destroy)->Apply(off_and_on);

void memset_and_synchronise(benchmark::State& state) {
    machine const m{state, true};
    cuota::stream const s;
    void* p = nullptr;
    cudaMalloc(&p, bytes);
    for (auto _ : state) {
        cudaMemsetAsync(p, 1, bytes, s.get());
        cudaStreamSynchronize(s.get());
    }
    cudaFree(p);
}
BENCHMARK(memset_and_synchronise)->Apply(by_both_schedules);

void copy_and_synchronise(benchmark::State& state) {
    machine const m{state, true};
    cuota::stream const s;
    void *device = nullptr, *host = nullptr;
    cudaMalloc(&device, bytes);
    cudaMallocHost(&host, bytes);
    for (auto _ : state) {
        cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s.get());
        cudaStreamSynchronize(s.get());
    }
    cudaFree(device);
    cudaFreeHost(host);
}
BENCHMARK(copy_and_synchronise)->Apply(by_both_schedules);

}  // namespace
