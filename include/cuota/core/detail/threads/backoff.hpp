// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pauses between polls of a condition.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// A backoff, `while (!is_done()) pause();`: yields 64 times, then sleeps for 20 us, doubling up to 500 us.
class backoff {
public:
    void operator()();
    /// Returns the length of the next sleep; 0 while it still yields.
    [[nodiscard]] std::chrono::microseconds next() const noexcept;

private:
    static constexpr int looks_awake = 64;
    static constexpr std::chrono::microseconds longest{500};
    int looks_ = 0;
    std::chrono::microseconds sleep_{20};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void backoff::operator()() {
    if (looks_ < looks_awake) {
        ++looks_;
        std::this_thread::yield();
        return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, longest);
}

CUOTA_INLINE std::chrono::microseconds backoff::next() const noexcept {
    return looks_ < looks_awake ? std::chrono::microseconds::zero() : sleep_;
}

}  // namespace cuota::inline v0::detail

#endif
