// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Growth rate of held bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// Changes of held bytes, smoothed by two exponential averages in series.
///
/// One average would show growth at each peak of a step that allocates and frees. With two, a change counts nothing at first and most after
/// 1.4 half-lives.
class growth_rate {
public:
    using seconds = std::chrono::duration<double>;
    using time_point = std::chrono::steady_clock::time_point;

    explicit growth_rate(seconds half_life) noexcept : half_life_{half_life} {}

    /// Records that `bytes` are held from now on. Times must not decrease.
    void see(std::size_t bytes, time_point now) noexcept;

    /// Returns bytes per second as of the last see().
    [[nodiscard]] double per_second() const noexcept { return rate_; }

    /// Returns the time until `limit` bytes are held; empty below a byte per second, or for `unlimited`.
    [[nodiscard]] std::optional<seconds> time_to(std::size_t limit) const noexcept;

private:
    // Moves fresh_ into rate_, and decays both.
    void age(seconds passed) noexcept;

    seconds half_life_;
    bool has_begun_ = false;  // not optional, which g++ 12 reports as maybe uninitialized
    time_point seen_{};
    std::size_t held_ = 0;
    double fresh_ = 0;  // bytes not fully in the rate yet
    double rate_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void growth_rate::see(std::size_t bytes, time_point now) noexcept {
    if (!has_begun_) {
        has_begun_ = true;
        held_ = bytes;
        seen_ = now;
    } else if (now > seen_) {
        age(now - seen_);
        seen_ = now;
    }
    fresh_ += static_cast<double>(bytes) - static_cast<double>(held_);
    held_ = bytes;
}

CUOTA_INLINE auto growth_rate::time_to(std::size_t limit) const noexcept -> std::optional<seconds> {
    if (rate_ < 1.0 || limit == unlimited) return std::nullopt;
    return seconds{static_cast<double>(limit > held_ ? limit - held_ : 0) / rate_};
}

CUOTA_INLINE void growth_rate::age(seconds passed) noexcept {
    constexpr double ln_2 = 0.6931471805599453;
    double const pace = ln_2 / half_life_.count();
    double const left = __builtin_exp2(-(passed / half_life_));  // <cmath> is expensive
    rate_ = left * (rate_ + pace * pace * passed.count() * fresh_);
    fresh_ *= left;
}

}  // namespace cuota::inline v0::detail

#endif
