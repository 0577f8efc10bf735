// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How much of a pool's memory can be used when several streams share it: 60,000 allocations of 64 KiB to 256 MiB,
/// log-uniform, each by one of some streams, in a pool of 8 GiB of which at most a given share is live; whatever goes to
/// make room is chosen at random. What does not fit although the bytes are there is a refusal. The streams are busy
/// throughout, so that each hand-over from one to another needs a wait.
///
/// Beside it the shape that peers have (listed_pool.hpp).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

#include "addresses.hpp"
#include "listed_pool.hpp"

namespace {

using namespace cuota::literals;

constexpr std::size_t cap = 8_GiB;
constexpr int allocations = 60'000;

struct request {
    std::size_t stream;
    std::size_t bytes;
};

// Calls take(request) -> optional<handle>, give(request, handle); returns the refusals.
template <class Handle, class Take, class Give>
std::size_t run(std::size_t streams, double live_share, unsigned seed, Take take, Give give) {
    struct live_block {
        request of;
        Handle at;
    };
    auto const most = static_cast<std::size_t>(live_share * static_cast<double>(cap));
    std::mt19937_64 random{seed};
    std::uniform_real_distribution<double> exponent{16.0, 28.0};
    std::vector<live_block> live;
    std::size_t bytes_live = 0;
    std::size_t refusals = 0;
    for (int i = 0; i != allocations; ++i) {
        request const wanted{random() % streams,
                             cuota::round_up(static_cast<std::size_t>(std::exp2(exponent(random))), 256)};
        while (bytes_live + wanted.bytes > most) {
            std::swap(live[random() % live.size()], live.back());
            give(live.back().of, live.back().at);
            bytes_live -= live.back().of.bytes;
            live.pop_back();
        }
        if (std::optional<Handle> const at = take(wanted)) {
            live.push_back({wanted, *at});
            bytes_live += wanted.bytes;
        } else {
            ++refusals;
        }
    }
    for (live_block const& b : live) give(b.of, b.at);
    return refusals;
}

// Work on some streams that does not end before this does. After it, all that is enqueued there has run.
class busy {
public:
    explicit busy(std::vector<cuota::stream> const& streams) : streams_{streams} {
        for (cuota::stream const& s : streams_)
            cuota::rt::check(cudaLaunchHostFunc(
                                 s.get(), [](void* end) { static_cast<std::latch*>(end)->wait(); }, &end_),
                             "cudaLaunchHostFunc");
    }
    ~busy() {
        end_.count_down();
        for (cuota::stream const& s : streams_) (void)cudaStreamSynchronize(s.get());
    }
    busy(busy const&) = delete;
    busy& operator=(busy const&) = delete;

private:
    std::vector<cuota::stream> const& streams_;
    std::latch end_{1};
};

void streams_on_one_pool(benchmark::State& state) {
    auto const streams = static_cast<std::size_t>(state.range(0));
    double const share = static_cast<double>(state.range(1)) / 100;
    for (auto _ : state) {
        cuota::budget const account{"bench", cap};
        cuota::scoped_pool pool{account, bench::addresses{}, {.initial = cap}};
        std::vector<cuota::stream> lanes(streams);
        std::size_t refusals = 0;
        {
            busy const work{lanes};
            refusals = run<void*>(
                streams, share, static_cast<unsigned>(state.range(2)),
                [&](request r) -> std::optional<void*> {
                    try {
                        return pool.allocate(lanes[r.stream], r.bytes);
                    } catch (cuota::out_of_memory const&) { return std::nullopt; }
                },
                [&](request r, void* at) { pool.deallocate(lanes[r.stream], at, r.bytes); });
        }
        state.counters["refusals"] = static_cast<double>(refusals);
        state.counters["waits"] = static_cast<double>(pool.stats().stream_waits);
    }
}
void streams_on_one_list_each(benchmark::State& state) {
    auto const streams = static_cast<std::size_t>(state.range(0));
    double const share = static_cast<double>(state.range(1)) / 100;
    for (auto _ : state) {
        bench::listed_pool pool{streams, cap};
        std::size_t const refusals = run<std::size_t>(
            streams, share, static_cast<unsigned>(state.range(2)),
            [&](request r) { return pool.allocate(r.stream, r.bytes); },
            [&](request r, std::size_t at) { pool.deallocate(r.stream, at, r.bytes); });
        state.counters["refusals"] = static_cast<double>(refusals);
        state.counters["waits"] = static_cast<double>(pool.waits());
    }
}
#define CUOTA_TABLE                                                                                          \
    ->ArgNames({"streams", "live%", "seed"})                                                                 \
        ->ArgsProduct({{1, 2, 4, 16}, {50, 60, 70}, {1, 2, 3}})                                              \
        ->Iterations(1)                                                                                      \
        ->Unit(benchmark::kMillisecond)
BENCHMARK(streams_on_one_pool) CUOTA_TABLE;
BENCHMARK(streams_on_one_list_each) CUOTA_TABLE;

}  // namespace
