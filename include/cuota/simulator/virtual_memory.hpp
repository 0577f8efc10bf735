// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <array>
#include <span>
#include <vector>

/// Address ranges, physical memory and mappings, as in the driver's cuMem* functions. A mapping is an ordinary `allocation`, so that
/// copies, memsets and pointer queries find it; the charge to the device belongs to the physical memory behind it.
namespace cuota::inline v0::simulator {

/// Memory of cuMemCreate. It is released when it has neither a handle nor a mapping.
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

/// Returns the access that kernels of a device have to the memory.
access kernel_access(device const& d, allocation const& a);

/// Whether the whole range permits the access: inside one allocation or in consecutive mappings. Memory that the runtime did not allocate
/// (`first` is null) does, unless its address is reserved for a device.
bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how);

/// Returns the first unmapped address of a range at the time the work runs; null if there are none. Takes the lock.
void const* first_unmapped(void const* from, std::size_t bytes);

/// Returns the range at the addresses that the simulator may access: one piece, except for consecutive mappings, for which it takes the
/// lock.
std::vector<std::span<std::byte>> pieces(allocation_ref const& first, void const* from, std::size_t bytes);

/// Whether the address lies in a range of cuMemAddressReserve. Under the lock.
bool is_reserved(void const* address);

/// Describes the ranges of cuMemAddressReserve, for `leaks`.
std::vector<std::string> describe_reservations();
/// Describes the reserved range that contains the address; empty if none does. Under the lock.
std::string reservation_at(void const* address);

/// Returns the number and a description of each live physical memory, for `leaks`.
std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory();

}  // namespace cuota::inline v0::simulator
