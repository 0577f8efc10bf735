// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How fast a number of bytes grows, and when that will be too many.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// The rate at which what is held grows: its changes, averaged twice, each time with weights that halve in a half-life.
///
/// Twice, because of what a program takes and gives back at every step: averaged once, that looks like growth at each
/// peak; averaged twice, a change counts nothing at its instant and most 1.4 half-lives later. Of steady growth half
/// is seen after 2.4 half-lives, nine tenths after 5.6.
/// Cost: none while time stands still, else one power of two.
class growth {
public:
    using seconds = std::chrono::duration<double>;
    using time_point = std::chrono::steady_clock::time_point;

    explicit growth(seconds half_life) noexcept : half_life_{half_life} {}

    /// From now on `bytes` are held. The first time tells where it starts; times do not go back.
    void see(std::size_t bytes, time_point now) noexcept;

    /// As of what was seen last. Bytes per second; negative while it shrinks.
    [[nodiscard]] double per_second() const noexcept { return rate_; }

    /// How long until `limit` bytes are held if it goes on so; nothing when it grows by less than a byte a second, or
    /// there is no limit.
    [[nodiscard]] std::optional<seconds> time_to(std::size_t limit) const noexcept;

private:
    // Between two changes: what was fresh passes into the rate, and both fade.
    void age(seconds passed) noexcept;

    seconds half_life_;
    bool has_begun_ = false;  // no optional: g++ 12 takes its value for one that may not be there
    time_point seen_{};
    std::size_t held_ = 0;
    double fresh_ = 0;  // bytes that the rate does not know of in full
    double rate_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void growth::see(std::size_t bytes, time_point now) noexcept {
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

CUOTA_INLINE auto growth::time_to(std::size_t limit) const noexcept -> std::optional<seconds> {
    if (rate_ < 1.0 || limit == unlimited) return std::nullopt;
    return seconds{static_cast<double>(limit > held_ ? limit - held_ : 0) / rate_};
}

CUOTA_INLINE void growth::age(seconds passed) noexcept {
    constexpr double ln_2 = 0.6931471805599453;
    double const pace = ln_2 / half_life_.count();
    double const left =
        __builtin_exp2(-(passed / half_life_));  // <cmath> is much to include for one function
    rate_ = left * (rate_ + pace * pace * passed.count() * fresh_);
    fresh_ *= left;
}

}  // namespace cuota::inline v0::detail

#endif
