// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A trainer with pointers in structs, on the default stream: before cuota. Usage: trainer_before [BATCH_SIZE]
///
/// Expected output:
///
///     step 0: loss 9.7334
///     step 10: loss 0.1712
///     step 20: loss 0.0077
///     all 1024 samples: loss 0.0006
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <cuda_runtime.h>

#include "kernels.hpp"

#define CUDA_CHECK(call) check(call, #call, __FILE__, __LINE__)

static void check(cudaError_t status, char const* call, char const* file, int line) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(status));
    std::exit(EXIT_FAILURE);
}

constexpr std::size_t features = 64, samples = 1024;

struct data_set {
    std::vector<float> inputs = kernels::random_values(samples * features, 1);
    std::vector<float> targets = std::vector<float>(samples);
};

struct activations {
    float* inputs;
    float* targets;
    float* outputs;
    float* losses;
    float* host_losses;  // pinned
};

struct model {
    float* weights;
    float* gradients;
    float* momentum;
    activations acts;
    std::size_t batch_size;  // of the activations
};

static void build(model& m) {
    m = {};
    CUDA_CHECK(cudaMalloc(&m.weights, features * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m.gradients, features * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m.momentum, features * sizeof(float)));
    CUDA_CHECK(cudaMemset(m.weights, 0, features * sizeof(float)));
    CUDA_CHECK(cudaMemset(m.momentum, 0, features * sizeof(float)));
}

static void free_activations(model& m) {
    CUDA_CHECK(cudaFree(m.acts.inputs));
    CUDA_CHECK(cudaFree(m.acts.targets));
    CUDA_CHECK(cudaFree(m.acts.outputs));
    CUDA_CHECK(cudaFree(m.acts.losses));
    CUDA_CHECK(cudaFreeHost(m.acts.host_losses));
    m.acts = {};
}

static void destroy(model& m) {
    free_activations(m);
    CUDA_CHECK(cudaFree(m.weights));
    CUDA_CHECK(cudaFree(m.gradients));
    CUDA_CHECK(cudaFree(m.momentum));
}

static void allocate_activations(model& m, std::size_t batch_size) {
    if (m.batch_size == batch_size) return;
    free_activations(m);
    CUDA_CHECK(cudaMalloc(&m.acts.inputs, batch_size * features * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m.acts.targets, batch_size * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m.acts.outputs, batch_size * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&m.acts.losses, batch_size * sizeof(float)));
    CUDA_CHECK(cudaMallocHost(&m.acts.host_losses, batch_size * sizeof(float)));
    m.batch_size = batch_size;
}

/// Computes the outputs and returns the mean loss of samples [first, first + batch_size).
static double forward(model& m, data_set const& data, std::size_t first, std::size_t batch_size) {
    allocate_activations(m, batch_size);
    activations& a = m.acts;
    CUDA_CHECK(cudaMemcpy(a.inputs, data.inputs.data() + first * features,
                          batch_size * features * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(a.targets, data.targets.data() + first, batch_size * sizeof(float),
                          cudaMemcpyHostToDevice));
    kernels::dot_rows(a.outputs, a.inputs, m.weights, batch_size, features);
    CUDA_CHECK(cudaGetLastError());
    kernels::squared_error(a.losses, a.outputs, a.targets, batch_size);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(a.host_losses, a.losses, batch_size * sizeof(float), cudaMemcpyDeviceToHost));
    return std::accumulate(a.host_losses, a.host_losses + batch_size, 0.0) / static_cast<double>(batch_size);
}

static void update(model& m) {
    activations& a = m.acts;
    kernels::mean_gradient(m.gradients, a.inputs, a.outputs, a.targets, m.batch_size, features);
    CUDA_CHECK(cudaGetLastError());
    kernels::scale(m.momentum, m.momentum, 0.5F, features);
    CUDA_CHECK(cudaGetLastError());
    kernels::add_scaled(m.momentum, m.gradients, 1, features);
    CUDA_CHECK(cudaGetLastError());
    kernels::add_scaled(m.weights, m.momentum, -0.125F, features);
    CUDA_CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    std::size_t const batch_size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
    if (batch_size == 0 || batch_size > samples) {
        std::fprintf(stderr, "usage: trainer_before [BATCH_SIZE], at most %zu\n", samples);
        return EXIT_FAILURE;
    }
    data_set data;
    for (std::size_t i = 0; i != samples; ++i)
        for (std::size_t k = 0; k != features; ++k)
            data.targets[i] += data.inputs[i * features + k] * (k % 2 == 0 ? 0.5F : -0.75F);

    model m;
    build(m);
    for (std::size_t step = 0; step != 30; ++step) {
        std::size_t const first = step * batch_size % (samples - batch_size + 1);
        double const loss = forward(m, data, first, batch_size);
        update(m);
        if (step % 10 == 0) std::printf("step %zu: loss %.4f\n", step, loss);
    }
    std::printf("all %zu samples: loss %.4f\n", samples, forward(m, data, 0, samples));
    destroy(m);
}
