// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <span>
#include <thread>
#include <vector>

#include "state.hpp"

// Shared by both schedules. Everything here is under the machine's lock.
namespace cuota::inline v0::simulator {

bool work_may_start();
void make_ready(stream_handle const& s);
/// The host had no memory for an operation, which counts as done.
struct lost_operation : std::bad_alloc {
    explicit lost_operation(device& d) noexcept : where{d} {}
    device& where;
};

/// Runs the first operation. Returns true if the next one may start at once; the stream then still counts as running.
/// Throws: lost_operation.
bool step(guard& lock, stream_handle const& s);
/// The same where no call of the program could report lost_operation: the device fails with cudaErrorMemoryAllocation.
bool step_in_worker(guard& lock, stream_handle const& s);
bool all_idle();

/// A fork waits for threads that have not yet acquired the lock: they hold locks of the C library and of sanitizers.
inline int starting_threads = 0;

template <class F>
void start_thread(std::vector<std::thread>& among, F run) {
    ++starting_threads;
    try {
        among.emplace_back([run = std::move(run)] {
            {
                sanitizer::quiet quiet;
                guard lock{the_machine().mutex};
                --starting_threads;
            }
            run();
        });
    } catch (...) {
        --starting_threads;
        throw;
    }
}

/// The seeded schedule.
namespace late {

bool on();
void choose(guard& lock, schedule how, std::uint64_t seed);

/// Reserves space, so that std::bad_alloc cannot lose work later.
void expect_streams(std::size_t count);
void make_ready(stream_handle const& s);
void one_done();
void moved();
void wait_for(guard& lock, std::span<awaited const> all);
void go_on(guard& lock, std::span<awaited const> all);

void threads_are_gone();  ///< in a forked child
std::vector<std::thread> stop();

}  // namespace late
}  // namespace cuota::inline v0::simulator
