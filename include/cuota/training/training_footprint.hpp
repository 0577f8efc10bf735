// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What training a network holds on its device, as a footprint: weights, gradients, optimiser state, activations.
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

/// Who turns gradients into new weights, for what it remembers of each weight from step to step.
enum class optimiser_kind {
    none,          ///< nobody here: gradients are made, and given to somebody else
    sgd,           ///< remembers nothing
    sgd_momentum,  ///< one number
    adam,          ///< two: the first and the second moment
    adamw          ///< two, as adam
};

/// How that is stored.
enum class state_storage {
    floats,    ///< in float; of f64 weights in double
    quantised  ///< a byte each, and a float for each block of them (Dettmers et al., ICLR 2022)
};

/// One layer of a network.
struct training_layer {
    tag name{};                  ///< for the lines' names; empty: by number
    std::size_t parameters = 0;  ///< how many weights
    std::size_t activations =
        0;  ///< numbers that it keeps of each sample until its backward run, as its input
    element_type type =
        element_type::f32;   ///< of its weights, gradients and activations: f16, bf16, f32 or f64
    bool is_frozen = false;  ///< its weights stay as they are: no gradient, no state
};

/// How a network is trained.
struct training_options {
    optimiser_kind optimiser = optimiser_kind::adam;  ///< what it remembers of each weight
    state_storage state = state_storage::floats;      ///< how that is stored
    std::size_t quantised_block = 256;                ///< numbers for which there is one scale
    bool master_weights = true;  ///< of weights of 16 bits that the optimiser changes it keeps a float copy
    bool float_gradients =
        false;  ///< gradients of 16-bit weights are floats: for sums over many micro-batches
    std::size_t workspace_bytes = 0;  ///< what libraries want beside: of convolutions, of cuBLAS
    /// What the CUDA context takes, as budget::learn_overhead found it: where the whole device is the room. A budget of a
    /// device has left it out of its limit, as has any that is charged by the plan's allocations alone: there it is 0.
    std::size_t context_bytes = 0;
    std::size_t granule = device_memory::granule();  ///< of the source that all of it will come from
};

namespace detail {

/// Adds the parts of one layer after the other.
class training_parts {
public:
    training_parts(training_options const& how, place where);

    void add(training_layer const& layer, std::size_t number);
    [[nodiscard]] footprint with_the_rest() &&;

private:
    void check(training_layer const& layer, std::size_t number) const;
    [[nodiscard]] std::size_t remembered() const noexcept;
    void add_what_learns(std::size_t count, std::size_t unit);
    void part(char const* what, std::size_t count, std::size_t unit, std::size_t times = 1,
              bool per_sample = false);

    training_options how_;
    place where_;
    footprint plan_;
    std::string name_;
    bool is_backward_run_ = false;  // from the first layer that learns on
};

}  // namespace detail

/// What a network holds while it is trained, each line named by layer and use ("conv1 gradients"), to be asked as any plan:
///
///     footprint const plan = training_footprint({{"conv", 9'408, 150'528}, {"fc", 513'000, 512}},
///                                               {.optimiser = optimiser_kind::adamw});
///     std::size_t const batch = plan.largest_batch(budget).batch;
///     plan.check(budget, 256);                                // throws budget_exceeded
///
/// Every line is an allocation of its own, or so many of one size. Layers are in the order of the forward run: those before
/// the first one that learns are never run backward, and keep no activations. What comes and goes within a step (gradients
/// of activations, an output on its way through frozen layers) is the caller's to add, as are buffers that do not learn.
///
/// Units:   counts of numbers; bytes where it says so. A sum that overflows is `unlimited`, as of any footprint.
/// Threads: any.
/// Throws:  misuse for weights of integers, a block of 0 and a granule that is no power of two; std::bad_alloc.
/// Cost:    names are kept until the program ends: as many as there are layers, times seven.
[[nodiscard]] footprint training_footprint(std::vector<training_layer> const& layers,
                                           training_options const& how = {}, place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE training_parts::training_parts(training_options const& how, place where)
    : how_{how}, where_{where}, plan_{footprint::with_granule(how.granule, where)} {
    if (how.quantised_block == 0)
        throw_misuse(where, "training_footprint: a block of 0 quantised numbers has no scale");
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
    throw_misuse(
        where_,
        "training_footprint: layer {} learns numbers of type {}, which is none of f16, bf16, f32 and f64",
        {number, element_name(layer.type)});
}

CUOTA_INLINE std::size_t training_parts::remembered() const noexcept {
    switch (how_.optimiser) {
        case optimiser_kind::sgd_momentum: return 1;
        case optimiser_kind::adam:
        case optimiser_kind::adamw: return 2;
        case optimiser_kind::none:
        case optimiser_kind::sgd: break;
    }
    return 0;
}

CUOTA_INLINE void training_parts::add_what_learns(std::size_t count, std::size_t unit) {
    std::size_t const wide = std::max(unit, sizeof(float));
    part("gradients", count, how_.float_gradients ? wide : unit);
    if (how_.master_weights && unit < wide && how_.optimiser != optimiser_kind::none)
        part("master weights", count, wide);
    if (how_.state == state_storage::floats) return part("optimiser state", count, wide, remembered());
    std::size_t const blocks = count / how_.quantised_block + (count % how_.quantised_block != 0);
    part("optimiser codes", count, 1, remembered());
    part("optimiser scales", blocks, sizeof(float), remembered());
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
                                          training_options const& how, place where) {
    detail::training_parts parts{how, where};
    for (std::size_t i = 0; i != layers.size(); ++i) parts.add(layers[i], i);
    return std::move(parts).with_the_rest();
}

}  // namespace cuota::inline v0

#endif
