// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// RMM's pool, arena and limit compared with cuota's in one process: the loads of pool.cpp, fragmentation.cpp and guard.cpp. Requires
/// -DCUOTA_BENCH_RMM=ON. On the simulated runtime RMM is compiled from its sources and uses the simulator's events.
#include <rmm/cuda_stream_view.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/error.hpp>
#include <rmm/logger.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

#include "addresses.hpp"
#include "false_refusals.hpp"
#include "pool_loads.hpp"
#include "shared_by_streams.hpp"

namespace {

using namespace cuota::literals;

// Otherwise RMM logs a line for each refusal.
[[maybe_unused]] bool const is_quiet =
    (rmm::default_logger().set_level(rapids_logger::level_enum::off), true);

[[nodiscard]] cuda::stream_ref theirs(cuota::stream_ref s) { return cuda::stream_ref{s.get()}; }

/// Addresses without memory behind them, as an RMM resource; copies share their state.
class addresses_for_rmm {
public:
    void* allocate(cuda::stream_ref, std::size_t bytes, std::size_t) {
        return all_->allocate_sync(bytes, 256);
    }
    void deallocate(cuda::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t bytes, std::size_t) { return all_->allocate_sync(bytes, 256); }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    friend bool operator==(addresses_for_rmm const& a, addresses_for_rmm const& b) noexcept {
        return a.all_ == b.all_;
    }
    friend void get_property(addresses_for_rmm const&, cuda::mr::device_accessible) noexcept {}

private:
    std::shared_ptr<bench::addresses> all_ = std::make_shared<bench::addresses>();
};
static_assert(cuda::mr::resource_with<addresses_for_rmm, cuda::mr::device_accessible>);

// ---- The peers, with the interface of pool_loads.hpp: each is limited to one segment of the given size.

class our_pool {
public:
    explicit our_pool(std::size_t bytes)
        : pool_{cuota::budget{"bench", cuota::round_up(bytes, bench::addresses::granularity())},
                bench::addresses{},
                {.initial_size = bytes}} {}
    void* allocate(cuota::stream_ref s, std::size_t bytes) { return pool_.allocate(s, bytes); }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes) noexcept {
        pool_.deallocate(s, p, bytes);
    }
    [[nodiscard]] cuota::scoped_pool& resource() { return pool_; }

private:
    cuota::scoped_pool pool_;
};

template <class Resource>
class rmm_resource {
public:
    explicit rmm_resource(Resource resource) : resource_{std::move(resource)} {}
    void* allocate(cuota::stream_ref s, std::size_t bytes) {
        return resource_.allocate(theirs(s), cuota::round_up(bytes, 256), 256);
    }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes) noexcept {
        resource_.deallocate(theirs(s), p, cuota::round_up(bytes, 256), 256);
    }
    [[nodiscard]] Resource& resource() { return resource_; }

private:
    Resource resource_;
};
struct rmm_pool : rmm_resource<rmm::mr::pool_memory_resource> {
    explicit rmm_pool(std::size_t bytes)
        : rmm_resource{rmm::mr::pool_memory_resource{addresses_for_rmm{}, bytes, bytes}} {}
};
struct rmm_arena : rmm_resource<rmm::mr::arena_memory_resource> {
    explicit rmm_arena(std::size_t bytes)
        : rmm_resource{rmm::mr::arena_memory_resource{addresses_for_rmm{}, bytes}} {}
};

// ---- A pair, and pairs of two threads.

using bench::pair;
using bench::pair_by_threads;
#define CUOTA_HOLES ->ArgNames({"holes", "bytes"})->ArgsProduct({{10, 1'000, 50'000}, {512, 4096}})
BENCHMARK_TEMPLATE(pair, our_pool) CUOTA_HOLES;
BENCHMARK_TEMPLATE(pair, rmm_pool) CUOTA_HOLES;
BENCHMARK_TEMPLATE(pair, rmm_arena) CUOTA_HOLES;
#define CUOTA_THREADS ->ArgName("bytes")->Arg(512)->Threads(1)->Threads(2)->UseRealTime()
BENCHMARK_TEMPLATE(pair_by_threads, our_pool) CUOTA_THREADS;
BENCHMARK_TEMPLATE(pair_by_threads, rmm_pool) CUOTA_THREADS;
BENCHMARK_TEMPLATE(pair_by_threads, rmm_arena) CUOTA_THREADS;

// ---- RMM's random_allocations.

template <class Peer>
void random_allocations(benchmark::State& state) {
    Peer peer{24'000_MiB};
    bench::random_steps_of(state, peer);
}
BENCHMARK_TEMPLATE(random_allocations, our_pool)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(random_allocations, rmm_pool)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(random_allocations, rmm_pool)->Arg(100'000)->Iterations(1)->Unit(benchmark::kMillisecond);

// ---- Streams that share one pool of 8 GiB.

template <class Peer>
void shared_by_streams(benchmark::State& state) {
    auto const streams = static_cast<std::size_t>(state.range(0));
    double const share = static_cast<double>(state.range(1)) / 100;
    for (auto _ : state) {
        std::vector<cuota::stream> lanes(streams);
        Peer pool{bench::cap};
        bench::busy const work{lanes};
        std::size_t const refusals = bench::run<void*>(
            streams, share, static_cast<unsigned>(state.range(2)),
            [&](bench::request r) -> std::optional<void*> {
                try {
                    return pool.allocate(lanes[r.stream], r.bytes);
                } catch (std::bad_alloc const&) { return std::nullopt; }
            },
            [&](bench::request r, void* at) { pool.deallocate(lanes[r.stream], at, r.bytes); });
        state.counters["refusals"] = static_cast<double>(refusals);
    }
}
#define CUOTA_TABLE                                                                                          \
    ->ArgNames({"streams", "live%", "seed"})                                                                 \
        ->ArgsProduct({{1, 16}, {60, 70}, {1, 2, 3}})                                                        \
        ->Iterations(1)                                                                                      \
        ->Unit(benchmark::kMillisecond)
BENCHMARK_TEMPLATE(shared_by_streams, our_pool) CUOTA_TABLE;
BENCHMARK_TEMPLATE(shared_by_streams, rmm_pool) CUOTA_TABLE;

// ---- A limit.

class budget {
public:
    explicit budget(std::size_t limit) : account_{"bench", limit} {}
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept { return account_.try_charge(bytes); }
    void refund(std::size_t bytes) noexcept { account_.refund(bytes); }

private:
    cuota::budget account_;
};

/// Its upstream returns a fixed address without memory behind it.
class rmm_limit {
public:
    explicit rmm_limit(std::size_t limit) : limit_{nothing{}, limit} {}
    [[nodiscard]] bool try_charge(std::size_t bytes) {
        try {
            (void)limit_.allocate(cuda::stream_ref{cudaStream_t{}}, bytes, 256);
            return true;
        } catch (rmm::bad_alloc const&) { return false; }
    }
    void refund(std::size_t bytes) noexcept {
        limit_.deallocate(cuda::stream_ref{cudaStream_t{}}, address(), bytes, 256);
    }

private:
    static void* address() { return reinterpret_cast<void*>(std::uintptr_t{1} << 40); }
    struct nothing {
        void* allocate(cuda::stream_ref, std::size_t, std::size_t) { return address(); }
        void deallocate(cuda::stream_ref, void*, std::size_t, std::size_t) noexcept {}
        void* allocate_sync(std::size_t, std::size_t) { return address(); }
        void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
        friend bool operator==(nothing, nothing) noexcept { return true; }
        friend void get_property(nothing, cuda::mr::device_accessible) noexcept {}
    };
    rmm::mr::limiting_resource_adaptor limit_;
};
using bench::refusals_of_what_fits;
void by_threads(benchmark::internal::Benchmark* b) {
    bench::by_threads(b);
    b->Arg(8);
}
BENCHMARK(refusals_of_what_fits<budget>)->Apply(by_threads);
BENCHMARK(refusals_of_what_fits<rmm_limit>)->Apply(by_threads);

// ---- An owner on a warm pool.

void our_buffer(benchmark::State& state) {
    cuota::stream const stream;
    our_pool pool{64_MiB};
    for (auto _ : state) {
        cuota::device_buffer<float> some{1024, stream, pool.resource(), cuota::no_init};
        benchmark::DoNotOptimize(some.size());
    }
}
BENCHMARK(our_buffer);

void rmm_buffer(benchmark::State& state) {
    cuota::stream const stream;
    rmm_pool pool{64_MiB};
    for (auto _ : state) {
        rmm::device_buffer some{4096, theirs(stream), pool.resource()};
        benchmark::DoNotOptimize(some.size());
    }
}
BENCHMARK(rmm_buffer);

}  // namespace
