// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a warm pool costs: a pair of allocation and release on one stream, with few and with many holes about; malloc
/// and the runtime's own stream-ordered pool beside it, in the same process.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

#include "addresses.hpp"

namespace {

using namespace cuota::literals;

// A pool with that many free blocks of 512 bytes, each between two live ones.
class holed_pool {
public:
    explicit holed_pool(std::size_t holes) : pool_{budget_, {.initial = (2 * holes + 2) * 512 + 16_MiB}} {
        std::vector<void*> between;
        for (std::size_t i = 0; i != 2 * holes; ++i) {
            void* const p = pool_.allocate(stream_, 512);
            (i % 2 == 0 ? between : live_).push_back(p);
        }
        for (void* p : between) pool_.deallocate(stream_, p, 512);
    }
    ~holed_pool() {
        for (void* p : live_) pool_.deallocate(stream_, p, 512);
    }
    cuota::scoped_pool& pool() { return pool_; }
    cuota::stream& stream() { return stream_; }

private:
    cuota::budget budget_{"bench", cuota::unlimited};
    cuota::stream stream_;
    cuota::scoped_pool pool_;
    std::vector<void*> live_;
};

void pool_pair(benchmark::State& state) {
    holed_pool holed{static_cast<std::size_t>(state.range(0))};
    auto const bytes = static_cast<std::size_t>(state.range(1));
    for (auto _ : state) {
        void* const p = holed.pool().allocate(holed.stream(), bytes);
        holed.pool().deallocate(holed.stream(), p, bytes);
    }
}
BENCHMARK(pool_pair)->ArgNames({"holes", "bytes"})->ArgsProduct({{10, 1'000, 10'000, 50'000}, {512, 4096}});

// Every thread its own stream, all of them one pool. Items: pairs of all threads together.
void pool_pair_by_threads(benchmark::State& state) {
    static std::optional<holed_pool> holed;
    if (state.thread_index() == 0) holed.emplace(10);
    cuota::stream const own;
    auto const bytes = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        void* const p = holed->pool().allocate(own, bytes);
        holed->pool().deallocate(own, p, bytes);
    }
    state.SetItemsProcessed(state.iterations());
    if (state.thread_index() == 0) holed.reset();
}
BENCHMARK(pool_pair_by_threads)->ArgName("bytes")->Arg(512)->Arg(4096)->Threads(1)->Threads(2)->UseRealTime();

// As many blocks of up to 1 MiB as said, all alive at once, then given back in another order.
void random_live_blocks(benchmark::State& state) {
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
        cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited},
                                bench::addresses{},
                                {.initial = cuota::round_up(sum + n * 256, 2_MiB)}};
        // Half of them come and go between others, so that there are holes to find.
        for (std::size_t i = 0; i != n; ++i) {
            wanted[i].at = pool.allocate(stream, wanted[i].bytes);
            if (i % 2 == 0) continue;
            pool.deallocate(stream, wanted[i - 1].at, wanted[i - 1].bytes);
            wanted[i - 1].at = pool.allocate(stream, wanted[i - 1].bytes);
        }
        for (std::size_t const i : order) pool.deallocate(stream, wanted[i].at, wanted[i].bytes);
    }
}
BENCHMARK(random_live_blocks)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void device_buffer_on_a_warm_pool(benchmark::State& state) {
    holed_pool holed{10};
    for (auto _ : state) {
        cuota::device_buffer<float> buffer{1024, holed.stream(), holed.pool(), cuota::no_init};
        benchmark::DoNotOptimize(buffer.size());
    }
}
BENCHMARK(device_buffer_on_a_warm_pool);

void home_stream_lease(benchmark::State& state) {
    holed_pool holed{10};
    cuota::device_buffer<float> buffer{1024, holed.stream(), holed.pool(), cuota::no_init};
    for (auto _ : state) benchmark::DoNotOptimize(buffer.read(holed.stream()).size());
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

void runtime_async_pair(benchmark::State& state) {
    cuota::stream stream;
    cuota::async_memory memory;
    for (auto _ : state) {
        void* const p = memory.allocate(stream, 4096);
        memory.deallocate(stream, p, 4096);
    }
}
BENCHMARK(runtime_async_pair);

}  // namespace
