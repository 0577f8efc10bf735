// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Fits the batch: computes the largest batch that fits into the budget before anything runs, then confirms it by running it.
///
/// Expected output:
///
///     a batch of 788 fits: 60.1 MiB of 60.2 MiB, and 789 would take 60.2 MiB
///     a batch of 788 fits (788 was planned): 1 try
///     a batch of 788 fits, 789 was refused: 20 tries
#include <cstddef>
#include <cstdio>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/training/batches/find_batch_size.hpp>

using namespace cuota::literals;

int main() {
    cuota::budget const budget{"trainer", 64_MiB};
    cuota::budgeted<> const memory{budget};
    cuota::stream const stream;
    cuota::device_buffer<float> const weights{1'000'000, stream, memory, "weights"};

    auto const train_step = [&](std::size_t batch) {
        cuota::device_buffer<float> const activations{10'000 * batch, stream, memory, "activations"};
        cuota::device_buffer<float> const gradients{10'000 * batch, stream, memory, "gradients"};
    };

    cuota::footprint step;  // the same buffers, as a plan
    step.per_sample<float>("activations", 10'000).per_sample<float>("gradients", 10'000);
    std::puts(step.largest_batch(budget).text().c_str());

    cuota::batch_search_result const planned =
        cuota::find_batch_size(train_step, {.largest = 50'000, .budget = budget, .plan = &step});
    std::puts(planned.text().c_str());

    cuota::batch_search_result const found =  // as if the sizes of a step's buffers were unknown
        cuota::find_batch_size(train_step, {.largest = 50'000, .budget = budget});
    std::puts(found.text().c_str());
}
