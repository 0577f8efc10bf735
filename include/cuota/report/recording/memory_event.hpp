// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines memory events, which recorders store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Kinds of events. Blocks are allocated from a pool, segments by it.
enum class event_kind {
    allocated,          ///< a block became live
    free_requested,     ///< a block was freed; enqueued work may still use it
    free_completed,     ///< a pool observed that no work uses a freed block
    segment_allocated,  ///< a pool allocated pages or a segment
    segment_freed,      ///< a pool released pages or a segment
    refused,            ///< a budget or the device refused a request
    reclaimed,          ///< a cache released memory for a budget
    step_begun,         ///< a pool began a step
    step_ended,         ///< a pool ended a step
    marker,             ///< a note of recorder::mark
};

/// One event. Numbers that its kind does not use are 0.
struct memory_event {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};  ///< no stream

    event_kind kind = event_kind::marker;  ///< kind
    std::uint16_t source = 0;              ///< index in recording::sources
    std::uint32_t site = 0;                ///< index in recording::sites
    std::uint64_t at = 0;                  ///< nanoseconds since recording::start_time
    std::uint64_t address = 0;             ///< first byte of a block or segment
    /// Bytes; of a block, as requested.
    std::size_t bytes = 0;
    /// Bytes. Blocks: rounded up. Refusals: held. Reclaims: requested from the cache.
    std::size_t size = 0;
    /// Id of the stream that allocated or freed.
    std::uint64_t stream = no_stream;

    /// Compares all members.
    friend bool operator==(memory_event const&, memory_event const&) noexcept = default;
};

/// A tag and a call site. For `marker`, the tag is the text; for `reclaimed`, the name of the cache.
struct event_site {
    tag name{};               ///< empty: unknown
    source_location where{};  ///< empty: unknown
};

/// Kinds of event sources.
enum class source_kind {
    program,   ///< has notes; first source of a recording
    pool,      ///< has blocks, segments and steps
    resource,  ///< has blocks and refusals: `recorded` memory, loaders
    budget,    ///< has refusals and reclaims
};

/// A pool, resource or budget.
struct event_source {
    source_kind kind = source_kind::program;   ///< kind
    std::string name{};                        ///< name
    std::optional<int> device{};               ///< device ordinal, if any
    memory_kind memory = memory_kind::device;  ///< of pools and resources
    std::size_t limit = unlimited;             ///< limit of a budget in bytes, when read
    /// Index in recording::sources of the budget that it is charged to.
    std::optional<std::uint16_t> budget{};
    /// Index of a pool in memory_snapshot::pools; empty if it no longer exists.
    std::optional<std::size_t> pool{};
    std::optional<std::uint16_t> parent{};  ///< index of a budget's parent
};

}  // namespace cuota::inline v0
