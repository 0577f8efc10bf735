// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines the contents of a recorder at one moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <cuota/report/memory_event.hpp>
#include <cuota/report/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// A contiguous run of events, and a snapshot after the last of them. Blocks live before the first event are reconstructed backwards from
/// the snapshot; see `replay`.
struct recording {
    std::chrono::system_clock::time_point began{};  ///< origin of `memory_event::at`
    /// In the order of their tickets; those of one source in the order of its lock.
    std::vector<memory_event> events{};
    std::vector<event_site> sites{};      ///< the first one is empty
    std::vector<event_source> sources{};  ///< the first one is the program
    std::uint64_t dropped = 0;  ///< number of events before the first one here that the ring has overwritten
    memory_snapshot at_end{};   ///< pools in the order of `sources`; pools that no longer exist are left out
};

}  // namespace cuota::inline v0
