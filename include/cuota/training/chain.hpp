// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A network as a chain of stages with their sizes and times, and schedules of what is run, dropped and sent to the host.
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

/// One stage of a chain: a layer, or as many as are always run together. Bytes; times in any unit, the same for all.
struct chain_stage {
    std::size_t output_bytes = 0;  ///< what forward gives to the next stage
    std::size_t saved_bytes =
        0;  ///< what a saving forward keeps for backward, besides its input and its output
    std::size_t forward_scratch = 0;   ///< alive only during forward
    std::size_t backward_scratch = 0;  ///< alive only during backward, besides the gradients
    double forward_time = 1;           ///< of one forward run
    double backward_time = 1;          ///< of one backward run
    /// Of the gradient of the output; by default as many as the output. Others where the two are stored differently.
    std::optional<std::size_t> gradient_bytes{};

    /// Bytes, of the output's gradient.
    [[nodiscard]] std::size_t gradient() const noexcept { return gradient_bytes.value_or(output_bytes); }
};

/// Stages run one after the other, forward from the first to the last (which computes the loss), then backward.
///
/// The *record* of a stage is what is kept of its forward run: its output and, where it was run to save, its saved
/// bytes. The input of the first stage is the caller's: always there, never counted. The gradient of the last stage's
/// output does not exist.
struct chain {
    std::vector<chain_stage> stages;   ///< in the order of the forward run
    double offload_time_per_byte = 0;  ///< from the device to the host, in the unit of the times
    double fetch_time_per_byte = 0;    ///< back

    /// The same chain with every size rounded up: each is an allocation of its own, from a source with this granule.
    /// A size that no std::size_t holds is `unlimited`. Throws: misuse when the granule is no power of two.
    [[nodiscard]] chain rounded_to(std::size_t granule, place where = place::here()) const;

    /// Throws misuse, naming the stage and the number, for: no stages; a time that is negative, above 1e100 or no number;
    /// sizes that all together, gradients of outputs among them, are more than a std::size_t holds.
    void check(place where = place::here()) const;
};

/// What a schedule does with a stage.
enum class chain_act {
    forward,         ///< runs it; its output is the record
    forward_saving,  ///< runs it; output and saved bytes are the record
    backward,        ///< runs it back; the record goes
    drop,            ///< the record goes
    offload,         ///< the record goes to the host
    fetch,           ///< and comes back
};

/// One step of a schedule.
struct chain_op {
    chain_act act = chain_act::forward;  ///< what to do
    std::size_t stage = 0;               ///< its number, from 0

    [[nodiscard]] friend bool operator==(chain_op, chain_op) noexcept = default;  ///< in both
};

/// A training step as a list of what to do; `simulate` holds the rules that make it one.
using chain_schedule = std::vector<chain_op>;

namespace detail {

[[nodiscard]] inline std::string stage_text(std::size_t stage) { return "stage " + count_text(stage); }

void check_time(double time, std::string const& whose, place where);

/// What could ever be held of a stage at once; nothing when that is more than can be said.
[[nodiscard]] std::optional<std::size_t> most_of(chain_stage const& s) noexcept;

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_time(double time, std::string const& whose, place where) {
    if (time >= 0 && time <= 1e100) return;  // however often it is run again, the sum is finite
    throw_misuse(where, "a chain's {} is {}, which is no time", {whose, time});
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

CUOTA_INLINE chain chain::rounded_to(std::size_t granule, place where) const {
    if (!is_power_of_two(granule))
        detail::throw_misuse(where, "a granule of {} bytes is no power of two", {detail::as_count(granule)});
    chain rounded = *this;
    for (chain_stage& s : rounded.stages)
        for (std::size_t* bytes : {&s.output_bytes, &s.saved_bytes, &s.forward_scratch, &s.backward_scratch})
            *bytes = checked_round_up(*bytes, granule).value_or(unlimited);
    for (chain_stage& s : rounded.stages)
        if (s.gradient_bytes)
            s.gradient_bytes = checked_round_up(*s.gradient_bytes, granule).value_or(unlimited);
    return rounded;
}

CUOTA_INLINE void chain::check(place where) const {
    if (stages.empty()) detail::throw_misuse(where, "a chain has no stages");
    detail::check_time(offload_time_per_byte, "offload time per byte", where);
    detail::check_time(fetch_time_per_byte, "fetch time per byte", where);
    std::optional<std::size_t> sum = 0;
    for (std::size_t i = 0; i != stages.size(); ++i) {
        detail::check_time(stages[i].forward_time, detail::stage_text(i) + " forward time", where);
        detail::check_time(stages[i].backward_time, detail::stage_text(i) + " backward time", where);
        auto const most = detail::most_of(stages[i]);
        sum = most ? checked_add(*sum, *most) : std::nullopt;
        if (!sum)
            detail::throw_misuse(
                where, "the sizes of a chain's stages up to {} add up to more than a std::size_t holds",
                {detail::stage_text(i)});
    }
}

}  // namespace cuota::inline v0

#endif
