// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a recorder has seen, to be read at leisure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <cuota/report/memory_event.hpp>
#include <cuota/report/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// A run of events, and what was there after the last of them. Whoever wants to know what lived before the first event
/// goes back from the end: that is what `replay` does.
struct recording {
    std::chrono::system_clock::time_point began{};  ///< what `memory_event::at` counts from
    std::vector<memory_event> events{};   ///< as they happened; of one source, in the order of its lock
    std::vector<event_site> sites{};      ///< the first one is empty: nobody said
    std::vector<event_source> sources{};  ///< the first one is the program
    std::uint64_t dropped = 0;  ///< events before the first one here, for which the ring had no room any more
    memory_snapshot at_end{};   ///< pools in the order of `sources`, those that are gone left out
};

}  // namespace cuota::inline v0
