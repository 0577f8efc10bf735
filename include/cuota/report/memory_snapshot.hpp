// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines snapshots: budgets as a tree, pools with their blocks, and devices as reported by their drivers, at one moment.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// States of a block in a pool.
enum class block_use {
    live,     ///< allocated
    pending,  ///< free, but work enqueued before may still use it
    free,     ///< free and not in use
    leaving,  ///< being returned to the device, or being mapped
};

/// A block in a segment. The blocks of a segment are adjacent and fill it.
struct block_facts {
    std::uint64_t address = 0;              ///< of its first byte
    std::size_t size = 0;                   ///< bytes
    std::size_t requested = 0;              ///< live blocks: bytes, as requested
    block_use use = block_use::free;        ///< state
    tag name{};                             ///< live blocks only, as all that follows
    place where{};                          ///< call site of the allocation; may be empty
    lifespan meant = lifespan::scratch;     ///< lifetime hint of the allocation
    std::size_t age = 0;                    ///< number of steps begun since the allocation
    std::optional<std::uint64_t> stream{};  ///< id of its stream, if the pool stores it
};

/// Memory that a pool obtained in one piece from its device or upstream; for paged memory, a run of contiguous mapped pages.
struct segment_facts {
    std::uint64_t address = 0;          ///< of its first byte
    std::size_t size = 0;               ///< bytes
    bool is_paged = false;              ///< whether any free page can be released, not only the whole segment
    std::vector<block_facts> blocks{};  ///< by address
};

/// Live bytes of one tag in a pool. `peak` may have been reached at another time.
struct tag_facts {
    tag name{};                   ///< tag of the blocks
    std::size_t live_blocks = 0;  ///< count
    std::size_t requested = 0;    ///< bytes, as requested
    std::size_t allocated = 0;    ///< bytes, rounded up to the pool's granularity
    std::size_t oldest = 0;       ///< number of steps begun since its oldest block was allocated
    /// Peak of `allocated` since a recorder observes the pool; none without one.
    std::optional<std::size_t> peak{};
};

/// A pool at one moment, read under its lock.
struct pool_facts {
    std::string name;                          ///< name given at construction
    std::optional<int> device{};               ///< device ordinal; none for memory of another upstream
    memory_kind memory = memory_kind::device;  ///< kind of memory
    /// Index in memory_snapshot::budgets of the budget that is charged for its segments.
    std::size_t budget = 0;
    pool_stats stats{};  ///< all of the same moment
    /// By descending bytes. Includes tags without live blocks that have a peak.
    std::vector<tag_facts> tags{};
    std::vector<segment_facts> segments{};  ///< by address; empty if not requested
};

/// A budget in its tree.
struct budget_entry {
    budget_facts facts;                   ///< bytes, read under the lock of its tree
    std::size_t depth = 0;                ///< 0 for the root
    std::optional<std::size_t> parent{};  ///< index in memory_snapshot::budgets
};

/// A holder of budget bytes other than a pool: a loader, a cache, a reservation, or `budgeted` memory.
struct holder_facts {
    std::string name;                 ///< name of the holder
    std::size_t budget = 0;           ///< index in memory_snapshot::budgets
    std::vector<holding> holdings{};  ///< by descending bytes
};

/// A snapshot. Each pool is read at one moment, and so is each tree of budgets, but one after the other: an allocation by another thread in
/// between may be in one and not in the other.
struct memory_snapshot {
    std::chrono::system_clock::time_point taken{};  ///< when it was started
    /// Parents precede children; a child follows the whole subtrees of its older siblings.
    std::vector<budget_entry> budgets{};
    std::vector<pool_facts> pools{};      ///< pools that take from these budgets
    std::vector<holder_facts> holders{};  ///< holders that hold bytes now
    std::vector<device_facts> devices{};  ///< devices of these pools and budgets
};

}  // namespace cuota::inline v0
