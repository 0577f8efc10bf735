// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Handmade snapshots for tests of output for people and programs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace summary_samples {

using namespace cuota::literals;

/// A minute and a second into the year 2026.
inline std::chrono::system_clock::time_point new_year() {
    return std::chrono::sys_days{std::chrono::year{2026} / 1 / 1} + std::chrono::seconds{61};
}

inline cuota::block_info live(std::uint64_t address, std::size_t size, std::size_t requested, cuota::tag name,
                              cuota::source_location where = {}) {
    return {address, size, requested, cuota::block_use::live, name, where};
}
inline cuota::block_info unused(std::uint64_t address, std::size_t size,
                                cuota::block_use use = cuota::block_use::free) {
    return {address, size, 0, use};
}

/// A pool of two segments with blocks of all uses except `releasing`; all figures are consistent.
inline cuota::pool_info small_pool() {
    cuota::pool_info p;
    p.name = "main";
    p.device = 0;
    p.stats = {.requested = 1500,
               .allocated = 1792,
               .active = 2048,
               .reserved = 6144,
               .peak_requested = 2000,
               .peak_allocated = 2304,
               .peak_active = 2560,
               .peak_reserved = 8192,
               .live_blocks = 3,
               .free_blocks = 3,
               .largest_free = 2048,
               .segments = 2};
    p.tags = {{"weights", 2, 1000, 1024, 4, 1024}, {"activations", 1, 500, 768, 0, 1280}};
    p.segments = {{0x1000,
                   4096,
                   false,
                   {live(0x1000, 512, 500, "weights", {"train.cpp", 10}),
                    unused(0x1200, 256, cuota::block_use::pending),
                    live(0x1300, 768, 500, "activations", {"train.cpp", 20}), unused(0x1600, 2048),
                    live(0x1e00, 512, 500, "weights", {"train.cpp", 10})}},
                  {0x2000, 2048, true, {unused(0x2000, 2048)}}};
    return p;
}

/// One device, three budgets, a pool and a loader; all figures are consistent.
inline cuota::memory_snapshot small_snapshot() {
    cuota::memory_snapshot s;
    s.taken = new_year();
    s.budgets = {{{"gpu", 16384, 12288, 14336}, 0, {}},
                 {{"training", 8192, 6144, 8192}, 1, 0},
                 {{"batches", 4096, 1024, 2048, true}, 1, 0}};
    s.pools = {small_pool()};
    s.pools[0].budget = 1;
    s.holders = {{"loader train", 2, {{"staging", {"loader.cpp", 7}, 768}, {"spare slots", {}, 256, true}}}};
    s.devices = {{0, "simulated", 1_GiB, 1_GiB - 20480, 16384, 1024}};
    return s;
}

}  // namespace summary_samples
