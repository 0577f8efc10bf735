// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A look or two before a thread lies down.
#pragma once

#include <chrono>
#include <thread>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

/// Tells the processor that the thread is only waiting.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Waits for `ready()`, but no longer than it would take to sleep and be woken, some 20 us: whatever is then still to be
/// waited for, that has cost twice the least at most (Karlin et al., "Competitive randomized algorithms for nonuniform
/// problems", 1994). `ready` is asked without a lock. On a machine of one processor, where nobody else runs: no wait.
template <class Ready>
void wait_briefly(Ready ready) noexcept {
    static bool const is_alone = std::thread::hardware_concurrency() == 1;
    if (is_alone || ready()) return;
    constexpr std::chrono::microseconds a_sleep{20};
    auto const end = std::chrono::steady_clock::now() + a_sleep;
    do {
        for (int looks = 0; looks != 32; ++looks) {
            if (ready()) return;
            relax_processor();
        }
        std::this_thread::yield();  // the one that is waited for may have this very processor
    } while (std::chrono::steady_clock::now() < end);
}

}  // namespace cuota::inline v0::detail
