// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <cstdlib>

// Stream-ordered memory. A pool's cache is a number of units without addresses.
namespace cuota::inline v0::simulator {
namespace {

device& device_of(pool const& p) { return *the_machine().all_devices[static_cast<std::size_t>(p.device)]; }

/// Managed memory may exceed the device's.
bool charge(pool& p, std::size_t units) {
    return p.kind == memory_kind::managed || take_from_device(device_of(p), units);
}

void discharge(pool& p, std::size_t units) {
    if (p.kind != memory_kind::managed) give_to_device(device_of(p), units);
}

std::size_t room_in(pool const& p) {
    auto const here = p.kind == memory_kind::managed ? SIZE_MAX / 2 : device_of(p).free();
    return p.limit == 0 ? here : std::min(here, p.limit - std::min(p.limit, p.reserved()));
}

void note_peaks(pool& p) {
    p.used_peak = std::max(p.used_peak, p.used);
    p.reserved_peak = std::max(p.reserved_peak, p.reserved());
}

/// Makes `work` wait for pending frees, and counts their memory as cached.
template <class Wanted, class Enough>
void reuse_frees(pool& p, operation& work, Wanted wanted, Enough enough) {
    for (auto f = p.frees.begin(); f != p.frees.end() && !enough();) {
        if (!wanted(*f)) {
            ++f;
            continue;
        }
        order(work, f->work);
        p.used -= f->units;
        p.cached += f->units;
        f = p.frees.erase(f);
    }
}

/// Takes first memory that the stream itself has freed, then cached and new memory, and last pending frees of other streams, for which
/// `work` waits.
bool take_from_pool(pool& p, std::size_t units, stream_handle const& s, operation& work) {
    std::size_t to_come = 0;
    for (auto const& f : p.frees)
        if (f.on == s || p.internal_dependencies) to_come += f.units;
    auto const room = room_in(p);
    if (units > p.cached + to_come + room) return false;

    reuse_frees(
        p, work, [&](auto const& f) { return f.on == s; }, [&] { return p.cached >= units; });
    reuse_frees(
        p, work, [](auto const&) { return true; }, [&] { return p.cached + room >= units; });
    auto const from_cache = std::min(p.cached, units);
    if (!charge(p, units - from_cache)) return false;
    p.cached -= from_cache;
    p.used += units;
    note_peaks(p);
    return true;
}

cudaError_t allocate(guard& lock, void** out, std::size_t bytes, std::shared_ptr<pool> const& p,
                     stream_handle const& s, function by) {
    if (!out) return cudaErrorInvalidValue;
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    auto& d = device_of(*p);
    if (too_large(bytes) || (bytes > d.capacity && p->kind == memory_kind::device))
        return cudaErrorMemoryAllocation;
    backing block;
    void* const address =
        p->kind == memory_kind::device ? take_device_memory(block, bytes) : take_heap(block, 256, bytes);
    if (!address) return cudaErrorMemoryAllocation;
    auto const give = [&](void* unused) { give_memory(unused, block, bytes); };
    std::unique_ptr<void, decltype(give)> owned{address, give};

    auto note = std::make_shared<allocation_ref>();  // set below
    auto work = make_task([note] {
        auto& a = **note;
        sanitizer::allow(a.address(), a.bytes);
        sanitizer::claim(a.address(), a.bytes);
        fill_new(a.address(), a.block, a.bytes);
        a.now = allocation::phase::live;
    });
    if (!take_from_pool(*p, in_units(bytes), s, *work)) return cudaErrorMemoryAllocation;
    try {
        *note = note_memory(address, block, bytes, p->kind, d.index, by);
    } catch (...) {
        return_to_pool(*p, in_units(bytes));
        throw;
    }
    owned.release();
    (*note)->units = in_units(bytes);  // the device is charged for the pool's own memory only
    (*note)->from = p;
    (*note)->now = allocation::phase::pending;
    if (block.shift == 0) sanitizer::forbid(address, bytes);  // strict-mode memory faults by itself
    *out = address;
    enqueue(lock, s, work, pace::at_once);
    ordering::access const born[] = {{note->get(), 0, bytes, ordering::use::begins}};
    ordering::accesses(*s, *work, name_of(by), born);  // no other thread has the address yet
    return cudaSuccess;
}

void report_wrong_free(allocation const& a, device& d) {
    if (a.now != allocation::phase::live)
        illegal_access(d, std::string{"cudaFreeAsync"} + call_sites::mark(a.freed_at) + " ran before the " +
                              name_of(a.made_by) + " of " + describe(a));
    check_guards(a);
}

void finish_free(allocation& a, device& d, operation const* work) {
    sanitizer::allow(a.address(), a.bytes);
    sanitizer::claim(a.address(), a.bytes);
    try {
        report_wrong_free(a, d);
    } catch (std::bad_alloc const&) {}  // the host has no memory for a report
    a.now = allocation::phase::released;
    give_memory(a.address(), a.block, a.bytes);
    guard lock{the_machine().mutex};
    auto& frees = a.from->frees;
    auto const mine =
        std::find_if(frees.begin(), frees.end(), [&](auto const& f) { return f.work.get() == work; });
    if (mine == frees.end()) return;  // an allocation has reused it already
    frees.erase(mine);
    return_to_pool(*a.from, a.units);
}

cudaError_t free_in_stream(guard& lock, allocation_ref const& a, stream_handle const& s) {
    auto self = std::make_shared<operation const*>(nullptr);
    auto work = make_task([a, s, self] { finish_free(*a, s->owner, *self); });
    *self = work.get();
    auto& frees = a->from->frees;
    frees.push_back({work, s, a->units});
    try {
        forgotten_memory forgotten{a};
        enqueue(lock, s, work, pace::at_once);
        forgotten.free_is_complete();
    } catch (...) {
        std::erase_if(frees, [&](pending_free const& f) { return f.work == work; });
        throw;
    }
    ordering::stream_frees(a, *s, *work);  // can no longer be found
    return cudaSuccess;
}

std::shared_ptr<pool> current_pool(device const& d) {
    return the_machine().pools.find(d.current_pool_handle);
}

cudaError_t bad_pool() {
    bad_handle();
    return cudaErrorInvalidValue;
}

cudaError_t read(pool const& p, cudaMemPoolAttr which, void* value) {
    auto const flag = [value](int v) { return *static_cast<int*>(value) = v, cudaSuccess; };
    auto const number = [value](std::uint64_t v) {
        return *static_cast<std::uint64_t*>(value) = v, cudaSuccess;
    };
    switch (which) {
        case cudaMemPoolReuseFollowEventDependencies: return flag(p.follow_events);
        case cudaMemPoolReuseAllowOpportunistic: return flag(p.opportunistic);
        case cudaMemPoolReuseAllowInternalDependencies: return flag(p.internal_dependencies);
        case cudaMemPoolAttrReleaseThreshold: return number(p.threshold);
        case cudaMemPoolAttrReservedMemCurrent: return number(p.reserved());
        case cudaMemPoolAttrReservedMemHigh: return number(p.reserved_peak);
        case cudaMemPoolAttrUsedMemCurrent: return number(p.used);
        case cudaMemPoolAttrUsedMemHigh: return number(p.used_peak);
        default: return cudaErrorInvalidValue;
    }
}

cudaError_t write(pool& p, cudaMemPoolAttr which, void const* value) {
    auto const flag = [value] { return *static_cast<int const*>(value); };
    auto const number = [value] { return *static_cast<std::uint64_t const*>(value); };
    switch (which) {
        case cudaMemPoolReuseFollowEventDependencies: p.follow_events = flag(); return cudaSuccess;
        case cudaMemPoolReuseAllowOpportunistic: p.opportunistic = flag(); return cudaSuccess;
        case cudaMemPoolReuseAllowInternalDependencies: p.internal_dependencies = flag(); return cudaSuccess;
        case cudaMemPoolAttrReleaseThreshold: p.threshold = number(); return cudaSuccess;
        case cudaMemPoolAttrReservedMemHigh:  // peaks can only be lowered to the present use
            if (number() != 0) return cudaErrorInvalidValue;
            p.reserved_peak = p.reserved();
            return cudaSuccess;
        case cudaMemPoolAttrUsedMemHigh:
            if (number() != 0) return cudaErrorInvalidValue;
            p.used_peak = p.used;
            return cudaSuccess;
        default: return cudaErrorInvalidValue;
    }
}

template <class Use>
cudaError_t with_pool(function f, cudaMemPool_t handle, Use use) {
    return api(f, [&](guard&) {
        auto const p = the_machine().pools.find(handle);
        return p ? use(*p) : bad_pool();
    });
}

cudaError_t allocate_from(function f, void** out, std::size_t bytes, cudaStream_t stream_of,
                          cudaMemPool_t const* from) {
    return api(f, [&](guard& lock) {
        auto const s = find_stream(stream_of);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        auto const p = from ? the_machine().pools.find(*from) : current_pool(s->owner);
        if (!p) return bad_pool();
        if (out && bytes != 0 && s->capturing.in) return allocate_in_graph(lock, out, bytes, s, f);
        return allocate(lock, out, bytes, p, s, f);
    });
}

}  // namespace

void return_to_pool(pool& p, std::size_t units) {
    p.used -= units;
    if (p.destroyed) discharge(p, units);
    else p.cached += units;
}

void trim_pool(pool& p, std::size_t keep) {
    if (p.cached == 0 || p.reserved() <= keep) return;
    auto const excess = std::min(p.cached, p.reserved() - keep);
    p.cached -= excess;
    discharge(p, excess);
}

void trim_at_synchronisation(device& d) {
    for (auto const& weak : d.pools)
        if (auto const p = weak.lock()) trim_pool(*p, p->threshold);
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t s) {
    return allocate_from(function::cudaMallocAsync, out, bytes, s, nullptr);
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t from, cudaStream_t s) {
    return allocate_from(function::cudaMallocFromPoolAsync, out, bytes, s, &from);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
    return api(function::cudaFreeAsync, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (s->capturing.in) return address ? free_in_graph(lock, address, s) : cudaSuccess;
        auto const a = find_memory(address);
        if (a && a->address() == address && a->in_graph) return free_outside(lock, a, s);
        if (!a || a->address() != address || !a->from) return refuse_free(address);
        free_in_stream(lock, a, s);
        return failure_of(s->owner);
    });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, cudaMemPoolProps const* wanted) {
    return api(function::cudaMemPoolCreate, [&](guard&) {
        if (!out || !wanted || wanted->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
        if (wanted->handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
        if (wanted->location.type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
        auto* const d = find_device(wanted->location.id);
        if (!d) return cudaErrorInvalidDevice;
        auto& m = the_machine();
        auto p = std::make_shared<pool>();
        p->device = d->index;
#if CUDART_VERSION >= 12020
        p->limit = wanted->maxSize;
#endif
#if CUDART_VERSION >= 12080
        p->for_decompression = (wanted->usage & cudaMemPoolCreateUsageHwDecompress) != 0;
#endif
        std::erase_if(d->pools, [](auto const& weak) { return weak.expired(); });
        d->pools.push_back(p);
        *out = reinterpret_cast<cudaMemPool_t>(m.pools.add(std::move(p), present_call()));
        ++m.live.pools;
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
    return with_pool(function::cudaMemPoolDestroy, handle, [&](pool& p) {
        if (p.is_default) return cudaErrorInvalidValue;
        auto& m = the_machine();
        auto& d = device_of(p);
        if (d.current_pool_handle == handle) d.current_pool_handle = d.default_pool_handle;
        if (d.current_managed_pool_handle == handle) d.current_managed_pool_handle = d.managed_pool_handle;
        p.destroyed = true;
        trim_pool(p, 0);
        m.pools.remove(handle, here());
        --m.live.pools;
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
    return with_pool(function::cudaMemPoolGetAttribute, handle,
                     [&](pool& p) { return value ? read(p, which, value) : cudaErrorInvalidValue; });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
    return with_pool(function::cudaMemPoolSetAttribute, handle,
                     [&](pool& p) { return value ? write(p, which, value) : cudaErrorInvalidValue; });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
    return with_pool(function::cudaMemPoolTrimTo, handle, [&](pool& p) {
        trim_pool(p, keep);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int index) {
    return api(function::cudaDeviceGetDefaultMemPool, [&](guard&) {
        auto const* const d = find_device(index);
        if (!out) return cudaErrorInvalidValue;
        if (!d) return cudaErrorInvalidDevice;
        *out = d->default_pool_handle;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* out, int index) {
    return api(function::cudaDeviceGetMemPool, [&](guard&) {
        auto const* const d = find_device(index);
        if (!out) return cudaErrorInvalidValue;
        if (!d) return cudaErrorInvalidDevice;
        *out = d->current_pool_handle;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceSetMemPool(int index, cudaMemPool_t handle) {
    return api(function::cudaDeviceSetMemPool, [&](guard&) {
        auto* const d = find_device(index);
        if (!d) return cudaErrorInvalidDevice;
        auto const p = the_machine().pools.find(handle);
        if (!p) return bad_pool();
        if (p->device != index) return cudaErrorInvalidValue;
        d->current_pool_handle = handle;
        return cudaSuccess;
    });
}
