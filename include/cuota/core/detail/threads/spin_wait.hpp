// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A short spin before a thread blocks.
#pragma once

#include <chrono>
#include <thread>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Spins until ready() returns true, for at most 20 us, about the cost of sleeping and waking up. Both cost at most twice the optimum (Karlin
/// et al., "Competitive randomized algorithms for nonuniform problems", 1994). Does not spin on one processor, where the awaited thread
/// could not run.
template <class Ready>
void spin_wait(Ready ready) noexcept {
    static bool const is_alone = std::thread::hardware_concurrency() == 1;
    if (is_alone || ready()) return;
    constexpr std::chrono::microseconds a_sleep{20};
    auto const end = std::chrono::steady_clock::now() + a_sleep;
    do {
        for (int looks = 0; looks != 32; ++looks) {
            if (ready()) return;
            cpu_relax();
        }
        std::this_thread::yield();  // the awaited thread may need this processor
    } while (std::chrono::steady_clock::now() < end);
}

}  // namespace cuota::inline v0::detail
