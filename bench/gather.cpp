// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Throughput of gathering samples: memory_dataset compared with one memcpy per sample, and raw_dataset from the page cache compared with
/// the same preads alone. Both write into a ring of pinned slots, as a loader does; no device is involved.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <cuota/cuota.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>

namespace {

constexpr std::size_t all_bytes = std::size_t{256} << 20;
constexpr std::size_t slot_bytes = std::size_t{8} << 20;
constexpr std::size_t slots = 3;

// Returns the order of an epoch over records of `record` bytes, sequential or shuffled.
std::vector<std::uint64_t> order_of(std::size_t record, bool shuffled) {
    std::vector<std::uint64_t> order(all_bytes / record);
    for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
    if (shuffled) std::shuffle(order.begin(), order.end(), std::mt19937_64{1});
    return order;
}

// Calls gather(samples, slot) for one batch after the other.
template <class Gather>
void gather_batches(benchmark::State& state, Gather gather) {
    auto const record = static_cast<std::size_t>(state.range(0));
    std::vector<std::uint64_t> const order = order_of(record, state.range(1) != 0);
    cuota::pinned_buffer<std::byte> ring{slots * slot_bytes};
    std::span<std::byte> const memory = ring.write();
    std::ranges::fill(memory, std::byte{1});  // faults the pages in
    std::size_t const batch = slot_bytes / record;
    std::size_t next = 0;
    std::size_t slot = 0;
    for (auto _ : state) {
        if (next + batch > order.size()) next = 0;
        gather(std::span{order}.subspan(next, batch), memory.subspan(slot * slot_bytes, batch * record));
        benchmark::ClobberMemory();
        next += batch;
        slot = (slot + 1) % slots;
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(batch * record));
}

std::vector<std::uint8_t> const& the_values() {
    static std::vector<std::uint8_t> const values(all_bytes, 7);
    return values;
}

void memory_dataset(benchmark::State& state) {
    auto const record = static_cast<std::size_t>(state.range(0));
    auto const whole = std::span{the_values()}.first(all_bytes / record * record);
    auto const from = cuota::memory_dataset::of("values", whole, {record});
    gather_batches(state, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        from.gather(samples, {&to, 1});
    });
}
void memcpy_each(benchmark::State& state) {
    auto const record = static_cast<std::size_t>(state.range(0));
    std::uint8_t const* const from = the_values().data();
    gather_batches(state, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        for (std::size_t i = 0; i != samples.size(); ++i)
            std::memcpy(to.data() + i * record, from + samples[i] * record, record);
    });
}

// A file with those bytes, which is in the page cache while the program runs.
std::string const& the_file() {
    static struct file_on_disk {
        file_on_disk() {
            std::ofstream out{path, std::ios::binary};
            std::vector<char> const part(1 << 20, 'x');
            for (std::size_t done = 0; done != all_bytes; done += part.size())
                out.write(part.data(), static_cast<std::streamsize>(part.size()));
        }
        ~file_on_disk() { std::filesystem::remove(path); }
        std::string path =
            std::filesystem::temp_directory_path() / ("cuota-gather-" + std::to_string(::getpid()));
    } const file;
    return file.path;
}

void raw_dataset(benchmark::State& state) {
    auto const record = static_cast<std::size_t>(state.range(0));
    cuota::raw_dataset const from{the_file(),
                                  {.header = all_bytes % record,
                                   .record_bytes = record,
                                   .fields = {{"bytes", cuota::element_type::u8, {record}}}}};
    gather_batches(state, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        from.gather(samples, {&to, 1});
    });
}
// Reads a run of consecutive records by one pread, like raw_dataset.
void pread_each(benchmark::State& state) {
    auto const record = static_cast<std::size_t>(state.range(0));
    std::size_t const header = all_bytes % record;
    int const from = ::open(the_file().c_str(), O_RDONLY | O_CLOEXEC);
    gather_batches(state, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        for (std::size_t i = 0; i != samples.size();) {
            std::size_t n = 1;
            while (i + n != samples.size() && samples[i + n] == samples[i] + n) ++n;
            ::ssize_t const got = ::pread(from, to.data() + i * record, n * record,
                                          static_cast<::off_t>(header + samples[i] * record));
            if (got != static_cast<::ssize_t>(n * record)) state.SkipWithError("a short read");
            i += n;
        }
    });
    ::close(from);
}

// ---- rows: texts of u32 words, with lengths up to twice the mean ----

struct texts {
    explicit texts(std::size_t mean) {
        std::mt19937_64 random{2};
        std::uniform_int_distribution<std::uint64_t> length{0, 2 * mean};
        offsets.push_back(0);
        while (offsets.back() + 2 * mean < all_bytes / 4) offsets.push_back(offsets.back() + length(random));
        order.resize(offsets.size() - 1);
        for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
    }
    std::vector<std::uint64_t> offsets, order;
};

template <class Gather>
void gather_texts(benchmark::State& state, texts const& all, Gather gather) {
    cuota::pinned_buffer<std::byte> ring{slots * slot_bytes};
    std::span<std::byte> const memory = ring.write();
    std::ranges::fill(memory, std::byte{1});
    std::size_t next = 0;
    std::size_t slot = 0;
    std::int64_t bytes = 0;
    for (auto _ : state) {
        if (next == all.order.size()) next = 0;
        std::size_t end = next;
        std::size_t used = 0;
        for (; end != all.order.size(); ++end) {
            std::size_t const more = (all.offsets[all.order[end] + 1] - all.offsets[all.order[end]]) * 4;
            if (used + more > slot_bytes) break;
            used += more;
        }
        gather(std::span{all.order}.subspan(next, end - next), memory.subspan(slot * slot_bytes, used));
        benchmark::ClobberMemory();
        next = end;
        slot = (slot + 1) % slots;
        bytes += static_cast<std::int64_t>(used);
    }
    state.SetBytesProcessed(bytes);
}

void ragged_memory(benchmark::State& state) {
    texts const all{static_cast<std::size_t>(state.range(0))};
    std::span<std::uint32_t const> const words{reinterpret_cast<std::uint32_t const*>(the_values().data()),
                                               all_bytes / 4};
    cuota::ragged_dataset const from{cuota::memory_dataset::of("words", words), all.offsets};
    gather_texts(state, all, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        from.gather(samples, {&to, 1});
    });
}
void memcpy_texts(benchmark::State& state) {
    texts const all{static_cast<std::size_t>(state.range(0))};
    std::uint8_t const* const from = the_values().data();
    gather_texts(state, all, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        std::byte* at = to.data();
        for (std::uint64_t const sample : samples) {
            std::size_t const bytes = (all.offsets[sample + 1] - all.offsets[sample]) * 4;
            std::memcpy(at, from + all.offsets[sample] * 4, bytes);
            at += bytes;
        }
    });
}
void ragged_raw(benchmark::State& state) {
    texts const all{static_cast<std::size_t>(state.range(0))};
    cuota::raw_dataset const words{the_file(), {.fields = {{"words", cuota::element_type::u32, {}}}}};
    cuota::ragged_dataset const from{words, all.offsets};
    gather_texts(state, all, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        from.gather(samples, {&to, 1});
    });
}
void pread_texts(benchmark::State& state) {
    texts const all{static_cast<std::size_t>(state.range(0))};
    int const from = ::open(the_file().c_str(), O_RDONLY | O_CLOEXEC);
    gather_texts(state, all, [&](std::span<std::uint64_t const> samples, std::span<std::byte> to) {
        std::byte* at = to.data();
        for (std::uint64_t const sample : samples) {
            std::size_t const bytes = (all.offsets[sample + 1] - all.offsets[sample]) * 4;
            ::ssize_t const got =
                bytes == 0 ? 0 : ::pread(from, at, bytes, static_cast<::off_t>(all.offsets[sample] * 4));
            if (got != static_cast<::ssize_t>(bytes)) state.SkipWithError("a short read");
            at += bytes;
        }
    });
    ::close(from);
}

void sizes_and_orders(benchmark::internal::Benchmark* b) {
    b->ArgNames({"record", "shuffled"})->ArgsProduct({{784, 3072, 150'528}, {0, 1}});
}
BENCHMARK(memory_dataset)->Apply(sizes_and_orders);
BENCHMARK(memcpy_each)->Apply(sizes_and_orders);
BENCHMARK(raw_dataset)->Apply(sizes_and_orders);
BENCHMARK(pread_each)->Apply(sizes_and_orders);

void mean_words(benchmark::internal::Benchmark* b) { b->ArgNames({"words"})->Arg(16)->Arg(200)->Arg(4000); }
BENCHMARK(ragged_memory)->Apply(mean_words);
BENCHMARK(memcpy_texts)->Apply(mean_words);
BENCHMARK(ragged_raw)->Apply(mean_words);
BENCHMARK(pread_texts)->Apply(mean_words);

}  // namespace
