// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The program of the README: a budget, a pool on it, a buffer in it, a loader that feeds it; and a refusal.
/// Reads images.npy (f32, samples first) in the current folder. Expected output: the refusal, as the README has it.
#include <cstddef>
#include <cstdio>

#include <cuota/cuota.hpp>

using namespace cuota::literals;

struct accumulate {
    cuota::device_span<float const> pixels;
    cuota::device_span<float> weights;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        for (std::size_t at = i; at < pixels.size(); at += weights.size()) weights[i] += pixels[at];
    }
};

void train_step(cuota::device_span<float const> pixels, cuota::device_span<float> weights,
                cuota::stream_ref stream) {
    cuota::for_each_index(stream, weights.size(), accumulate{pixels, weights});
}

int main() try {
    cuota::budget budget{"trainer", 512_MiB};  // what this program may hold on the device
    cuota::scoped_pool pool{budget};           // frees its memory when the scope ends
    cuota::stream stream;
    cuota::device_buffer<float> weights{1'000'000, stream, pool, "weights"};
    cuota::batch_loader loader{cuota::npy_dataset{"images.npy"},
                               {.batch_size = 256, .device_budget = budget, .seed = 1}};

    for (cuota::batch batch : loader.epoch(0))  // one batch at a time, copied while the last one computes
        train_step(batch.view<float>(stream), weights.write(stream), stream);

    cuota::device_buffer<float> too_large{200'000'000, stream, pool};  // refused: nothing is allocated
} catch (cuota::budget_exceeded const& refused) { std::puts(refused.what()); }
