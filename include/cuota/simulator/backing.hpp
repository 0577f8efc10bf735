// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuota/simulator.hpp>

#include <cstddef>
#include <optional>

namespace cuota::inline v0::simulator {

struct allocation;

struct backing {
    std::ptrdiff_t shift = 0;      ///< from the program's to the simulator's address
    std::size_t guard_before = 0;  ///< must not change
    std::size_t guard_behind = 0;
    memory_checks checks = memory_checks::off;
};

/// Returns null on failure. Called under the lock.
void* take_heap(backing& out, std::size_t alignment, std::size_t bytes);
/// Returns memory aligned to 256 bytes.
void* take_device_memory(backing& out, std::size_t bytes);
void give_memory(void* address, backing const& b, std::size_t bytes);
void poison_freed(void* address, backing const& b, std::size_t bytes);

/// Fills new memory with 0xcd, or with poison in strict mode; large memory at its ends only, because it may exceed the host's.
void fill_new(void* address, backing const& b, std::size_t bytes);

/// Fills memory with poison, which depends on the address and identifies bytes that were never written.
void poison(void* view, std::size_t bytes);
std::optional<std::size_t> first_poisoned(void const* view, std::size_t bytes);
std::optional<std::size_t> first_unpoisoned(void const* view, std::size_t bytes);

/// Poisons, after a copy, the bytes of `to` that were never written in `from`.
void carry_poison(void* to, void const* from, std::size_t bytes);

/// Returns the offset of a changed guard byte, if any, and restores the guard bytes.
std::optional<std::ptrdiff_t> broken_guard(allocation const& a);

}  // namespace cuota::inline v0::simulator
