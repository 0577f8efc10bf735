// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Parts of gpu_truth about data: a loader whose consumer lags, numbers converted on the device, data resident on the device.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/half.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>

#include "gpu/truth.hpp"
#include "support/temp_folder.hpp"

namespace truth {
namespace {

using cuota::device_span;
using namespace cuota::literals;

/// Returns eight consecutive bytes of field `field` of a sample, which are one random number.
[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint64_t eight_bytes(std::uint64_t sample, std::size_t field,
                                                                 std::size_t at) {
    return mixed((sample * 4 + field) * 0xD1B54A32D192ED03 + at);
}
[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint8_t byte_of(std::uint64_t sample, std::size_t field,
                                                            std::size_t byte) {
    return static_cast<std::uint8_t>(eight_bytes(sample, field, byte / 8) >> (byte % 8 * 8));
}

/// Samples with several fields of bytes and the sample number, and a count of those that were read.
struct known_samples {
    std::uint64_t size;
    std::vector<std::size_t> widths;
    std::shared_ptr<std::atomic<std::uint64_t>> reads = std::make_shared<std::atomic<std::uint64_t>>(0);

    [[nodiscard]] std::vector<cuota::field> fields() const {
        std::vector<cuota::field> all;
        for (std::size_t const width : widths)
            all.push_back({"bytes" + std::to_string(all.size()), cuota::element_type::u8, {width}});
        all.push_back({"number", cuota::element_type::u64, {}});
        return all;
    }
    [[nodiscard]] auto source() const {
        auto const fill = [of = *this](std::span<std::uint64_t const> samples,
                                       std::span<std::span<std::byte> const> out) {
            for (std::size_t i = 0; i != samples.size(); ++i) of.write(samples[i], i, out);
            *of.reads += samples.size();
        };
        return cuota::callable_dataset{"known samples", size, fields(), fill};
    }

private:
    void write(std::uint64_t sample, std::size_t at, std::span<std::span<std::byte> const> out) const {
        for (std::size_t k = 0; k != widths.size(); ++k)
            for (std::size_t byte = 0; byte < widths[k]; byte += 8) {
                std::uint64_t const eight = eight_bytes(sample, k, byte / 8);  // little-endian, as in byte_of
                std::memcpy(out[k].data() + at * widths[k] + byte, &eight,
                            std::min<std::size_t>(8, widths[k] - byte));
            }
        std::memcpy(out[widths.size()].data() + at * sizeof sample, &sample, sizeof sample);
    }
};

struct verify_bytes {
    device_span<std::uint8_t const> bytes;
    device_span<std::uint64_t const> numbers;
    std::size_t field, width;
    device_span<tally> in;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        if (i == 0) add_to(in[0].checked, bytes.size());
        std::uint64_t const sample = numbers[i / width];
        std::uint8_t const wanted = byte_of(sample, field, i % width);
        if (bytes[i] != wanted) note_wrong(in[0], sample, i % width, bytes[i], wanted);
    }
};
/// Counts the visits of each sample, and stores the order of the visits.
struct note_order {
    device_span<std::uint64_t const> numbers;
    std::size_t first;
    device_span<unsigned long long> visits;
    device_span<std::uint64_t> order;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        order[first + i] = numbers[i];
        if (numbers[i] < visits.size()) add_to(visits[numbers[i]], 1);
    }
};

/// Counts of check_epochs.
struct epochs_seen {
    std::uint64_t batches = 0;
    std::uint64_t behind = 0;  ///< batches after which the consumer's stream was still busy
    std::uint64_t bytes = 0;
};

/// Runs epochs of the loader and delays the consumer's stream before each batch. Checks every byte, that each epoch has each sample once,
/// and that the order differs between epochs.
epochs_seen check_epochs(cuota::batch_loader& loader, known_samples const& of, std::uint64_t epochs,
                         std::uint32_t lag) {
    cuota::stream const stream;
    device_tally found{stream};
    epochs_seen seen;
    std::vector<std::uint64_t> order_before;
    for (std::uint64_t epoch = 0; epoch != epochs; ++epoch) {
        cuota::device_buffer<unsigned long long> visits{of.size, stream, cuota::device_memory{}, "visits"};
        cuota::device_buffer<std::uint64_t> order{of.size, stream, cuota::device_memory{}, "order"};
        std::vector<std::uint64_t> told;
        for (cuota::batch const batch : loader.epoch(epoch)) {
            if (lag != 0) enqueue_delay(stream, lag);
            std::size_t const first = told.size();
            told.insert(told.end(), batch.samples().begin(), batch.samples().end());
            expect(told.size() <= of.size, "an epoch has more samples than the dataset");
            auto const numbers = batch.view<std::uint64_t>(stream, of.widths.size());
            for (std::size_t k = 0; k != of.widths.size(); ++k) {
                auto const bytes = batch.view<std::uint8_t>(stream, k);
                cuota::for_each_index(stream, bytes.size(),
                                      verify_bytes{bytes, numbers, k, of.widths[k], found.write(stream)},
                                      "verify_bytes");
                seen.bytes += bytes.size();
            }
            cuota::for_each_index(stream, numbers.size(),
                                  note_order{numbers, first, visits.write(stream), order.write(stream)},
                                  "note_order");
            seen.behind += stream.is_idle() ? 0 : 1;
            ++seen.batches;
        }
        std::string const which = "epoch " + std::to_string(epoch);
        found.expect_right(stream, seen.bytes, which);
        expect(order.to_vector(stream) == told,
               which + ": the samples are not in the order that the batches told");
        for (unsigned long long const times : visits.to_vector(stream))
            expect_equal(which + ": visits of a sample", times, 1ULL);
        expect(!std::is_sorted(told.begin(), told.end()), which + " is not shuffled");
        expect(told != order_before, which + " has the order of the epoch before");
        order_before = told;
    }
    return seen;
}

}  // namespace

std::string shuffled_loader() {
    known_samples const of{on_a_gpu<std::uint64_t>(8192, 300), {on_a_gpu<std::size_t>(64 << 10, 4096)}};
    cuota::budget const device{"device", 256_MiB};
    cuota::budget const pinned{"pinned", 256_MiB};
    cuota::batch_loader loader{of.source(),
                               {.batch_size = on_a_gpu<std::size_t>(128, 32),
                                .device_budget = device,
                                .pinned_budget = pinned,
                                .seed = 7,
                                .workers = 4,
                                .device_slots = 2,
                                .host_slots = 2}};
    expect_equal("device bytes held", device.held(), loader.plan().device_bytes);
    expect_equal("pinned bytes held", pinned.held(), loader.plan().pinned_bytes);
    epochs_seen const seen = check_epochs(loader, of, 2, 2000);
    expect(cuota::is_simulated() || seen.behind != 0,
           "the consumer never lagged: nothing was put to the test");
    loader.close();
    expect_equal("device bytes held at the end", device.held(), 0U);
    expect_equal("pinned bytes held at the end", pinned.held(), 0U);
    return text("%llu batches, %.0f MB checked, the consumer lagged after %llu of them",
                static_cast<unsigned long long>(seen.batches), 1e-6 * static_cast<double>(seen.bytes),
                static_cast<unsigned long long>(seen.behind));
}

std::string resident() {
    // Rows of a multiple of 16 bytes, of 4 bytes, and of neither: each is gathered by another word size.
    known_samples const of{on_a_gpu<std::uint64_t>(100'000, 500), {1024, 60, 13}};
    cuota::budget const device{"device", 1_GiB};
    cuota::budget const pinned{"pinned", 256_MiB};
    epochs_seen seen;
    std::size_t bytes = 0;
    {
        cuota::loader_options const how{.batch_size = on_a_gpu<std::size_t>(1000, 64),
                                        .device_budget = device,
                                        .pinned_budget = pinned,
                                        .seed = 11,
                                        .workers = 2};
        cuota::device_resident_dataset const data{of.source(), how};
        bytes = data.bytes();
        expect_equal("samples read to load the data", of.reads->load(), of.size);
        expect_equal("device bytes held by the data", device.held(), bytes);
        cuota::batch_loader loader = data.loader(how);
        seen = check_epochs(loader, of, 3, 0);
        expect_equal("samples read in all", of.reads->load(), of.size);
    }
    expect_equal("device bytes held at the end", device.held(), 0U);
    expect_equal("pinned bytes held at the end", pinned.held(), 0U);
    return text("%zu bytes loaded once, 3 epochs, %.0f MB checked", bytes,
                1e-6 * static_cast<double>(seen.bytes));
}

// ---- Numbers that are transferred in a small type and converted on the device.

namespace {

template <class T>
struct copy_elements {
    device_span<T const> from;
    device_span<T> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i]; }
};

/// Copies a field of a batch to the host for inspection.
template <class T>
class host_side {
public:
    host_side(std::size_t most, cuota::stream_ref s)
        : device_{most, s, cuota::device_memory{}, "seen"}, host_{most} {}
    [[nodiscard]] std::span<T const> copy(cuota::batch const& of, std::size_t field, cuota::stream_ref s) {
        auto const from = of.view<T>(s, field);
        cuota::for_each_index(s, from.size(), copy_elements<T>{from, device_.write(s)}, "copy_elements");
        host_.download(device_, s);
        return host_.read().first(from.size());
    }

private:
    cuota::device_buffer<T> device_;
    cuota::pinned_buffer<T> host_;
};

constexpr std::size_t pixels = 784, counts = 6, levels = 10;

/// The content of a sample in the file: number 0 of every sample is its index.
struct record {
    explicit record(std::uint64_t sample) {
        for (std::size_t i = 0; i != pixels; ++i) pixel[i] = byte_of(sample, 0, i);
        for (std::size_t i = 0; i != counts; ++i) count[i] = static_cast<std::uint16_t>(word_of(sample, i));
        for (std::size_t i = 0; i != levels; ++i)
            level[i] = static_cast<std::int16_t>(word_of(sample, 100 + i));
        label = static_cast<std::int32_t>(word_of(sample, 200));
    }
    void append_to(std::vector<std::byte>& file) const {
        auto const add = [&](auto const& numbers) {
            auto const bytes = std::as_bytes(std::span{numbers});
            file.insert(file.end(), bytes.begin(), bytes.end());
        };
        add(pixel);
        add(count);
        add(level);
        add(std::span{&label, 1});
    }
    std::uint8_t pixel[pixels];
    std::uint16_t count[counts];
    std::int16_t level[levels];
    std::int32_t label;
};

/// The arithmetic of the conversion with each result rounded: volatile prevents fused operations on the host.
[[nodiscard]] float scaled(float x, float scale, float shift) {
    float volatile const product = x * scale;
    return product + shift;
}

struct conversions_seen {
    std::uint64_t numbers = 0;
    std::uint64_t fused = 0;  ///< results that the device rounded once instead of twice, as it may
};

void check_number(std::string const& what, std::uint64_t sample, std::size_t i, float got, float wanted) {
    if (std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(wanted))
        throw failed{text("%s %zu of sample %llu is %.9g, expected %.9g", what.c_str(), i,
                          static_cast<unsigned long long>(sample), static_cast<double>(got),
                          static_cast<double>(wanted))};
}

}  // namespace

std::string converted_on_device() {
    std::uint64_t const samples = on_a_gpu<std::uint64_t>(20'000, 300);
    std::size_t const batch = on_a_gpu<std::size_t>(512, 64);
    support::temp_folder const folder;
    std::vector<std::byte> file(16);
    for (std::uint64_t i = 0; i != samples; ++i) record{i}.append_to(file);
    using type = cuota::element_type;
    cuota::raw_dataset const source{folder.write("records", file),
                                    {.header = 16,
                                     .fields = {{"pixels", type::u8, {pixels}},
                                                {"counts", type::u16, {counts}},
                                                {"levels", type::i16, {levels}},
                                                {"label", type::i32, {}}}}};

    constexpr float third = 1 / 3.0F;
    cuota::budget const device{"device", 256_MiB};
    cuota::budget const pinned{"pinned", 256_MiB};
    cuota::stream const stream;
    host_side<float> seen_pixels{batch * pixels, stream}, seen_levels{batch * levels, stream};
    host_side<cuota::half> seen_counts{batch * counts, stream};
    host_side<std::int32_t> seen_labels{batch, stream};
    conversions_seen seen;
    {
        cuota::batch_loader loader{
            source,
            {.batch_size = batch,
             .device_budget = device,
             .pinned_budget = pinned,
             .seed = 3,
             .workers = 2,
             .transform = cuota::converted_on_device(source.fields(), {{"pixels", type::f32, 1 / 255.0},
                                                                       {"counts", type::f16, 0.25, 1},
                                                                       {"levels", type::f32, third, -0.5}})}};
        for (std::uint64_t epoch = 0; epoch != 2; ++epoch)
            for (cuota::batch const b : loader.epoch(epoch)) {
                auto const some_pixels = seen_pixels.copy(b, 0, stream);
                auto const some_counts = seen_counts.copy(b, 1, stream);
                auto const some_levels = seen_levels.copy(b, 2, stream);
                auto const some_labels = seen_labels.copy(b, 3, stream);
                for (std::size_t k = 0; k != b.size(); ++k) {
                    std::uint64_t const sample = b.samples()[k];
                    record const in{sample};
                    for (std::size_t i = 0; i != pixels; ++i)
                        check_number("pixel", sample, i, some_pixels[k * pixels + i],
                                     scaled(in.pixel[i], static_cast<float>(1 / 255.0), 0));
                    for (std::size_t i = 0; i != counts;
                         ++i)  // exact as a float, so rounded once, to 16 bits
                        check_number("count", sample, i, static_cast<float>(some_counts[k * counts + i]),
                                     static_cast<float>(cuota::half{scaled(in.count[i], 0.25F, 1)}));
                    for (std::size_t i = 0; i != levels; ++i) {
                        float const got = some_levels[k * levels + i];
                        float const fused = std::fma(static_cast<float>(in.level[i]), third, -0.5F);
                        float const twice = scaled(in.level[i], third, -0.5F);
                        seen.fused += got != twice ? 1 : 0;
                        check_number("level", sample, i, got, got == fused ? fused : twice);
                    }
                    expect_equal("a label", some_labels[k], in.label);
                    seen.numbers += pixels + counts + levels + 1;
                }
            }
    }
    expect_equal("numbers checked", seen.numbers, 2 * samples * (pixels + counts + levels + 1));
    expect_equal("device bytes held at the end", device.held(), 0U);
    expect_equal("pinned bytes held at the end", pinned.held(), 0U);
    return text("%llu numbers are the host's; %llu were rounded once in place of twice",
                static_cast<unsigned long long>(seen.numbers), static_cast<unsigned long long>(seen.fused));
}

}  // namespace truth
