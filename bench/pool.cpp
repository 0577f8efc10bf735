// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A warm pool's pair of allocation and deallocation on one stream, with few and with many holes, and its tail latency. Compared with
/// malloc, a mutex with a best-fit list as in the peers, the runtime's stream-ordered pool, and CUB's caching allocator, all in one
/// process. On the simulated runtime, the driver's share of the last two is the simulator's: CUB records an event at each deallocation.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include <dlfcn.h>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/resource/async_memory.hpp>

#include "addresses.hpp"
#include "cub_caching.hpp"
#include "kept_memory.hpp"
#include "listed_pool.hpp"
#include "pool_loads.hpp"

namespace {

using namespace cuota::literals;

using bench::hole;
using bench::holed;
using bench::pair;
using bench::pair_by_threads;
using bench::random_steps_of;

// The peers, with the interface of pool_loads.hpp.

class our_pool {
public:
    explicit our_pool(std::size_t bytes) : pool_{budget_, {.initial_size = bytes}} {}
    void* allocate(cuota::stream_ref s, std::size_t bytes) { return pool_.allocate(s, bytes); }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes) noexcept {
        pool_.deallocate(s, p, bytes);
    }
    cuota::scoped_pool& pool() { return pool_; }

private:
    cuota::budget budget_{"bench", cuota::unlimited};
    cuota::scoped_pool pool_;
};

class best_fit_list {
public:
    explicit best_fit_list(std::size_t bytes) : list_{1, bytes} {}
    void* allocate(cuota::stream_ref, std::size_t bytes) {
        return reinterpret_cast<void*>(base + list_.allocate(0, cuota::round_up(bytes, 256)).value());
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes) {
        list_.deallocate(0, reinterpret_cast<std::uintptr_t>(p) - base, cuota::round_up(bytes, 256));
    }

private:
    static constexpr std::uintptr_t base = std::uintptr_t{1} << 40;
    bench::listed_pool list_;
};

class runtime_async {
public:
    explicit runtime_async(std::size_t) {}
    void* allocate(cuota::stream_ref s, std::size_t bytes) { return memory_.allocate(s, bytes); }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes) noexcept {
        memory_.deallocate(s, p, bytes);
    }

private:
    bench::kept_memory kept_;
    cuota::async_memory memory_;
};

#ifdef CUOTA_BENCH_CUB
class cub_caching : public bench::cub_caching {
public:
    explicit cub_caching(std::size_t) : bench::cub_caching{2, 8, 20} {}  // 256 bytes to 1 MiB
};
#else
struct cub_caching {};
#endif

using holed_pool = holed<our_pool>;

#define CUOTA_HOLES ->ArgNames({"holes", "bytes"})->ArgsProduct({{10, 1'000, 10'000, 50'000}, {512, 4096}})
BENCHMARK_TEMPLATE(pair, our_pool)
CUOTA_HOLES;
BENCHMARK_TEMPLATE(pair, best_fit_list) CUOTA_HOLES;
BENCHMARK_TEMPLATE(pair, runtime_async) CUOTA_HOLES;
BENCHMARK_TEMPLATE(pair, cub_caching) CUOTA_HOLES;
// Larger than the blocks of thread caches: takes the lock and searches the index.
BENCHMARK_TEMPLATE(pair, our_pool)->ArgNames({"holes", "bytes"})->ArgsProduct({{10, 50'000}, {131'072}});

#define CUOTA_THREADS                                                                                        \
    ->ArgName("bytes")->Arg(512)->Arg(4096)->Threads(1)->Threads(2)->Threads(16)->UseRealTime()
BENCHMARK_TEMPLATE(pair_by_threads, our_pool) CUOTA_THREADS;
BENCHMARK_TEMPLATE(pair_by_threads, best_fit_list) CUOTA_THREADS;
BENCHMARK_TEMPLATE(pair_by_threads, runtime_async) CUOTA_THREADS;
BENCHMARK_TEMPLATE(pair_by_threads, cub_caching) CUOTA_THREADS;

// ---- tail latency: each pair timed by itself ----

// Reads a clock that is common to all threads: the processor's time-stamp counter where it exists.
std::uint64_t ticks() {
#if defined(__x86_64__)
    unsigned aux = 0;
    return __rdtscp(&aux);
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Times 100,000 calls of pair(i) individually, repeatedly. `at_once`: all times of all runs, including interference by the machine.
// `by_pair`: the minimum over all runs of each call, which excludes it. The median cost of reading the clock twice is subtracted. Units:
// ns.
template <class Pair>
void report_tail(benchmark::State& state, Pair pair) {
    constexpr std::size_t pairs = 100'000;
    std::vector<std::uint64_t> least(pairs, std::numeric_limits<std::uint64_t>::max());
    std::vector<std::uint64_t> all;
    std::vector<std::uint64_t> clock(pairs);
    for (std::uint64_t& t : clock) {
        std::uint64_t const from = ticks();
        t = ticks() - from;
    }
    std::sort(clock.begin(), clock.end());
    auto const began = std::chrono::steady_clock::now();
    std::uint64_t const first = ticks();
    for (auto _ : state)
        for (std::size_t i = 0; i != pairs; ++i) {
            std::uint64_t const from = ticks();
            pair(i);
            std::uint64_t const taken = ticks() - from;
            all.push_back(taken);
            least[i] = std::min(least[i], taken);
        }
    double const ticks_per_ns =
        static_cast<double>(ticks() - first) /
        static_cast<double>((std::chrono::steady_clock::now() - began) / std::chrono::nanoseconds{1});

    auto const tell = [&](char const* what, std::vector<std::uint64_t>& times) {
        std::sort(times.begin(), times.end());
        auto const at = [&](double share) {
            auto const i = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
            return (static_cast<double>(times[i]) - static_cast<double>(clock[pairs / 2])) / ticks_per_ns;
        };
        state.counters[std::string{what} + "_median"] = at(0.5);
        state.counters[std::string{what} + "_p99"] = at(0.99);
        state.counters[std::string{what} + "_p9999"] = at(0.9999);
        state.counters[std::string{what} + "_ratio"] = at(0.9999) / at(0.5);
    };
    tell("at_once", all);
    tell("by_pair", least);
}
#define CUOTA_TAIL ->Iterations(15)->Unit(benchmark::kMillisecond)

// bytes 0: random sizes up to 64 KiB.
void tail_of_a_pair(benchmark::State& state) {
    holed_pool all{50'000};
    auto const bytes = static_cast<std::size_t>(state.range(0));
    std::mt19937_64 random{1};
    std::vector<std::size_t> sizes(100'000);
    for (std::size_t& s : sizes) s = bytes != 0 ? bytes : 1 + random() % 64_KiB;
    report_tail(state, [&](std::size_t i) {
        void* const p = all.peer().allocate(all.stream(), sizes[i]);
        all.peer().deallocate(all.stream(), p, sizes[i]);
    });
}
BENCHMARK(tail_of_a_pair)->ArgName("bytes")->Arg(512)->Arg(4096)->Arg(131'072)->Arg(0) CUOTA_TAIL;

// Latency that the machine adds to any operation: four lock cycles, the maximum that a pair takes.
void tail_of_a_lock(benchmark::State& state) {
    std::mutex guard;
    report_tail(state, [&](std::size_t) {
        for (int i = 0; i != 4; ++i) std::scoped_lock const lock{guard};
    });
}
BENCHMARK(tail_of_a_lock) CUOTA_TAIL;

void tail_of_malloc(benchmark::State& state) {
    report_tail(state, [](std::size_t) {
        void* p = std::malloc(4096);
        benchmark::DoNotOptimize(p);
        std::free(p);
    });
}
BENCHMARK(tail_of_malloc) CUOTA_TAIL;

// Allocates `n` blocks of up to 1 MiB, all live at once, then frees them in another order. Make(bytes) constructs the peer.
template <class Make>
void random_blocks(benchmark::State& state, Make make) {
    auto const n = static_cast<std::size_t>(state.range(0));
    std::mt19937_64 random{1};
    struct request {
        std::size_t bytes;
        void* at;
    };
    std::vector<request> wanted(n);
    std::size_t sum = 0;
    for (request& r : wanted) sum += r.bytes = 1 + random() % 1_MiB;
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    cuota::stream const stream;
    for (auto _ : state) {
        auto peer = make(cuota::round_up(sum + n * 256, 2_MiB));
        auto& pool = *peer;
        // Half of the blocks are freed early, between others, which creates holes.
        for (std::size_t i = 0; i != n; ++i) {
            wanted[i].at = pool.allocate(stream, wanted[i].bytes);
            if (i % 2 == 0) continue;
            pool.deallocate(stream, wanted[i - 1].at, wanted[i - 1].bytes);
            wanted[i - 1].at = pool.allocate(stream, wanted[i - 1].bytes);
        }
        for (std::size_t const i : order) pool.deallocate(stream, wanted[i].at, wanted[i].bytes);
    }
}
void random_live_blocks(benchmark::State& state) {
    random_blocks(state, [](std::size_t bytes) {
        return std::make_unique<cuota::scoped_pool>(cuota::budget{"bench", cuota::unlimited},
                                                    bench::addresses{},
                                                    cuota::pool_options{.initial_size = bytes});
    });
}
void random_live_blocks_on_a_list(benchmark::State& state) {
    random_blocks(state, [](std::size_t bytes) { return std::make_unique<best_fit_list>(bytes); });
}
BENCHMARK(random_live_blocks)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_live_blocks_on_a_list)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_live_blocks_on_a_list)->Arg(100'000)->Iterations(1)->Unit(benchmark::kMillisecond);

constexpr std::size_t for_random_steps = 24'000_MiB;
void random_allocations(benchmark::State& state) {
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, bench::addresses{},
                            cuota::pool_options{.initial_size = for_random_steps}};
    random_steps_of(state, pool);
}
void random_allocations_on_a_list(benchmark::State& state) {
    best_fit_list list{for_random_steps};
    random_steps_of(state, list);
}
BENCHMARK(random_allocations)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_allocations_on_a_list)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_allocations_on_a_list)->Arg(100'000)->Iterations(1)->Unit(benchmark::kMillisecond);

void device_buffer_on_a_warm_pool(benchmark::State& state) {
    holed_pool all{10};
    for (auto _ : state) {
        cuota::device_buffer<float> buffer{1024, all.stream(), all.peer().pool(), cuota::no_init};
        benchmark::DoNotOptimize(buffer.size());
    }
}
BENCHMARK(device_buffer_on_a_warm_pool);

void home_stream_lease(benchmark::State& state) {
    holed_pool all{10};
    cuota::device_buffer<float> buffer{1024, all.stream(), all.peer().pool(), cuota::no_init};
    for (auto _ : state) benchmark::DoNotOptimize(buffer.read(all.stream()).size());
}
BENCHMARK(home_stream_lease);

void malloc_pair(benchmark::State& state) {
    auto const bytes = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        void* p = std::malloc(bytes);
        benchmark::DoNotOptimize(p);
        std::free(p);
    }
}
BENCHMARK(malloc_pair)->ArgName("bytes")->Arg(512)->Arg(4096);

// Loaded by dlopen: if linked, it would replace malloc in the whole program.
void mimalloc_pair(benchmark::State& state) {
    static void* const library = ::dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    auto const allocate =
        library ? reinterpret_cast<void* (*)(std::size_t)>(::dlsym(library, "mi_malloc")) : nullptr;
    auto const release = library ? reinterpret_cast<void (*)(void*)>(::dlsym(library, "mi_free")) : nullptr;
    if (!allocate || !release) return state.SkipWithError("not here: no libmimalloc.so.2");
    auto const bytes = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        void* p = allocate(bytes);
        benchmark::DoNotOptimize(p);
        release(p);
    }
}
BENCHMARK(mimalloc_pair)->ArgName("bytes")->Arg(512)->Arg(4096);

}  // namespace
