// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export.hpp"

#include "backing.hpp"
#include "call_site.hpp"
#include "functions.hpp"
#include "order.hpp"
#include "work.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// Allocations, and the pools that some of them are from.
namespace cuota::inline v0::simulator {

using guard = std::unique_lock<std::mutex>;

enum class memory_kind { device, managed, pinned, registered };

struct advice;
struct mapping;
struct pool;

/// One allocation. It knows its address only in disguise, or LeakSanitizer would find every leak reachable.
struct allocation {
    enum class phase { pending, live, released };

    std::uintptr_t disguise;  ///< ~address
    std::size_t bytes;        ///< as asked for
    std::size_t units;        ///< bytes in units of 512, what the device is charged; zero for host memory
    memory_kind kind;
    int device;
    unsigned flags;
    std::uint64_t number;
    function made_by;
    call_sites::site made_at{};
    char const* tag = nullptr;    ///< lives for ever
    call_sites::site freed_at{};  ///< set by the call, before it is released
    function freed_by{};
    backing block;
    int open = 0;                     ///< kernels that use it now, where memory is closed
    std::shared_ptr<pool> from;       ///< null for plain allocations
    std::shared_ptr<advice> advised;  ///< null until something was said about managed memory
    std::shared_ptr<mapping> mapped;  ///< null but for what cuMemMap made
    std::atomic<phase> now{phase::live};
    ordering::shadow order_shadow;

    void* address() const noexcept { return reinterpret_cast<void*>(~disguise); }
    /// Where the simulator may touch it.
    std::byte* view() const noexcept { return static_cast<std::byte*>(address()) + block.shift; }
    std::byte* view(void const* inside) const noexcept {
        return static_cast<std::byte*>(const_cast<void*>(inside)) + block.shift;
    }
};

using allocation_ref = std::shared_ptr<allocation>;

/// Memory of the host's heap that the program has freed, and that work may touch until it is done.
struct resting_memory {
    void* address;
    backing block;
    std::size_t bytes;
    std::vector<operation_ref> until;
};

/// A cudaFreeAsync that has not run yet.
struct pending_free {
    operation_ref work;
    stream_handle on;
    std::size_t units;
};

struct pool {
    int device;
    memory_kind kind = memory_kind::device;
    bool is_default = false;
    bool destroyed = false;
    std::size_t limit = 0;  ///< zero: none
    std::size_t used = 0;   ///< held by allocations and by frees that have not run
    std::size_t used_peak = 0;
    std::size_t cached = 0;  ///< free, but kept from the device
    std::size_t reserved_peak = 0;
    std::uint64_t threshold = 0;
    int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
    std::uint32_t open_to = 0;       ///< other devices that may reach its memory, one bit each
    bool for_decompression = false;  ///< as the program has asked
    std::vector<pending_free> frees;

    [[nodiscard]] std::size_t reserved() const noexcept { return used + cached; }
};

// ---- memory.cpp. Under the lock, unless it says otherwise. ----

/// The allocation that contains the address, or null.
allocation_ref find_memory(void const* address);
/// "1 byte", "2 bytes".
inline std::string in_bytes(std::size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }
/// For people: number, kind, size, address, device, the function that made it.
std::string describe(allocation const& a);
/// Makes memory known, with the place of the present call.
allocation_ref note_memory(void* address, backing const& block, std::size_t bytes, memory_kind kind,
                           int device, function by);
/// Nobody can free it any more, or find it; the present call does.
void forget_memory(allocation_ref const& a);
/// For messages to come: the present call frees it.
void remember_freed(allocation_ref const& a);
/// Tells of writes beside the memory, which is about to go. With or without the lock.
void check_guards(allocation const& a);
/// Frees it when nothing runs any more that could use it, or at once: see unkindness.
void release(guard& lock, allocation_ref const& a);
/// Gives back the resting memory whose work is done.
void end_rests();
/// Counts a free of an address that is not owned and says what it is: cudaErrorInvalidValue.
cudaError_t refuse_free(void const* address);
/// What the address was part of, lately, and who freed it; empty when nothing is known.
std::string freed_memory_at(void const* address);
std::string freed_text(allocation const& a);
bool take_from_device(device& d, std::size_t units);
void give_to_device(device& d, std::size_t units);

}  // namespace cuota::inline v0::simulator
