// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The kernels of deep_network.hpp. A sample's result does not depend on the number of samples per launch, and sums accumulate onto the
/// stored values in sample order, so a batch that is split into parts gives bitwise the same result.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/half.hpp>

namespace train {

using cuota::device_span;

/// Converts a stored value to float: bytes are pixels and are scaled to 0 to 1.
[[nodiscard]] CUOTA_KERNEL inline float number(float x) { return x; }
[[nodiscard]] CUOTA_KERNEL inline float number(cuota::half x) { return static_cast<float>(x); }
[[nodiscard]] CUOTA_KERNEL inline float number(std::uint8_t x) {
    return static_cast<float>(x) * (1.0f / 255.0f);
}

/// Dropout mask of a step: a function of the seed and of the unit's position in the whole batch.
struct dropout {
    float rate = 0;
    std::uint64_t seed = 0;
    std::size_t first = 0;  ///< the index in the batch of this part's first unit

    [[nodiscard]] CUOTA_KERNEL bool keeps(std::size_t unit) const {
        if (rate <= 0) return true;
        return static_cast<float>(mixed(seed + first + unit) >> 40) * 0x1p-24f >= rate;
    }
    /// SplitMix64 (Steele et al., 2014): the x-th element of its sequence.
    [[nodiscard]] CUOTA_KERNEL static std::uint64_t mixed(std::uint64_t x) {
        x = (x + 1) * 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
        return x ^ (x >> 31);
    }
    /// Scale of the kept units, which preserves the expected sum.
    [[nodiscard]] CUOTA_KERNEL float factor() const { return 1.0f / (1.0f - rate); }
};

/// The tiles of one matrix row, `width` columns each; one index of the kernels below computes one tile.
struct row_tiles {
    static constexpr std::size_t width = 16;
    std::size_t columns;

    [[nodiscard]] CUOTA_KERNEL std::size_t count() const { return (columns + width - 1) / width; }
    [[nodiscard]] CUOTA_KERNEL std::size_t row(std::size_t i) const { return i / count(); }
    [[nodiscard]] CUOTA_KERNEL std::size_t first(std::size_t i) const { return i % count() * width; }
    [[nodiscard]] CUOTA_KERNEL std::size_t size(std::size_t i) const {
        std::size_t const rest = columns - first(i);
        return rest < width ? rest : width;
    }
};

/// out = in weights + bias. With is_clamped, ReLU and dropout follow; with adds_input, `in` is added to the result. `passed` stores whether
/// a unit was neither clamped nor dropped; it is empty if the caller does not need it.
template <class In, class Out>
struct dense_forward {
    std::size_t rows, inputs, outputs;
    bool is_clamped, adds_input;
    dropout drop;
    device_span<In const> in;
    device_span<float const> weights, bias;
    device_span<Out> out;
    device_span<std::uint8_t> passed;

    [[nodiscard]] std::size_t indices() const { return rows * row_tiles{outputs}.count(); }

    CUOTA_KERNEL void operator()(std::size_t i) const {
        row_tiles const tiles{outputs};
        std::size_t const row = tiles.row(i);
        std::size_t const first = tiles.first(i);
        std::size_t const size = tiles.size(i);
        float sum[row_tiles::width] = {};
        for (std::size_t k = 0; k != inputs; ++k) {
            float const left = number(in[row * inputs + k]);
            float const* const right = weights.data() + k * outputs + first;
            for (std::size_t j = 0; j != size; ++j) sum[j] += left * right[j];
        }
        for (std::size_t j = 0; j != size; ++j) store(row * outputs + first + j, sum[j] + bias[first + j]);
    }
    CUOTA_KERNEL void store(std::size_t at, float value) const {
        if (is_clamped) {
            bool const passes = value > 0 && drop.keeps(at);
            value = passes ? value * drop.factor() : 0;
            if (passed.size() != 0) passed[at] = passes ? 1 : 0;
        }
        if (adds_input) value += number(in[at]);
        out[at] = static_cast<Out>(value);
    }
};

/// The gradient of a layer's pre-activations, computed from the gradient of its result.
template <class Gradient>
struct dense_gradient {
    device_span<Gradient const> of_result;
    device_span<std::uint8_t const> passed;  ///< empty: all units passed
    float factor;

    [[nodiscard]] CUOTA_KERNEL float operator[](std::size_t i) const {
        if (passed.size() == 0) return number(of_result[i]);
        return passed[i] != 0 ? number(of_result[i]) * factor : 0;
    }
};

/// weights += inT gradient. One index accumulates 16 weights over the samples, in sample order.
template <class In, class Gradient>
struct add_weights_gradient {
    std::size_t rows, inputs, outputs;
    device_span<In const> in;
    dense_gradient<Gradient> gradient;
    device_span<float> weights;

    [[nodiscard]] std::size_t indices() const { return inputs * row_tiles{outputs}.count(); }

    CUOTA_KERNEL void operator()(std::size_t i) const {
        row_tiles const tiles{outputs};
        std::size_t const input = tiles.row(i);
        std::size_t const first = tiles.first(i);
        std::size_t const size = tiles.size(i);
        float sum[row_tiles::width] = {};
        for (std::size_t j = 0; j != size; ++j) sum[j] = weights[input * outputs + first + j];
        for (std::size_t row = 0; row != rows; ++row) {
            float const left = number(in[row * inputs + input]);
            for (std::size_t j = 0; j != size; ++j) sum[j] += left * gradient[row * outputs + first + j];
        }
        for (std::size_t j = 0; j != size; ++j) weights[input * outputs + first + j] = sum[j];
    }
};

/// bias += the column sums of the gradient.
template <class Gradient>
struct add_bias_gradient {
    std::size_t rows, outputs;
    dense_gradient<Gradient> gradient;
    device_span<float> bias;

    CUOTA_KERNEL void operator()(std::size_t column) const {
        float sum = bias[column];
        for (std::size_t row = 0; row != rows; ++row) sum += gradient[row * outputs + column];
        bias[column] = sum;
    }
};

/// The gradient of a layer's input: gradient weightsT, plus the gradient of the result if the layer adds its input.
template <class Gradient, class Out>
struct input_gradient {
    std::size_t rows, inputs, outputs;
    bool adds_input;
    dense_gradient<Gradient> gradient;
    device_span<float const> weights;
    device_span<Out> out;

    [[nodiscard]] std::size_t indices() const { return rows * row_tiles{inputs}.count(); }

    CUOTA_KERNEL void operator()(std::size_t i) const {
        row_tiles const tiles{inputs};
        std::size_t const row = tiles.row(i);
        std::size_t const first = tiles.first(i);
        std::size_t const size = tiles.size(i);
        float sum[row_tiles::width] = {};
        for (std::size_t k = 0; k != outputs; ++k) {
            float const left = gradient[row * outputs + k];
            for (std::size_t j = 0; j != size; ++j) sum[j] += left * weights[(first + j) * outputs + k];
        }
        for (std::size_t j = 0; j != size; ++j) {
            std::size_t const at = row * inputs + first + j;
            float const whole = adds_input ? sum[j] + number(gradient.of_result[at]) : sum[j];
            out[at] = static_cast<Out>(whole);
        }
    }
};

/// AdamW (Loshchilov and Hutter, 2019). Resets the gradient to zero for the next step.
struct adamw {
    float rate, decay;
    float first_share, second_share;  ///< 1 - beta^step of each moment
    device_span<float> gradient, first, second, parameters;

    CUOTA_KERNEL void operator()(std::size_t i) const {
        constexpr float beta_1 = 0.9f;
        constexpr float beta_2 = 0.999f;
        float const g = gradient[i];
        gradient[i] = 0;
        first[i] = beta_1 * first[i] + (1 - beta_1) * g;
        second[i] = beta_2 * second[i] + (1 - beta_2) * g * g;
        float const spread = std::sqrt(second[i] / second_share) + 1e-8f;
        parameters[i] -= rate * (first[i] / first_share / spread + decay * parameters[i]);
    }
};

struct clear_floats {
    device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = 0; }
};

}  // namespace train
