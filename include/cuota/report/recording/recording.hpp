// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines the contents of a recorder at one moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <cuota/report/recording/memory_event.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// A contiguous run of events, and a snapshot after the last one, from which `lifetimes_of` reconstructs what was live before the first.
struct recording {
    std::chrono::system_clock::time_point start_time{};  ///< origin of `memory_event::at`
    /// In the order of tickets; those of one source in the order of its lock.
    std::vector<memory_event> events{};
    std::vector<event_site> sites{};      ///< the first one is empty
    std::vector<event_source> sources{};  ///< the first one is the program
    std::uint64_t dropped = 0;            ///< events before the first one here that the ring has overwritten
    memory_snapshot
        final_snapshot{};  ///< pools in the order of `sources`, without those that no longer exist
};

}  // namespace cuota::inline v0
