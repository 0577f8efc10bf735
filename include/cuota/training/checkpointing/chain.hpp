// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Chains of stages, and their schedules.
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

/// One stage of a chain: one or several layers. Units: bytes; times in any common unit.
struct chain_stage {
    std::size_t output_bytes = 0;      ///< input of the next stage
    std::size_t saved_bytes = 0;       ///< kept by a saving forward run, besides input and output
    std::size_t forward_scratch = 0;   ///< only during forward
    std::size_t backward_scratch = 0;  ///< only during backward, besides the gradients
    double forward_time = 1;           ///< of a run
    double backward_time = 1;          ///< of a run
    /// Bytes of the output's gradient, if not output_bytes.
    std::optional<std::size_t> gradient_bytes{};

    /// Returns the gradient's bytes.
    [[nodiscard]] std::size_t gradient() const noexcept { return gradient_bytes.value_or(output_bytes); }
};

/// Stages that run forward in order, then backward; the last one computes the loss.
///
/// The *record* of a stage is its output and, after a saving forward run, its saved bytes. The chain's input is not counted. The last
/// output has no gradient.
struct chain {
    std::vector<chain_stage> stages;   ///< in forward order
    double offload_time_per_byte = 0;  ///< to the host, in the chain's unit of time
    double fetch_time_per_byte = 0;    ///< to the device

    /// Returns the chain with sizes rounded up to a resource's granularity; `unlimited` on overflow. Throws: usage_error if it is not a
    /// power of two.
    [[nodiscard]] chain rounded_to(std::size_t granularity,
                                   source_location where = source_location::current()) const;

    /// Throws usage_error for no stages, a time outside [0, 1e100], or a sum of all sizes that overflows.
    void check(source_location where = source_location::current()) const;
};

/// Operation of a schedule on a stage.
enum class chain_op_kind {
    forward,         ///< runs forward; the record is the output
    forward_saving,  ///< runs forward; the record is the output and the saved bytes
    backward,        ///< runs backward and frees the record
    drop,            ///< frees the record
    offload,         ///< moves the record to the host
    fetch,           ///< moves the record back
};

/// One operation of a schedule.
struct chain_op {
    chain_op_kind kind = chain_op_kind::forward;  ///< kind of operation
    std::size_t stage = 0;                        ///< from 0

    [[nodiscard]] friend bool operator==(chain_op, chain_op) noexcept = default;  ///< memberwise
};

/// A training step as a list of operations, by the rules of `simulate`.
using chain_schedule = std::vector<chain_op>;

namespace detail {

[[nodiscard]] inline std::string stage_text(std::size_t stage) { return "stage " + count_text(stage); }

void check_time(double time, std::string const& whose, source_location where);

/// Returns the bytes that a stage can hold at once; std::nullopt on overflow.
[[nodiscard]] std::optional<std::size_t> most_of(chain_stage const& s) noexcept;

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_time(double time, std::string const& whose, source_location where) {
    if (time >= 0 && time <= 1e100) return;  // keeps sums finite
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
