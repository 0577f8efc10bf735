// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Streams batches: the data set is larger than its device memory; each batch is copied while the previous one is processed.
///
/// Expected output:
///
///     1500 samples
///     1500 samples
///     1500 samples
///     1500 samples
///     1500 samples
///     1500 samples
///     1000 samples
///     2.4 MiB of data, 750.5 KiB on the device at the most; each column sums to 45000
#include <cstddef>
#include <cstdio>
#include <vector>

#include <cuota/cuota.hpp>

using namespace cuota::literals;

constexpr std::size_t width = 64;  // floats per sample

struct add_columns {
    cuota::device_span<float const> samples;
    cuota::device_span<float> sums;
    CUOTA_KERNEL void operator()(std::size_t column) const {
        for (std::size_t at = column; at < samples.size(); at += width) sums[column] += samples[at];
    }
};

int main() {
    std::vector<float> data(10'000 * width);
    for (std::size_t i = 0; i != data.size(); ++i) data[i] = static_cast<float>(i / width % 10);

    cuota::budget const budget{"program", 1_MiB};
    cuota::stream const stream;
    cuota::device_buffer<float> sums{width, stream, cuota::budgeted{budget}, "sums"};
    cuota::batch_loader loader{cuota::memory_dataset{"samples", data, {width}},
                               {.batch_size = 1500, .device_budget = budget, .seed = 1}};

    for (cuota::batch batch : loader.epoch(0)) {
        cuota::for_each_index(stream, width, add_columns{batch.view<float>(stream), sums.write(stream)});
        std::printf("%zu samples\n", batch.size());
    }
    std::printf("%s of data, %s on the device at the most; each column sums to %g\n",
                cuota::bytes_text(data.size() * sizeof(float)).c_str(),
                cuota::bytes_text(budget.peak()).c_str(),
                static_cast<double>(sums.to_vector(stream).front()));
}
