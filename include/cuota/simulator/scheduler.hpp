// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <thread>
#include <vector>

#include "state.hpp"

// What the two ways of running stream work share. All of it under the machine's lock.
namespace cuota::inline v0::simulator {

bool work_may_start();
/// The stream's first operation may start.
void make_ready(stream_handle const& s);
/// Runs the first operation of a stream that nobody else can take any more. True when the next may start at
/// once; the stream then still counts as running.
bool step(guard& lock, stream_handle const& s);
/// Whether no stream has anything left to do.
bool all_idle();

/// Threads that have been made and have not had the lock yet. A program that forks waits for them: a thread that is
/// being made holds locks of the C library and of sanitizers, which a child would find locked for ever.
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

/// The seeded schedule: work runs only for a host thread that waits, as late as the rules of order allow.
namespace late {

bool on();
void choose(guard& lock, schedule how, std::uint64_t seed);

/// That many may be ready at once. What throws for want of memory does so here, and not where work would be lost.
void expect_streams(std::size_t count);
void make_ready(stream_handle const& s);
/// A piece of work has ended.
void one_done();
/// Something may go on.
void moved();
void wait_for(guard& lock, std::span<awaited const> all);
/// A query has been answered: some work goes on, though nobody waits.
void go_on(guard& lock, std::span<awaited const> all);

void threads_are_gone();  ///< in a forked child
std::vector<std::thread> stop();

}  // namespace late
}  // namespace cuota::inline v0::simulator
