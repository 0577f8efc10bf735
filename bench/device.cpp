// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Benchmarks that need a device, each beside a peer: a loader and copies of pinned memory that is never refilled, leases in a stream of
/// kernels, mapped pages and whole allocations, a step and its graph, casts to 16 bits and a copy. On the simulated runtime it runs with
/// smaller sizes, as a test; its times mean nothing there.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/training/precision/cast.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
#include <cuota/training/precision/pruned.hpp>
#include <cuota/training/precision/quantized.hpp>
#include <cuota/training/precision/quantized_moments.hpp>

#include "kept_memory.hpp"

using namespace cuota::literals;

namespace {

[[nodiscard]] std::size_t on_a_gpu(std::size_t bytes, std::size_t simulated) {
    return cuota::is_simulated() ? simulated : bytes;
}

void must(cudaError_t status, benchmark::State& state) {
    if (status != cudaSuccess) state.SkipWithError(cudaGetErrorString(status));
}

void set_bytes(benchmark::State& state, std::size_t each) {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(each));
}

// ---- From pinned memory to the device, one slot at a time.

constexpr std::size_t sample_bytes = 64 << 10;

/// A dataset that needs no reading, so that only the loader and the link are measured.
class read_already {
public:
    explicit read_already(std::uint64_t samples) : samples_{samples} {}
    [[nodiscard]] std::uint64_t size() const noexcept { return samples_; }
    [[nodiscard]] std::span<cuota::field const> fields() const noexcept { return fields_; }
    [[nodiscard]] std::string name() const { return "read already"; }
    void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>) const {}

private:
    std::uint64_t samples_;
    std::vector<cuota::field> fields_{{"bytes", cuota::element_type::u8, {sample_bytes}}};
};

[[nodiscard]] std::size_t bytes_of_an_epoch() { return on_a_gpu(4_GiB, 64_MiB); }

void one_epoch_an_iteration(benchmark::State& state, cuota::batch_loader& loader, std::size_t bytes) {
    cuota::stream const stream;
    std::uint64_t epoch = 0;
    for (auto _ : state) {
        for (cuota::batch const b : loader.epoch(epoch))
            benchmark::DoNotOptimize(b.view<std::uint8_t>(stream));
        stream.synchronize();
        ++epoch;
    }
    set_bytes(state, bytes);
}

[[nodiscard]] cuota::loader_options slots_of(benchmark::State const& state, std::size_t workers) {
    return {.batch_size = (static_cast<std::size_t>(state.range(0)) << 20) / sample_bytes,
            .workers = workers};
}

void loader(benchmark::State& state) {
    cuota::batch_loader from{read_already{bytes_of_an_epoch() / sample_bytes}, slots_of(state, 1)};
    one_epoch_an_iteration(state, from, bytes_of_an_epoch());
}

// Four worker threads copy samples into the slots.
void loader_of_memory(benchmark::State& state) {
    std::size_t const samples = on_a_gpu(512_MiB, 64_MiB) / sample_bytes;
    cuota::memory_dataset const some{
        "memory", std::vector<std::uint8_t>(samples * sample_bytes, 7), {sample_bytes}};
    cuota::batch_loader from{some, slots_of(state, 4)};
    one_epoch_an_iteration(state, from, samples * sample_bytes);
}

// The copies of those workers, without a loader and a device: four threads, each with pinned memory of a quarter of a slot, copy samples in
// a shuffled order. A loader of memory cannot be faster.
void copy_into_pinned_memory(benchmark::State& state) {
    constexpr std::size_t threads = 4;
    std::size_t const samples = on_a_gpu(512_MiB, 64_MiB) / sample_bytes;
    std::size_t const in_a_share = (static_cast<std::size_t>(state.range(0)) << 20) / sample_bytes / threads;
    std::vector<std::uint8_t> const from(samples * sample_bytes, 7);
    cuota::pinned_buffer<std::uint8_t> to{2 * threads * in_a_share * sample_bytes, cuota::pinned_memory{}};
    auto const work = [&](std::size_t k) {
        std::uint8_t* const own = to.write().data() + 2 * k * in_a_share * sample_bytes;
        for (std::size_t i = 0; i != samples / threads; ++i)
            std::memcpy(own + i % (2 * in_a_share) * sample_bytes,
                        from.data() + (k + threads * i) * 12'289 % samples * sample_bytes, sample_bytes);
        benchmark::ClobberMemory();
    };
    for (auto _ : state) {
        std::vector<std::jthread> all;
        for (std::size_t k = 0; k != threads; ++k) all.emplace_back(work, k);
    }
    set_bytes(state, samples * sample_bytes);
}

// The same slots, copied one after the other and never refilled.
void raw_pinned_copy(benchmark::State& state) {
    std::size_t const bytes = static_cast<std::size_t>(state.range(0)) << 20;
    cuota::stream const stream;
    cuota::pinned_buffer<std::byte> const from{2 * bytes, cuota::pinned_memory{}};
    cuota::device_buffer<std::byte> to{2 * bytes, stream, cuota::device_memory{}, cuota::no_init};
    auto const target = to.write(stream);
    for (auto _ : state) {
        for (std::size_t i = 0; i != bytes_of_an_epoch() / bytes; ++i)
            must(cudaMemcpyAsync(target.span().data() + i % 2 * bytes, from.read().data() + i % 2 * bytes,
                                 bytes, cudaMemcpyHostToDevice, stream.get()),
                 state);
        stream.synchronize();
    }
    set_bytes(state, bytes_of_an_epoch());
}

#define CUOTA_SLOTS                                                                                          \
    ->ArgName("MiB")->Arg(1)->Arg(4)->Arg(8)->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond)
BENCHMARK(loader) CUOTA_SLOTS;
BENCHMARK(loader_of_memory) CUOTA_SLOTS;
BENCHMARK(copy_into_pinned_memory) CUOTA_SLOTS;
BENCHMARK(raw_pinned_copy) CUOTA_SLOTS;

// ---- A thousand kernels in sequence on two buffers. Items are kernels.

constexpr int kernels = 1000;
constexpr std::size_t elements = 4096;

struct add_one {
    float const* from;
    float* to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i] + 1; }
};

struct two_buffers {
    cuota::stream stream;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}};
    cuota::device_buffer<float> a{elements, 1.0F, stream, pool};
    cuota::device_buffer<float> b{elements, 1.0F, stream, pool};
};

void kernels_by_pointers(benchmark::State& state) {
    two_buffers of;
    auto const from = of.a.read(of.stream);
    auto const to = of.b.write(of.stream);
    for (auto _ : state) {
        for (int i = 0; i != kernels; ++i)
            cuota::for_each_index(of.stream, elements, add_one{from.span().data(), to.span().data()});
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(kernels_by_pointers)->UseRealTime()->Unit(benchmark::kMillisecond);

void kernels_by_leases(benchmark::State& state) {
    two_buffers of;
    for (auto _ : state) {
        for (int i = 0; i != kernels; ++i) {
            auto const from = of.a.read(of.stream);
            auto const to = of.b.write(of.stream);
            cuota::for_each_index(of.stream, elements, add_one{from.span().data(), to.span().data()});
        }
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(kernels_by_leases)->UseRealTime()->Unit(benchmark::kMillisecond);

// Additionally allocates a buffer per kernel, which the next kernel's buffer reuses.
void kernels_with_a_buffer_each(benchmark::State& state) {
    two_buffers of;
    for (auto _ : state) {
        for (int i = 0; i != kernels; ++i) {
            cuota::device_buffer<float> made{elements, of.stream, of.pool, cuota::no_init};
            auto const from = of.a.read(of.stream);
            auto const to = made.write(of.stream);
            cuota::for_each_index(of.stream, elements, add_one{from.span().data(), to.span().data()});
        }
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(kernels_with_a_buffer_each)->UseRealTime()->Unit(benchmark::kMillisecond);

void kernels_with_cudaMallocAsync_each(benchmark::State& state) {
    bench::kept_memory const kept;
    two_buffers of;
    auto const from = of.a.read(of.stream);
    for (auto _ : state) {
        for (int i = 0; i != kernels; ++i) {
            void* to = nullptr;
            must(cudaMallocAsync(&to, elements * sizeof(float), of.stream.get()), state);
            cuota::for_each_index(of.stream, elements, add_one{from.span().data(), static_cast<float*>(to)});
            must(cudaFreeAsync(to, of.stream.get()), state);
        }
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(kernels_with_cudaMallocAsync_each)->UseRealTime()->Unit(benchmark::kMillisecond);

// ---- Blocks of 8 MiB, each of which makes the pool grow, and their deallocation. Bytes are those allocated from the device.

[[nodiscard]] std::size_t block_bytes() { return on_a_gpu(8_MiB, 2_MiB); }

void few_and_many(benchmark::internal::Benchmark* b) {
    b->ArgName("blocks")->Arg(100)->Arg(1024)->UseRealTime()->Unit(benchmark::kMillisecond);
}

template <cuota::pool_growth Growth>
void pool_that_grows(benchmark::State& state) {
    cuota::stream const stream;
    std::vector<void*> taken(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}, {.growth = Growth}};
        for (void*& p : taken) p = pool.allocate(stream, block_bytes());
        for (void* const p : taken) pool.deallocate(stream, p, block_bytes());
    }
    set_bytes(state, taken.size() * block_bytes());
}
BENCHMARK(pool_that_grows<cuota::pool_growth::automatic>)->Apply(few_and_many);
BENCHMARK(pool_that_grows<cuota::pool_growth::segments>)->Apply(few_and_many);

void cudaMalloc_each(benchmark::State& state) {
    std::vector<void*> taken(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        for (void*& p : taken) must(cudaMalloc(&p, block_bytes()), state);
        for (void* const p : taken) must(cudaFree(p), state);
    }
    set_bytes(state, taken.size() * block_bytes());
}
BENCHMARK(cudaMalloc_each)->Apply(few_and_many);

// ---- A step of a hundred small kernels, each with an output buffer of its own, run eagerly and as a graph. Items are kernels.

constexpr int layers = 100;

void run_layers(cuota::device_buffer<float> const& input, cuota::step_plan& plan,
                cuota::stream const& stream) {
    auto const step = plan.begin();
    std::vector<cuota::device_buffer<float>> outputs;
    outputs.reserve(layers);
    for (int i = 0; i != layers; ++i) {
        outputs.emplace_back(elements, stream, plan.resource(), cuota::no_init);
        auto const from = (i == 0 ? input : outputs[outputs.size() - 2]).read(stream);
        auto const to = outputs.back().write(stream);
        cuota::for_each_index(stream, elements, add_one{from.span().data(), to.span().data()});
    }
}

void planned_step(benchmark::State& state) {
    two_buffers of;
    cuota::step_plan plan{of.pool};
    run_layers(of.a, plan, of.stream);
    for (auto _ : state) {
        run_layers(of.a, plan, of.stream);
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * layers);
}
BENCHMARK(planned_step)->UseRealTime()->Unit(benchmark::kMicrosecond);

void planned_step_as_a_graph(benchmark::State& state) {
    two_buffers of;
    cuota::step_plan plan{of.pool};
    run_layers(of.a, plan, of.stream);
    cuota::graph_exec step = cuota::capture(of.stream, [&] { run_layers(of.a, plan, of.stream); });
    for (auto _ : state) {
        step.launch(of.stream);
        of.stream.synchronize();
    }
    state.SetItemsProcessed(state.iterations() * layers);
}
BENCHMARK(planned_step_as_a_graph)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The same kernels, captured and launched with CUDA's own calls, on buffers that are allocated once.
void graph_made_by_hand(benchmark::State& state) {
    two_buffers of;
    std::vector<cuota::device_buffer<float>> outputs;
    for (int i = 0; i != layers; ++i) outputs.emplace_back(elements, of.stream, of.pool, cuota::no_init);
    std::vector<float*> at;
    auto const add = [&](cuota::device_buffer<float>& one) {
        auto const lease = one.write(of.stream);
        at.push_back(lease.span().data());
    };
    add(of.a);
    for (auto& output : outputs) add(output);

    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    must(cudaStreamBeginCapture(of.stream.get(), cudaStreamCaptureModeGlobal), state);
    for (std::size_t i = 0; i != layers; ++i)
        cuota::for_each_index(of.stream, elements, add_one{at[i], at[i + 1]});
    must(cudaStreamEndCapture(of.stream.get(), &graph), state);
    must(cudaGraphInstantiate(&step, graph, 0), state);
    for (auto _ : state) {
        must(cudaGraphLaunch(step, of.stream.get()), state);
        of.stream.synchronize();
    }
    must(cudaGraphExecDestroy(step), state);
    must(cudaGraphDestroy(graph), state);
    state.SetItemsProcessed(state.iterations() * layers);
}
BENCHMARK(graph_made_by_hand)->UseRealTime()->Unit(benchmark::kMicrosecond);

// ---- Casts to 16 bits and back. Bytes are those read and written.

[[nodiscard]] std::size_t numbers() { return on_a_gpu(64 << 20, 1 << 20); }

template <class T>
void cast_there_and_back(benchmark::State& state) {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}};
    cuota::device_buffer<float> wide{numbers(), 1.0F, stream, pool};
    cuota::device_buffer<T> narrow{numbers(), stream, pool, cuota::no_init};
    for (auto _ : state) {
        cuota::cast(stream, wide, narrow);
        cuota::cast(stream, narrow, wide);
        stream.synchronize();
    }
    set_bytes(state, 2 * numbers() * (sizeof(float) + sizeof(T)));
}
BENCHMARK(cast_there_and_back<cuota::half>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cast_there_and_back<cuota::bfloat16>)->UseRealTime()->Unit(benchmark::kMillisecond);

void copy_on_the_device(benchmark::State& state) {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}};
    cuota::device_buffer<float> a{numbers(), 1.0F, stream, pool};
    cuota::device_buffer<float> b{numbers(), stream, pool, cuota::no_init};
    auto const from = a.read(stream);
    auto const to = b.write(stream);
    for (auto _ : state) {
        must(cudaMemcpyAsync(to.span().data(), from.span().data(), a.bytes(), cudaMemcpyDeviceToDevice,
                             stream.get()),
             state);
        stream.synchronize();
    }
    set_bytes(state, 2 * a.bytes());
}
BENCHMARK(copy_on_the_device)->UseRealTime()->Unit(benchmark::kMillisecond);

// ---- Other kernels limited by memory bandwidth. Each reads and writes the bytes of copy_on_the_device, so its launch and its wait take the
// same share of the time.

struct numbers_on_device {
    std::size_t bytes_each;  // read and written for a number
    std::size_t count = 2 * sizeof(float) * numbers() / bytes_each;
    cuota::stream stream{};
    cuota::scoped_pool pool{cuota::budget{"bench", cuota::unlimited}};

    template <class T>
    [[nodiscard]] cuota::device_buffer<T> of(T value) {
        return {count, value, stream, pool};
    }
};

template <class Work>
void work_on_numbers(benchmark::State& state, numbers_on_device& on, Work work) {
    for (auto _ : state) {
        work();
        on.stream.synchronize();
    }
    set_bytes(state, on.count * on.bytes_each);
}

template <class T>
void look_for_non_finite(benchmark::State& state) {
    numbers_on_device on{sizeof(T)};
    auto const some = on.of(T{1.0F});
    cuota::non_finite_check check{on.stream, on.pool};
    work_on_numbers(state, on, [&] { check.check(on.stream, some.read(on.stream)); });
}
BENCHMARK(look_for_non_finite<float>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(look_for_non_finite<cuota::half>)->UseRealTime()->Unit(benchmark::kMillisecond);

template <class T>
void unscale_gradients(benchmark::State& state) {
    numbers_on_device on{2 * sizeof(T)};
    auto some = on.of(T{1.0F});
    cuota::non_finite_check check{on.stream, on.pool};
    work_on_numbers(state, on, [&] { check.unscale(on.stream, some.write(on.stream), 1.0); });
}
BENCHMARK(unscale_gradients<float>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(unscale_gradients<cuota::half>)->UseRealTime()->Unit(benchmark::kMillisecond);

template <class To>
void convert_bytes(benchmark::State& state) {
    numbers_on_device on{sizeof(To) + 1};
    auto const from = on.of(std::uint8_t{7});
    auto to = on.of(To{1.0F});
    auto const source = from.read(on.stream);
    auto const target = to.write(on.stream);
    cuota::conversion const by{"images", cuota::element_of<To>(), 1 / 255.0, 0.5};
    work_on_numbers(state, on, [&] {
        cuota::detail::convert_on_device(
            on.stream, on.count, reinterpret_cast<std::byte const*>(source.span().data()),
            cuota::element_type::u8, reinterpret_cast<std::byte*>(target.span().data()), by);
    });
}
BENCHMARK(convert_bytes<float>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(convert_bytes<cuota::half>)->UseRealTime()->Unit(benchmark::kMillisecond);

// Values of 2 and 4 bytes are filled by the driver, values of 8 bytes by a kernel of the library.
template <class T>
void fill_buffer(benchmark::State& state, T value) {
    numbers_on_device on{sizeof(T)};
    auto some = on.of(value);
    auto const all = some.write(on.stream);
    work_on_numbers(state, on, [&] {
        cuota::detail::fill<T>(all.span().data(), on.count, value, on.stream,
                               cuota::source_location::current());
    });
}
BENCHMARK_CAPTURE(fill_buffer, bytes_2, cuota::half{0.1F})->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fill_buffer, bytes_4, 0.1F)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fill_buffer, bytes_8, 0.1)->UseRealTime()->Unit(benchmark::kMillisecond);

void memset_of_bytes(benchmark::State& state) {
    numbers_on_device on{sizeof(float)};
    auto some = on.of(0.1F);
    auto const all = some.write(on.stream);
    work_on_numbers(state, on, [&] {
        must(cudaMemsetAsync(all.span().data(), 0, some.bytes(), on.stream.get()), state);
    });
}
BENCHMARK(memset_of_bytes)->UseRealTime()->Unit(benchmark::kMillisecond);

// Stores one byte per number, and 4 bytes per 256 numbers.
void quantized_store(benchmark::State& state) {
    numbers_on_device on{5};
    auto const some = on.of(0.1F);
    cuota::quantized<float> kept{on.count, on.stream, on.pool};
    work_on_numbers(state, on, [&] { kept.store(on.stream, some.read(on.stream)); });
}
BENCHMARK(quantized_store)->UseRealTime()->Unit(benchmark::kMillisecond);

void quantized_load(benchmark::State& state) {
    numbers_on_device on{5};
    auto some = on.of(0.1F);
    cuota::quantized<float> kept{on.count, on.stream, on.pool};
    kept.store(on.stream, some.read(on.stream));
    work_on_numbers(state, on, [&] { kept.load(on.stream, some.write(on.stream)); });
}
BENCHMARK(quantized_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void pruned_pack(benchmark::State& state) {
    numbers_on_device on{sizeof(float)};
    auto const some = on.of(0.1F);
    work_on_numbers(state, on, [&] {
        benchmark::DoNotOptimize(cuota::pruned<float>::pack(on.stream, some.read(on.stream), 1.0F, on.pool));
    });
}
BENCHMARK(pruned_pack)->UseRealTime()->Unit(benchmark::kMillisecond);

// A step of 100 million parameters. Per parameter it reads and writes the parameter (8 bytes) and two codes (4), and reads the gradient
// (4).
void adamw_in_8_bits(benchmark::State& state) {
    std::size_t const count = on_a_gpu(100'000'000, 1 << 20);
    numbers_on_device on{16};
    cuota::device_buffer<float> parameters{count, 1.0F, on.stream, on.pool};
    cuota::device_buffer<float> const gradients{count, 0.1F, on.stream, on.pool};
    cuota::quantized_moments<> adam{count, on.stream, on.pool};
    for (auto _ : state) {
        adam.step(on.stream, parameters.write(on.stream), gradients.read(on.stream));
        on.stream.synchronize();
    }
    set_bytes(state, count * 16);
}
BENCHMARK(adamw_in_8_bits)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
