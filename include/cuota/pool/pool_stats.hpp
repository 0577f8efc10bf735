// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a pool holds, in numbers.
#pragma once

#include <cstddef>

#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// What a pool holds, at one moment and at most. Bytes; requested <= allocated <= active <= reserved, and so their peaks.
/// Example: tests/pool/scoped_pool.cpp
struct pool_stats {
    std::size_t requested = 0;  ///< live, as asked for
    std::size_t allocated = 0;  ///< live, rounded up to the pool's granule
    std::size_t active = 0;  ///< allocated, or free and perhaps still in use by work that was enqueued before
    std::size_t reserved = 0;        ///< pages and segments taken, and not given back
    std::size_t peak_requested = 0;  ///< since the pool began, as the other peaks
    std::size_t peak_allocated = 0;  ///< of live blocks, rounded up
    std::size_t peak_active =
        0;  ///< as seen when somebody asked for it, and by what was allocated; the rest are exact
    std::size_t peak_reserved = 0;  ///< of pages and segments: what the pool cost at most
    std::size_t live_blocks = 0;    ///< that somebody has
    std::size_t free_blocks = 0;    ///< pieces between them: the fewer, the less is broken up
    std::size_t largest_free = 0;   ///< the largest free block
    std::size_t segments = 0;       ///< segments of a source, and runs of pages side by side
    std::size_t taken_again = 0;    ///< allocations that a thread had of what it gave back, without a lock
    std::size_t stream_waits = 0;   ///< waits put into streams to hand memory from one to another
};

/// What is live in a pool under one tag. Example: tests/pool/pool_step.cpp
struct tag_stats {
    tag name{};                   ///< empty: of what had none
    std::size_t live_blocks = 0;  ///< that somebody has
    std::size_t requested = 0;    ///< bytes, as asked for
    std::size_t allocated = 0;    ///< bytes, rounded up to the pool's granule
    std::size_t oldest = 0;       ///< how many steps have begun since the first of them was taken
};

}  // namespace cuota::inline v0
