// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A trainer with pointers in structs, on the default stream: with cuota. Usage: trainer_after [BATCH_SIZE [BUDGET]]
///
/// Returns 2 if the memory exceeds BUDGET, such as 4MiB. Expected output:
///
///     step 0: loss 9.7334
///     step 10: loss 0.1712
///     step 20: loss 0.0077
///     all 1024 samples: loss 0.0006
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <span>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "kernels.hpp"

constexpr std::size_t features = 64, samples = 1024;
constexpr cuota::stream_ref home = cuota::default_stream;

struct data_set {
    std::vector<float> inputs = kernels::random_values(samples * features, 1);
    std::vector<float> targets = std::vector<float>(samples);
};

struct activations {
    cuota::device_buffer<float> inputs;
    cuota::device_buffer<float> targets;
    cuota::device_buffer<float> outputs;
    cuota::device_buffer<float> losses;
    cuota::pinned_buffer<float> host_losses;
};

struct model {
    cuota::scoped_pool const& pool;
    cuota::device_buffer<float> weights{features, home, pool, "weights"};
    cuota::device_buffer<float> gradients{features, home, pool, "gradients"};
    cuota::device_buffer<float> momentum{features, home, pool, "momentum"};
    activations acts{};
};

static void allocate_activations(model& m, std::size_t batch_size) {
    if (m.acts.losses.size() == batch_size) return;
    m.acts = {};  // frees the former activations first
    m.acts = {.inputs{batch_size * features, home, m.pool, cuota::no_init, "inputs"},
              .targets{batch_size, home, m.pool, cuota::no_init, "targets"},
              .outputs{batch_size, home, m.pool, cuota::no_init, "outputs"},
              .losses{batch_size, home, m.pool, cuota::no_init, "losses"},
              .host_losses = cuota::pinned_buffer<float>{batch_size}};
}

/// Computes the outputs and returns the mean loss of samples [first, first + batch_size).
static double forward(model& m, data_set const& data, std::size_t first, std::size_t batch_size) {
    allocate_activations(m, batch_size);
    activations& a = m.acts;
    a.inputs.copy_from(std::span{data.inputs}.subspan(first * features, batch_size * features), home);
    a.targets.copy_from(std::span{data.targets}.subspan(first, batch_size), home);
    kernels::dot_rows(a.outputs.write(), a.inputs.read(), m.weights.read(), batch_size, features);
    kernels::squared_error(a.losses.write(), a.outputs.read(), a.targets.read(), batch_size);
    a.host_losses.download(a.losses, home);
    std::span<float const> const losses = a.host_losses.read();
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(batch_size);
}

static void update(model& m) {
    activations& a = m.acts;
    kernels::mean_gradient(m.gradients.write(), a.inputs.read(), a.outputs.read(), a.targets.read(),
                           a.losses.size(), features);
    auto const momentum = m.momentum.write();
    kernels::scale(momentum, momentum, 0.5F, features);
    kernels::add_scaled(momentum, m.gradients.read(), 1, features);
    kernels::add_scaled(m.weights.write(), momentum, -0.125F, features);
}

int main(int argc, char** argv) try {
    std::size_t const batch_size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
    std::size_t const bytes = cuota::parse_bytes(argc > 2 ? argv[2] : "64MiB").value_or(0);
    if (batch_size == 0 || batch_size > samples || bytes == 0) {
        std::fprintf(stderr, "usage: trainer_after [BATCH_SIZE [BUDGET]], at most %zu\n", samples);
        return EXIT_FAILURE;
    }
    data_set data;
    for (std::size_t i = 0; i != samples; ++i)
        for (std::size_t k = 0; k != features; ++k)
            data.targets[i] += data.inputs[i * features + k] * (k % 2 == 0 ? 0.5F : -0.75F);

    cuota::scoped_pool const pool{cuota::budget{"trainer", bytes}};
    model m{pool};
    for (std::size_t step = 0; step != 30; ++step) {
        std::size_t const first = step * batch_size % (samples - batch_size + 1);
        double const loss = forward(m, data, first, batch_size);
        update(m);
        if (step % 10 == 0) std::printf("step %zu: loss %.4f\n", step, loss);
    }
    std::printf("all %zu samples: loss %.4f\n", samples, forward(m, data, 0, samples));
} catch (cuota::out_of_memory const& refused) {
    std::fprintf(stderr, "%s\n", refused.what());
    return 2;
} catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
