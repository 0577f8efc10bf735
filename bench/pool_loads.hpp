// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Loads for pools of any library. A Peer owns one segment or its equivalent and is constructed from a number of bytes: allocate(stream,
/// bytes), deallocate(stream, p, bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/stream.hpp>

namespace bench {

using namespace cuota::literals;

constexpr std::size_t hole = 512;

// A peer with `holes` free blocks of 512 bytes, each between two live ones.
template <class Peer>
class holed {
public:
    explicit holed(std::size_t holes) : peer_{(2 * holes + 2) * hole + 16_MiB} {
        std::vector<void*> between;
        for (std::size_t i = 0; i != 2 * holes; ++i)
            (i % 2 == 0 ? between : live_).push_back(peer_.allocate(stream_, hole));
        // In reverse order, so that a list in address order inserts at its front.
        for (; !between.empty(); between.pop_back()) peer_.deallocate(stream_, between.back(), hole);
    }
    holed(holed const&) = delete;
    holed& operator=(holed const&) = delete;
    ~holed() {
        for (void* p : live_) peer_.deallocate(stream_, p, hole);
    }
    Peer& peer() { return peer_; }
    cuota::stream& stream() { return stream_; }

private:
    cuota::stream stream_;
    Peer peer_;
    std::vector<void*> live_;
};
template <class Peer>
constexpr bool is_here = requires {
    Peer{std::size_t{0}};
};

template <class Peer>
void pair(benchmark::State& state) {
    if constexpr (!is_here<Peer>) {
        state.SkipWithError("not here: no CCCL beside this CUDA toolkit");
    } else {
        holed<Peer> all{static_cast<std::size_t>(state.range(0))};
        auto const bytes = static_cast<std::size_t>(state.range(1));
        for (auto _ : state) {
            void* const p = all.peer().allocate(all.stream(), bytes);
            benchmark::DoNotOptimize(p);
            all.peer().deallocate(all.stream(), p, bytes);
        }
    }
}
// Each thread has its own stream; all use one pool. Items: pairs of all threads together.
template <class Peer>
void pair_by_threads(benchmark::State& state) {
    if constexpr (!is_here<Peer>) {
        state.SkipWithError("not here: no CCCL beside this CUDA toolkit");
    } else {
        static std::optional<holed<Peer>> all;
        if (state.thread_index() == 0) all.emplace(std::size_t{10});
        cuota::stream const own;
        auto const bytes = static_cast<std::size_t>(state.range(0));
        for (auto _ : state) {
            void* const p = all->peer().allocate(own, bytes);
            benchmark::DoNotOptimize(p);
            all->peer().deallocate(own, p, bytes);
        }
        state.SetItemsProcessed(state.iterations());
        if (state.thread_index() == 0) all.reset();
    }
}
// The load of RMM's random_allocations, of 2 n steps. While fewer than n blocks have been allocated and less than 16,000 MiB are live, a
// step allocates up to 1 MiB with a probability of 73 %; otherwise it frees a random live block, so that all are freed in the end. Steps
// are generated in advance, so that no random numbers are timed; the pool persists, as in RMM.
struct step {
    std::uint32_t bytes;
    std::uint32_t given;  // index among the live blocks; `none` for an allocation
    static constexpr std::uint32_t none = ~std::uint32_t{0};
};
inline std::vector<step> random_steps(std::size_t n) {
    constexpr std::size_t most = 16'000_MiB;
    std::mt19937_64 random{1};
    auto const up_to = [&](std::size_t limit) { return static_cast<std::uint32_t>(random() % limit); };
    std::vector<step> steps;
    std::vector<std::uint32_t> live;
    std::size_t taken = 0;
    std::size_t bytes_live = 0;
    for (std::size_t i = 0; i != 2 * n; ++i) {
        std::uint32_t const bytes = 1 + up_to(1_MiB);
        bool const takes = up_to(100) < 73 && taken != n && bytes_live + bytes < most;
        if (live.empty() || takes) {
            steps.push_back({bytes, step::none});
            live.push_back(bytes);
            bytes_live += bytes;
            ++taken;
        } else {
            std::uint32_t const which = up_to(live.size());
            steps.push_back({live[which], which});
            bytes_live -= live[which];
            live[which] = live.back();
            live.pop_back();
        }
    }
    return steps;
}
template <class Pool>
void random_steps_of(benchmark::State& state, Pool& pool) {
    auto const n = static_cast<std::size_t>(state.range(0));
    std::vector<step> const steps = random_steps(n);
    cuota::stream const stream;
    std::vector<void*> live;
    live.reserve(n);
    for (auto _ : state)
        for (step const& s : steps) {
            if (s.given == step::none) {
                live.push_back(pool.allocate(stream, s.bytes));
            } else {
                void* const p = std::exchange(live[s.given], live.back());
                live.pop_back();
                pool.deallocate(stream, p, s.bytes);
            }
        }
}

}  // namespace bench
