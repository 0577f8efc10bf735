// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Dynamic loss scaling for 16-bit gradients.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/is_finite.hpp>

namespace cuota::inline v0 {

/// Options of loss_scaler. The scale stays within [min_scale, max_scale].
struct loss_scaler_options {
    float initial_scale = 0x1p16f;  ///< first scale
    double growth = 2.0;            ///< above 1: factor of an increase
    double backoff = 0.5;           ///< between 0 and 1: factor of a decrease
    std::uint64_t interval = 2000;  ///< good steps in a row before an increase
    float min_scale = 1.0f;         ///< above 0, not a denormal
    float max_scale = 0x1p24f;      ///< finite
};

/// State of a loss_scaler between steps, for a checkpoint.
struct loss_scaler_state {
    float scale = 0;               ///< a power of two if the options are
    std::uint64_t good_steps = 0;  ///< as loss_scaler::good_steps

    /// Returns one line, for `parse`.
    [[nodiscard]] std::string text() const;
    /// Throws: usage_error if `text` is not the text() of a valid state.
    [[nodiscard]] static loss_scaler_state parse(std::string_view text,
                                                 source_location where = source_location::current());

    /// Compares memberwise.
    friend bool operator==(loss_scaler_state const&, loss_scaler_state const&) noexcept = default;
};

/// The calls that a loss_scaler accepts next.
enum class scaling_phase {
    idle,      ///< between steps: `unscale`, `step` or `update(found)`
    unscaled,  ///< gradients were unscaled: `step` or `update(found)`
    decided,   ///< `step` has decided: `update()`
};

/// Dynamic scale of a loss, as torch.amp.GradScaler: halved, and the step skipped, when a gradient was not finite; doubled after 2000 good
/// steps in a row (Micikevicius et al., Mixed Precision Training, 2018).
///
///     cuota::loss_scaler scaler;
///     ... backward of scaler.scale() * loss ...
///     double const inverse = scaler.unscale();
///     for (auto& g : gradients) check.unscale(s, g.write(s), inverse);  // a non_finite_check
///     if (scaler.update(check.found(s))) ... the optimizer's step ...
///
/// Several optimizers share one decision.
/// Threads: as an int.
/// Throws:  usage_error for calls in the wrong phase; the state is unchanged.
/// Example: examples/train_deep.hpp
class loss_scaler {
public:
    using options = loss_scaler_options;   ///< as in other classes
    using state_type = loss_scaler_state;  ///< the result of state()

    loss_scaler() = default;  ///< with default options
    /// Throws: usage_error for an invalid option.
    explicit loss_scaler(options const& o, source_location where = source_location::current());

    [[nodiscard]] float scale() const noexcept { return scale_; }  ///< factor for the loss
    /// Returns 1 / scale().
    [[nodiscard]] double inverse() const noexcept { return 1.0 / static_cast<double>(scale_); }
    /// Returns the good steps in a row since the scale last changed or, but for its limits, would have.
    [[nodiscard]] std::uint64_t good_steps() const noexcept { return good_steps_; }
    [[nodiscard]] scaling_phase phase() const noexcept { return phase_; }  ///< valid next calls
    /// Returns true if another overflow cannot lower the scale.
    [[nodiscard]] bool is_at_min_scale() const noexcept { return scale_ <= options_.min_scale; }

    /// Returns the inverse for gradients, once per step.
    double unscale(source_location where = source_location::current());

    /// Returns true if the optimizer should step. Call `update` next.
    [[nodiscard]] bool step(bool found_non_finite, source_location where = source_location::current());
    /// Computes the next step's scale.
    void update(source_location where = source_location::current());
    /// Calls `step` and `update`; returns the result of `step`.
    bool update(bool found_non_finite, source_location where = source_location::current());

    /// Returns the state to save, between steps.
    [[nodiscard]] loss_scaler_state state(source_location where = source_location::current()) const;
    /// Continues from a saved state. Throws: usage_error if these options cannot produce it.
    void restore(loss_scaler_state const& from, source_location where = source_location::current());

private:
    void back_off() noexcept;
    void grow() noexcept;

    void check_options(source_location where) const;
    [[nodiscard]] static std::string number(double x);
    [[noreturn]] static void refuse(std::string const& why, source_location where);

    options options_{};
    float scale_ = options_.initial_scale;
    std::uint64_t good_steps_ = 0;
    scaling_phase phase_ = scaling_phase::idle;
    bool found_ = false;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE std::string loss_scaler_state::text() const {
    char digits[32];
    auto const [end, error] = std::to_chars(digits, digits + sizeof digits, scale);
    (void)error;  // the shortest text of a float has at most 15 characters
    return detail::message("cuota-loss-scaler-state 1 scale {} good-steps {}",
                           {std::string{digits, end}, good_steps});
}

CUOTA_INLINE loss_scaler_state loss_scaler_state::parse(std::string_view text, source_location where) {
    std::string_view rest = text;
    auto const take = [&](std::string_view word) {
        bool const is_there = rest.starts_with(word);
        if (is_there) rest.remove_prefix(word.size());
        return is_there;
    };
    auto const number = [&](auto& to) {
        auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), to);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        return error == std::errc{};
    };
    loss_scaler_state state;
    bool const is_state = take("cuota-loss-scaler-state 1 scale ") && number(state.scale) &&
                          take(" good-steps ") && number(state.good_steps);
    // Accepts only exact output of text().
    if (!is_state || !is_finite(state.scale) || state.scale <= 0 || state.text() != text)
        detail::throw_usage_error(where, "loss_scaler_state: cannot parse \"{}\"",
                                  {std::string{text.substr(0, 80)}});
    return state;
}

CUOTA_INLINE loss_scaler::loss_scaler(options const& o, source_location where) : options_{o} {
    check_options(where);
    scale_ = o.initial_scale;
}

CUOTA_INLINE double loss_scaler::unscale(source_location where) {
    if (phase_ == scaling_phase::unscaled)
        refuse("unscale was called twice in a step; call update() first", where);
    if (phase_ == scaling_phase::decided)
        refuse("unscale was called after step(); call update() first", where);
    phase_ = scaling_phase::unscaled;
    return inverse();
}

CUOTA_INLINE bool loss_scaler::step(bool found_non_finite, source_location where) {
    if (phase_ == scaling_phase::decided) refuse("step was called twice; call update() first", where);
    found_ = found_non_finite;
    phase_ = scaling_phase::decided;
    return !found_;
}

CUOTA_INLINE void loss_scaler::update(source_location where) {
    if (phase_ != scaling_phase::decided) refuse("update was called without step()", where);
    if (found_) back_off();
    else if (++good_steps_ == options_.interval) grow();
    phase_ = scaling_phase::idle;
}

CUOTA_INLINE bool loss_scaler::update(bool found_non_finite, source_location where) {
    bool const is_taken = step(found_non_finite, where);
    update(where);
    return is_taken;
}

CUOTA_INLINE loss_scaler_state loss_scaler::state(source_location where) const {
    if (phase_ != scaling_phase::idle)
        refuse("state is not available in the middle of a step; call update() first", where);
    return {scale_, good_steps_};
}

CUOTA_INLINE void loss_scaler::restore(loss_scaler_state const& from, source_location where) {
    if (!(from.scale >= options_.min_scale && from.scale <= options_.max_scale))
        refuse("scale = " + number(from.scale) + " is outside [" + number(options_.min_scale) + ", " +
                   number(options_.max_scale) + ']',
               where);
    if (from.good_steps >= options_.interval)
        refuse(std::to_string(from.good_steps) + " good steps are out of range: the growth interval is " +
                   std::to_string(options_.interval),
               where);
    scale_ = from.scale;
    good_steps_ = from.good_steps;
    phase_ = scaling_phase::idle;
}

CUOTA_INLINE void loss_scaler::back_off() noexcept {
    double const lower = static_cast<double>(scale_) * options_.backoff;
    scale_ = static_cast<float>(std::max(lower, static_cast<double>(options_.min_scale)));
    good_steps_ = 0;
}

CUOTA_INLINE void loss_scaler::grow() noexcept {
    double const higher = static_cast<double>(scale_) * options_.growth;
    scale_ = static_cast<float>(std::min(higher, static_cast<double>(options_.max_scale)));
    good_steps_ = 0;
}

CUOTA_INLINE void loss_scaler::check_options(source_location where) const {
    options const& o = options_;
    // Written so that a NaN fails.
    if (!(is_finite(o.growth) && o.growth > 1))
        refuse("growth = " + number(o.growth) + " must be finite and above 1", where);
    if (!(o.backoff > 0 && o.backoff < 1))
        refuse("backoff = " + number(o.backoff) + " is out of range (0, 1)", where);
    if (o.interval == 0) refuse("interval must be at least 1 step", where);
    if (!(o.min_scale >= 0x1p-126f))  // its inverse is a float, too
        refuse("min_scale = " + number(o.min_scale) + " must be a positive normal number", where);
    if (!(is_finite(o.max_scale) && o.max_scale >= o.min_scale))
        refuse("max_scale = " + number(o.max_scale) +
                   " must be finite and at least min_scale = " + number(o.min_scale),
               where);
    if (!(o.initial_scale >= o.min_scale && o.initial_scale <= o.max_scale))
        refuse("initial_scale = " + number(o.initial_scale) + " is outside [" + number(o.min_scale) + ", " +
                   number(o.max_scale) + ']',
               where);
}

CUOTA_INLINE std::string loss_scaler::number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", x);
    return text;
}

CUOTA_INLINE void loss_scaler::refuse(std::string const& why, source_location where) {
    detail::throw_usage_error(where, "loss_scaler: {}", {why});
}

}  // namespace cuota::inline v0

#endif
