// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What is where at one moment: budgets as a tree, pools block by block, devices as their drivers see them.
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

/// How a run of bytes in a pool is used.
enum class block_use {
    live,     ///< somebody has it
    pending,  ///< free, and perhaps still in use by work that was enqueued before
    free,     ///< free, and known not to be used
    leaving,  ///< on its way back to the device, or about to come: nobody's
};

/// A run of bytes in a segment. Those of a segment stand side by side and fill it.
struct block_facts {
    std::uint64_t address = 0;              ///< of its first byte
    std::size_t size = 0;                   ///< bytes
    std::size_t requested = 0;              ///< of a live block: bytes, as asked for
    block_use use = block_use::free;        ///< who may use it
    tag name{};                             ///< of a live block, as all that follows
    place where{};                          ///< where it was taken; may be empty
    lifespan meant = lifespan::scratch;     ///< what it was asked for as
    std::size_t age = 0;                    ///< how many steps have begun since it was taken
    std::optional<std::uint64_t> stream{};  ///< the id of the stream it belongs to, where the pool knows
};

/// What a pool took of its device or source in one piece; of pages, a run side by side.
struct segment_facts {
    std::uint64_t address = 0;          ///< of its first byte
    std::size_t size = 0;               ///< bytes
    bool is_paged = false;              ///< may give back any page that is free, not only all of it
    std::vector<block_facts> blocks{};  ///< by address
};

/// What is live in a pool under one tag. Bytes; `peak` is of a moment of its own.
struct tag_facts {
    tag name{};                         ///< of the blocks
    std::size_t live_blocks = 0;        ///< count
    std::size_t requested = 0;          ///< bytes, as asked for
    std::size_t allocated = 0;          ///< rounded up to the pool's granule
    std::size_t oldest = 0;             ///< how many steps have begun since the first of them was taken
    std::optional<std::size_t> peak{};  ///< the most `allocated` since a recorder looks on; none without one
};

/// A pool at one moment, under its lock.
struct pool_facts {
    std::string name;                          ///< as it was made
    std::optional<int> device{};               ///< its ordinal; none for memory of another source
    memory_kind memory = memory_kind::device;  ///< who can reach it
    std::size_t budget = 0;  ///< what its segments are charged to: an index in memory_snapshot::budgets
    pool_stats stats{};      ///< all of the same instant
    std::vector<tag_facts>
        tags{};  ///< most bytes first; also tags that have nothing now and had something at a peak
    std::vector<segment_facts> segments{};  ///< by address; empty where it was not asked for
};

/// A budget in its tree.
struct budget_entry {
    budget_facts facts;                   ///< bytes, under the lock of its tree
    std::size_t depth = 0;                ///< 0 for the root
    std::optional<std::size_t> parent{};  ///< an index in memory_snapshot::budgets
};

/// Who else holds bytes of a budget: a loader, a cache, a reservation, `budgeted` memory.
struct holder_facts {
    std::string name;                 ///< as it calls itself
    std::size_t budget = 0;           ///< an index in memory_snapshot::budgets
    std::vector<holding> holdings{};  ///< the largest first
};

/// All of it. Each pool is of one instant, and each tree of budgets; they are looked at one after the other, so what
/// other threads take meanwhile may be in one and not in the other.
struct memory_snapshot {
    std::chrono::system_clock::time_point taken{};  ///< when it was begun
    std::vector<budget_entry>
        budgets{};  ///< parents before their children, a child after all below its elder siblings
    std::vector<pool_facts> pools{};      ///< that take from these budgets
    std::vector<holder_facts> holders{};  ///< those that have something now
    std::vector<device_facts> devices{};  ///< those that pools and budgets are of
};

}  // namespace cuota::inline v0
