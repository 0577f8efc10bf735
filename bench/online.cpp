// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reserved memory of a pool relative to its live memory, without knowledge of future requests: twenty training steps with blocks of the
/// same sizes or, as with sequences of varying lengths, of different ones. Compared with CUB's caching allocator with bins that double up
/// to 1 GiB. `ratio` = peak of reserved bytes / peak of live bytes. Neither touches its memory.
#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

#include "cub_caching.hpp"
#include "training_step.hpp"

namespace {

constexpr std::size_t blocks_in_a_step = 4'000;
constexpr std::size_t longest = 64;  // a step of this length takes a few GiB
constexpr int steps = 20;

class our_pool {
public:
    void* allocate(cuota::stream_ref s, std::size_t bytes) { return pool_.allocate(s, bytes); }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes) { pool_.deallocate(s, p, bytes); }
    [[nodiscard]] std::size_t taken() const { return account_.held(); }

private:
    cuota::budget account_{"bench", cuota::unlimited};
    cuota::scoped_pool pool_{account_, cuota::dry_run_memory{}};
};

#ifdef CUOTA_BENCH_CUB
struct cub_caching : bench::cub_caching {
    cub_caching() : bench::cub_caching{2, 9, 30} {}  // 512 bytes to 1 GiB
};
#endif

template <class Peer>
class program {
public:
    /// Runs one step and records the peak of the bytes reserved for it.
    void run(std::vector<cuota::lifetime> const& blocks) {
        std::vector<void*> at(blocks.size());
        for (auto const& edge : cuota::detail::sorted_edges(blocks)) {
            std::size_t const bytes = blocks[edge.row].size;
            if (edge.begins) {
                at[edge.row] = peer_.allocate(stream_, bytes);
                live_ += bytes;
                most_live_ = std::max(most_live_, live_);
                most_taken_ = std::max(most_taken_, peer_.taken());
            } else {
                peer_.deallocate(stream_, at[edge.row], bytes);
                live_ -= bytes;
            }
        }
    }
    [[nodiscard]] double ratio() const {
        return static_cast<double>(most_taken_) / static_cast<double>(most_live_);
    }

private:
    cuota::stream stream_;
    Peer peer_;
    std::size_t live_ = 0, most_live_ = 0, most_taken_ = 0;
};

template <class Peer>
void steps_of_one_size(benchmark::State& state) {
    auto const step = bench::training_step(blocks_in_a_step, longest);
    for (auto _ : state) {
        program<Peer> p;
        for (int i = 0; i != steps; ++i) p.run(step);
        state.counters["ratio"] = p.ratio();
    }
}

// Lengths vary from a quarter of the longest up to the longest.
template <class Peer>
void steps_of_many_lengths(benchmark::State& state) {
    std::mt19937 random{3};
    std::vector<std::vector<cuota::lifetime>> all;
    for (int i = 0; i != steps; ++i)
        all.push_back(bench::training_step(blocks_in_a_step, longest / 4 + random() % (3 * longest / 4 + 1)));
    for (auto _ : state) {
        program<Peer> p;
        for (auto const& step : all) p.run(step);
        state.counters["ratio"] = p.ratio();
    }
}

BENCHMARK_TEMPLATE(steps_of_one_size, our_pool)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(steps_of_many_lengths, our_pool)->Iterations(1)->Unit(benchmark::kMillisecond);
#ifdef CUOTA_BENCH_CUB
BENCHMARK_TEMPLATE(steps_of_one_size, cub_caching)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(steps_of_many_lengths, cub_caching)->Iterations(1)->Unit(benchmark::kMillisecond);
#endif

}  // namespace
