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

/// A contiguous run of events, and a snapshot after the last one. All functions that read one throw usage_error for an index out of range.
struct recording {
    std::chrono::system_clock::time_point start_time{};  ///< origin of `memory_event::at`
    /// Events of one source are in the order of its lock.
    std::vector<memory_event> events{};
    std::vector<event_site> sites{};      ///< the first one is empty
    std::vector<event_source> sources{};  ///< the first one is the program
    std::uint64_t dropped = 0;            ///< earlier events, overwritten
    memory_snapshot final_snapshot{};     ///< with the pools that still exist
};

}  // namespace cuota::inline v0
