// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Statistics of a pool.
#pragma once

#include <cstddef>

#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Current and peak figures of a pool in bytes; requested <= allocated <= active <= reserved, and likewise for the peaks.
/// Example: tests/pool/scoped_pool.cpp
struct pool_stats {
    std::size_t requested = 0;       ///< requested bytes of live blocks
    std::size_t allocated = 0;       ///< requested, rounded up by the pool
    std::size_t active = 0;          ///< allocated, plus free bytes that work may still use
    std::size_t reserved = 0;        ///< pages and segments held by the pool
    std::size_t peak_requested = 0;  ///< since construction, as all peaks
    std::size_t peak_allocated = 0;  ///< peak of allocated
    /// Peak of active as sampled by stats(), at least peak_allocated. Other peaks are exact.
    std::size_t peak_active = 0;
    std::size_t peak_reserved = 0;      ///< peak of reserved
    std::size_t live_blocks = 0;        ///< live blocks
    std::size_t free_blocks = 0;        ///< free blocks; a measure of fragmentation
    std::size_t largest_free = 0;       ///< largest free block
    std::size_t segments = 0;           ///< segments plus runs of adjacent pages
    std::size_t thread_cache_hits = 0;  ///< allocations served without a lock
    std::size_t stream_waits = 0;       ///< waits enqueued to reuse memory across streams
    std::size_t mappings_made = 0;  ///< mappings of pages since construction; each is a physical allocation
    std::size_t mappings_removed = 0;  ///< those that were unmapped again
};

/// Live blocks with one tag. Example: tests/pool/pool_step.cpp
struct tag_stats {
    tag name{};                   ///< empty for blocks without a tag
    std::size_t live_blocks = 0;  ///< live blocks
    std::size_t requested = 0;    ///< requested bytes
    std::size_t allocated = 0;    ///< rounded up by the pool
    std::size_t oldest = 0;       ///< steps begun since the oldest block was allocated
};

}  // namespace cuota::inline v0
