// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The pauses between looks at what nobody wakes for.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// For loops over what can only be asked: `while (!is_over()) pause();`. First it only lets others run, then it sleeps, a
/// little longer each time and half a millisecond at most: what comes soon is seen soon, and who waits long costs nothing.
class poll_pause {
public:
    void operator()();
    /// How long it sleeps next; nothing at first.
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

CUOTA_INLINE void poll_pause::operator()() {
    if (looks_ < looks_awake) {
        ++looks_;
        std::this_thread::yield();
        return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, longest);
}

CUOTA_INLINE std::chrono::microseconds poll_pause::next() const noexcept {
    return looks_ < looks_awake ? std::chrono::microseconds::zero() : sleep_;
}

}  // namespace cuota::inline v0::detail

#endif
