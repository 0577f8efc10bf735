// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cost of recording: an event and its parts with one thread and with two, a recorded allocation and a bare one, the summary of a large
/// pool, and reading a full recorder. For comparison only: the same event with the standard library's clock, and under a lock.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/core/label.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/detail/recording/event_clock.hpp>
#include <cuota/report/detail/recording/event_ring.hpp>
#include <cuota/report/detail/recording/site_table.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/recording/recorded.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/snapshot.hpp>

namespace {

constexpr std::size_t events = 65'536;
constexpr std::size_t bytes = 256;

// ---- The parts: a clock, a site, a slot.

void clock_of_processor(benchmark::State& state) {
    cuota::detail::event_clock const clock;
    for (auto _ : state) benchmark::DoNotOptimize(clock.now());
}
BENCHMARK(clock_of_processor);

void clock_of_standard_library(benchmark::State& state) {
    cuota::detail::event_clock const clock{cuota::detail::event_clock::base::steady};
    for (auto _ : state) benchmark::DoNotOptimize(clock.now());
}
BENCHMARK(clock_of_standard_library);

// Looks up a site among `known` other sites.
void intern_of_known_site(benchmark::State& state) {
    cuota::detail::site_table table{4096};
    auto const known = static_cast<unsigned>(state.range(0));
    for (unsigned line = 1; line <= known; ++line)
        benchmark::DoNotOptimize(table.intern("weights", {"train.cpp", line}));
    unsigned line = 0;
    for (auto _ : state) {
        line = line == known ? 1 : line + 1;
        benchmark::DoNotOptimize(table.intern("weights", {"train.cpp", line}));
    }
}
BENCHMARK(intern_of_known_site)->ArgName("known")->Arg(1)->Arg(100)->Arg(4096);

// ---- An event with its time, into a ring that all threads share.

void put_event(benchmark::State& state, cuota::detail::event_clock::base by) {
    static cuota::detail::event_ring ring{events};
    cuota::detail::event_clock const clock{by};
    std::uint64_t address = 0;
    for (auto _ : state)
        ring.put({cuota::event_kind::allocated, 1, 2, clock.now(), ++address, bytes, bytes, 7});
    state.SetItemsProcessed(state.iterations());
}
void put_by_clock_of_processor(benchmark::State& state) {
    put_event(state, cuota::detail::event_clock::base::counter);
}
void put_by_clock_of_standard_library(benchmark::State& state) {
    put_event(state, cuota::detail::event_clock::base::steady);
}
BENCHMARK(put_by_clock_of_processor)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(put_by_clock_of_standard_library)->Threads(1)->Threads(2)->UseRealTime();

// For comparison: a ring under a lock, as commonly written. Not part of the library.
void put_under_a_lock(benchmark::State& state) {
    static std::mutex guard;
    static std::array<cuota::memory_event, events> ring{};
    static std::size_t next = 0;
    std::uint64_t address = 0;
    cuota::detail::event_clock const clock;
    for (auto _ : state) {
        std::scoped_lock const lock{guard};
        ring[next++ % events] = {cuota::event_kind::allocated, 1, 2, clock.now(), ++address, bytes, bytes, 7};
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(put_under_a_lock)->Threads(1)->Threads(2)->UseRealTime();

// All parts, as in pools and resources: clock, site and slot.
void put_with_site(benchmark::State& state) {
    static cuota::recorder const recorder{};
    cuota::detail::recorder_state& to = *cuota::detail::recorder_access::state(recorder);
    std::uint64_t address = 0;
    for (auto _ : state)
        to.put(cuota::event_kind::allocated, 0, "weights", {"train.cpp", 17}, ++address, bytes, bytes, 7);
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(put_with_site)->Threads(1)->Threads(2)->UseRealTime();

void put_while_paused(benchmark::State& state) {
    cuota::recorder recorder;
    recorder.pause();
    cuota::detail::recorder_state& to = *cuota::detail::recorder_access::state(recorder);
    for (auto _ : state)
        to.put(cuota::event_kind::allocated, 0, "weights", {"train.cpp", 17}, 1, bytes, bytes, 7);
}
BENCHMARK(put_while_paused);

// ---- A pair of allocation and deallocation of memory at no cost, so that only the recording is measured.

struct one_block {
    static void* allocate(cuota::stream_ref, std::size_t, std::size_t) noexcept { return block.data(); }
    static void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    static void* allocate_sync(std::size_t, std::size_t) noexcept { return block.data(); }
    static void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    [[nodiscard]] static std::size_t granularity() noexcept { return 1; }
    [[nodiscard]] static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
    friend bool operator==(one_block const&, one_block const&) noexcept = default;

    alignas(256) static inline std::array<std::byte, bytes> block{};
};
static_assert(cuota::resource<one_block> && one_block{} == one_block{});

template <class Memory>
void pairs_in_stream_order(benchmark::State& state, Memory memory) {
    cuota::stream const s;
    for (auto _ : state) {
        void* const p = memory.allocate(s, bytes, 256);
        benchmark::DoNotOptimize(p);
        memory.deallocate(s, p, bytes, 256);
    }
}
template <class Memory>
void pairs_at_once(benchmark::State& state, Memory memory) {
    for (auto _ : state) {
        void* const p = memory.allocate_sync(bytes, 256);
        benchmark::DoNotOptimize(p);
        memory.deallocate_sync(p, bytes, 256);
    }
}
void bare_pair(benchmark::State& state) { pairs_in_stream_order(state, one_block{}); }
void recorded_pair(benchmark::State& state) {
    pairs_in_stream_order(state, cuota::recorded{one_block{}, cuota::recorder{}});
}
void recorded_pair_at_once(benchmark::State& state) {
    pairs_at_once(state, cuota::recorded{one_block{}, cuota::recorder{}});
}
void paused_pair(benchmark::State& state) {
    cuota::recorder recorder;
    recorder.pause();
    pairs_in_stream_order(state, cuota::recorded{one_block{}, recorder});
}
BENCHMARK(bare_pair);
BENCHMARK(recorded_pair);
BENCHMARK(recorded_pair_at_once);
BENCHMARK(paused_pair);

// ---- A pool's pair, unobserved and recorded. 512 bytes are served by the thread cache without a lock if the pool is unobserved; 1 MiB
// always takes the lock.

void pool_pair(benchmark::State& state, bool is_recorded) {
    using namespace cuota::literals;
    auto const size = static_cast<std::size_t>(state.range(0));
    cuota::budget const budget{"bench", 512_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 256_MiB}};
    std::optional<cuota::recorder> recorder;
    if (is_recorded) recorder.emplace(budget);
    cuota::stream const s;
    for (auto _ : state) {
        void* const p = pool.allocate(s, size, 256, "x");
        benchmark::DoNotOptimize(p);
        pool.deallocate(s, p, size);
    }
}
void pool_pair_alone(benchmark::State& state) { pool_pair(state, false); }
void pool_pair_recorded(benchmark::State& state) { pool_pair(state, true); }
BENCHMARK(pool_pair_alone)->Arg(512)->Arg(1 << 20);
BENCHMARK(pool_pair_recorded)->Arg(512)->Arg(1 << 20);

// ---- 100,000 live blocks with 100 call sites and 20 tags: the summary of the totals, and a snapshot that lists each block.

class many_blocks {
public:
    many_blocks() {
        using namespace cuota::literals;
        std::vector<cuota::tag> names;
        for (int i = 0; i != 20; ++i) names.push_back(cuota::tag::named("tag " + std::to_string(i)));
        for (unsigned i = 0; i != 100'000; ++i)
            blocks_.push_back(pool_.allocate(stream_, size, 256, names[i % 20], {"train.cpp", i % 100 + 1}));
    }
    ~many_blocks() {
        for (void* const p : blocks_) pool_.deallocate(stream_, p, size);
    }
    [[nodiscard]] cuota::budget const& budget() const noexcept { return budget_; }

private:
    static constexpr std::size_t size = 1000;
    cuota::budget const budget_{"bench", std::size_t{1} << 30};
    cuota::scoped_pool pool_{budget_};
    cuota::stream const stream_;
    std::vector<void*> blocks_;
};

void summary_of_100k_blocks(benchmark::State& state) {
    many_blocks const all;
    for (auto _ : state)
        benchmark::DoNotOptimize(
            cuota::summary(cuota::snapshot_of(all.budget(), cuota::snapshot_detail::totals)));
}
void snapshot_of_100k_blocks(benchmark::State& state) {
    many_blocks const all;
    for (auto _ : state) benchmark::DoNotOptimize(cuota::snapshot_of(all.budget()).pools.data());
}
BENCHMARK(summary_of_100k_blocks)->Unit(benchmark::kMillisecond);
BENCHMARK(snapshot_of_100k_blocks)->Unit(benchmark::kMillisecond);

// ---- Reading a full recorder.

void read_of_65536_events(benchmark::State& state) {
    cuota::recorder const recorder{{.capacity = events}};
    cuota::detail::recorder_state& to = *cuota::detail::recorder_access::state(recorder);
    for (unsigned i = 0; i != events; ++i)
        to.put(cuota::event_kind::allocated, 0, "weights", {"train.cpp", i % 100 + 1}, i, bytes, bytes, 7);
    for (auto _ : state) benchmark::DoNotOptimize(recorder.read().events.data());
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(events));
}
BENCHMARK(read_of_65536_events)->Unit(benchmark::kMillisecond);

}  // namespace
