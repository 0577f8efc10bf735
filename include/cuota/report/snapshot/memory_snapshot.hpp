// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines snapshots of budgets, pools and devices.
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
    pending,    ///< free, but enqueued work may still use it
    free,       ///< free and not in use
    releasing,  ///< being released or mapped
};

/// A block of a segment. The blocks fill it.
struct block_info {
    std::uint64_t address = 0;                        ///< of its first byte
    std::size_t size = 0;                             ///< bytes
    std::size_t requested = 0;                        ///< requested bytes, if live
    block_use use = block_use::free;                  ///< state
    tag name{};                                       ///< tag; this and the members below are of live blocks
    source_location where{};                          ///< call site; may be empty
    lifetime_hint lifetime = lifetime_hint::scratch;  ///< lifetime hint
    std::size_t age = 0;                              ///< steps begun since the allocation
    std::optional<std::uint64_t> stream{};            ///< id of its stream, if known
};

/// A segment, or a run of contiguous pages.
struct segment_info {
    std::uint64_t address = 0;         ///< of its first byte
    std::size_t size = 0;              ///< bytes
    bool is_paged = false;             ///< can release any free page
    std::vector<block_info> blocks{};  ///< by address
};

/// Live bytes of one tag in a pool.
struct tag_info {
    tag name{};                         ///< tag of the blocks
    std::size_t live_blocks = 0;        ///< count
    std::size_t requested = 0;          ///< as requested
    std::size_t allocated = 0;          ///< rounded up
    std::size_t oldest = 0;             ///< age of its oldest block, in steps
    std::optional<std::size_t> peak{};  ///< peak of `allocated` since a recorder observes, if any
};

/// A pool at one moment.
struct pool_info {
    std::string name;                          ///< name
    std::optional<int> device{};               ///< device ordinal, if any
    memory_kind memory = memory_kind::device;  ///< kind of memory
    /// Index in memory_snapshot::budgets of its budget.
    std::size_t budget = 0;
    pool_stats stats{};  ///< all of the same moment
    /// Sorted by descending bytes; some tags only have a peak.
    std::vector<tag_info> tags{};
    std::vector<segment_info> segments{};  ///< by address; empty if not requested
};

/// A budget in its tree.
struct budget_entry {
    budget_info facts;                    ///< read under the lock of its tree
    std::size_t depth = 0;                ///< 0 for the root
    std::optional<std::size_t> parent{};  ///< index in memory_snapshot::budgets
};

/// A holder of budget bytes other than a pool.
struct holder_info {
    std::string name;                                   ///< name
    std::size_t budget = 0;                             ///< index in memory_snapshot::budgets
    std::vector<allocation_group> allocation_groups{};  ///< by descending bytes
};

/// A snapshot. Each pool and each tree of budgets is of one moment; these moments differ.
struct memory_snapshot {
    std::chrono::system_clock::time_point taken{};  ///< time of its beginning
    /// In depth-first order, parents first.
    std::vector<budget_entry> budgets{};
    std::vector<pool_info> pools{};      ///< pools charged to these budgets
    std::vector<holder_info> holders{};  ///< holders that hold bytes now
    std::vector<device_info> devices{};  ///< devices of these pools and budgets
};

}  // namespace cuota::inline v0
