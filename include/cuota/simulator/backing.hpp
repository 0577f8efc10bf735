// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator.hpp"

#include <cstddef>
#include <optional>

namespace cuota::inline v0::simulator {

struct allocation;

/// How the host memory lies that stands in for memory of a device, or for pinned memory.
struct backing {
    std::ptrdiff_t shift = 0;      ///< from the program's address to where the simulator may touch it
    std::size_t guard_before = 0;  ///< bytes that nobody may change
    std::size_t guard_behind = 0;
    memory_checks checks = memory_checks::off;
};

/// Memory that the host may reach, too; null when there is none. Under the lock.
void* take_heap(backing& out, std::size_t alignment, std::size_t bytes);
/// Memory of a device, aligned to 256: closed to the host in strict mode.
void* take_device_memory(backing& out, std::size_t bytes);
void give_memory(void* address, backing const& b, std::size_t bytes);
/// Garbage for freed memory of the heap, as fill_new has some for new memory: 0xdd.
void poison_freed(void* address, backing const& b, std::size_t bytes);

/// Garbage for new memory: 0xcd, or poison where memory is closed. Small memory is filled whole and large memory at
/// its ends, as a test may hold more device memory than the host has. Nothing with checks off.
void fill_new(void* address, backing const& b, std::size_t bytes);

/// Every 8 bytes of poison depend on their address, as the simulator sees it, so that what nobody has written is known
/// for it.
void poison(void* view, std::size_t bytes);
/// Where poison is first found, or where it first is not; in bytes from the start.
std::optional<std::size_t> first_poisoned(void const* view, std::size_t bytes);
std::optional<std::size_t> first_unpoisoned(void const* view, std::size_t bytes);

/// After a copy: what was not written at its source is not written where it went.
void carry_poison(void* to, void const* from, std::size_t bytes);

/// Whether somebody wrote before or behind the memory; then where, from its first byte, and the guard is whole again.
std::optional<std::ptrdiff_t> broken_guard(allocation const& a);

}  // namespace cuota::inline v0::simulator
