// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Overlap of reading, copying and computing in a loader. Each takes 5 ms per batch: the dataset sleeps, the simulated link has the
/// matching bandwidth, and the kernel takes that time. Compared with a sequential loop.
///
/// `efficiency` = (time of the slowest stage alone, measured just before, + latency of the first batch in the other two) / measured time.
/// Exit status 1 if its median with the default slots (the first row) is below 0.94.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/simulator.hpp>

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

constexpr auto stage = 5ms;
constexpr std::uint64_t batches = 100;
constexpr std::size_t batch_bytes = 1u << 20;
constexpr double gate = 0.94;

// One sample per batch; reading it takes as long as a stage.
class slow_source {
public:
    [[nodiscard]] std::uint64_t size() const { return batches; }
    [[nodiscard]] std::span<cuota::field const> fields() const { return {&field_, 1}; }
    [[nodiscard]] std::string name() const { return "a slow dataset"; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        auto const end = clock_type::now() + stage * samples.size();
        std::memset(out[0].data(), 1, out[0].size());
        (void)::prctl(PR_SET_TIMERSLACK, 1);  // the default timer slack would add 50 us to each sleep
        std::this_thread::sleep_until(end);
    }

private:
    cuota::field field_{"bytes", cuota::element_type::u8, {batch_bytes}};
};

struct consume {
    cuota::device_span<std::uint8_t const> data;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { benchmark::DoNotOptimize(data[i]); }
};

void set_stages() {
    cuota::simulator::set_race_checks(cuota::simulator::race_checks::off);
    cuota::simulator::link_options link;
    link.to_device = batch_bytes * 1000 / static_cast<std::uint64_t>(stage.count());
    link.kernel = stage;
    cuota::simulator::set_link(link);
}

// The work of the three stages, one stage at a time.
class stages_alone {
public:
    void read() {
        for (std::uint64_t i = 0; i != batches; ++i) {
            std::span<std::byte> const out = std::as_writable_bytes(slot_.write());
            source_.gather({&i, 1}, {&out, 1});
        }
    }
    void copy() {
        for (std::uint64_t i = 0; i != batches; ++i) slot_.upload(target_, stream_);
        stream_.synchronize();
    }
    void compute() {
        for (std::uint64_t i = 0; i != batches; ++i)
            cuota::for_each_index(stream_, 1, consume{target_.read(stream_)});
        stream_.synchronize();
    }
    void one_after_the_other() {
        for (std::uint64_t i = 0; i != batches; ++i) {
            std::span<std::byte> const out = std::as_writable_bytes(slot_.write());
            source_.gather({&i, 1}, {&out, 1});
            slot_.upload(target_, stream_);
            cuota::for_each_index(stream_, 1, consume{target_.read(stream_)});
            stream_.synchronize();
        }
    }

private:
    slow_source source_;
    cuota::stream stream_;
    cuota::pinned_buffer<std::uint8_t> slot_{batch_bytes};
    cuota::device_buffer<std::uint8_t> target_{batch_bytes, stream_, cuota::device_memory{}};
};

template <class Action>
double seconds_of(Action action) {
    auto const begin = clock_type::now();
    action();
    return std::chrono::duration<double>(clock_type::now() - begin).count();
}

std::vector<double> of_first_row;

// Per iteration, runs each stage alone and then `action`, which moves all batches through all stages. Timers fire late; measuring the
// stages just before gives both the same delay.
template <class Action>
void measure(benchmark::State& state, std::vector<double>* into, Action action) {
    set_stages();
    stages_alone alone;
    double efficiency = 0;
    double slowest = 0;
    for (auto _ : state) {
        slowest = std::max({seconds_of([&] { alone.read(); }), seconds_of([&] { alone.copy(); }),
                            seconds_of([&] { alone.compute(); })});
        double const taken = seconds_of(action);
        state.SetIterationTime(taken);
        efficiency = slowest * (batches + 2) / batches / taken;
        if (into) into->push_back(efficiency);
    }
    state.counters["slowest_stage_ms"] = slowest * 1000;
    state.counters["efficiency"] = efficiency;
}

void loader(benchmark::State& state) {
    auto const host_slots = static_cast<std::size_t>(state.range(0));
    auto const device_slots = static_cast<std::size_t>(state.range(1));
    bool const is_default = host_slots == 0;
    cuota::loader_options options{.batch_size = 1, .host_slots = host_slots};
    if (!is_default) options.device_slots = device_slots;
    cuota::batch_loader from{slow_source{}, options};
    cuota::stream const stream;
    std::uint64_t epoch = 0;
    measure(state, is_default ? &of_first_row : nullptr, [&] {
        for (cuota::batch b : from.epoch(epoch++))
            cuota::for_each_index(stream, 1, consume{b.view<std::uint8_t>(stream)});
        stream.synchronize();
    });
}
BENCHMARK(loader)
    ->ArgNames({"host_slots", "device_slots"})
    ->Args({0, 0})  // the default: one worker, so 3 and 2
    ->Args({3, 3})
    ->Args({2, 2})
    ->Args({2, 1})
    ->Args({1, 1})
    ->UseManualTime()
    ->Iterations(1)
    ->Repetitions(5)
    ->Unit(benchmark::kMillisecond);

void fill_copy_synchronise(benchmark::State& state) {
    set_stages();
    stages_alone stages;
    measure(state, nullptr, [&] { stages.one_after_the_other(); });
}
BENCHMARK(fill_copy_synchronise)
    ->UseManualTime()
    ->Iterations(1)
    ->Repetitions(2)
    ->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    if (of_first_row.empty()) return 0;
    std::ranges::sort(of_first_row);
    double const median = of_first_row[of_first_row.size() / 2];
    std::printf("the loader's own choice of slots: efficiency %.3f, the median of %zu\n", median,
                of_first_row.size());
    return median < gate ? 1 : 0;
}
