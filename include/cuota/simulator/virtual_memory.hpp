// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <array>
#include <span>
#include <vector>

/// The driver's cuMem* functions. A mapping is an `allocation`; the device is charged for the physical memory.
namespace cuota::inline v0::simulator {

/// Memory of cuMemCreate.
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

/// Memory that the runtime did not allocate (`first` is null) permits any access, unless its address is reserved for a device or for
/// strict-mode memory.
bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how);

/// Returns null if all is mapped. Takes the lock.
void const* first_unmapped(void const* from, std::size_t bytes);

/// Returns the range at the simulator's addresses: one piece, except for consecutive mappings, for which it takes the lock.
std::vector<std::span<std::byte>> pieces(allocation_ref const& first, void const* from, std::size_t bytes);

/// Called under the lock.
bool is_reserved(void const* address);

std::vector<std::string> describe_reservations();
/// Returns an empty text if not reserved. Called under the lock.
std::string reservation_at(void const* address);

std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory();

}  // namespace cuota::inline v0::simulator
