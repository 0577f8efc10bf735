// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <array>
#include <span>
#include <vector>

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
    call_sites::site made_at;
    bool is_for_rdma = false;
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

/// What kernels of a device may do with the memory.
access kernel_access(device const& d, allocation const& a);

/// Whether all of the range may be used so: inside one allocation, or on consecutive mappings. Memory that
/// the runtime does not know (`first` is null) may be, unless its address is reserved for a device.
bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how);

/// Where a range of mappings has a hole when the work reaches it; null when it has none. Takes the lock.
void const* first_unmapped(void const* from, std::size_t bytes);

/// The range where the simulator may touch it: one piece, but for consecutive mappings. Takes the lock for those.
std::vector<std::span<std::byte>> pieces(allocation_ref const& first, void const* from, std::size_t bytes);

/// Whether the address lies in a range that cuMemAddressReserve gave out. Under the lock.
bool is_reserved(void const* address);

/// The ranges that cuMemAddressReserve gave out, for `leaks`.
std::vector<std::string> describe_reservations();
/// The one that the address lies in, or nothing. Under the lock.
std::string reservation_at(void const* address);

/// The physical memory that is alive, for `leaks`: its number and a line about it.
std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory();

}  // namespace cuota::inline v0::simulator
