// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "closed_memory.hpp"
#include "graph.hpp"

#include <algorithm>
#include <sstream>

namespace cuota::inline v0::simulator {
namespace {

constexpr std::size_t pinned_alignment = 512;
constexpr std::size_t freed_kept = 4096;

void count(allocation const& a, bool more) {
    auto& live = the_machine().live;
    auto const change = [more](std::size_t& number, std::size_t by) { more ? number += by : number -= by; };
    switch (a.kind) {
        case memory_kind::device:
            change(live.device_allocations, 1);
            change(live.device_bytes, a.units);
            break;
        case memory_kind::managed:
            change(live.managed_allocations, 1);
            change(live.managed_bytes, a.bytes);
            break;
        case memory_kind::pinned:
            change(live.pinned_allocations, 1);
            change(live.pinned_bytes, a.bytes);
            break;
        case memory_kind::registered: break;
    }
}

cudaError_t allocate_device(void** out, std::size_t bytes) {
    if (!out) return cudaErrorInvalidValue;
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    auto& d = current_device();
    if (too_large(bytes) || bytes > d.capacity) return cudaErrorMemoryAllocation;
    if (!take_from_device(d, in_units(bytes))) {
        trim_graph_memory(d);
        if (!take_from_device(d, in_units(bytes))) return cudaErrorMemoryAllocation;
    }
    auto const uncharge = [bytes](device* from) { give_to_device(*from, in_units(bytes)); };
    std::unique_ptr<device, decltype(uncharge)> charged{&d, uncharge};
    backing block;
    void* const address = take_device_memory(block, bytes);
    if (!address) return cudaErrorMemoryAllocation;
    auto const give = [&](void* unused) { give_memory(unused, block, bytes); };
    std::unique_ptr<void, decltype(give)> owned{address, give};
    fill_new(address, block, bytes);
    note_memory(address, block, bytes, memory_kind::device, d.index, function::cudaMalloc);
    (void)charged.release();
    *out = owned.release();
    return cudaSuccess;
}

/// Charges nothing: on Linux, managed memory may exceed the device's.
cudaError_t allocate_on_host(void** out, std::size_t bytes, memory_kind kind, unsigned flags, function by) {
    if (!out) return cudaErrorInvalidValue;
    *out = nullptr;
    if (bytes == 0) return kind == memory_kind::managed ? cudaErrorInvalidValue : cudaSuccess;
    if (too_large(bytes)) return cudaErrorMemoryAllocation;
    backing block;
    auto const alignment = kind == memory_kind::managed ? host_page : pinned_alignment;
    void* const address = take_heap(block, alignment, bytes);
    if (!address) return cudaErrorMemoryAllocation;
    auto const give = [&](void* unused) { give_memory(unused, block, bytes); };
    std::unique_ptr<void, decltype(give)> owned{address, give};
    fill_new(address, block, bytes);
    note_memory(address, block, bytes, kind, current_device().index, by)->flags = flags;
    *out = owned.release();
    return cudaSuccess;
}

allocation_ref exactly(void const* address) {
    auto const& memory = the_machine().memory;
    auto const found = memory.find(~reinterpret_cast<std::uintptr_t>(address));
    return found == memory.end() ? nullptr : found->second;
}

}  // namespace

namespace {

void wait_for_users(guard& lock, allocation const& a) {
    auto& m = the_machine();
    if (m.free_at_once) return;
    for (int i = 0; i < m.devices; ++i) {
        bool const concerned = a.kind != memory_kind::device || i == a.device;
        if (concerned) wait_before_free(lock, *m.all_devices[static_cast<std::size_t>(i)]);
    }
}

/// Returns the unfinished work that may use heap memory that is being freed, and reserves an entry in the list of such memory. If the host has
/// no memory for either, waits for all work and returns none.
std::vector<operation_ref> users_after_free(guard& lock, allocation const& a) {
    if (a.block.shift != 0) return {};
    auto& m = the_machine();
    try {
        auto until = under_way();
        if (m.resting.size() == m.resting.capacity()) m.resting.reserve(2 * m.resting.size() + 1);
        return until;
    } catch (std::bad_alloc const&) {
        for (auto const& d : m.all_devices) wait_before_free(lock, *d);
        return {};
    }
}

void check_freed(allocation& a) noexcept {
    try {
        ordering::host_frees(a, name_of(caller.calling));
        check_guards(a);
    } catch (std::bad_alloc const&) {}  // the host has no memory for a report
}

/// Heap memory is kept until all work in `until` has finished: a late write could hit a new allocation.
void give_freed(allocation const& a, std::vector<operation_ref> until) noexcept {
    if (until.empty()) return give_memory(a.address(), a.block, a.bytes);
    the_machine().resting.push_back({a.address(), a.block, a.bytes, std::move(until)});
    poison_freed(a.address(), a.block, a.bytes);
    sanitizer::forbid(a.address(), a.bytes);
}

}  // namespace

std::vector<operation_ref> under_way() {
    std::vector<operation_ref> all;
    auto const add = [&all](stream const& s) {
        auto const& last = s.last_of_program ? s.last_of_program : s.last;
        if (last && !last->done) all.push_back(last);
    };
    for (auto const& d : the_machine().all_devices) {
        add(*d->legacy);
        for (auto const& s : d->streams) add(*s);
    }
    return all;
}

void end_rests() {
    std::erase_if(the_machine().resting, [](resting_memory const& r) {
        auto const is_done = [](operation_ref const& work) { return work->done != 0; };
        if (!std::all_of(r.until.begin(), r.until.end(), is_done)) return false;
        sanitizer::allow(r.address, r.bytes);
        give_memory(r.address, r.block, r.bytes);
        return true;
    });
}

void release(guard& lock, allocation_ref const& a) {
    forget_memory(a);  // first: the waits release the lock, and another thread could free it again
    wait_for_users(lock, *a);
    end_rests();
    auto until = users_after_free(lock, *a);
    a->now = allocation::phase::released;
    check_freed(*a);
    if (a->from) return_to_pool(*a->from, a->units);
    else if (a->units != 0)
        give_to_device(*the_machine().all_devices[static_cast<std::size_t>(a->device)], a->units);
    sanitizer::claim(a->address(), a->bytes);
    give_freed(*a, std::move(until));
}

namespace {

bool overlaps_pinned(void const* address, std::size_t bytes) {
    auto const* const last = static_cast<std::byte const*>(address) + bytes - 1;
    auto const before_end = find_memory(last);
    if (before_end) return true;
    auto const& memory = the_machine().memory;
    // Keys are complements: this is the last allocation that starts at or before the last byte.
    auto const found = memory.lower_bound(~reinterpret_cast<std::uintptr_t>(last));
    return found != memory.end() && found->second->address() >= address;
}

}  // namespace

allocation_ref note_memory(void* address, backing const& block, std::size_t bytes, memory_kind kind,
                           int device, function by) {
    auto& m = the_machine();
    auto a = std::make_shared<allocation>();
    a->disguise = ~reinterpret_cast<std::uintptr_t>(address);
    a->bytes = bytes;
    a->units = kind == memory_kind::device ? in_units(bytes) : 0;
    a->kind = kind;
    a->device = device;
    a->flags = 0;
    a->number = m.next_allocation++;
    a->made_by = by;
    a->made_at = here();
    a->tag = caller.tag;
    a->block = block;
    auto const entry = m.memory.emplace(a->disguise, a).first;
    try {
        if (block.shift != 0) closed_memory::belongs_to(a);
    } catch (...) {
        m.memory.erase(entry);
        throw;
    }
    count(*a, true);
    m.pinned_peak = std::max(m.pinned_peak, m.live.pinned_bytes);
    return a;
}

void remember_freed(allocation_ref const& a) {
    auto& m = the_machine();
    a->freed_by = caller.calling;
    try {
        a->freed_at = here();
        m.recently_freed.push_back(a);
    } catch (std::bad_alloc const&) {}  // reports will not name it
    if (m.recently_freed.size() > freed_kept) m.recently_freed.pop_front();
}

void forget_memory(allocation_ref const& a) {
    the_machine().memory.erase(a->disguise);
    remember_freed(a);
    count(*a, false);
}

forgotten_memory::forgotten_memory(allocation_ref const& a) : a_{a} {
    remember_freed(a);
    entry_ = the_machine().memory.extract(a->disguise);
    count(*a, false);
}

forgotten_memory::~forgotten_memory() {
    if (!a_) return;
    auto& m = the_machine();
    m.memory.insert(std::move(entry_));
    std::erase(m.recently_freed, a_);
    count(*a_, true);
}

void check_guards(allocation const& a) {
    auto const where = broken_guard(a);
    if (!where) return;
    auto const side = *where < 0
                          ? in_bytes(static_cast<std::size_t>(-*where)) + " before "
                          : in_bytes(static_cast<std::size_t>(*where) - a.bytes + 1) + " past the end of ";
    note_misuse(the_machine().misuse.out_of_bounds, "out-of-bounds write: " + side + describe(a) +
                                                        freed_text(a).replace(0, 2, "; found when it was "));
}

allocation_ref find_memory(void const* address) {
    auto const& memory = the_machine().memory;
    auto const wanted = reinterpret_cast<std::uintptr_t>(address);
    auto const found = memory.lower_bound(~wanted);  // the largest start that is not above the address
    if (found == memory.end()) return nullptr;
    auto const offset = wanted - ~found->first;
    return offset < found->second->bytes ? found->second : nullptr;
}

void name_block(void const* first, std::size_t bytes, char const* tag, call_sites::site made_at) {
    auto const begin = reinterpret_cast<std::uintptr_t>(first);
    for (std::size_t done = 0; done < bytes;) {
        auto const a = find_memory(static_cast<std::byte const*>(first) + done);
        if (!a) return;
        auto const from = begin + done - ~a->disguise;
        auto const to = from + std::min(bytes - done, a->bytes - from);
        auto at = a->blocks.lower_bound(from);
        if (at != a->blocks.begin() && std::prev(at)->second.end > from) std::prev(at)->second.end = from;
        while (at != a->blocks.end() && at->first < to) at = a->blocks.erase(at);
        a->blocks.insert_or_assign(from, named_block{to, ~begin, bytes, made_at, tag});
        done += to - from;
    }
}

std::string freed_text(allocation const& a) {
    return std::string{", freed by "} + name_of(a.freed_by) + call_sites::mark(a.freed_at);
}

namespace {

allocation_ref freed_lately(void const* address) {
    auto const& freed = the_machine().recently_freed;
    auto const wanted = reinterpret_cast<std::uintptr_t>(address);
    auto const found = std::find_if(freed.rbegin(), freed.rend(),
                                    [&](auto const& a) { return wanted - ~a->disguise < a->bytes; });
    return found == freed.rend() ? nullptr : *found;
}

}  // namespace

std::string freed_memory_at(void const* address) {
    auto const a = freed_lately(address);
    if (!a) return {};
    auto const offset = reinterpret_cast<std::uintptr_t>(address) - ~a->disguise;
    return "byte " + std::to_string(offset) + " of " + describe(*a) + freed_text(*a);
}

cudaError_t refuse_free(void const* address) {
    auto& m = the_machine();
    auto const before =
        find_memory(address) ? nullptr : freed_lately(address);  // the address may have been reused
    bool const again = before && before->address() == address;
    if (again) {
        note_misuse(m.misuse.double_frees, this_call() + " frees memory that is already freed: " +
                                               describe(*before) + freed_text(*before));
        return cudaErrorInvalidValue;
    }
    std::ostringstream line;
    line << this_call() << " cannot free " << address << ": ";
    if (auto const a = find_memory(address)) {
        auto const offset = reinterpret_cast<std::uintptr_t>(address) - ~a->disguise;
        if (offset != 0) line << "it is byte " << offset << " of ";
        line << describe(*a);
    } else {
        line << "the runtime did not allocate it";
    }
    note_misuse(m.misuse.foreign_frees, line.str());
    return cudaErrorInvalidValue;
}

bool take_from_device(device& d, std::size_t units) {
    if (units > d.free()) return false;
    d.used += units;
    d.peak = std::max(d.peak, d.used);
    return true;
}

void give_to_device(device& d, std::size_t units) { d.used -= units; }

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaMalloc(void** out, size_t bytes) {
    return api(function::cudaMalloc, [&](guard&) { return allocate_device(out, bytes); });
}

cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned int flags) {
    return api(function::cudaMallocManaged, [&](guard&) {
        if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return cudaErrorInvalidValue;
        return allocate_on_host(out, bytes, memory_kind::managed, flags, function::cudaMallocManaged);
    });
}

cudaError_t cudaMallocHost(void** out, size_t bytes) {
    return api(function::cudaMallocHost, [&](guard&) {
        return allocate_on_host(out, bytes, memory_kind::pinned, cudaHostAllocDefault,
                                function::cudaMallocHost);
    });
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned int flags) {
    return api(function::cudaHostAlloc, [&](guard&) {
        constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
        if ((flags & ~known) != 0) return cudaErrorInvalidValue;
        return allocate_on_host(out, bytes, memory_kind::pinned, flags, function::cudaHostAlloc);
    });
}

cudaError_t cudaFree(void* address) {
    return api(function::cudaFree, [&](guard& lock) {
        if (!address) return cudaSuccess;
        auto const a = exactly(address);
        bool const ours =
            a && !a->mapped && (a->kind == memory_kind::device || a->kind == memory_kind::managed);
        if (!ours) return refuse_free(address);
        if (a->in_graph) return free_outside(lock, a);
        auto const& d = *the_machine().all_devices[static_cast<std::size_t>(a->device)];
        release(lock, a);
        return failure_of(d);
    });
}

cudaError_t cudaFreeHost(void* address) {
    return api(function::cudaFreeHost, [&](guard& lock) {
        if (!address) return cudaSuccess;
        auto const a = exactly(address);
        if (!a || a->kind != memory_kind::pinned) return refuse_free(address);
        release(lock, a);
        return cudaSuccess;
    });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
    return api(function::cudaHostRegister, [&](guard&) {
        constexpr unsigned known =
            cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
        if (!address || bytes == 0 || (flags & ~known) != 0) return cudaErrorInvalidValue;
        if (overlaps_pinned(address, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
        note_memory(address, {}, bytes, memory_kind::registered, current_device().index,
                    function::cudaHostRegister)
            ->flags = flags;
        return cudaSuccess;
    });
}

cudaError_t cudaHostUnregister(void* address) {
    return api(function::cudaHostUnregister, [&](guard& lock) {
        auto const a = exactly(address);
        if (!a || a->kind != memory_kind::registered) return cudaErrorHostMemoryNotRegistered;
        forget_memory(a);
        std::erase(the_machine().recently_freed, a);  // the memory itself stays allocated
        wait_for_users(lock, *a);
        check_freed(*a);
        return cudaSuccess;
    });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned int flags) {
    return api(function::cudaHostGetDevicePointer, [&](guard&) {
        auto const a = find_memory(address);
        bool const pinned = a && (a->kind == memory_kind::pinned || a->kind == memory_kind::registered);
        if (!out || flags != 0 || !pinned) return cudaErrorInvalidValue;
        *out = address;
        return cudaSuccess;
    });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* address) {
    return api(function::cudaHostGetFlags, [&](guard&) {
        auto const a = find_memory(address);
        if (!flags || !a || a->kind != memory_kind::pinned) return cudaErrorInvalidValue;
        *flags = a->flags | cudaHostAllocMapped;  // with unified addressing, all pinned memory is mapped
        return cudaSuccess;
    });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, void const* address) {
    return api(function::cudaPointerGetAttributes, [&](guard&) {
        if (!out) return cudaErrorInvalidValue;
        *out = {};
        auto const a = find_memory(address);
        if (!a || (a->in_graph && a->now == allocation::phase::pending)) {
            out->type = cudaMemoryTypeUnregistered;
            out->device = cudaInvalidDeviceId;
            return cudaSuccess;
        }
        void* const same = const_cast<void*>(address);
        out->device = a->device;
        out->devicePointer = same;
        out->hostPointer = a->kind == memory_kind::device ? nullptr : same;
        out->type = a->kind == memory_kind::device    ? cudaMemoryTypeDevice
                    : a->kind == memory_kind::managed ? cudaMemoryTypeManaged
                                                      : cudaMemoryTypeHost;
        return cudaSuccess;
    });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    return api(function::cudaMemGetInfo, [&](guard&) {
        if (!free || !total) return cudaErrorInvalidValue;
        auto const& d = current_device();
        *free = d.reported_free();
        *total = std::min(d.capacity, d.limits.hard);
        return cudaSuccess;
    });
}
