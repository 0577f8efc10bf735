// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export.hpp"

#include "backing.hpp"
#include "call_site.hpp"
#include "functions.hpp"
#include "races.hpp"
#include "work.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// Allocations, and the pools of stream-ordered ones.
namespace cuota::inline v0::simulator {

using guard = std::unique_lock<std::mutex>;

enum class memory_kind { device, managed, pinned, registered };

struct advice;
struct graph;
struct mapping;
struct pool;

/// The block of an allocation node.
struct graph_block {
    std::weak_ptr<graph> of{};  ///< only compared
    std::size_t holders = 0;    ///< graphs and executables that have the node
    bool is_freed = false;      ///< by a node of the same graph
    std::size_t freed_by = 0;   ///< that node's index
    bool is_taken = false;      ///< by a launch, and not freed; only without a free node
};

/// A block that a pool of the program made within an allocation.
struct named_block {
    std::size_t end;          ///< in bytes of the allocation
    std::uintptr_t disguise;  ///< as allocation::disguise
    std::size_t bytes;
    call_sites::site made_at;
    char const* tag;  ///< never freed
};

/// Stores its address inverted: otherwise LeakSanitizer would treat leaked memory as reachable.
struct allocation {
    enum class phase { pending, live, released };

    std::uintptr_t disguise;
    std::size_t bytes;
    std::size_t units;  ///< bytes charged to the device, a multiple of 512; zero for host memory
    memory_kind kind;
    int device;
    unsigned flags;
    std::uint64_t number;
    function made_by;
    call_sites::site made_at{};
    char const* tag = nullptr;    ///< never freed
    call_sites::site freed_at{};  ///< set by the call that frees it
    function freed_by{};
    backing block;
    int open = 0;                           ///< running kernels that use it, in strict mode
    std::shared_ptr<pool> from;             ///< null for plain allocations
    std::shared_ptr<graph_block> in_graph;  ///< null except for allocation nodes
    std::shared_ptr<advice> advised;        ///< null before the first advice on managed memory
    std::shared_ptr<mapping> mapped;        ///< null except for mappings of cuMemMap
    std::atomic<phase> now{phase::live};
    ordering::shadow order_shadow;
    std::map<std::size_t, named_block> blocks;  ///< by their first byte

    void* address() const noexcept { return reinterpret_cast<void*>(~disguise); }
    std::byte* view() const noexcept { return static_cast<std::byte*>(address()) + block.shift; }
    std::byte* view(void const* inside) const noexcept {
        return static_cast<std::byte*>(const_cast<void*>(inside)) + block.shift;
    }
};

using allocation_ref = std::shared_ptr<allocation>;

/// Freed heap memory that unfinished work may access.
struct resting_memory {
    void* address;
    backing block;
    std::size_t bytes;
    std::vector<operation_ref> until;
};

/// A block of a graph that no longer exists, until the work that may use it has finished.
struct leaving_memory {
    allocation_ref memory;
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
    std::size_t limit = 0;  ///< 0: no limit
    std::size_t used = 0;   ///< also by frees that have not run
    std::size_t used_peak = 0;
    std::size_t cached = 0;
    std::size_t reserved_peak = 0;
    std::uint64_t threshold = 0;
    int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
    std::uint32_t open_to = 0;       ///< bit mask of other devices with access
    bool for_decompression = false;  ///< as requested
    std::vector<pending_free> frees;

    [[nodiscard]] std::size_t reserved() const noexcept { return used + cached; }
};

// ---- memory.cpp. Under the lock, unless stated otherwise. ----

allocation_ref find_memory(void const* address);
inline std::string in_bytes(std::size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }
std::string describe(allocation const& a);
/// Returns the description with the block that has the byte with that offset, if one has been named.
std::string describe(allocation const& a, std::size_t offset);
/// Replaces the names of earlier blocks in the range. The block may span several mappings.
void name_block(void const* first, std::size_t bytes, char const* tag, call_sites::site made_at);
allocation_ref note_memory(void* address, backing const& block, std::size_t bytes, memory_kind kind,
                           int device, function by);
void forget_memory(allocation_ref const& a);
void remember_freed(allocation_ref const& a);  ///< for reports; not if the host has no memory
/// Forgets an allocation, and restores it in the destructor unless its free is complete. Restoring allocates no memory.
class forgotten_memory {
public:
    explicit forgotten_memory(allocation_ref const& a);
    forgotten_memory(forgotten_memory const&) = delete;
    forgotten_memory& operator=(forgotten_memory const&) = delete;
    ~forgotten_memory();
    void free_is_complete() noexcept { a_ = nullptr; }

private:
    allocation_ref a_;
    std::map<std::uintptr_t, allocation_ref>::node_type entry_;
};
/// Called with or without the lock.
void check_guards(allocation const& a);
/// Waits for work that may use the memory, unless unkindness::free_at_once is set.
void release(guard& lock, allocation_ref const& a);
void end_rests();
/// Returns the unfinished work of all devices, because peers may use memory.
std::vector<operation_ref> under_way();
cudaError_t refuse_free(void const* address);
/// Returns an empty text if unknown.
std::string freed_memory_at(void const* address);
std::string freed_text(allocation const& a);
bool take_from_device(device& d, std::size_t units);
void give_to_device(device& d, std::size_t units);

}  // namespace cuota::inline v0::simulator
