// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines snapshots of budgets, pools with their blocks, and devices.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// States of a block in a pool.
enum class block_use {
    live,       ///< allocated
    pending,    ///< free, but work enqueued before may still use it
    free,       ///< free and not in use
    releasing,  ///< being returned to the device, or being mapped
};

/// A block in a segment. The blocks of a segment fill it side by side.
struct block_info {
    std::uint64_t address = 0;        ///< of its first byte
    std::size_t size = 0;             ///< bytes
    std::size_t requested = 0;        ///< requested bytes, of a live block
    block_use use = block_use::free;  ///< state
    tag name{};                       ///< tag of a live block; all members below are of live blocks, too
    source_location where{};          ///< call site; may be empty
    lifetime_hint lifetime = lifetime_hint::scratch;  ///< lifetime hint
    std::size_t age = 0;                              ///< steps begun since the allocation
    std::optional<std::uint64_t> stream{};            ///< id of its stream, if known
};

/// A piece of memory from a pool's device or upstream; with pages, a run of contiguous ones.
struct segment_info {
    std::uint64_t address = 0;         ///< of its first byte
    std::size_t size = 0;              ///< bytes
    bool is_paged = false;             ///< can release any free page, not only the whole
    std::vector<block_info> blocks{};  ///< by address
};

/// Live bytes of one tag in a pool. `peak` may be of another time.
struct tag_info {
    tag name{};                         ///< tag of the blocks
    std::size_t live_blocks = 0;        ///< count
    std::size_t requested = 0;          ///< bytes, as requested
    std::size_t allocated = 0;          ///< bytes, rounded up to the pool's granularity
    std::size_t oldest = 0;             ///< steps begun since its oldest block was allocated
    std::optional<std::size_t> peak{};  ///< peak of `allocated` since a recorder observes; none without one
};

/// A pool at one moment, read under its lock.
struct pool_info {
    std::string name;                          ///< name given at construction
    std::optional<int> device{};               ///< device ordinal, if any
    memory_kind memory = memory_kind::device;  ///< kind of memory
    /// Index in memory_snapshot::budgets of the budget that its segments are charged to.
    std::size_t budget = 0;
    pool_stats stats{};  ///< all of the same moment
    /// Sorted by descending bytes; with tags that only have a peak.
    std::vector<tag_info> tags{};
    std::vector<segment_info> segments{};  ///< by address; empty if not requested
};

/// A budget in its tree.
struct budget_entry {
    budget_info facts;                    ///< bytes, read under the lock of its tree
    std::size_t depth = 0;                ///< 0 for the root
    std::optional<std::size_t> parent{};  ///< index in memory_snapshot::budgets
};

/// A holder of budget bytes that is not a pool: a loader, a cache, a reservation, `budgeted` memory.
struct holder_info {
    std::string name;                                   ///< name of the holder
    std::size_t budget = 0;                             ///< index in memory_snapshot::budgets
    std::vector<allocation_group> allocation_groups{};  ///< by descending bytes
};

/// A snapshot. Each pool, and each tree of budgets, is of one moment, but they are read one after the other: an allocation in between may
/// be in one and not in the other.
struct memory_snapshot {
    std::chrono::system_clock::time_point taken{};  ///< when it was started
    /// Parents precede children; a child follows the subtrees of its older siblings.
    std::vector<budget_entry> budgets{};
    std::vector<pool_info> pools{};      ///< pools that are charged to these budgets
    std::vector<holder_info> holders{};  ///< holders that hold bytes now
    std::vector<device_info> devices{};  ///< devices of these pools and budgets
};

}  // namespace cuota::inline v0
