// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Properties of every recording that is imported.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/report/import/imported_recording.hpp>
#include <cuota/report/recording/lifetimes.hpp>

#include "fuzz/fuzz.hpp"

namespace fuzz {

/// Expects at most `most_events` events, in the order of their times, of which lifetimes can be made.
inline void expect_consistent(cuota::imported_recording const& read, std::size_t most_events) {
    expect(read.content.events.size() <= most_events, "no more events than the input has entries");
    std::uint64_t last = 0;
    for (cuota::memory_event const& e : read.content.events) {
        expect(e.at >= last, "times do not go back");
        last = e.at;
    }
    (void)cuota::lifetimes_of(read.content);
}

}  // namespace fuzz
