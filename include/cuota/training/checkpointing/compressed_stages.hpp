// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Stages that store their outputs in 8 bits per number.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>
#include <cuota/runtime/detail/warp.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/precision/quantized.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Layout of `count` quantized floats: the codes, then, aligned, their scales.
struct coded_floats {
    static constexpr std::size_t block = 256;

    std::size_t count = 0;

    [[nodiscard]] std::size_t blocks() const noexcept { return (count + block - 1) / block; }
    [[nodiscard]] std::size_t steps_at() const noexcept { return round_up(count, alignof(float)); }
    [[nodiscard]] std::size_t bytes() const noexcept { return steps_at() + blocks() * sizeof(float); }
    /// Returns the bytes as floats, rounded up for the next value.
    [[nodiscard]] std::size_t decoded_bytes() const noexcept;

    void encode(stream_ref s, float const* from, std::byte* to) const;
    void decode(stream_ref s, std::byte const* from, float* to) const;
};

/// One stage on decoded values. An input or output with count 0 is passed through.
class compressed_stage {
public:
    compressed_stage(checkpoint_stage inside, coded_floats input, coded_floats output)
        : inside_{std::move(inside)}, input_{input}, output_{output} {}

    [[nodiscard]] std::size_t decoded_bytes() const noexcept;

    void forward(stage_context const& run) const;
    void backward(stage_context const& run) const;

private:
    static void decode(stage_context const& run, coded_floats const& how, stage_context::values::range& value,
                       std::byte*& next);

    checkpoint_stage inside_;
    coded_floats input_;
    coded_floats output_;
};

}  // namespace detail

/// Wraps stages to store their outputs, except the last, as 8-bit codes (see `quantized`): 1.016 bytes per number in place of 4. Gradients
/// stay floats.
///
/// Each output changes by up to absmax / 254 of its block. Forward runs use the decoded numbers, too, so gradients are the same under every
/// plan, bit for bit.
/// Memory: a stage's scratch grows by its input and output as floats, so only longer chains save memory.
/// Throws: usage_error if an output's bytes are not a multiple of sizeof(float).
/// Follows Chakrabarti and Moseley, "Backprop with approximate activations for memory-efficient network training", 2019.
[[nodiscard]] std::vector<checkpoint_stage> compressed_stages(
    std::vector<checkpoint_stage> stages, source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_PART_KERNELS

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t coded_floats::decoded_bytes() const noexcept {
    return round_up(count * sizeof(float), default_alignment);
}

CUOTA_INLINE void coded_floats::encode(stream_ref s, float const* from, std::byte* to) const {
    for_each_by_warp(s, blocks(),
                     store_block<float, block>{from, reinterpret_cast<signed_code::type*>(to),
                                               reinterpret_cast<float*>(to + steps_at()), count},
                     "compressed_stages: encode");
}

CUOTA_INLINE void coded_floats::decode(stream_ref s, std::byte const* from, float* to) const {
    for_each_element(s, count, reinterpret_cast<signed_code::type const*>(from), to,
                     load_number<float, block>{reinterpret_cast<float const*>(from + steps_at())},
                     "compressed_stages: decode");
}

CUOTA_INLINE std::size_t compressed_stage::decoded_bytes() const noexcept {
    return input_.decoded_bytes() + output_.decoded_bytes();
}

CUOTA_INLINE void compressed_stage::forward(stage_context const& run) const {
    stage_context::values v = run.memory();
    std::byte* const coded = v.output.at;
    std::byte* next = v.scratch.at;
    decode(run, input_, v.input, next);
    if (output_.count != 0) v.output = {next, output_.count * sizeof(float)};
    v.scratch = {v.scratch.at + decoded_bytes(), inside_.forward_scratch};
    inside_.forward({run.stream(), run.which(), v});
    if (output_.count != 0) output_.encode(run.stream(), reinterpret_cast<float const*>(v.output.at), coded);
}

CUOTA_INLINE void compressed_stage::backward(stage_context const& run) const {
    stage_context::values v = run.memory();
    std::byte* next = v.scratch.at;
    decode(run, input_, v.input, next);
    decode(run, output_, v.output, next);
    v.scratch = {v.scratch.at + decoded_bytes(), inside_.backward_scratch};
    inside_.backward({run.stream(), run.which(), v});
}

CUOTA_INLINE void compressed_stage::decode(stage_context const& run, coded_floats const& how,
                                           stage_context::values::range& value, std::byte*& next) {
    if (how.count == 0) return;
    how.decode(run.stream(), value.at, reinterpret_cast<float*>(next));
    value = {next, how.count * sizeof(float)};
    next += how.decoded_bytes();
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<checkpoint_stage> compressed_stages(std::vector<checkpoint_stage> stages,
                                                             source_location where) {
    detail::coded_floats input;
    for (std::size_t i = 0; i != stages.size(); ++i) {
        checkpoint_stage& s = stages[i];
        detail::coded_floats output;
        if (i + 1 != stages.size()) {
            if (s.output_bytes % sizeof(float) != 0)
                detail::throw_usage_error(
                    where,
                    "compressed_stages: the output of stage {} ({} bytes) is not a whole number of floats",
                    {detail::as_count(i), detail::as_count(s.output_bytes)});
            output.count = s.output_bytes / sizeof(float);
            s.gradient_bytes = s.gradient();
        }
        detail::compressed_stage const one{s, input, output};
        if (output.count != 0) s.output_bytes = output.bytes();
        s.forward_scratch = one.decoded_bytes() + s.forward_scratch;
        s.backward_scratch = one.decoded_bytes() + s.backward_scratch;
        if (s.forward) s.forward = [one](stage_context const& run) { one.forward(run); };
        if (s.backward) s.backward = [one](stage_context const& run) { one.backward(run); };
        input = output;
    }
    return stages;
}

}  // namespace cuota::inline v0

#endif
