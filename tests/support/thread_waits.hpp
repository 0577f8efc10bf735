// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Counts whether threads wait for a notification or poll. For test programs that link tests/support/thread_waits.cpp.
#pragma once

#include <cstdint>

namespace support {

/// Waits of marked threads since `forget_waits`. Yields are not counted, because stop_token yields.
struct thread_waits {
    std::uint64_t until_told = 0;  ///< waits for a condition variable without a timeout
    std::uint64_t timed = 0;  ///< timed waits and sleeps by this program's own code, not by the simulator
};

/// Counts the waits of this thread from now on.
void mark_this_thread() noexcept;
void forget_waits() noexcept;
[[nodiscard]] thread_waits waits_of_marked_threads() noexcept;

/// Returns false under a sanitizer that intercepts these functions: nothing is counted.
[[nodiscard]] bool are_waits_counted() noexcept;

}  // namespace support
