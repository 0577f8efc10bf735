// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The hot paths for instructions.py: each is warmed up and runs a fixed number of times, instrumented if under callgrind. Prints "path
/// operations" for each. Instruction counts do not depend on the machine's load. CUOTA_BENCH_SLOWER names a path that runs 6 % more often
/// than printed, which instructions.py must detect.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>

#include "training_step.hpp"

namespace {

using namespace cuota::literals;

constexpr std::size_t times = 2'000;

/// Keeps the compiler from optimizing the value away.
template <class T>
void keep(T const& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

template <class Path>
void count(char const* name, Path path, std::size_t runs = times, std::size_t operations_in_a_run = 1) {
    char const* const slower = std::getenv("CUOTA_BENCH_SLOWER");
    std::size_t const more = slower && std::string_view{slower} == name ? (runs * 6 + 99) / 100 : 0;
    for (std::size_t i = 0; i != runs / 2 + 1; ++i) path();
    CALLGRIND_ZERO_STATS;
    CALLGRIND_START_INSTRUMENTATION;
    for (std::size_t i = 0; i != runs + more; ++i) path();
    CALLGRIND_DUMP_STATS_AT(name);  // STOP_INSTRUMENTATION alone would discard the counts
    CALLGRIND_STOP_INSTRUMENTATION;
    std::printf("%s %zu\n", name, runs * operations_in_a_run);
}

void budgets() {
    cuota::budget root{"root", 1_GiB};
    cuota::budget const child{"child", 1_GiB, root};
    cuota::budget inner{"inner", 1_GiB, child};
    count("budget.charge_and_refund", [&] {
        keep(inner.try_charge(4096));
        inner.refund(4096);
    });
    count("budget.refused", [&] { keep(inner.try_charge(2_GiB)); });
    cuota::budgeted<cuota::dry_run_memory> memory{inner, cuota::dry_run_memory{}};
    cuota::stream const s;
    count("budgeted.pair", [&] {
        void* const p = memory.allocate(s, 4096, 256);
        memory.deallocate(s, p, 4096, 256);
    });
}

void pools() {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, cuota::dry_run_memory{}};
    auto const pair_of = [&](std::size_t bytes) {
        return [&pool, &s, bytes] {
            void* const p = pool.allocate(s, bytes);
            keep(p);
            pool.deallocate(s, p, bytes);
        };
    };
    count("pool.pair_512", pair_of(512));
    count("pool.pair_64_KiB", pair_of(64_KiB));
    count("pool.pair_1_MiB", pair_of(1_MiB));
    std::vector<void*> live(1'000);
    count(
        "pool.1000_blocks_by_turns",
        [&] {
            for (std::size_t i = 0; i != live.size(); ++i) live[i] = pool.allocate(s, 256 * (1 + i % 37));
            for (std::size_t i = 0; i != live.size(); i += 2) pool.deallocate(s, live[i], 256 * (1 + i % 37));
            for (std::size_t i = 1; i != live.size() + 1; i += 2)
                pool.deallocate(s, live[i], 256 * (1 + i % 37));
        },
        20, live.size());
    cuota::tracked memory{pool.resource(), "bench"};
    count("tracked.pair", [&] {
        void* const p = memory.allocate(s, 512, 256);
        memory.deallocate(s, p, 512, 256);
    });
}

void buffers() {
    cuota::stream const s, other;
    cuota::scoped_pool pool{cuota::budget{"bench", 64_MiB}, {.initial_size = 16_MiB}};
    count("buffer.made_and_ended", [&] {
        cuota::device_buffer<float> const some{1024, s, pool, cuota::no_init};
        keep(&some);
    });
    cuota::device_buffer<float> x{1024, s, pool, cuota::no_init};
    count("buffer.lease_at_home", [&] { keep(cuota::device_span<float>{x.write(s)}.data()); });
    count("buffer.lease_elsewhere", [&] { keep(cuota::device_span<float const>{x.read(other)}.data()); });
}

void plans() {
    auto const blocks = bench::training_step(400, 16);
    auto const edges = cuota::detail::sorted_edges(blocks);
    std::vector<void*> at(blocks.size());
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, cuota::dry_run_memory{}};
    cuota::step_plan plan{pool};
    auto memory = plan.resource();
    count(
        "planned_step.pair",
        [&] {
            auto const step = plan.begin();
            for (auto const& edge : edges) {
                if (edge.begins) at[edge.row] = memory.allocate(s, blocks[edge.row].size, 256);
                else memory.deallocate(s, at[edge.row], blocks[edge.row].size, 256);
            }
        },
        20, blocks.size());
}

void sources() {
    cuota::memory_dataset const numbers{"numbers", std::vector<float>(4096 * 64, 1.0f), {64}};
    std::vector<std::uint64_t> samples(256);
    for (std::size_t i = 0; i != samples.size(); ++i) samples[i] = (i * 1'031) % 4096;
    std::vector<std::byte> slot(samples.size() * 64 * sizeof(float));
    std::span<std::byte> const out[] = {slot};
    count(
        "memory_dataset.gather_256", [&] { numbers.gather(samples, out); }, 100, samples.size());
}

}  // namespace

int main() {
    budgets();
    pools();
    buffers();
    plans();
    sources();
}
