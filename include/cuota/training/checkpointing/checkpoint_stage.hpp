// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stage of a chain, as executors run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/samplers/permutation.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/checkpointing/chain.hpp>

namespace cuota::inline v0 {

/// Context of one call of a stage's function: its values, stream and seed. Valid only for the call and the kernels that it enqueues.
///
/// Forward has `input`, `output`, `scratch`, and `saved` if is_saving(). Backward has `input`, `result`, `saved`, `scratch`,
/// `output_gradient` (except in the last stage) and `input_gradient` (except in the first).
/// Throws:  usage_error if a value's bytes are not a multiple of sizeof(T).
/// Threads: one at a time.
/// Example: examples/deep_network.hpp
class stage_context {
public:
    /// Memory of one call's values.
    struct values {
        /// Device memory of one value.
        struct range {
            std::byte* at = nullptr;  ///< device address
            std::size_t bytes = 0;    ///< size
        };
        range input{};            ///< previous output, or the chain's input
        range output{};           ///< written by forward
        range saved{};            ///< written by a saving forward run
        range scratch{};          ///< temporary
        range output_gradient{};  ///< read by backward
        range input_gradient{};   ///< written by backward
    };
    /// Identity of a call.
    struct call {
        tag name{};                     ///< of the stage
        std::size_t stage = 0;          ///< in the chain, from 0
        std::size_t micro_batch = 0;    ///< of a pipeline, from 0
        std::uint64_t seed = 0;         ///< of the stage in this step
        bool is_backward = false;       ///< a call of `backward`
        bool is_saving = false;         ///< `saved` exists
        bool is_recomputation = false;  ///< a repeated forward run
    };

    /// Constructed by executors and wrapping stages.
    stage_context(stream_ref s, call const& which, values const& memory) noexcept
        : stream_{s}, call_{which}, values_{memory} {}

    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }      ///< to enqueue all work on
    [[nodiscard]] call const& which() const noexcept { return call_; }        ///< identity of the call
    [[nodiscard]] values const& memory() const noexcept { return values_; }   ///< of its values
    [[nodiscard]] std::size_t stage() const noexcept { return call_.stage; }  ///< in the chain, from 0
    [[nodiscard]] std::size_t micro_batch() const noexcept { return call_.micro_batch; }  ///< from 0
    /// Returns the seed for random numbers, such as dropout's: different for each stage, micro-batch and step, the same in a recomputation.
    [[nodiscard]] std::uint64_t seed() const noexcept { return call_.seed; }
    [[nodiscard]] bool is_saving() const noexcept { return call_.is_saving; }  ///< forward must write `saved`
    /// Returns true if this stage already ran forward in this step.
    [[nodiscard]] bool is_recomputation() const noexcept { return call_.is_recomputation; }

    /// Returns the previous stage's output, or the chain's input.
    template <class T>
    [[nodiscard]] device_span<T const> input() const {
        return span_of<T const>("input", values_.input);
    }
    /// Forward: returns the output to write.
    template <class T>
    [[nodiscard]] device_span<T> output() const {
        if (call_.is_backward) refuse("output", "available in the forward run only; backward reads `result`");
        return span_of<T>("output", values_.output);
    }
    /// Backward: returns forward's output.
    template <class T>
    [[nodiscard]] device_span<T const> result() const {
        if (!call_.is_backward)
            refuse("result", "available in the backward run only; forward writes `output`");
        return span_of<T const>("result", values_.output);
    }
    /// Returns the values saved for backward.
    template <class T>
    [[nodiscard]] device_span<T> saved() const {
        return span_of<T>("saved", values_.saved);
    }
    /// Returns temporary memory with indeterminate contents.
    template <class T>
    [[nodiscard]] device_span<T> scratch() const {
        return span_of<T>("scratch", values_.scratch);
    }
    /// Backward: returns the gradient of `result`.
    template <class T>
    [[nodiscard]] device_span<T const> output_gradient() const {
        return span_of<T const>("output_gradient", values_.output_gradient);
    }
    /// Backward: returns the gradient of `input` to write.
    template <class T>
    [[nodiscard]] device_span<T> input_gradient() const {
        return span_of<T>("input_gradient", values_.input_gradient);
    }

private:
    template <class T>
    [[nodiscard]] device_span<T> span_of(char const* what, values::range r) const {
        if (r.bytes % sizeof(T) != 0)
            refuse(what, count_text(r.bytes) + " bytes are not a whole number of elements of " +
                             count_text(sizeof(T)));
        return {reinterpret_cast<T*>(r.at), r.bytes / sizeof(T)};
    }
    [[noreturn]] void refuse(char const* what, std::string const& why) const;

    stream_ref stream_;
    call call_;
    values values_;
};

/// A stage of a chain: sizes in bytes, and two functions.
///
/// Both enqueue work on the context's stream, on the thread that runs the chain. `forward` writes all of `output`, and of `saved` if
/// is_saving(): the same bits for the same input and seed. `backward` writes all of `input_gradient`, if not empty, and adds to the
/// gradients of parameters, which the stage owns. The last stage is the loss.
struct checkpoint_stage {
    tag name{};                                            ///< for messages and accounts
    std::size_t output_bytes = 0;                          ///< input of the next stage
    std::size_t saved_bytes = 0;                           ///< kept from a saving forward run to backward
    std::size_t forward_scratch = 0;                       ///< only during forward
    std::size_t backward_scratch = 0;                      ///< only during backward
    std::function<void(stage_context const&)> forward{};   ///< required
    std::function<void(stage_context const&)> backward{};  ///< required
    /// Bytes of the output's gradient; by default output_bytes.
    std::optional<std::size_t> gradient_bytes{};

    /// Returns the gradient's bytes.
    [[nodiscard]] std::size_t gradient() const noexcept { return gradient_bytes.value_or(output_bytes); }
};

/// Returns the sizes of `stages` as a chain with times of 1, rounded up to their resource's granularity. Throws: usage_error if
/// `granularity` is not a power of two.
[[nodiscard]] chain chain_of(std::vector<checkpoint_stage> const& stages, std::size_t granularity);

namespace detail {

/// Returns stage_context::seed of a stage and part, for the step's seed.
[[nodiscard]] constexpr std::uint64_t stage_seed(std::uint64_t step, std::size_t stage,
                                                 std::size_t part = 0) noexcept {
    return mixed(mixed(step + golden * (stage + 1)) + golden * part);
}

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE void stage_context::refuse(char const* what, std::string const& why) const {
    detail::throw_usage_error("{} of stage {}{}: {}",
                              {what, detail::as_count(call_.stage),
                               call_.name.is_empty() ? "" : std::string{" ("} + call_.name.text() + ')',
                               why});
}

CUOTA_INLINE chain chain_of(std::vector<checkpoint_stage> const& stages, std::size_t granularity) {
    chain c;
    for (checkpoint_stage const& s : stages) {
        chain_stage one;
        one.output_bytes = s.output_bytes;
        one.saved_bytes = s.saved_bytes;
        one.forward_scratch = s.forward_scratch;
        one.backward_scratch = s.backward_scratch;
        one.gradient_bytes = s.gradient_bytes;
        c.stages.push_back(one);
    }
    return c.rounded_to(granularity);
}

}  // namespace cuota::inline v0

#endif
