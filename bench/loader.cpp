// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What loading costs beside the copies themselves: a loader over a source that reads nothing, against a loop that
/// fills a slot, copies it and waits; and the rate at which a source in memory reaches the device.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>

namespace {

// Samples of so many bytes, all in host memory; none of them copied when the loader's own cost is asked for.
class memory_source {
public:
    memory_source(std::uint64_t samples, std::size_t bytes, bool copies)
        : samples_{samples}, copies_{copies}, field_{"bytes", cuota::element_type::u8, {bytes}} {
        if (copies) data_ = std::make_shared<std::vector<std::byte>>(samples * bytes, std::byte{7});
    }
    [[nodiscard]] std::uint64_t size() const { return samples_; }
    [[nodiscard]] std::span<cuota::field const> fields() const { return {&field_, 1}; }
    [[nodiscard]] std::string name() const { return "memory"; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        if (!copies_) return;
        std::size_t const bytes = field_.bytes();
        for (std::size_t i = 0; i != samples.size(); ++i)
            std::memcpy(out[0].data() + i * bytes, data_->data() + samples[i] * bytes, bytes);
    }

private:
    std::uint64_t samples_;
    bool copies_;
    cuota::field field_;
    std::shared_ptr<std::vector<std::byte>> data_;
};

constexpr std::size_t sample_bytes = 1024;
constexpr std::uint64_t samples = 64 * 1024;

void load(benchmark::State& state, bool copies) {
    auto const batch = static_cast<std::size_t>(state.range(0));
    cuota::batch_loader loader{memory_source{samples, sample_bytes, copies}, {.batch = batch, .seed = 1}};
    cuota::stream stream;
    std::uint64_t epoch = 0;
    std::int64_t batches = 0;
    for (auto _ : state) {
        for (cuota::batch b : loader.epoch(epoch)) {
            benchmark::DoNotOptimize(b.view<std::uint8_t>(stream).data());
            ++batches;
        }
        ++epoch;
    }
    state.SetItemsProcessed(batches);
    if (copies) state.SetBytesProcessed(batches * static_cast<std::int64_t>(batch * sample_bytes));
}
void loader_without_reading(benchmark::State& state) { load(state, false); }
void loader_from_memory(benchmark::State& state) { load(state, true); }
BENCHMARK(loader_without_reading)->ArgName("batch")->Arg(16)->Arg(1024)->UseRealTime();
BENCHMARK(loader_from_memory)->ArgName("batch")->Arg(16)->Arg(1024)->UseRealTime();

void fill_copy_wait(benchmark::State& state) {
    auto const batch = static_cast<std::size_t>(state.range(0));
    memory_source const from{samples, sample_bytes, true};
    cuota::keyed_permutation const order{samples, 1};
    cuota::stream stream;
    cuota::pinned_buffer<std::byte> slot{batch * sample_bytes};
    cuota::device_buffer<std::byte> target{batch * sample_bytes, stream, cuota::device_memory{}};
    std::vector<std::uint64_t> indices(batch);
    std::int64_t batches = 0;
    for (auto _ : state) {
        for (std::uint64_t first = 0; first != samples; first += batch) {
            for (std::size_t i = 0; i != batch; ++i) indices[i] = order(first + i);
            std::span<std::byte> const out = slot.write();
            from.gather(indices, {&out, 1});
            slot.upload(target, stream);
            stream.synchronize();
            ++batches;
        }
    }
    state.SetItemsProcessed(batches);
    state.SetBytesProcessed(batches * static_cast<std::int64_t>(batch * sample_bytes));
}
BENCHMARK(fill_copy_wait)->ArgName("batch")->Arg(16)->Arg(1024)->UseRealTime();

}  // namespace
