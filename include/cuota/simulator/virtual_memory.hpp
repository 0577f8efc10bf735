// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <array>

/// Address ranges, physical memory, and mappings of the one into the other, as the driver's cuMem* functions
/// have them. A mapping is an `allocation` like any other, so that copies, memsets and pointer queries find
/// it; what it is charged stands with the physical memory behind it.
namespace cuota::inline v0::simulator {

/// What cuMemCreate makes. It lives until it has neither a handle nor a mapping.
struct physical_memory {
    std::size_t bytes;
    int device;
    std::int64_t offset;  ///< where it lies in the file that stands in for all physical memory
    std::uint64_t number;
    unsigned handles = 1;
    unsigned mappings = 0;
};

enum class access { none, read, write };

/// The part of a mapping that an `allocation` does not have.
struct mapping {
    std::shared_ptr<physical_memory> memory;
    std::array<access, most_devices> of_device{};

    [[nodiscard]] access widest() const noexcept;
};

/// Whether all of the range may be used so: inside one allocation, or on consecutive mappings. Memory that
/// the runtime does not know (`first` is null) may be, unless its address is reserved for a device.
bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how);

/// Whether all mappings of the range are still there, when the work reaches it. Takes the lock.
bool still_usable(allocation_ref const& first, void const* from, std::size_t bytes);

/// The physical memory that is alive, for `leaks`: its number and a line about it.
std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory();

}  // namespace cuota::inline v0::simulator
