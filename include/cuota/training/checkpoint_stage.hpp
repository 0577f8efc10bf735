// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stage of a chain that is run forward and backward by somebody else: how large its values are, and its two functions.
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
#include <cuota/data/permutation.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/chain.hpp>

namespace cuota::inline v0 {

/// What one call of a stage's function works on: the memory that the executor of the chain holds for it, the stream to
/// enqueue on, and the stage's random seed. All of it is the call's only: kernels that it enqueues may use it, and
/// nobody later.
///
/// Spans are of as many T as the bytes of that value hold. In forward: `input`, `output`, `scratch`, and `saved` when
/// `is_saving()`. In backward: `input`, `result`, `saved`, `scratch`, `output_gradient` and `input_gradient`, where
/// there is one: the first stage makes none, and the last one gets none.
/// Throws: misuse when a value is asked for as a type of which its bytes are no whole number.
/// Threads: one at a time. Cost: a value; nothing is asked of the device.
/// Example: examples/deep_network.hpp
class stage_run {
public:
    /// Where the values of one call lie. Null, and 0 bytes, for what this call does not have.
    struct values {
        /// One value's memory on the device.
        struct range {
            std::byte* at = nullptr;  ///< on the device
            std::size_t bytes = 0;    ///< size
        };
        range input{};            ///< of the stage before, or the chain's
        range output{};           ///< what forward writes and backward reads
        range saved{};            ///< besides those, from a saving forward on
        range scratch{};          ///< this call's alone
        range output_gradient{};  ///< what backward is given; none for the last stage
        range input_gradient{};   ///< what backward makes; none for the first stage
    };
    /// Which call it is.
    struct call {
        tag name{};                     ///< the stage's
        std::size_t stage = 0;          ///< its number in the chain
        std::size_t part = 0;           ///< which part of the batch: a pipeline's micro-batch
        std::uint64_t seed = 0;         ///< of the stage in this step: recomputing it draws the same numbers
        bool is_backward = false;       ///< a call of `backward`
        bool is_saving = false;         ///< forward, for a backward run: `saved` is there
        bool is_recomputation = false;  ///< ran forward in this step before
    };

    /// Made by the executors, or by a stage that runs another on values of its own.
    stage_run(stream_ref s, call const& which, values const& memory) noexcept
        : stream_{s}, call_{which}, values_{memory} {}

    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }  ///< to enqueue all work on
    /// All of it, for a stage that stands around another and runs it on other values.
    [[nodiscard]] call const& which() const noexcept { return call_; }
    [[nodiscard]] values const& memory() const noexcept { return values_; }  ///< where its values lie
    /// Its number in the chain, from 0.
    [[nodiscard]] std::size_t stage() const noexcept { return call_.stage; }
    /// Which micro-batch of a pipeline, from 0.
    [[nodiscard]] std::size_t part() const noexcept { return call_.part; }
    /// What random numbers of this stage are to depend on, as those of dropout: it differs from stage to stage, part to
    /// part and step to step, and is the same whenever the stage is run again for its backward run.
    [[nodiscard]] std::uint64_t seed() const noexcept { return call_.seed; }
    /// Whether forward is to write `saved` for a backward run.
    [[nodiscard]] bool is_saving() const noexcept { return call_.is_saving; }
    /// Whether this stage has run forward in this step before: what counts or logs leaves this one out.
    [[nodiscard]] bool is_recomputation() const noexcept { return call_.is_recomputation; }

    /// What the stage before gave, or the chain was given.
    template <class T>
    [[nodiscard]] device_span<T const> input() const {
        return span_of<T const>("input", values_.input);
    }
    /// Forward: what is to be written for the next stage.
    template <class T>
    [[nodiscard]] device_span<T> output() const {
        if (call_.is_backward) refuse("output", "only its forward run has one; backward reads `result`");
        return span_of<T>("output", values_.output);
    }
    /// Backward: what forward wrote to `output`.
    template <class T>
    [[nodiscard]] device_span<T const> result() const {
        if (!call_.is_backward) refuse("result", "only its backward run has one; forward writes `output`");
        return span_of<T const>("result", values_.output);
    }
    /// What a saving forward writes and backward reads; empty in a forward that does not save.
    template <class T>
    [[nodiscard]] device_span<T> saved() const {
        return span_of<T>("saved", values_.saved);
    }
    /// Memory of this call alone, of whatever it held before.
    template <class T>
    [[nodiscard]] device_span<T> scratch() const {
        return span_of<T>("scratch", values_.scratch);
    }
    /// Backward: the gradient of `result`; empty for the last stage, which makes its own.
    template <class T>
    [[nodiscard]] device_span<T const> output_gradient() const {
        return span_of<T const>("output_gradient", values_.output_gradient);
    }
    /// Backward: where the gradient of `input` goes; empty for the first stage.
    template <class T>
    [[nodiscard]] device_span<T> input_gradient() const {
        return span_of<T>("input_gradient", values_.input_gradient);
    }

private:
    template <class T>
    [[nodiscard]] device_span<T> span_of(char const* what, values::range r) const {
        if (r.bytes % sizeof(T) != 0)
            refuse(what, "its " + count_text(r.bytes) + " bytes are no whole number of elements of " +
                             count_text(sizeof(T)));
        return {reinterpret_cast<T*>(r.at), r.bytes / sizeof(T)};
    }
    [[noreturn]] void refuse(char const* what, std::string const& why) const;

    stream_ref stream_;
    call call_;
    values values_;
};

/// A stage of a chain: sizes in bytes, and the two functions that an executor runs, in its order and as often as its
/// plan says.
///
/// `forward` enqueues on `run.stream()` what writes all of `output`, and all of `saved` when `run.is_saving()`; from the
/// same input and seed it writes the same, bit for bit. `backward` enqueues what writes all of `input_gradient` where
/// there is one; gradients of parameters are the stage's own affair: it adds to them. The last stage is the loss.
/// Neither may keep what `run` gives. Both run on the thread that runs the chain.
/// Example: examples/deep_network.hpp
struct checkpoint_stage {
    tag name{};                        ///< for messages and accounts
    std::size_t output_bytes = 0;      ///< of what forward gives to the next stage
    std::size_t saved_bytes = 0;       ///< kept from a saving forward to backward, besides input and output
    std::size_t forward_scratch = 0;   ///< alive in forward alone
    std::size_t backward_scratch = 0;  ///< alive in backward alone
    std::function<void(stage_run const&)> forward{};   ///< see above; has to be there
    std::function<void(stage_run const&)> backward{};  ///< see above; has to be there
    /// Of the gradient of the output; by default as many as the output.
    std::optional<std::size_t> gradient_bytes{};

    /// Bytes, of the output's gradient.
    [[nodiscard]] std::size_t gradient() const noexcept { return gradient_bytes.value_or(output_bytes); }
};

/// The sizes of stages as a chain, for planning: each rounded up to `granule`, as the resource counts it that the values
/// will come from. Times are 1 each; `measure_stages` finds real ones. Throws: misuse for a granule that is no power of two.
[[nodiscard]] chain chain_of(std::vector<checkpoint_stage> const& stages, std::size_t granule);

namespace detail {

/// What `stage_run::seed` is for a stage and a part of the step that has this seed.
[[nodiscard]] constexpr std::uint64_t stage_seed(std::uint64_t step, std::size_t stage,
                                                 std::size_t part = 0) noexcept {
    return mixed(mixed(step + golden * (stage + 1)) + golden * part);
}

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE void stage_run::refuse(char const* what, std::string const& why) const {
    detail::throw_misuse("{} of stage {}{}: {}",
                         {what, detail::as_count(call_.stage),
                          call_.name.is_empty() ? "" : std::string{" ("} + call_.name.text() + ')', why});
}

CUOTA_INLINE chain chain_of(std::vector<checkpoint_stage> const& stages, std::size_t granule) {
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
    return c.rounded_to(granule);
}

}  // namespace cuota::inline v0

#endif
