// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What happens to memory, one event at a time: what a recorder keeps, and what timelines and exports are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// What happened. A block is what a program asks for, a segment what its pool takes from the device.
enum class event_kind {
    allocated,       ///< a block became live
    free_requested,  ///< a block was given back; work enqueued before may still use it
    free_completed,  ///< no work uses it any more, as far as the pool has looked
    segment_taken,   ///< a pool took pages or a segment
    segment_returned,  ///< a pool gave pages or a segment back; of pages, perhaps a part of what it took at once
    refused,           ///< a budget, or the device, refused a request
    reclaimed,         ///< a cache gave back what it did not use, because a budget was short
    step_begun,        ///< of a pool
    step_ended,        ///< of a pool
    noted,             ///< what the program said (recorder::note)
};

/// One event. Which of the figures mean something depends on its kind; the others are 0.
struct memory_event {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};  ///< of events that belong to none

    event_kind kind = event_kind::noted;  ///< what happened
    std::uint16_t source = 0;             ///< whose: an index in recording::sources
    std::uint32_t site = 0;     ///< for whom, and where in the program: an index in recording::sites
    std::uint64_t at = 0;       ///< nanoseconds since recording::began
    std::uint64_t address = 0;  ///< of blocks and segments
    std::size_t bytes = 0;      ///< as asked for (blocks); taken, given back, refused or reclaimed (others)
    std::size_t size =
        0;  ///< of blocks: with what its source rounds up; of a refusal: what the budget held then
    std::uint64_t stream =
        no_stream;  ///< the id of the stream that took it, or that it was given back in order of

    friend bool operator==(memory_event const&, memory_event const&) noexcept = default;  ///< in all of it
};

/// A tag and a call site, kept once for all events that have it. For `noted` the tag is the text.
struct event_site {
    tag name{};     ///< empty: nobody said
    place where{};  ///< empty: nobody said
};

/// Whose events they are.
enum class source_kind {
    program,   ///< notes; always the first source of a recording
    pool,      ///< has blocks and segments
    resource,  ///< has blocks only: `recorded` memory, a loader's slots
    budget,    ///< has refusals and reclaims
};

/// A pool, resource or budget that a recorder looks on.
struct event_source {
    source_kind kind = source_kind::program;   ///< what it has events of
    std::string name{};                        ///< as it was made
    std::optional<int> device{};               ///< its ordinal, where it is device memory of one
    memory_kind memory = memory_kind::device;  ///< of pools and resources
    std::size_t limit = unlimited;             ///< of budgets: bytes, at the end of the recording
    std::optional<std::uint16_t>
        budget{};  ///< of pools and loaders: the source that its segments are charged to
    std::optional<std::size_t>
        pool{};  ///< of pools: an index in memory_snapshot::pools; none when it is gone
    std::optional<std::uint16_t> parent{};  ///< of budgets: the one it is in
};

}  // namespace cuota::inline v0
