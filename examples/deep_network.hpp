// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A network deep enough to run out of memory, as the stages of a chain: residual layers, softmax, AdamW.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/samplers/permutation.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>

#include "deep_kernels.hpp"
#include "train_network.hpp"

namespace train {

/// The sizes that determine the network.
struct deep_shape {
    std::size_t batch;
    std::size_t inputs;
    std::size_t width;
    std::size_t layers;  ///< hidden layers
    std::size_t classes;
    float dropout;  ///< fraction of the units that a step drops

    [[nodiscard]] std::size_t parameters() const {
        return inputs * width + width + (layers - 1) * (width * width + width) + width * classes + classes;
    }
};

/// Parameters, gradients and AdamW moments, and the stages of a chain over them. The first layer reads the samples as they are on disk; the
/// last stage is the loss. Activations and their gradients have element type S and belong to the caller that runs the stages; all other
/// values are floats that this class owns.
///
/// Gradients accumulate until `step`, in sample order, each sample with weight 1 / batch. They are therefore bitwise independent of how the
/// batch is split and of what is recomputed.
template <class S>
class deep_network {
public:
    /// Lists the network's own buffers, for a resource of this granularity.
    [[nodiscard]] static cuota::footprint plan(deep_shape const& s, std::size_t granularity) {
        cuota::footprint p = cuota::footprint::with_granularity(granularity);
        p.add<float>("parameters", s.parameters()).add<float>("gradients", s.parameters());
        p.add<float>("moments", s.parameters(), cuota::copies(2));
        p.add<std::int32_t>("labels", s.batch).add<float>("losses", s.batch).add<float>("hits", s.batch);
        return p.add<double>("totals", 2);
    }

    deep_network(deep_shape const& s, cuota::element_type pixels, std::uint64_t seed, stream_ref on,
                 cuota::resource_ref const& memory)
        : shape_{s},
          pixels_{pixels},
          stream_{on},
          parameters_{s.parameters(), on, memory, "parameters"},
          gradients_{s.parameters(), on, memory, "gradients"},
          first_moment_{s.parameters(), on, memory, "moments"},
          second_moment_{s.parameters(), on, memory, "moments"},
          labels_{s.batch, on, memory, "labels"},
          losses_{s.batch, on, memory, "losses"},
          hits_{s.batch, on, memory, "hits"},
          totals_{2, on, memory, "totals"} {
        parameters_.copy_from(first_parameters(seed), stream_);
    }
    deep_network(deep_network const&) = delete;  // the stages refer to it
    deep_network& operator=(deep_network const&) = delete;

    /// Returns the sizes of the stages for up to `samples` samples at once.
    [[nodiscard]] static std::vector<cuota::checkpoint_stage> sizes(deep_shape const& s,
                                                                    std::size_t samples) {
        std::vector<cuota::checkpoint_stage> all(s.layers + 1);
        for (cuota::checkpoint_stage& stage : all) {
            stage.name = &stage == &all.front() ? cuota::tag{"first layer"} : cuota::tag{"layers"};
            stage.output_bytes = samples * s.width * sizeof(S);
            stage.saved_bytes = samples * s.width;
        }
        all.back().name = "loss";
        all.back().output_bytes = samples * s.classes * sizeof(float);
        all.back().saved_bytes = 0;
        return all;
    }
    /// Returns the stages with their functions, which refer to this network and must not outlive it.
    [[nodiscard]] std::vector<cuota::checkpoint_stage> stages(std::size_t samples) {
        std::vector<cuota::checkpoint_stage> all = sizes(shape_, samples);
        for (cuota::checkpoint_stage& stage : all) {
            stage.forward = [this](cuota::stage_context const& run) { layer_forward(run); };
            stage.backward = [this](cuota::stage_context const& run) { layer_backward(run); };
        }
        all.back().forward = [this](cuota::stage_context const& run) { loss_forward(run); };
        all.back().backward = [this](cuota::stage_context const& run) { loss_backward(run); };
        return all;
    }

    /// Stores the labels of a whole batch, converted from their type on disk.
    template <class T>
    void set_labels(device_span<T const> labels) {
        cuota::for_each_index(stream_, labels.size(), to_label<T>{labels, labels_.write(stream_)},
                              "to_label");
    }
    /// Sets the part of the batch that the stages run next, and the factor of the loss.
    void set_part(cuota::micro_batch part, float scale = 1) {
        part_ = part;
        scale_ = scale;
    }

    [[nodiscard]] device_buffer<float> const& parameters() const { return parameters_; }
    /// Returns the accumulated gradients; writable, so that a loss scaler can unscale them.
    [[nodiscard]] device_buffer<float>& gradients() { return gradients_; }
    void clear_gradients() {
        cuota::for_each_index(stream_, shape_.parameters(), clear_floats{gradients_.write(stream_)}, "clear");
    }
    /// Updates the parameters from the gradients, then clears the gradients.
    void step(float rate) {
        ++steps_;
        cuota::for_each_index(stream_, shape_.parameters(),
                              adamw{rate, 0.01f, share(0.9f), share(0.999f), gradients_.write(stream_),
                                    first_moment_.write(stream_), second_moment_.write(stream_),
                                    parameters_.write(stream_)},
                              "adamw");
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
    // ---- stages ----

    void layer_forward(cuota::stage_context const& run) {
        if (run.stage() != 0) layer_forward_from<S>(run);
        else if (pixels_ == cuota::element_type::u8) layer_forward_from<std::uint8_t>(run);
        else layer_forward_from<float>(run);
    }
    template <class In>
    void layer_forward_from(cuota::stage_context const& run) {
        std::size_t const inputs = inputs_of(run.stage());
        auto const p = parameters_.read(stream_);
        dense_forward<In, S> const k{part_.count,
                                     inputs,
                                     shape_.width,
                                     true,
                                     run.stage() != 0,
                                     drop(run),
                                     run.input<In>(),
                                     weights(p.span(), run.stage()),
                                     bias(p.span(), run.stage()),
                                     run.output<S>(),
                                     run.saved<std::uint8_t>()};
        cuota::for_each_index(run.stream(), k.indices(), k, "dense_forward");
    }
    void layer_backward(cuota::stage_context const& run) {
        dense_gradient<S> const gradient{run.output_gradient<S>(), run.saved<std::uint8_t>(),
                                         drop(run).factor()};
        if (run.stage() != 0) {
            add_gradients(run, run.input<S>(), gradient, shape_.width);
            make_input_gradient(run, gradient, shape_.width, true);
        } else if (pixels_ == cuota::element_type::u8)
            add_gradients(run, run.input<std::uint8_t>(), gradient, shape_.width);
        else add_gradients(run, run.input<float>(), gradient, shape_.width);
    }

    void loss_forward(cuota::stage_context const& run) {
        auto const p = parameters_.read(stream_);
        auto const labels = labels_.read(stream_);
        auto const losses = losses_.write(stream_);
        auto const hits = hits_.write(stream_);
        dense_forward<S, float> const k{part_.count,
                                        shape_.width,
                                        shape_.classes,
                                        false,
                                        false,
                                        {},
                                        run.input<S>(),
                                        weights(p.span(), run.stage()),
                                        bias(p.span(), run.stage()),
                                        run.output<float>(),
                                        {}};
        cuota::for_each_index(run.stream(), k.indices(), k, "dense_forward");
        cuota::for_each_index(run.stream(), part_.count,
                              score{shape_.classes, scale_ / static_cast<float>(part_.batch_size),
                                    labels.span().subspan(part_.first, part_.count), run.output<float>(),
                                    losses.span(), hits.span()},
                              "score");
        if (run.is_recomputation()) return;
        cuota::for_each_index(run.stream(), 1,
                              add_up{part_.count, losses.span(), hits.span(), totals_.write(stream_)},
                              "add_up");
    }
    void loss_backward(cuota::stage_context const& run) {
        dense_gradient<float> const gradient{run.result<float>(), {}, 1};
        add_gradients(run, run.input<S>(), gradient, shape_.classes);
        make_input_gradient(run, gradient, shape_.classes, false);
    }

    template <class In, class G>
    void add_gradients(cuota::stage_context const& run, device_span<In const> input,
                       dense_gradient<G> const& gradient, std::size_t outputs) {
        auto const sums = gradients_.write(stream_);
        add_weights_gradient<In, G> const k{part_.count, inputs_of(run.stage()),           outputs, input,
                                            gradient,    weights(sums.span(), run.stage())};
        cuota::for_each_index(run.stream(), k.indices(), k, "add_weights_gradient");
        cuota::for_each_index(
            run.stream(), outputs,
            add_bias_gradient<G>{part_.count, outputs, gradient, bias(sums.span(), run.stage())},
            "add_bias_gradient");
    }
    template <class G>
    void make_input_gradient(cuota::stage_context const& run, dense_gradient<G> const& gradient,
                             std::size_t outputs, bool adds_input) {
        auto const p = parameters_.read(stream_);
        input_gradient<G, S> const k{part_.count,
                                     shape_.width,
                                     outputs,
                                     adds_input,
                                     gradient,
                                     weights(p.span(), run.stage()),
                                     run.input_gradient<S>()};
        cuota::for_each_index(run.stream(), k.indices(), k, "input_gradient");
    }

    // The mask depends on a unit's index in the batch, not on how the batch is split.
    [[nodiscard]] dropout drop(cuota::stage_context const& run) const {
        return {shape_.dropout, run.seed(), part_.first * shape_.width};
    }

    // ---- parameters: weights [in, out], then biases, stage by stage ----

    [[nodiscard]] std::size_t inputs_of(std::size_t stage) const {
        return stage == 0 ? shape_.inputs : shape_.width;
    }
    [[nodiscard]] std::size_t outputs_of(std::size_t stage) const {
        return stage == shape_.layers ? shape_.classes : shape_.width;
    }
    [[nodiscard]] std::size_t first_of(std::size_t stage) const {
        if (stage == 0) return 0;
        return shape_.inputs * shape_.width + shape_.width +
               (stage - 1) * (shape_.width * shape_.width + shape_.width);
    }
    template <class T>
    [[nodiscard]] device_span<T> weights(device_span<T> p, std::size_t stage) const {
        return p.subspan(first_of(stage), inputs_of(stage) * outputs_of(stage));
    }
    template <class T>
    [[nodiscard]] device_span<T> bias(device_span<T> p, std::size_t stage) const {
        return p.subspan(first_of(stage) + inputs_of(stage) * outputs_of(stage), outputs_of(stage));
    }

    // Weights are uniform, with the spread of He et al. (2015) for layers that are followed by a ReLU. A residual layer's weights shrink
    // with the number of layers, so that the sum over all layers does not grow (Zhang et al. 2019). Biases are zero.
    [[nodiscard]] std::vector<float> first_parameters(std::uint64_t seed) const {
        std::vector<float> p(shape_.parameters());
        std::uint64_t random = cuota::epoch_key(seed, 1);
        for (std::size_t stage = 0; stage <= shape_.layers; ++stage) {
            float smaller = stage == shape_.layers ? 0.1f : 1;
            if (stage != 0 && stage != shape_.layers) smaller /= static_cast<float>(shape_.layers);
            float const spread = smaller * std::sqrt(6.0f / static_cast<float>(inputs_of(stage)));
            for (std::size_t i = 0; i != inputs_of(stage) * outputs_of(stage); ++i) {
                random += cuota::detail::golden;
                auto const unit = static_cast<float>(cuota::detail::mixed(random) >> 40) * 0x1p-24f;
                p[first_of(stage) + i] = spread * (2 * unit - 1);
            }
        }
        return p;
    }

    [[nodiscard]] float share(float beta) const { return 1 - std::pow(beta, static_cast<float>(steps_)); }

    deep_shape shape_;
    cuota::element_type pixels_;
    stream_ref stream_;
    cuota::micro_batch part_{};
    float scale_ = 1;
    std::uint64_t steps_ = 0;
    device_buffer<float> parameters_, gradients_, first_moment_, second_moment_;
    device_buffer<std::int32_t> labels_;
    device_buffer<float> losses_, hits_;
    device_buffer<double> totals_;
};

}  // namespace train
