// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Survives a refusal: a batch that does not fit as a whole runs in parts, and the gradient is the same.
///
/// Expected output:
///
///     1500 samples in 4 parts of at most 375, after 2 refusals
///     gradient 1124250, held at most 1.4 MiB
#include <cstddef>
#include <cstdio>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/training/batches/with_retry.hpp>

using namespace cuota::literals;

constexpr std::size_t width = 1000;  // floats per sample

struct forward {
    std::size_t first;
    cuota::device_span<float> activations;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        std::size_t const sample = first + i / width;
        activations[i] = static_cast<float>(sample);
    }
};

struct backward {
    cuota::device_span<float const> activations;
    cuota::device_span<float> gradient;
    CUOTA_KERNEL void operator()(std::size_t column) const {
        for (std::size_t at = column; at < activations.size(); at += width)
            gradient[column] += activations[at];
    }
};

int main() {
    cuota::budget const budget{"trainer", 2_MiB};
    cuota::budgeted<> const memory{budget};
    cuota::stream const stream;
    cuota::device_buffer<float> gradient{width, stream, memory, "gradient"};

    auto const run_part = [&](cuota::micro_batch part) {  // accumulates into the gradient
        cuota::device_buffer<float> activations{part.count * width, stream, memory, "activations"};
        cuota::for_each_index(stream, activations.size(), forward{part.first, activations.write(stream)});
        cuota::for_each_index(stream, width, backward{activations.read(stream), gradient.write(stream)});
    };
    auto const begin = [&] {  // called at the start of a batch, and again after a refusal
        gradient = cuota::device_buffer<float>{width, stream, memory, "gradient"};
    };
    cuota::retry_result const how = cuota::with_retry(1500, run_part, {.on_start = begin});

    std::printf("1500 samples in %zu parts of at most %zu, after %zu refusals\n", how.parts, how.part,
                how.refusals);
    std::printf("gradient %.0f, held at most %s\n", static_cast<double>(gradient.to_vector(stream).front()),
                cuota::bytes_text(budget.peak()).c_str());
}
