// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The kernels and the input data of the programs in this folder. Each function launches one kernel on `stream`, by default on the
/// default stream, and takes raw pointers to device memory, as functions of existing programs do.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#include <cuota/core/config.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace kernels {

struct scale_body {
    float* to;
    float const* from;
    float factor;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = factor * from[i]; }
};

/// Sets to[i] = factor * from[i].
inline void scale(float* to, float const* from, float factor, std::size_t count, cudaStream_t stream = {}) {
    cuota::for_each_index(cuota::stream_ref{stream}, count, scale_body{to, from, factor}, "scale");
}

struct add_scaled_body {
    float* to;
    float const* from;
    float factor;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += factor * from[i]; }
};

/// Adds factor * from[i] to to[i].
inline void add_scaled(float* to, float const* from, float factor, std::size_t count,
                       cudaStream_t stream = {}) {
    cuota::for_each_index(cuota::stream_ref{stream}, count, add_scaled_body{to, from, factor}, "add_scaled");
}

struct dot_rows_body {
    float* to;
    float const* rows;
    float const* vector;
    std::size_t columns;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        float sum = 0;
        for (std::size_t k = 0; k != columns; ++k) sum += rows[i * columns + k] * vector[k];
        to[i] = sum;
    }
};

/// Sets to[i] to the dot product of row i and the vector, for `count` rows of `columns` elements.
inline void dot_rows(float* to, float const* rows, float const* vector, std::size_t count,
                     std::size_t columns, cudaStream_t stream = {}) {
    cuota::for_each_index(cuota::stream_ref{stream}, count, dot_rows_body{to, rows, vector, columns},
                          "dot_rows");
}

struct squared_error_body {
    float* losses;
    float const* outputs;
    float const* targets;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        float const error = outputs[i] - targets[i];
        losses[i] = error * error;
    }
};

/// Sets losses[i] to the square of outputs[i] - targets[i].
inline void squared_error(float* losses, float const* outputs, float const* targets, std::size_t count,
                          cudaStream_t stream = {}) {
    cuota::for_each_index(cuota::stream_ref{stream}, count, squared_error_body{losses, outputs, targets},
                          "squared_error");
}

struct mean_gradient_body {
    float* gradients;
    float const* inputs;
    float const* outputs;
    float const* targets;
    std::size_t samples, features;
    CUOTA_KERNEL void operator()(std::size_t feature) const {
        float sum = 0;
        for (std::size_t i = 0; i != samples; ++i)
            sum += (outputs[i] - targets[i]) * inputs[i * features + feature];
        gradients[feature] = 2 * sum / static_cast<float>(samples);
    }
};

/// Sets `gradients`, one for each feature, to the gradient of the mean squared error.
inline void mean_gradient(float* gradients, float const* inputs, float const* outputs, float const* targets,
                          std::size_t samples, std::size_t features, cudaStream_t stream = {}) {
    cuota::for_each_index(cuota::stream_ref{stream}, features,
                          mean_gradient_body{gradients, inputs, outputs, targets, samples, features},
                          "mean_gradient");
}

/// Returns `count` multiples of 1/8 in [-1, 1), the same on every machine.
[[nodiscard]] inline std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 random{seed};
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() % 16) / 8 - 1;
    return values;
}

}  // namespace kernels
