// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Overhead of resource adaptors: a pair of allocation and deallocation on an upstream that costs almost nothing, bare and under each
/// adaptor, by live blocks and by threads. For comparison only: the lock and map that programs commonly write.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/tracked.hpp>

namespace {

constexpr std::size_t bytes = 256;

// Addresses without memory behind them: the most recently freed one, or a new one. Each thread has its own.
struct ready_addresses {
    void* allocate(cuota::stream_ref, std::size_t n, std::size_t a) { return allocate_sync(n, a); }
    void deallocate(cuota::stream_ref, void* p, std::size_t n, std::size_t a) noexcept {
        deallocate_sync(p, n, a);
    }
    void* allocate_sync(std::size_t, std::size_t) {
        shelf& own = mine();
        if (own.ready.empty()) return reinterpret_cast<void*>(own.next += bytes);
        void* const p = own.ready.back();
        own.ready.pop_back();
        return p;
    }
    void deallocate_sync(void* p, std::size_t, std::size_t) noexcept { mine().ready.push_back(p); }
    [[nodiscard]] std::size_t granularity() const { return 256; }
    [[nodiscard]] cuota::memory_kind kind() const { return cuota::memory_kind::device; }
    bool operator==(ready_addresses const&) const = default;

private:
    struct shelf {
        std::uintptr_t next = threads.fetch_add(1) << 40;
        std::vector<void*> ready;
    };
    static shelf& mine() {
        static thread_local shelf own;
        return own;
    }
    inline static std::atomic<std::uintptr_t> threads = 1;
};

// A lock and a map, as trackers are commonly written. Not part of the library.
class locked_map {
public:
    void* allocate(cuota::stream_ref s, std::size_t n, std::size_t a) {
        void* const p = upstream_.allocate(s, n, a);
        std::scoped_lock const lock{guard_};
        live_.emplace(p, n);
        return p;
    }
    void deallocate(cuota::stream_ref s, void* p, std::size_t n, std::size_t a) noexcept {
        {
            std::scoped_lock const lock{guard_};
            live_.erase(p);
        }
        upstream_.deallocate(s, p, n, a);
    }

private:
    ready_addresses upstream_;
    std::mutex guard_;
    std::map<void*, std::size_t> live_;
};

using budgeted = cuota::budgeted<ready_addresses>;
using measured = cuota::measured<ready_addresses>;
using tracked = cuota::tracked<ready_addresses>;

template <class R>
R& the() {
    static R memory;
    return memory;
}
template <>
budgeted& the<budgeted>() {
    static budgeted memory{cuota::budget{"all", cuota::unlimited}, ready_addresses{}};
    return memory;
}

cuota::stream const& own_stream() {
    static thread_local cuota::stream const s;
    return s;
}

// A pair, with range(0) live blocks per thread.
template <class R>
void pair(benchmark::State& state) {
    R& memory = the<R>();
    cuota::stream const& s = own_stream();
    std::vector<void*> others(static_cast<std::size_t>(state.range(0)));
    for (void*& p : others) p = memory.allocate(s, bytes, 256);
    for (auto _ : state) {
        void* const p = memory.allocate(s, bytes, 256);
        benchmark::DoNotOptimize(p);
        memory.deallocate(s, p, bytes, 256);
    }
    for (void* const p : others) memory.deallocate(s, p, bytes, 256);
}
#define PAIR(R) BENCHMARK(pair<R>)->ArgName("live")->Arg(0)->Arg(1000)->Arg(100'000)->ThreadRange(1, 2)
PAIR(ready_addresses);
PAIR(tracked);
PAIR(measured);
PAIR(budgeted);
PAIR(locked_map);

// Each allocation frees the oldest of 1000 blocks.
template <class R>
void first_in_first_out(benchmark::State& state) {
    R& memory = the<R>();
    cuota::stream const& s = own_stream();
    std::array<void*, 1000> ring{};
    for (void*& p : ring) p = memory.allocate(s, bytes, 256);
    std::size_t at = 0;
    for (auto _ : state) {
        memory.deallocate(s, ring[at], bytes, 256);
        ring[at] = memory.allocate(s, bytes, 256);
        at = (at + 1) % ring.size();
    }
    for (void* const p : ring) memory.deallocate(s, p, bytes, 256);
}
BENCHMARK(first_in_first_out<ready_addresses>);
BENCHMARK(first_in_first_out<tracked>);
BENCHMARK(first_in_first_out<locked_map>);

// Meant for the simulated runtime, whose copies and fills run on a host thread: the cost of guard bytes (fences) there.
template <class R>
void device_pair(benchmark::State& state) {
    cuota::scoped_pool pool{cuota::budget{"pool", std::size_t{1} << 30}};
    R memory{pool.resource()};
    cuota::stream const& s = own_stream();
    for (auto _ : state) {
        void* const p = memory.allocate(s, bytes, 256);
        memory.deallocate(s, p, bytes, 256);
    }
    s.synchronize();
}
BENCHMARK(device_pair<cuota::pool_resource>);
BENCHMARK(device_pair<cuota::tracked<cuota::pool_resource>>);
BENCHMARK(device_pair<cuota::guarded<cuota::pool_resource>>);

void verify(benchmark::State& state) {
    cuota::scoped_pool pool{cuota::budget{"pool", std::size_t{1} << 30}};
    cuota::guarded memory{pool.resource()};
    cuota::stream const& s = own_stream();
    std::vector<void*> live(static_cast<std::size_t>(state.range(0)));
    for (void*& p : live) p = memory.allocate(s, bytes, 256);
    for (auto _ : state) memory.verify(s);
    for (void* const p : live) memory.deallocate(s, p, bytes, 256);
}
BENCHMARK(verify)->ArgName("live")->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

void expect_no_growth(benchmark::State& state) {
    tracked memory;
    cuota::stream const& s = own_stream();
    std::vector<void*> live(static_cast<std::size_t>(state.range(0)));
    for (void*& p : live) p = memory.allocate(s, bytes, 256, {"weights", {}});
    for (auto _ : state) auto const check = memory.expect_no_growth("step");
    for (void* const p : live) memory.deallocate(s, p, bytes, 256);
}
BENCHMARK(expect_no_growth)->ArgName("live")->Arg(0)->Arg(1000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

}  // namespace
