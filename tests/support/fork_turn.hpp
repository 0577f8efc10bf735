// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Forks of tests under AddressSanitizer. GCC 12's allocator for it has locks that a fork does not release in the child: one that another
/// thread has at the fork is locked for ever there.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "support/sanitizer.hpp"

namespace support {

/// While one exists under AddressSanitizer, fork_in_turn waits. Threads that run beside forks make one for each of their rounds. Without
/// AddressSanitizer it does nothing: a fork comes at any moment of a round.
class [[nodiscard]] fork_turn {
public:
    fork_turn() {
        if constexpr (under_address_sanitizer) {
            while (forks_waiting != 0)
                std::this_thread::yield();  // a mutex alone would let a fork wait for long
            guard.lock();
        }
    }
    fork_turn(fork_turn const&) = delete;
    fork_turn& operator=(fork_turn const&) = delete;
    ~fork_turn() {
        if constexpr (under_address_sanitizer) guard.unlock();
    }

private:
    friend pid_t fork_in_turn();
    static inline constinit std::mutex guard{};
    static inline constinit std::atomic<int> forks_waiting = 0;
};

/// Calls fork; under AddressSanitizer, while no fork_turn exists.
[[nodiscard]] inline pid_t fork_in_turn() {
    if constexpr (under_address_sanitizer) {
        ++fork_turn::forks_waiting;
        fork_turn::guard.lock();
    }
    pid_t const child = ::fork();
    if constexpr (under_address_sanitizer) {
        fork_turn::guard.unlock();
        --fork_turn::forks_waiting;
    }
    return child;
}

}  // namespace support
