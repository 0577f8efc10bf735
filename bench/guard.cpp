// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Costs of a budget: a pair of charge and refund by depth and by threads, refusals, growth, reservations; and its rate of false refusals.
/// Compared with the limiters that programs commonly write.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/guard/budget_alert.hpp>

#include "false_refusals.hpp"

namespace {

using bench::by_threads;
using bench::refusals_of_what_fits;
using bench::seconds_of;

constexpr std::size_t bytes = 256;

// ---- For comparison: three common limiters of one level. They are not part of the library.

// Adds first and compares afterwards. Charges that are about to be undone make other threads fail, so it refuses requests that fit.
class adds_first {
public:
    explicit adds_first(std::size_t limit) : limit_{limit} {}
    bool try_charge(std::size_t n) noexcept {
        if (held_.fetch_add(n) + n <= limit_) return true;
        held_.fetch_sub(n);
        return false;
    }
    void refund(std::size_t n) noexcept { held_.fetch_sub(n); }

private:
    std::size_t const limit_;
    std::atomic<std::size_t> held_ = 0;
};

// Exact, for one level.
class compares_and_swaps {
public:
    explicit compares_and_swaps(std::size_t limit) : limit_{limit} {}
    bool try_charge(std::size_t n) noexcept {
        std::size_t held = held_.load();
        do {
            if (n > limit_ - held) return false;
        } while (!held_.compare_exchange_weak(held, held + n));
        return true;
    }
    void refund(std::size_t n) noexcept { held_.fetch_sub(n); }

private:
    std::size_t const limit_;
    std::atomic<std::size_t> held_ = 0;
};

// Exact; could be extended to a tree.
class locks {
public:
    explicit locks(std::size_t limit) : limit_{limit} {}
    bool try_charge(std::size_t n) noexcept {
        std::scoped_lock const lock{guard_};
        if (n > limit_ - held_) return false;
        held_ += n;
        return true;
    }
    void refund(std::size_t n) noexcept {
        std::scoped_lock const lock{guard_};
        held_ -= n;
    }

private:
    std::size_t const limit_;
    std::size_t held_ = 0;
    std::mutex guard_;
};

// The library's budget behind the same two functions.
class budget {
public:
    explicit budget(std::size_t limit) : budget_{"root", limit} {}
    bool try_charge(std::size_t n) noexcept { return budget_.try_charge(n); }
    void refund(std::size_t n) noexcept { budget_.refund(n); }

private:
    cuota::budget budget_;
};

// ---- One thread: a pair, one success, one refusal.

cuota::budget chain(std::size_t levels) {
    cuota::budget leaf{"root", cuota::unlimited};
    for (std::size_t i = 1; i != levels; ++i) leaf = cuota::budget{"child", cuota::unlimited, leaf};
    return leaf;
}

void charge_and_refund_by_levels(benchmark::State& state) {
    cuota::budget leaf = chain(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        leaf.charge(bytes);
        leaf.refund(bytes);
    }
}
BENCHMARK(charge_and_refund_by_levels)->ArgName("levels")->Arg(1)->Arg(2)->Arg(4)->Arg(8);

template <class Limiter>
void charge_and_refund(benchmark::State& state) {
    Limiter limiter{cuota::unlimited};
    for (auto _ : state) {
        benchmark::DoNotOptimize(limiter.try_charge(bytes));
        limiter.refund(bytes);
    }
}
BENCHMARK(charge_and_refund<budget>);
BENCHMARK(charge_and_refund<adds_first>);
BENCHMARK(charge_and_refund<compares_and_swaps>);
BENCHMARK(charge_and_refund<locks>);

// A success alone; the bytes come from an earlier refund of the same thread.
template <class Limiter>
void granted_try_charge(benchmark::State& state) {
    constexpr std::size_t plenty = std::size_t{1} << 50;
    Limiter limiter{cuota::unlimited};
    benchmark::DoNotOptimize(limiter.try_charge(plenty));
    limiter.refund(plenty);
    for (auto _ : state) benchmark::DoNotOptimize(limiter.try_charge(bytes));
}
BENCHMARK(granted_try_charge<budget>);
BENCHMARK(granted_try_charge<adds_first>);
BENCHMARK(granted_try_charge<compares_and_swaps>);
BENCHMARK(granted_try_charge<locks>);

template <class Limiter>
void refused_try_charge(benchmark::State& state) {
    Limiter limiter{100};
    benchmark::DoNotOptimize(limiter.try_charge(100));
    for (auto _ : state) benchmark::DoNotOptimize(limiter.try_charge(bytes));
}
BENCHMARK(refused_try_charge<budget>);
BENCHMARK(refused_try_charge<adds_first>);
BENCHMARK(refused_try_charge<compares_and_swaps>);
BENCHMARK(refused_try_charge<locks>);

// Refused by the root; the levels below it would grant the request.
void refused_try_charge_by_levels(benchmark::State& state) {
    cuota::budget root{"root", 100};
    cuota::budget leaf = root;
    for (std::int64_t i = 1; i != state.range(0); ++i) leaf = cuota::budget{"child", cuota::unlimited, leaf};
    for (auto _ : state) benchmark::DoNotOptimize(leaf.try_charge(bytes));
}
BENCHMARK(refused_try_charge_by_levels)->ArgName("levels")->Arg(1)->Arg(2)->Arg(4)->Arg(8);

// Time of a refusal over time of a success: measured alternately in one run, minimum of each, to exclude other load.
void refusal_over_success(benchmark::State& state) {
    constexpr std::size_t plenty = std::size_t{1} << 50;
    cuota::budget grants{"grants", cuota::unlimited};
    cuota::budget refuses{"refuses", 100};
    grants.charge(plenty);
    grants.refund(plenty);
    auto const seconds_of = [](cuota::budget& b) {
        auto const start = std::chrono::steady_clock::now();
        for (int i = 0; i != 10'000; ++i) benchmark::DoNotOptimize(b.try_charge(bytes));
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    double granted = 1, refused = 1;
    for (auto _ : state) {
        granted = std::min(granted, seconds_of(grants));
        refused = std::min(refused, seconds_of(refuses));
    }
    state.counters["refused_over_granted"] = refused / granted;
}
BENCHMARK(refusal_over_success)->Unit(benchmark::kMicrosecond);

void thrown_refusal(benchmark::State& state) {
    cuota::budget full{"full", 100};
    for (auto _ : state) try {
            full.charge(101);
        } catch (cuota::budget_exceeded const& refused) { benchmark::DoNotOptimize(refused.info().max_fit); }
}
BENCHMARK(thrown_refusal);

// Every charge sets a new peak, so every charge takes the tree's lock.
void charge_that_grows(benchmark::State& state) {
    cuota::budget leaf = chain(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) leaf.charge(bytes);
}
BENCHMARK(charge_that_grows)->ArgName("levels")->Arg(1)->Arg(4);

void reserve_and_end(benchmark::State& state) {
    cuota::budget b{"root", cuota::unlimited};
    for (auto _ : state) benchmark::DoNotOptimize(b.reserve(bytes).bytes());
}
BENCHMARK(reserve_and_end);

// 256 B come from the thread's stock. 1 MiB never does, so each charge takes the lock and queries the driver when the last figure is stale.
void charge_and_refund_of_device(benchmark::State& state) {
    cuota::budget b = cuota::budget::for_device(cuota::device::current());
    auto const size = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        b.charge(size);
        b.refund(size);
    }
}
BENCHMARK(charge_and_refund_of_device)->ArgName("bytes")->Arg(256)->Arg(1 << 20);

// With an alert whose threshold is never reached.
void charge_and_refund_watched(benchmark::State& state) {
    cuota::budget b{"root", 1'000'000};
    cuota::budget_alert const watched{b, {0.9}, 0.1, [](cuota::alert_event const&) {}};
    for (auto _ : state) {
        b.charge(bytes);
        b.refund(bytes);
    }
}
BENCHMARK(charge_and_refund_watched);

// Memory at no cost, so that only the account and the table of live blocks are measured.
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

void budgeted_allocate_and_deallocate(benchmark::State& state) {
    cuota::budgeted<one_block> memory{cuota::budget{"root", cuota::unlimited}};
    for (auto _ : state) memory.deallocate_sync(memory.allocate_sync(bytes), bytes);
}
BENCHMARK(budgeted_allocate_and_deallocate);

// ---- Several threads.

template <class Limiter>
void charge_and_refund_on_one_root(benchmark::State& state) {
    static Limiter root{cuota::unlimited};
    for (auto _ : state) {
        benchmark::DoNotOptimize(root.try_charge(bytes));
        root.refund(bytes);
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(charge_and_refund_on_one_root<budget>)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(charge_and_refund_on_one_root<adds_first>)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(charge_and_refund_on_one_root<compares_and_swaps>)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(charge_and_refund_on_one_root<locks>)->ThreadRange(1, 4)->UseRealTime();

// Throughput of two threads over that of one: measured alternately in one run, best of each.
template <class Limiter>
void two_threads_over_one(benchmark::State& state) {
    constexpr int pairs = 1'000'000;
    Limiter root{cuota::unlimited};
    auto const work = [&](int) {
        for (int i = 0; i != pairs; ++i) {
            benchmark::DoNotOptimize(root.try_charge(bytes));
            root.refund(bytes);
        }
    };
    double one = 1, two = 1;
    for (auto _ : state) {
        one = std::min(one, seconds_of(1, work));
        two = std::min(two, seconds_of(2, work));
    }
    state.counters["two_over_one"] = 2 * one / two;
}
BENCHMARK(two_threads_over_one<budget>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(two_threads_over_one<adds_first>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(two_threads_over_one<compares_and_swaps>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(two_threads_over_one<locks>)->UseRealTime()->Unit(benchmark::kMillisecond);

// One thread charges and another refunds, at most `ahead` charges later, so the stocks of the threads are of little help.
template <class Limiter>
void charged_here_refunded_there(benchmark::State& state) {
    constexpr int pairs = 200'000;
    constexpr int ahead = 1'000;
    Limiter root{cuota::unlimited};
    double seconds = 0;
    for (auto _ : state) {
        std::atomic<int> charged = 0, refunded = 0;
        auto const wait_for = [](std::atomic<int>& done, int count) {
            while (done.load(std::memory_order_acquire) < count) std::this_thread::yield();
        };
        seconds += seconds_of(2, [&](int t) {
            for (int i = 0; i != pairs; ++i)
                if (t == 0) {
                    wait_for(refunded, i - ahead);
                    benchmark::DoNotOptimize(root.try_charge(bytes));
                    charged.store(i + 1, std::memory_order_release);
                } else {
                    wait_for(charged, i + 1);
                    root.refund(bytes);
                    refunded.store(i + 1, std::memory_order_release);
                }
        });
    }
    state.counters["pairs_per_second"] = static_cast<double>(state.iterations()) * pairs / seconds;
}
BENCHMARK(charged_here_refunded_there<budget>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(charged_here_refunded_there<adds_first>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(charged_here_refunded_there<compares_and_swaps>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(charged_here_refunded_there<locks>)->UseRealTime()->Unit(benchmark::kMillisecond);

BENCHMARK(refusals_of_what_fits<budget>)->Apply(by_threads);
BENCHMARK(refusals_of_what_fits<adds_first>)->Apply(by_threads);
BENCHMARK(refusals_of_what_fits<compares_and_swaps>)->Apply(by_threads);
BENCHMARK(refusals_of_what_fits<locks>)->Apply(by_threads);

}  // namespace
