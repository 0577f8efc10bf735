// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <array>
#include <span>
#include <vector>

/// The driver's cuMem* functions. A mapping is an `allocation`, so that copies, memsets and pointer queries find it; the device is charged
/// for the physical memory.
namespace cuota::inline v0::simulator {

/// Memory of cuMemCreate; released without handles and mappings.
struct physical_memory {
    std::size_t bytes;
    int device;
    std::int64_t offset;  ///< in the file that backs all physical memory
    std::uint64_t number;
    call_sites::site made_at;
    bool is_for_rdma = false;
    unsigned handles = 1;
    unsigned mappings = 0;
};

enum class access { none, read, write };

/// The properties of a mapping that an `allocation` lacks.
struct mapping {
    std::shared_ptr<physical_memory> memory;
    std::array<access, most_devices> of_device{};

    [[nodiscard]] access widest() const noexcept;
};

access kernel_access(device const& d, allocation const& a);

/// Whether the whole range permits the access. Memory that the runtime did not allocate (`first` is null) permits it, unless its address is
/// reserved for a device or for strict-mode memory.
bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how);

/// Returns the first unmapped address of a range, or null. Takes the lock.
void const* first_unmapped(void const* from, std::size_t bytes);

/// Returns the range at the simulator's addresses: one piece, except for consecutive mappings, for which it takes the lock.
std::vector<std::span<std::byte>> pieces(allocation_ref const& first, void const* from, std::size_t bytes);

/// Whether the address lies in a range of cuMemAddressReserve. Under the lock.
bool is_reserved(void const* address);

std::vector<std::string> describe_reservations();
/// Describes the reserved range that contains the address; empty if none. Under the lock.
std::string reservation_at(void const* address);

/// Returns number and description of live physical memory.
std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory();

}  // namespace cuota::inline v0::simulator
