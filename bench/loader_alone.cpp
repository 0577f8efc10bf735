// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Overhead of a loader itself: its dataset reads nothing, and copies and events complete at once, so only the hand-over of batches between
/// worker and consumer remains. Compared with a queue of numbers with a mutex and condition variables. A batch that allocates is an error.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/simulator.hpp>

// Allocations of all threads. Not inlined: a compiler that sees malloc and free inside would warn of mismatched new and delete.
std::atomic<std::int64_t> allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* const memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// These replace the functions of the simulated runtime: the linker finds the program's definitions first.
extern "C" {
cudaError_t cudaMemcpyAsync(void*, void const*, std::size_t, cudaMemcpyKind, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
}

namespace {

class empty_source {
public:
    explicit empty_source(std::uint64_t samples) : samples_{samples} {}
    [[nodiscard]] std::uint64_t size() const { return samples_; }
    [[nodiscard]] std::span<cuota::field const> fields() const { return {&field_, 1}; }
    [[nodiscard]] std::string name() const { return "nothing"; }
    void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>) const {}

private:
    std::uint64_t samples_;
    cuota::field field_{"bytes", cuota::element_type::u8, {16}};
};

constexpr std::uint64_t batches = 50'000;

void batch_of_nothing(benchmark::State& state) {
    cuota::simulator::set_race_checks(cuota::simulator::race_checks::off);
    auto const size = static_cast<std::size_t>(state.range(0));
    cuota::batch_loader loader{empty_source{batches * size},
                               {.batch_size = size,
                                .workers = static_cast<std::size_t>(state.range(1)),
                                .device_slots = static_cast<std::size_t>(state.range(2))}};
    cuota::stream const stream;
    std::uint64_t epoch = 0;
    auto const run = [&] {
        for (cuota::batch b : loader.epoch(epoch++))
            benchmark::DoNotOptimize(b.view<std::uint8_t>(stream).data());
    };
    run();  // warm-up: creates each slot's events and stream entries
    std::int64_t const before = allocations;
    for (auto _ : state) run();
    if (std::int64_t const made = allocations - before; made > 10)  // the benchmark itself makes a few
        state.SkipWithError(("allocations: " + std::to_string(made)).c_str());
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batches));
}
BENCHMARK(batch_of_nothing)
    ->ArgNames({"batch", "workers", "device_slots"})
    ->ArgsProduct({{16}, {1, 2}, {2, 3}})
    ->UseRealTime();

// A bounded queue of numbers, as commonly written.
class queue {
public:
    explicit queue(std::size_t room) : room_{room} {}
    void put() {
        {
            std::unique_lock lock{guard_};
            taken_.wait(lock, [&] { return held_ < room_; });
            ++held_;
        }
        arrived_.notify_one();
    }
    void take() {
        {
            std::unique_lock lock{guard_};
            arrived_.wait(lock, [&] { return held_ != 0; });
            --held_;
        }
        taken_.notify_one();
    }

private:
    std::mutex guard_;
    std::condition_variable arrived_;
    std::condition_variable taken_;
    std::size_t room_;
    std::size_t held_ = 0;
};

void number_through_a_queue(benchmark::State& state) {
    for (auto _ : state) {
        queue between{static_cast<std::size_t>(state.range(0))};
        std::jthread const worker{[&] {
            for (std::uint64_t i = 0; i != batches; ++i) between.put();
        }};
        for (std::uint64_t i = 0; i != batches; ++i) between.take();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batches));
}
BENCHMARK(number_through_a_queue)->ArgName("room")->Arg(2)->Arg(3)->UseRealTime();

}  // namespace
