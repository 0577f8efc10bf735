// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Footprint of training a network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/guard/footprint.hpp>

namespace cuota::inline v0 {

/// Optimizer, by the values that it stores per weight.
enum class optimizer_kind {
    none,          ///< gradients are used elsewhere
    sgd,           ///< no values
    sgd_momentum,  ///< one value
    adam,          ///< two values
    adamw          ///< two values
};

/// Storage of the optimizer state.
enum class state_storage {
    floats,    ///< float; double for f64 weights
    quantized  ///< a byte each, and a float per block
};

/// One layer of a network.
struct training_layer {
    tag name{};                             ///< for names of lines
    std::size_t parameters = 0;             ///< number of weights
    std::size_t activations = 0;            ///< numbers kept per sample until its backward run
    element_type type = element_type::f32;  ///< f16, bf16, f32 or f64
    bool is_frozen = false;                 ///< no gradient, no optimizer state
};

/// Options of training_footprint.
struct training_options {
    optimizer_kind optimizer = optimizer_kind::adam;  ///< determines the optimizer state
    state_storage state = state_storage::floats;      ///< its storage
    std::size_t quantized_block = 256;                ///< numbers per scale
    bool master_weights = true;                       ///< float copies of 16-bit weights
    bool float_gradients = false;                     ///< gradients of 16-bit weights are floats
    std::size_t workspace_bytes = 0;                  ///< of libraries, such as cuBLAS
    /// Bytes of the CUDA context (budget::record_baseline), if the plan is compared with the whole device; 0 for a budget.
    std::size_t context_bytes = 0;
    std::size_t granularity = device_memory::granularity();  ///< granularity of the resource
};

namespace detail {

class training_parts {
public:
    training_parts(training_options const& how, source_location where);

    void add(training_layer const& layer, std::size_t number);
    [[nodiscard]] footprint with_the_rest() &&;

private:
    void check(training_layer const& layer, std::size_t number) const;
    [[nodiscard]] std::size_t remembered() const noexcept;
    void add_what_learns(std::size_t count, std::size_t unit);
    void part(char const* what, std::size_t count, std::size_t unit, std::size_t times = 1,
              bool per_sample = false);

    training_options how_;
    source_location where_;
    footprint plan_;
    std::string name_;
    bool is_backward_run_ = false;  // from the first trainable layer on
};

}  // namespace detail

/// Returns the footprint of a network in training, with a line for each layer and use ("conv1 gradients"):
///
///     footprint const plan = training_footprint({{"conv", 9'408, 150'528}, {"fc", 513'000, 512}},
///                                               {.optimizer = optimizer_kind::adamw});
///     std::size_t const batch = plan.largest_batch(budget).batch;
///     plan.check(budget, 256);                                // throws budget_exceeded
///
/// Layers are in forward order; those before the first trainable one keep no activations. The caller adds temporary values of a step
/// (gradients of activations, outputs within frozen layers) and buffers that are not trained.
/// Units:   counts of numbers; bytes where stated.
/// Threads: any.
/// Throws:  usage_error for integer weights, a block of 0, or a granularity that is not a power of two; std::bad_alloc.
/// Cost:    up to six names per layer are kept until the program exits.
[[nodiscard]] footprint training_footprint(std::vector<training_layer> const& layers,
                                           training_options const& how = {},
                                           source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE training_parts::training_parts(training_options const& how, source_location where)
    : how_{how}, where_{where}, plan_{footprint::with_granularity(how.granularity, where)} {
    if (how.quantized_block == 0)
        throw_usage_error(where, "training_footprint: the quantized block size must be at least 1");
}

CUOTA_INLINE void training_parts::add(training_layer const& layer, std::size_t number) {
    check(layer, number);
    name_ = layer.name.is_empty() ? "layer " + std::to_string(number) : std::string{layer.name.text()};
    std::size_t const unit = element_bytes(layer.type);
    part("weights", layer.parameters, unit);
    if (!layer.is_frozen) {
        is_backward_run_ = true;
        add_what_learns(layer.parameters, unit);
    }
    if (is_backward_run_) part("activations", layer.activations, unit, 1, true);
}

CUOTA_INLINE footprint training_parts::with_the_rest() && {
    name_.clear();
    part("workspace", how_.workspace_bytes, 1);
    part("CUDA context", how_.context_bytes, 1);
    return std::move(plan_);
}

CUOTA_INLINE void training_parts::check(training_layer const& layer, std::size_t number) const {
    using enum element_type;
    if (layer.type == f16 || layer.type == bf16 || layer.type == f32 || layer.type == f64) return;
    throw_usage_error(
        where_,
        "training_footprint: layer {}: parameters of type {} are not supported; supported: f16, "
        "bf16, f32, f64",
        {number, element_name(layer.type)});
}

CUOTA_INLINE std::size_t training_parts::remembered() const noexcept {
    switch (how_.optimizer) {
        case optimizer_kind::sgd_momentum: return 1;
        case optimizer_kind::adam:
        case optimizer_kind::adamw: return 2;
        case optimizer_kind::none:
        case optimizer_kind::sgd: break;
    }
    return 0;
}

CUOTA_INLINE void training_parts::add_what_learns(std::size_t count, std::size_t unit) {
    std::size_t const wide = std::max(unit, sizeof(float));
    part("gradients", count, how_.float_gradients ? wide : unit);
    if (how_.master_weights && unit < wide && how_.optimizer != optimizer_kind::none)
        part("master weights", count, wide);
    if (how_.state == state_storage::floats) return part("optimizer state", count, wide, remembered());
    std::size_t const blocks = count / how_.quantized_block + (count % how_.quantized_block != 0);
    part("optimizer codes", count, 1, remembered());
    part("optimizer scales", blocks, sizeof(float), remembered());
}

CUOTA_INLINE void training_parts::part(char const* what, std::size_t count, std::size_t unit,
                                       std::size_t times, bool per_sample) {
    if (count == 0 || times == 0) return;
    footprint::part p;
    p.name = tag::named(name_.empty() ? what : name_ + ' ' + what);
    p.count = count;
    p.unit_bytes = unit;
    p.copies = times;
    p.per_sample = per_sample;
    p.unit = unit == 1 ? unit_name<std::byte>() : unit == sizeof(float) ? unit_name<float>() : "elements";
    p.where = where_;
    plan_.add(p);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE footprint training_footprint(std::vector<training_layer> const& layers,
                                          training_options const& how, source_location where) {
    detail::training_parts parts{how, where};
    for (std::size_t i = 0; i != layers.size(); ++i) parts.add(layers[i], i);
    return std::move(parts).with_the_rest();
}

}  // namespace cuota::inline v0

#endif
