// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How threads wait: until they are told, or by looking again and again. For test programs that link
/// tests/data/thread_waits.cpp.
#pragma once

#include <cstdint>

namespace support {

/// Waits of the threads that were marked, since `forget_waits`. Not turns that are given away: a stop_token does so.
struct thread_waits {
    std::uint64_t until_told = 0;  ///< for a condition variable, without an end in time
    std::uint64_t timed = 0;       ///< with one, and sleeps; by this program's own code, not the simulator's
};

/// The waits of this thread are counted from here on.
void mark_this_thread() noexcept;
void forget_waits() noexcept;
[[nodiscard]] thread_waits waits_of_marked_threads() noexcept;

/// False where a sanitizer stands in between: nothing is counted.
[[nodiscard]] bool are_waits_counted() noexcept;

}  // namespace support
