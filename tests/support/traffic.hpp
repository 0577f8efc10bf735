// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Threads that use a parent's objects while it forks, so that a child may find any of their locks held.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "support/fork_turn.hpp"

namespace support {

/// Each function runs in a thread of its own as run(i), i = 0, 1, ..., until the object is destroyed. The constructor returns when each has
/// started, and they have run `rounds` times in all.
class traffic {
public:
    template <class... F>
    explicit traffic(int rounds, F... run) {
        (start(run), ...);
        while (started_ != sizeof...(F) || rounds_ < rounds) std::this_thread::yield();
    }
    traffic(traffic const&) = delete;
    traffic& operator=(traffic const&) = delete;
    ~traffic() {
        stop_ = true;
        for (std::thread& t : threads_) t.join();
    }

private:
    template <class F>
    void start(F run) {
        threads_.emplace_back([this, run]() mutable {
            ++started_;
            for (std::size_t i = 0; !stop_; ++i, ++rounds_) {
                fork_turn const now;
                run(i);
            }
        });
    }

    std::atomic<bool> stop_ = false;
    std::atomic<std::size_t> started_ = 0;
    std::atomic<int> rounds_ = 0;
    std::vector<std::thread> threads_;
};

}  // namespace support
