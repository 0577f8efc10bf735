// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The network of train.cpp: one hidden layer, softmax, SGD with momentum; all kernels run through for_each_index.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/samplers/permutation.hpp>
#include <cuota/pool/scoped_pool.hpp>

#if defined(CUOTA_WITH_CUBLAS)
#include <stdexcept>

#include <cublas_v2.h>
#endif

namespace train {

using cuota::device_buffer;
using cuota::device_span;
using cuota::stream_ref;

/// The sizes that determine the network.
struct shape {
    std::size_t batch;
    std::size_t inputs;
    std::size_t hidden;
    std::size_t classes;

    // Weights and biases of each layer.
    [[nodiscard]] std::size_t into_hidden() const { return inputs * hidden + hidden; }
    [[nodiscard]] std::size_t into_classes() const { return hidden * classes + classes; }
    [[nodiscard]] std::size_t parameters() const { return into_hidden() + into_classes(); }
};

// ---- kernels: one index, one thread ----

/// c[m, n] = a[m, k] b[k, n]; a and b are each stored transposed if their flag is set. One index computes `width` columns of a row and sums
/// in the order of k, so the result does not depend on the number of threads.
template <bool TransposedA, bool TransposedB>
struct product {
    static constexpr std::size_t width = 16;
    std::size_t m, n, k;
    device_span<float const> a, b;
    device_span<float> c;

    [[nodiscard]] std::size_t indices() const { return m * ((n + width - 1) / width); }

    CUOTA_KERNEL void operator()(std::size_t i) const {
        std::size_t const tiles = (n + width - 1) / width;
        std::size_t const row = i / tiles;
        std::size_t const first = i % tiles * width;
        std::size_t const columns = n - first < width ? n - first : width;
        float sum[width] = {};
        for (std::size_t at = 0; at != k; ++at) {
            float const left = TransposedA ? a[at * m + row] : a[row * k + at];
            if (columns == width)
                for (std::size_t j = 0; j != width; ++j) sum[j] += left * right(at, first + j);
            else
                for (std::size_t j = 0; j != columns; ++j) sum[j] += left * right(at, first + j);
        }
        for (std::size_t j = 0; j != columns; ++j) c[row * n + first + j] = sum[j];
    }
    CUOTA_KERNEL float right(std::size_t at, std::size_t column) const {
        return TransposedB ? b[column * k + at] : b[at * n + column];
    }
};

/// Converts samples to the network's input: bytes are scaled to 0 to 1, floats are copied.
template <class T>
struct to_input {
    device_span<T const> from;
    device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        to[i] = sizeof(T) == 1 ? static_cast<float>(from[i]) * (1.0f / 255.0f) : static_cast<float>(from[i]);
    }
};

template <class T>
struct to_label {
    device_span<T const> from;
    device_span<std::int32_t> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = static_cast<std::int32_t>(from[i]); }
};

struct add_bias {
    std::size_t columns;
    bool clamp_at_zero;
    device_span<float const> bias;
    device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        float const value = to[i] + bias[i % columns];
        to[i] = clamp_at_zero && value < 0 ? 0 : value;
    }
};

/// Softmax and cross-entropy of one sample: computes its loss and whether the largest score is correct, and replaces the scores by the
/// gradient of the batch's mean loss.
struct score {
    std::size_t classes;
    float share;  // weight of one sample in the mean
    device_span<std::int32_t const> labels;
    device_span<float> scores;
    device_span<float> losses;
    device_span<float> hits;

    CUOTA_KERNEL void operator()(std::size_t sample) const {
        std::size_t const at = sample * classes;
        std::size_t best = 0;
        for (std::size_t c = 1; c != classes; ++c)
            if (scores[at + c] > scores[at + best]) best = c;
        float const largest = scores[at + best];
        float sum = 0;
        for (std::size_t c = 0; c != classes; ++c) sum += std::exp(scores[at + c] - largest);
        auto const label = static_cast<std::size_t>(labels[sample]);
        losses[sample] = std::log(sum) - (scores[at + label] - largest);
        hits[sample] = best == label ? 1.0f : 0.0f;
        for (std::size_t c = 0; c != classes; ++c)
            scores[at + c] = share * (std::exp(scores[at + c] - largest) / sum - (c == label ? 1.0f : 0.0f));
    }
};

/// Clears the gradient of clamped units.
struct mask {
    device_span<float const> activations;
    device_span<float> gradient;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        if (activations[i] <= 0) gradient[i] = 0;
    }
};

struct sum_columns {
    std::size_t rows, columns;
    device_span<float const> from;
    device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t column) const {
        float sum = 0;
        for (std::size_t row = 0; row != rows; ++row) sum += from[row * columns + column];
        to[column] = sum;
    }
};

/// totals[0] += losses, totals[1] += hits. Runs as one index, so that the order of the sum is fixed.
struct add_up {
    std::size_t samples;
    device_span<float const> losses, hits;
    device_span<double> totals;
    CUOTA_KERNEL void operator()(std::size_t) const {
        for (std::size_t i = 0; i != samples; ++i) {
            totals[0] += static_cast<double>(losses[i]);
            totals[1] += static_cast<double>(hits[i]);
        }
    }
};

struct descend {
    float rate, momentum;
    device_span<float const> gradient;
    device_span<float> velocity, parameters;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        velocity[i] = momentum * velocity[i] - rate * gradient[i];
        parameters[i] += velocity[i];
    }
};

// ---- the network ----

#if defined(CUOTA_WITH_CUBLAS)
/// A cuBLAS handle. The memory that cuBLAS allocates for itself is not counted by any budget.
class blas {
public:
    blas() { check(cublasCreate(&handle_), "cublasCreate"); }
    blas(blas const&) = delete;
    blas& operator=(blas const&) = delete;
    ~blas() { cublasDestroy(handle_); }

    template <bool TransposedA, bool TransposedB>
    void multiply(stream_ref s, product<TransposedA, TransposedB> const& p) const {
        // Row-major c = a b is column-major cT = bT aT.
        float const one = 1;
        float const zero = 0;
        auto const m = static_cast<int>(p.m);
        auto const n = static_cast<int>(p.n);
        auto const k = static_cast<int>(p.k);
        check(cublasSetStream(handle_, s.get()), "cublasSetStream");
        check(cublasSgemm(handle_, TransposedB ? CUBLAS_OP_T : CUBLAS_OP_N,
                          TransposedA ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, p.b.data(),
                          TransposedB ? k : n, p.a.data(), TransposedA ? m : k, &zero, p.c.data(), n),
              "cublasSgemm");
    }

private:
    static void check(cublasStatus_t status, char const* call) {
        if (status != CUBLAS_STATUS_SUCCESS)
            throw std::runtime_error{std::string{call} + " failed: " + cublasGetStatusString(status)};
    }
    cublasHandle_t handle_{};
};
#else
struct blas {
    template <bool TransposedA, bool TransposedB>
    void multiply(stream_ref s, product<TransposedA, TransposedB> const& p) const {
        cuota::for_each_index(s, p.indices(), p, "product");
    }
};
#endif

/// One buffer of the memory plan.
struct part {
    cuota::tag name;
    std::size_t bytes;
};

/// Weights, gradients and activations in one pool, and the training steps on them.
class network {
public:
    /// Returns the buffers that a network of this shape allocates, with the sizes that the pool counts.
    [[nodiscard]] static std::vector<part> plan(shape const& s) {
        auto const bytes = [](std::size_t count, std::size_t each) {
            return cuota::round_up(cuota::checked_mul(count, each).value_or(cuota::unlimited),
                                   cuota::pool_resource::granularity());
        };
        return {{"parameters", bytes(s.parameters(), sizeof(float))},
                {"gradients", bytes(s.into_hidden(), sizeof(float)) + bytes(s.into_classes(), sizeof(float))},
                {"momentum", bytes(s.parameters(), sizeof(float))},
                {"input", bytes(s.batch * s.inputs, sizeof(float))},
                {"labels", bytes(s.batch, sizeof(std::int32_t))},
                {"hidden", bytes(s.batch * s.hidden, sizeof(float))},
                {"hidden gradient", bytes(s.batch * s.hidden, sizeof(float))},
                {"scores", bytes(s.batch * s.classes, sizeof(float))},
                {"losses", bytes(s.batch, sizeof(float))},
                {"hits", bytes(s.batch, sizeof(float))},
                {"totals", bytes(2, sizeof(double))}};
    }

    network(shape const& s, std::uint64_t seed, stream_ref on, cuota::any_resource const& memory)
        : shape_{s},
          stream_{on},
          parameters_{s.parameters(), on, memory, cuota::no_init, "parameters"},
          into_hidden_{s.into_hidden(), on, memory, "gradients"},
          into_classes_{s.into_classes(), on, memory, "gradients"},
          momentum_{s.parameters(), on, memory, "momentum"},
          input_{s.batch * s.inputs, on, memory, "input"},
          labels_{s.batch, on, memory, "labels"},
          hidden_{s.batch * s.hidden, on, memory, "hidden"},
          hidden_gradient_{s.batch * s.hidden, on, memory, "hidden gradient"},
          scores_{s.batch * s.classes, on, memory, "scores"},
          losses_{s.batch, on, memory, "losses"},
          hits_{s.batch, on, memory, "hits"},
          totals_{2, on, memory, "totals"} {
        parameters_.copy_from(first_parameters(seed), stream_);
    }

    /// Stores the samples and labels of a batch, converted from their types on disk.
    template <class T>
    void set_input(device_span<T const> samples) {
        cuota::for_each_index(stream_, samples.size(), to_input<T>{samples, input_.write(stream_)},
                              "to_input");
    }
    template <class T>
    void set_labels(device_span<T const> labels) {
        samples_ = labels.size();
        cuota::for_each_index(stream_, samples_, to_label<T>{labels, labels_.write(stream_)}, "to_label");
    }

    /// Computes the scores of the current batch, and adds its loss and hits to the totals.
    void evaluate() { evaluate(1.0f / static_cast<float>(samples_)); }

    /// Evaluates, then updates the parameters by one step of gradient descent.
    void learn(float rate) {
        backward(1.0f / static_cast<float>(samples_), [](std::size_t, device_buffer<float>&) {});
        descend_by(rate);
    }

    /// Returns the element counts of the gradients, in the order in which `backward` computes them.
    [[nodiscard]] std::vector<std::size_t> gradients() const {
        return {into_classes_.size(), into_hidden_.size()};
    }
    /// Evaluates, then computes the gradients of the loss in which each sample has the weight `share`. Calls `ready` for each gradient as
    /// soon as it is complete.
    template <class Ready>
    void backward(float share, Ready ready) {
        evaluate(share);
        auto const p = parameters_.read(stream_);
        std::size_t const n = samples_;
        {
            auto const g = into_classes_.write(stream_);
            auto const scores = scores_.read(stream_);  // hold the gradient of the scores after evaluate
            blas_.multiply(stream_,
                           product<true, false>{shape_.hidden, shape_.classes, n, hidden_.read(stream_),
                                                scores, weights_of(g.span(), shape_.classes)});
            cuota::for_each_index(stream_, shape_.classes,
                                  sum_columns{n, shape_.classes, scores, biases_of(g.span(), shape_.classes)},
                                  "sum_columns");
        }
        ready(0, into_classes_);
        {
            auto const g = into_hidden_.write(stream_);
            auto const back = hidden_gradient_.write(stream_);
            blas_.multiply(stream_, product<false, true>{n, shape_.hidden, shape_.classes,
                                                         scores_.read(stream_), weights_out(p.span()), back});
            cuota::for_each_index(stream_, n * shape_.hidden, mask{hidden_.read(stream_), back}, "mask");
            blas_.multiply(stream_,
                           product<true, false>{shape_.inputs, shape_.hidden, n, input_.read(stream_), back,
                                                weights_of(g.span(), shape_.hidden)});
            cuota::for_each_index(stream_, shape_.hidden,
                                  sum_columns{n, shape_.hidden, back, biases_of(g.span(), shape_.hidden)},
                                  "sum_columns");
        }
        ready(1, into_hidden_);
    }
    /// Updates the parameters from the gradients that backward computed.
    void descend_by(float rate) {
        constexpr float momentum = 0.9f;
        auto const p = parameters_.write(stream_);
        auto const v = momentum_.write(stream_);
        std::size_t const first = shape_.into_hidden();
        std::size_t const second = shape_.into_classes();
        cuota::for_each_index(stream_, first,
                              descend{rate, momentum, into_hidden_.read(stream_), v.span().subspan(0, first),
                                      p.span().subspan(0, first)},
                              "descend");
        cuota::for_each_index(stream_, second,
                              descend{rate, momentum, into_classes_.read(stream_),
                                      v.span().subspan(first, second), p.span().subspan(first, second)},
                              "descend");
    }

    struct totals {
        double loss;
        double hits;
    };
    /// Returns the totals since the last call. Blocks until the stream has finished.
    totals take_totals() {
        std::vector<double> const sums = totals_.to_vector(stream_);
        totals_.copy_from(std::vector<double>{0, 0}, stream_);
        return {sums[0], sums[1]};
    }

private:
    void evaluate(float share) {
        auto const p = parameters_.read(stream_);
        auto const hidden = hidden_.write(stream_);
        auto const scores = scores_.write(stream_);
        std::size_t const n = samples_;
        blas_.multiply(stream_, product<false, false>{n, shape_.hidden, shape_.inputs, input_.read(stream_),
                                                      weights_in(p.span()), hidden});
        cuota::for_each_index(stream_, n * shape_.hidden,
                              add_bias{shape_.hidden, true, bias_in(p.span()), hidden}, "add_bias");
        blas_.multiply(stream_, product<false, false>{n, shape_.classes, shape_.hidden, hidden.span(),
                                                      weights_out(p.span()), scores});
        cuota::for_each_index(stream_, n * shape_.classes,
                              add_bias{shape_.classes, false, bias_out(p.span()), scores}, "add_bias");
        cuota::for_each_index(stream_, n,
                              score{shape_.classes, share, labels_.read(stream_), scores,
                                    losses_.write(stream_), hits_.write(stream_)},
                              "score");
        cuota::for_each_index(stream_, 1,
                              add_up{n, losses_.read(stream_), hits_.read(stream_), totals_.write(stream_)},
                              "add_up");
    }

    // Weights are uniform, with the spread of He et al. (2015) for layers that are followed by a ReLU. Biases are zero.
    [[nodiscard]] std::vector<float> first_parameters(std::uint64_t seed) const {
        std::vector<float> p(shape_.parameters());
        std::uint64_t random = cuota::epoch_key(seed, 0);
        auto const fill = [&](std::size_t first, std::size_t count, std::size_t inputs) {
            float const spread = std::sqrt(6.0f / static_cast<float>(inputs));
            for (std::size_t i = 0; i != count; ++i) {
                random += 0x9E3779B97F4A7C15;
                auto const unit = static_cast<float>(cuota::detail::mixed(random) >> 40) * 0x1p-24f;
                p[first + i] = spread * (2 * unit - 1);
            }
        };
        fill(0, shape_.inputs * shape_.hidden, shape_.inputs);
        fill(shape_.inputs * shape_.hidden + shape_.hidden, shape_.hidden * shape_.classes, shape_.hidden);
        return p;
    }

    // A layer's weights [in, out] and biases, within the array of all parameters.
    template <class T>
    [[nodiscard]] device_span<T> weights_in(device_span<T> p) const {
        return p.subspan(0, shape_.inputs * shape_.hidden);
    }
    template <class T>
    [[nodiscard]] device_span<T> bias_in(device_span<T> p) const {
        return p.subspan(shape_.inputs * shape_.hidden, shape_.hidden);
    }
    template <class T>
    [[nodiscard]] device_span<T> weights_out(device_span<T> p) const {
        return p.subspan(shape_.inputs * shape_.hidden + shape_.hidden, shape_.hidden * shape_.classes);
    }
    template <class T>
    [[nodiscard]] device_span<T> bias_out(device_span<T> p) const {
        return p.subspan(shape_.parameters() - shape_.classes, shape_.classes);
    }

    // A layer's weights and biases, within its gradient buffer.
    [[nodiscard]] static device_span<float> weights_of(device_span<float> layer, std::size_t outputs) {
        return layer.first(layer.size() - outputs);
    }
    [[nodiscard]] static device_span<float> biases_of(device_span<float> layer, std::size_t outputs) {
        return layer.last(outputs);
    }

    shape shape_;
    stream_ref stream_;
    std::size_t samples_ = 0;
    [[no_unique_address]] blas blas_;
    device_buffer<float> parameters_, into_hidden_, into_classes_, momentum_;  // gradients by layer
    device_buffer<float> input_;
    device_buffer<std::int32_t> labels_;
    device_buffer<float> hidden_, hidden_gradient_, scores_, losses_, hits_;
    device_buffer<double> totals_;
};

}  // namespace train
