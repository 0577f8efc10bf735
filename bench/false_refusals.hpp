// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Measures how often a limiter refuses requests that fit. A Limiter is constructed from a number of bytes and has try_charge(bytes) and
/// refund(bytes).
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

namespace bench {

// Runs work(0), work(1), ... concurrently on one thread each. Returns the seconds from the first start to the last end.
template <class Work>
double seconds_of(int threads, Work work) {
    using clock = std::chrono::steady_clock;
    std::barrier together{threads};
    std::vector<clock::time_point> starts(static_cast<std::size_t>(threads)), ends = starts;
    std::vector<std::thread> all;
    for (int t = 0; t != threads; ++t)
        all.emplace_back([&, t] {
            together.arrive_and_wait();
            starts[static_cast<std::size_t>(t)] = clock::now();
            work(t);
            ends[static_cast<std::size_t>(t)] = clock::now();
        });
    for (std::thread& t : all) t.join();
    auto const first = std::min_element(starts.begin(), starts.end());
    auto const last = std::max_element(ends.begin(), ends.end());
    return std::chrono::duration<double>(*last - *first).count();
}

// Half of the threads make 3,000,000 charges that always fit, while the other half request more than ever fits.
template <class Limiter>
void refusals_of_what_fits(benchmark::State& state) {
    constexpr int charges = 3'000'000;
    constexpr std::size_t bytes = 256;
    constexpr std::size_t limit = std::size_t{1} << 30;
    int const threads = static_cast<int>(state.range(0));
    int const fitting = (threads + 1) / 2;
    std::atomic<std::uint64_t> falsely = 0, rightly = 0;
    for (auto _ : state) {
        Limiter root{limit};
        std::atomic<int> at_work = fitting;
        seconds_of(threads, [&](int t) {
            if (t < fitting) {
                std::uint64_t refused = 0;
                for (int i = 0; i != charges / fitting; ++i)
                    if (root.try_charge(bytes)) root.refund(bytes);
                    else ++refused;
                falsely += refused;
                --at_work;
            } else {
                std::uint64_t refused = 0;
                while (at_work.load(std::memory_order_relaxed) != 0) refused += !root.try_charge(limit + 1);
                rightly += refused;
            }
        });
    }
    state.counters["false_refusals"] = static_cast<double>(falsely);
    state.counters["right_refusals"] = static_cast<double>(rightly);
    state.SetItemsProcessed(state.iterations() * charges);
}
inline void by_threads(benchmark::internal::Benchmark* b) {
    b->ArgName("threads")->DenseRange(2, 4)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);
}

}  // namespace bench
