// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines memory events, such as an allocation, a free or a refusal. Recorders store them; timelines and exports are made from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Kinds of events. A block is what the program allocates; a segment is what its pool allocates from the device.
enum class event_kind {
    allocated,          ///< a block became live
    free_requested,     ///< a block was freed; work enqueued before may still use it
    free_completed,     ///< the pool observed that no work uses the freed block any more
    segment_allocated,  ///< a pool allocated pages or a segment
    segment_freed,      ///< a pool released pages or a segment; pages may be a part of one segment_allocated
    refused,            ///< a budget, or the device, refused a request
    reclaimed,          ///< a cache released unused memory because a budget was short
    step_begun,         ///< a pool began a step
    step_ended,         ///< a pool ended a step
    marker,             ///< the program recorded a note (recorder::mark)
};

/// One event. Numbers that its kind does not use are 0.
struct memory_event {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};  ///< the value of `stream` without a stream

    event_kind kind = event_kind::marker;  ///< kind of event
    std::uint16_t source = 0;              ///< index of the source in recording::sources
    std::uint32_t site = 0;                ///< index of the tag and call site in recording::sites
    std::uint64_t at = 0;                  ///< nanoseconds since recording::start_time
    std::uint64_t address = 0;             ///< blocks and segments: their first byte
    /// Bytes. Blocks: requested. Other events: taken, returned, refused or reclaimed.
    std::size_t bytes = 0;
    /// Bytes. Blocks: rounded up. Refusals: held by the budget. Reclaims: requested from the cache.
    std::size_t size = 0;
    /// Id of the stream that allocated or freed.
    std::uint64_t stream = no_stream;

    /// Compares all members.
    friend bool operator==(memory_event const&, memory_event const&) noexcept = default;
};

/// A tag and a call site, stored once. For `marker`, the tag is the text; for `reclaimed`, the name of the cache.
struct event_site {
    tag name{};               ///< empty: unknown
    source_location where{};  ///< empty: unknown
};

/// Kinds of event sources.
enum class source_kind {
    program,   ///< notes; always the first source of a recording
    pool,      ///< has blocks and segments
    resource,  ///< has blocks only: `recorded` memory, or the slots of a loader
    budget,    ///< has refusals and reclaims
};

/// A pool, resource or budget that a recorder observes.
struct event_source {
    source_kind kind = source_kind::program;   ///< kind
    std::string name{};                        ///< name given at construction
    std::optional<int> device{};               ///< device ordinal; empty if the memory is not on a device
    memory_kind memory = memory_kind::device;  ///< kind of memory, of pools and resources
    std::size_t limit = unlimited;             ///< limit of a budget in bytes, at the end of the recording
    /// Index in recording::sources of the budget that the memory of a pool or loader is charged to.
    std::optional<std::uint16_t> budget{};
    /// Index of a pool in memory_snapshot::pools; empty if it no longer exists.
    std::optional<std::size_t> pool{};
    std::optional<std::uint16_t> parent{};  ///< index of a budget's parent
};

}  // namespace cuota::inline v0
