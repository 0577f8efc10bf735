// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Overhead of an owner of device memory and of a lease, on one thread, compared with raw calls of the same pool and of the runtime, and
// with thrust::device_vector on host memory (its CPP system).
//
// On the simulated runtime, set CUOTA_SIM_RACES=off; otherwise the race checks dominate the time.

#include <cstddef>
#include <utility>
#include <vector>

#if __has_include(<thrust/device_vector.h>)
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#include <thrust/device_vector.h>
#define CUOTA_HAS_THRUST
#endif

#include <benchmark/benchmark.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "kept_memory.hpp"

namespace {

using namespace cuota::literals;

constexpr std::size_t count = 1024;

// A pool that has served such a request before.
struct warm_pool {
    cuota::stream const stream{};
    cuota::scoped_pool pool{cuota::budget{"bench", 64_MiB}, {.initial_size = 16_MiB}};

    warm_pool() {
        void* const p = pool.allocate(stream, count * sizeof(float));
        pool.deallocate(stream, p, count * sizeof(float));
    }
};

void pair_of_a_pool(benchmark::State& state) {
    warm_pool warm;
    for (auto _ : state) {
        void* p = warm.pool.allocate(warm.stream, count * sizeof(float));
        benchmark::DoNotOptimize(p);
        warm.pool.deallocate(warm.stream, p, count * sizeof(float));
    }
}
BENCHMARK(pair_of_a_pool);

void buffer_on_a_pool(benchmark::State& state) {
    warm_pool warm;
    for (auto _ : state) {
        cuota::device_buffer<float> some{count, warm.stream, warm.pool, cuota::no_init};
        benchmark::DoNotOptimize(some);
    }
}
BENCHMARK(buffer_on_a_pool);

void buffer_on_a_resource_of_a_pool(benchmark::State& state) {
    warm_pool warm;
    cuota::any_resource const memory = warm.pool;
    for (auto _ : state) {
        cuota::device_buffer<float> some{count, warm.stream, memory, cuota::no_init};
        benchmark::DoNotOptimize(some);
    }
}
BENCHMARK(buffer_on_a_resource_of_a_pool);

void buffer_with_a_lease(benchmark::State& state) {
    warm_pool warm;
    for (auto _ : state) {
        cuota::device_buffer<float> some{count, warm.stream, warm.pool, cuota::no_init};
        auto lease = some.write();
        benchmark::DoNotOptimize(lease);
    }
}
BENCHMARK(buffer_with_a_lease);

void moved_buffer(benchmark::State& state) {
    warm_pool warm;
    cuota::device_buffer<float> a{count, warm.stream, warm.pool, cuota::no_init};
    for (auto _ : state) {
        cuota::device_buffer<float> b{std::move(a)};
        benchmark::DoNotOptimize(b);
        a = std::move(b);
    }
}
BENCHMARK(moved_buffer);

void raw_call_of_the_runtime(benchmark::State& state) {
    bench::kept_memory const kept;
    cuota::stream const stream;
    for (auto _ : state) {
        void* p = nullptr;
        if (cudaMallocAsync(&p, count * sizeof(float), stream.get()) != cudaSuccess)
            state.SkipWithError("no memory");
        benchmark::DoNotOptimize(p);
        if (cudaFreeAsync(p, stream.get()) != cudaSuccess) state.SkipWithError("not freed");
    }
}
BENCHMARK(raw_call_of_the_runtime);

#ifdef CUOTA_HAS_THRUST
void thrust_device_vector(benchmark::State& state) {
    for (auto _ : state) {
        thrust::device_vector<float> some(count);  // always filled with zeros
        benchmark::DoNotOptimize(some);
    }
}
BENCHMARK(thrust_device_vector);
#endif

// The handling of a kernel launch's arguments, without the launch.
void take_arguments(cuota::device_span<float const> x, cuota::device_span<float const> y,
                    cuota::device_span<float> z) {
    benchmark::DoNotOptimize(x.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::DoNotOptimize(z.data());
}

struct three_buffers : warm_pool {
    cuota::device_buffer<float> x{count, stream, pool, cuota::no_init};
    cuota::device_buffer<float> y{count, stream, pool, cuota::no_init};
    cuota::device_buffer<float> z{count, stream, pool, cuota::no_init};
};

void arguments_of_a_kernel(benchmark::State& state) {
    std::vector<float> some(count);  // any address will do
    cuota::device_span<float> const x{some.data(), count}, y = x, z = x;
    for (auto _ : state) take_arguments(x, y, z);
}
BENCHMARK(arguments_of_a_kernel);

void arguments_of_a_kernel_as_leases(benchmark::State& state) {
    three_buffers of;
    for (auto _ : state) take_arguments(of.x.read(of.stream), of.y.read(of.stream), of.z.write(of.stream));
}
BENCHMARK(arguments_of_a_kernel_as_leases);

// The loop of lease_at_home without the lease; the difference is the cost of the lease.
void pointer_instead_of_a_lease(benchmark::State& state) {
    std::vector<float> some(count);
    cuota::device_span<float> const z{some.data(), count};
    for (auto _ : state) benchmark::DoNotOptimize(cuota::device_span<float>{z}.data());
}
BENCHMARK(pointer_instead_of_a_lease);

void lease_at_home(benchmark::State& state) {
    three_buffers of;
    for (auto _ : state) benchmark::DoNotOptimize(cuota::device_span<float>{of.z.write(of.stream)}.data());
}
BENCHMARK(lease_at_home);

void lease_elsewhere(benchmark::State& state) {
    warm_pool warm;
    cuota::stream const other;
    cuota::device_buffer<float> some{count, warm.stream, warm.pool, cuota::no_init};
    for (auto _ : state) {
        auto lease = some.read(other);
        benchmark::DoNotOptimize(lease);
    }
}
BENCHMARK(lease_elsewhere);

// The home stream writes and another stream reads: one event in each direction.
void handed_to_and_fro(benchmark::State& state) {
    warm_pool warm;
    cuota::stream const other;
    cuota::device_buffer<float> some{count, warm.stream, warm.pool, cuota::no_init};
    for (auto _ : state) {
        (void)some.write(warm.stream);
        (void)some.read(other);
    }
}
BENCHMARK(handed_to_and_fro);

void events_by_hand(benchmark::State& state) {
    cuota::stream const home;
    cuota::stream const other;
    cuota::event a{home};
    cuota::event b{home};
    for (auto _ : state) {
        a.record(home);
        other.wait(a);
        b.record(other);
        home.wait(b);
    }
}
BENCHMARK(events_by_hand);

}  // namespace
