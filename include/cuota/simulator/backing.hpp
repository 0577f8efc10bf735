// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuota/simulator.hpp>

#include <cstddef>
#include <optional>

namespace cuota::inline v0::simulator {

struct allocation;

/// Layout of the host memory that backs device memory or pinned memory.
struct backing {
    std::ptrdiff_t shift = 0;      ///< added to the program's address gives the simulator's address
    std::size_t guard_before = 0;  ///< guard bytes, which must not change
    std::size_t guard_behind = 0;
    memory_checks checks = memory_checks::off;
};

/// Allocates memory that the host can access as well; null on failure. Under the lock.
void* take_heap(backing& out, std::size_t alignment, std::size_t bytes);
/// Allocates device memory, aligned to 256 bytes; in strict mode the host cannot access it.
void* take_device_memory(backing& out, std::size_t bytes);
void give_memory(void* address, backing const& b, std::size_t bytes);
void poison_freed(void* address, backing const& b, std::size_t bytes);

/// Fills new memory with 0xcd, or with poison in strict mode; large memory at its ends only, because it may exceed the host's memory. Does
/// nothing with checks off.
void fill_new(void* address, backing const& b, std::size_t bytes);

/// Fills memory with poison. Each 8 bytes depend on their address in the simulator's view, which identifies bytes that were never written.
void poison(void* view, std::size_t bytes);
/// Returns the offset of the first poisoned or unpoisoned byte, if any.
std::optional<std::size_t> first_poisoned(void const* view, std::size_t bytes);
std::optional<std::size_t> first_unpoisoned(void const* view, std::size_t bytes);

/// Poisons, after a copy, the bytes of `to` whose source bytes were never written.
void carry_poison(void* to, void const* from, std::size_t bytes);

/// Returns the offset of a changed guard byte from the first byte of the allocation, if any, and restores the guard bytes.
std::optional<std::ptrdiff_t> broken_guard(allocation const& a);

}  // namespace cuota::inline v0::simulator
