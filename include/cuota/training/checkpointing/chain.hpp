// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A network as a chain of stages with sizes and times, and schedules that run, drop, offload and fetch them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// One stage of a chain: a layer, or several that always run together. Units: bytes; times in any common unit.
struct chain_stage {
    std::size_t output_bytes = 0;      ///< input of the next stage
    std::size_t saved_bytes = 0;       ///< kept by a saving forward run, besides input and output
    std::size_t forward_scratch = 0;   ///< only during forward
    std::size_t backward_scratch = 0;  ///< only during backward, besides the gradients
    double forward_time = 1;           ///< of one forward run
    double backward_time = 1;          ///< of one backward run
    /// Bytes of the output's gradient, if they differ from output_bytes because it is stored in another type.
    std::optional<std::size_t> gradient_bytes{};

    /// Returns the bytes of the output's gradient.
    [[nodiscard]] std::size_t gradient() const noexcept { return gradient_bytes.value_or(output_bytes); }
};

/// Stages that run forward in order, then backward; the last one computes the loss.
///
/// The *record* of a stage is the memory kept of its forward run: its output and, after a saving run, its saved bytes. The input of the
/// first stage belongs to the caller and is not counted. The output of the last stage has no gradient.
struct chain {
    std::vector<chain_stage> stages;   ///< in the order of the forward run
    double offload_time_per_byte = 0;  ///< from the device to the host, in the chain's unit of time
    double fetch_time_per_byte = 0;    ///< from the host to the device

    /// Returns the chain with every size rounded up to a multiple of `granularity`, for separate allocations from a resource of this
    /// granularity. Overflowing sizes become `unlimited`. Throws: usage_error if `granularity` is not a power of two.
    [[nodiscard]] chain rounded_to(std::size_t granularity,
                                   source_location where = source_location::current()) const;

    /// Throws usage_error that names the stage and the number for: no stages; a time that is negative, NaN or above 1e100; a sum of all
    /// sizes, gradients of outputs included, that overflows std::size_t.
    void check(source_location where = source_location::current()) const;
};

/// Operation of a schedule on a stage.
enum class chain_op_kind {
    forward,         ///< runs forward; the record is the output
    forward_saving,  ///< runs forward; the record is the output and the saved bytes
    backward,        ///< runs backward and frees the record
    drop,            ///< frees the record
    offload,         ///< moves the record to the host
    fetch,           ///< moves the record back to the device
};

/// One operation of a schedule.
struct chain_op {
    chain_op_kind kind = chain_op_kind::forward;  ///< the kind of operation
    std::size_t stage = 0;                        ///< number of the stage, from 0

    [[nodiscard]] friend bool operator==(chain_op, chain_op) noexcept = default;  ///< memberwise
};

/// A training step as a list of operations. `simulate` states and checks the rules for a valid one.
using chain_schedule = std::vector<chain_op>;

namespace detail {

[[nodiscard]] inline std::string stage_text(std::size_t stage) { return "stage " + count_text(stage); }

void check_time(double time, std::string const& whose, source_location where);

/// Returns the largest number of bytes that a stage can hold at once; std::nullopt on overflow.
[[nodiscard]] std::optional<std::size_t> most_of(chain_stage const& s) noexcept;

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_time(double time, std::string const& whose, source_location where) {
    if (time >= 0 && time <= 1e100) return;  // keeps sums finite, whatever the number of recomputations
    throw_usage_error(where, "chain: {} = {} is out of range [0, 1e100]", {whose, time});
}

CUOTA_INLINE std::optional<std::size_t> most_of(chain_stage const& s) noexcept {
    std::optional<std::size_t> sum = 0;
    for (std::size_t bytes :
         {s.output_bytes, s.gradient(), s.saved_bytes, s.forward_scratch, s.backward_scratch})
        if (sum) sum = checked_add(*sum, bytes);
    return sum;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE chain chain::rounded_to(std::size_t granularity, source_location where) const {
    if (!is_power_of_two(granularity))
        detail::throw_usage_error(where, "chain::rounded_to: granularity {} is not a power of two",
                                  {detail::as_count(granularity)});
    chain rounded = *this;
    for (chain_stage& s : rounded.stages)
        for (std::size_t* bytes : {&s.output_bytes, &s.saved_bytes, &s.forward_scratch, &s.backward_scratch})
            *bytes = checked_round_up(*bytes, granularity).value_or(unlimited);
    for (chain_stage& s : rounded.stages)
        if (s.gradient_bytes)
            s.gradient_bytes = checked_round_up(*s.gradient_bytes, granularity).value_or(unlimited);
    return rounded;
}

CUOTA_INLINE void chain::check(source_location where) const {
    if (stages.empty()) detail::throw_usage_error(where, "chain: no stages");
    detail::check_time(offload_time_per_byte, "offload time per byte", where);
    detail::check_time(fetch_time_per_byte, "fetch time per byte", where);
    std::optional<std::size_t> sum = 0;
    for (std::size_t i = 0; i != stages.size(); ++i) {
        detail::check_time(stages[i].forward_time, detail::stage_text(i) + " forward time", where);
        detail::check_time(stages[i].backward_time, detail::stage_text(i) + " backward time", where);
        auto const most = detail::most_of(stages[i]);
        sum = most ? checked_add(*sum, *most) : std::nullopt;
        if (!sum)
            detail::throw_usage_error(where,
                                      "chain: the total size of the stages up to {} overflows std::size_t",
                                      {detail::stage_text(i)});
    }
}

}  // namespace cuota::inline v0

#endif
