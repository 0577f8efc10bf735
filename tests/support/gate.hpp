// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "calls.hpp"

namespace support {

/// Blocks a stream on the simulator: work enqueued after the gate does not start until it is opened or destroyed. While it is closed, no
/// function that waits for the whole device, such as cudaFree, may be called.
class gate {
public:
    explicit gate(cuota::stream_ref s) {
        cuota::for_each_index(
            s, 1,
            [state = &state_](std::size_t) {
                state->wait(closed);
                state->store(passed);
                state->notify_all();
            },
            "gate");
    }
    ~gate() {
        open();
        for (int now = state_.load(); now != passed; now = state_.load()) state_.wait(now);
    }
    gate(gate const&) = delete;
    gate& operator=(gate const&) = delete;

    void open() {
        int expected = closed;
        if (state_.compare_exchange_strong(expected, opened)) state_.notify_all();
    }

private:
    static constexpr int closed = 0;
    static constexpr int opened = 1;
    static constexpr int passed = 2;
    std::atomic<int> state_ = closed;
};

/// Calls `waits` in another thread and, once that has made this CUDA call, `meanwhile` here; then opens the gate. Does not return if
/// `meanwhile` needs a lock that the other thread holds while it waits.
template <class Waits, class Meanwhile>
void while_waiting(gate& closed, char const* call, Waits waits, Meanwhile meanwhile) {
    calls_since const calls{call};
    std::thread other{waits};
    while (calls.count() == 0) std::this_thread::yield();
    meanwhile();
    closed.open();
    other.join();
}

/// Gives the simulator's workers time to run work without open dependencies. A test must hold however far they have come; this makes a
/// missing dependency more likely to show.
inline void let_ready_work_run() {
    for (int i = 0; i != 3; ++i) {
        cuota::stream const other;
        cuota::for_each_index(
            other, 1, [](std::size_t) {}, "canary");
        other.synchronize();
    }
}

}  // namespace support
