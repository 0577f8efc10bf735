// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "managed.hpp"

#include <algorithm>
#include <cstring>

// Advice for managed memory, and prefetching. Managed memory resides in host memory: advice only changes attributes, page by page.
namespace cuota::inline v0::simulator {

#if CUDART_VERSION >= 13000  // in 12, locations are integers
namespace {

struct pages {
    std::uintptr_t first, end;  ///< page boundaries

    pages(void const* start, std::size_t bytes)
        : first{reinterpret_cast<std::uintptr_t>(start) / host_page * host_page},
          end{(reinterpret_cast<std::uintptr_t>(start) + bytes + host_page - 1) / host_page * host_page} {}
};

allocation_ref managed_range(void const* start, std::size_t bytes) {
    auto a = find_memory(start);
    if (!a || a->kind != memory_kind::managed || bytes == 0) return nullptr;
    auto const offset = reinterpret_cast<std::uintptr_t>(start) - ~a->disguise;
    return bytes <= a->bytes - offset ? a : nullptr;
}

cudaError_t check(cudaMemLocation const& where) {
    switch (where.type) {
        case cudaMemLocationTypeDevice: return find_device(where.id) ? cudaSuccess : cudaErrorInvalidDevice;
        case cudaMemLocationTypeHost:
        case cudaMemLocationTypeHostNumaCurrent: return cudaSuccess;
        default: return cudaErrorInvalidValue;  // no NUMA nodes are simulated
    }
}

cudaMemLocation normal(cudaMemLocation const& where) {
    if (where.type == cudaMemLocationTypeDevice) return where;
    return {cudaMemLocationTypeHost, cudaCpuDeviceId};
}

advice_state nothing_said() {
    constexpr cudaMemLocation nowhere{cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
    return {.preferred = nowhere, .prefetched = nowhere};
}

template <class Change>
void for_pages(allocation& a, pages const& range, Change change) {
    if (!a.advised) {
        a.advised = std::make_shared<advice>();
        a.advised->from[0] = nothing_said();
    }
    auto& from = a.advised->from;
    auto const split = [&from](std::uintptr_t at) {
        return from.emplace(at, std::prev(from.upper_bound(at))->second).first;
    };
    auto const begin = split(range.first);
    auto const end = split(range.end);
    for (auto i = begin; i != end; ++i) change(i->second);
    for (auto i = begin; i != end;) {  // merges equal neighbours
        auto const next = std::next(i);
        if (next != end && next->second == i->second) from.erase(next);
        else i = next;
    }
}

/// Returns `mixed` unless all pages of the range agree.
template <class Pick, class T>
T agreed(allocation const& a, pages const& range, Pick pick, T mixed) {
    if (!a.advised) return pick(nothing_said());
    auto const& from = a.advised->from;
    auto i = std::prev(from.upper_bound(range.first));
    T const value = pick(i->second);
    for (++i; i != from.end() && i->first < range.end; ++i)
        if (!(pick(i->second) == value)) return mixed;
    return value;
}

cudaError_t advise(allocation& a, pages const& range, cudaMemoryAdvise what, cudaMemLocation const& where) {
    bool const names_a_place = what == cudaMemAdviseSetPreferredLocation ||
                               what == cudaMemAdviseSetAccessedBy || what == cudaMemAdviseUnsetAccessedBy;
    if (names_a_place)
        if (auto const error = check(where); error != cudaSuccess) return error;
    auto const who = where.type == cudaMemLocationTypeDevice ? std::uint32_t{1} << where.id
                                                             : std::uint32_t{1} << most_devices;
    auto const all = [&](auto change) { return for_pages(a, range, change), cudaSuccess; };
    switch (what) {
        case cudaMemAdviseSetReadMostly: return all([](advice_state& s) { s.read_mostly = 1; });
        case cudaMemAdviseUnsetReadMostly: return all([](advice_state& s) { s.read_mostly = 0; });
        case cudaMemAdviseSetPreferredLocation:
            return all([&](advice_state& s) { s.preferred = normal(where); });
        case cudaMemAdviseUnsetPreferredLocation:
            return all([](advice_state& s) { s.preferred = nothing_said().preferred; });
        case cudaMemAdviseSetAccessedBy: return all([&](advice_state& s) { s.accessed_by |= who; });
        case cudaMemAdviseUnsetAccessedBy: return all([&](advice_state& s) { s.accessed_by &= ~who; });
        default: return cudaErrorInvalidValue;
    }
}

cudaError_t give(void* out, std::size_t room, int value) {
    if (room != sizeof value) return cudaErrorInvalidValue;
    std::memcpy(out, &value, sizeof value);
    return cudaSuccess;
}

/// Fills the rest of the array with cudaInvalidDeviceId.
cudaError_t give_devices(void* out, std::size_t room, std::uint32_t who) {
    if (room == 0 || room % sizeof(int) != 0) return cudaErrorInvalidValue;
    std::vector<int> all(room / sizeof(int), cudaInvalidDeviceId);
    std::size_t next = 0;
    for (int i = 0; i <= most_devices && next < all.size(); ++i)
        if (who & (std::uint32_t{1} << i)) all[next++] = i == most_devices ? cudaCpuDeviceId : i;
    std::memcpy(out, all.data(), room);
    return cudaSuccess;
}

cudaError_t ask(allocation const& a, pages const& range, cudaMemRangeAttribute what, void* out,
                std::size_t room) {
    auto const preferred = [&](auto part, int mixed) {
        return give(out, room,
                    agreed(
                        a, range, [&](advice_state const& s) { return int{s.preferred.*part}; }, mixed));
    };
    auto const prefetched = [&](auto part, int mixed) {
        return give(out, room,
                    agreed(
                        a, range, [&](advice_state const& s) { return int{s.prefetched.*part}; }, mixed));
    };
    switch (what) {
        case cudaMemRangeAttributeReadMostly:
            return give(out, room,
                        agreed(
                            a, range, [](advice_state const& s) { return s.read_mostly; }, 0));
        case cudaMemRangeAttributePreferredLocation:
        case cudaMemRangeAttributePreferredLocationId:
            return preferred(&cudaMemLocation::id, cudaInvalidDeviceId);
        case cudaMemRangeAttributePreferredLocationType:
            return preferred(&cudaMemLocation::type, cudaMemLocationTypeInvalid);
        case cudaMemRangeAttributeLastPrefetchLocation:
        case cudaMemRangeAttributeLastPrefetchLocationId:
            return prefetched(&cudaMemLocation::id, cudaInvalidDeviceId);
        case cudaMemRangeAttributeLastPrefetchLocationType:
            return prefetched(&cudaMemLocation::type, cudaMemLocationTypeInvalid);
        case cudaMemRangeAttributeAccessedBy:
            return give_devices(
                out, room,
                agreed(
                    a, range, [](advice_state const& s) { return s.accessed_by; }, std::uint32_t{0}));
        default: return cudaErrorInvalidValue;
    }
}

cudaError_t prefetch(guard& lock, void const* start, std::size_t bytes, cudaMemLocation const& where,
                     unsigned flags, cudaStream_t handle) {
    auto const s = find_stream(handle);
    if (!s) return bad_handle();
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    auto const a = managed_range(start, bytes);
    if (!a || flags != 0) return cudaErrorInvalidValue;
    if (auto const error = check(where); error != cudaSuccess) return error;
    for_pages(*a, {start, bytes}, [&](advice_state& state) { state.prefetched = normal(where); });
    enqueue(lock, s, make_task([] {}));
    return cudaSuccess;
}

}  // namespace
#endif

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

#if CUDART_VERSION >= 13000

cudaError_t cudaMemAdvise(void const* start, size_t bytes, cudaMemoryAdvise what, cudaMemLocation where) {
    return api(function::cudaMemAdvise, [&](guard&) {
        auto const a = managed_range(start, bytes);
        return a ? advise(*a, {start, bytes}, what, where) : cudaErrorInvalidValue;
    });
}

cudaError_t cudaMemRangeGetAttribute(void* out, size_t room, cudaMemRangeAttribute what, void const* start,
                                     size_t bytes) {
    return api(function::cudaMemRangeGetAttribute, [&](guard&) {
        auto const a = managed_range(start, bytes);
        return a && out ? ask(*a, {start, bytes}, what, out, room) : cudaErrorInvalidValue;
    });
}

cudaError_t cudaMemPrefetchAsync(void const* start, size_t bytes, cudaMemLocation where, unsigned int flags,
                                 cudaStream_t s) {
    return api(function::cudaMemPrefetchAsync,
               [&](guard& lock) { return prefetch(lock, start, bytes, where, flags, s); });
}

extern "C" [[gnu::visibility("default")]] cudaError_t cudaMemPrefetchAsync_ptsz(
    void const* start, size_t bytes, cudaMemLocation where, unsigned int flags, cudaStream_t s) {
    return cudaMemPrefetchAsync(start, bytes, where, flags, s ? s : cudaStreamPerThread);
}
#endif

// The simulated devices access managed memory at any time: only the arguments are checked.
cudaError_t cudaStreamAttachMemAsync(cudaStream_t handle, void* address, size_t bytes, unsigned int flags) {
    return api(function::cudaStreamAttachMemAsync, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        auto const a = find_memory(address);
        bool const whole = a && a->kind == memory_kind::managed && a->address() == address &&
                           (bytes == 0 || bytes == a->bytes);
        bool const single = flags == cudaMemAttachSingle;
        if (!whole || (single && s->legacy)) return cudaErrorInvalidValue;
        if (!single && flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
            return cudaErrorInvalidValue;
        enqueue(lock, s, make_task([] {}));
        return cudaSuccess;
    });
}
