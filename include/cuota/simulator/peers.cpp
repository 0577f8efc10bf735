// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"
#include "virtual_memory.hpp"

// Access of devices to each other's memory. For kernels, only memory_checks::strict checks it; copies need none.
namespace cuota::inline v0::simulator {
namespace {

std::uint32_t bit(int index) { return std::uint32_t{1} << index; }

cudaError_t check(pool const& p, cudaMemAccessDesc const& wanted) {
    if (wanted.location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
    if (!find_device(wanted.location.id)) return cudaErrorInvalidDevice;
    bool const closes = wanted.flags == cudaMemAccessFlagsProtNone;
    if (!closes && wanted.flags != cudaMemAccessFlagsProtReadWrite) return cudaErrorInvalidValue;
    return closes && wanted.location.id == p.device ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t find_pool(cudaMemPool_t handle, std::shared_ptr<pool>& out) {
    out = the_machine().pools.find(handle);
    if (out) return cudaSuccess;
    bad_handle();
    return cudaErrorInvalidValue;
}

}  // namespace

access kernel_access(device const& d, allocation const& a) {
    if (a.kind != memory_kind::device) return access::write;
    if (a.mapped) return a.mapped->of_device[static_cast<std::size_t>(d.index)];
    if (a.device == d.index) return access::write;
    return (a.from ? a.from->open_to & bit(d.index) : d.reaches & bit(a.device)) != 0 ? access::write
                                                                                      : access::none;
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    return api(function::cudaDeviceEnablePeerAccess, [&](guard&) {
        auto& d = current_device();
        if (!find_device(peer) || peer == d.index) return cudaErrorInvalidDevice;
        if (flags != 0) return cudaErrorInvalidValue;
        if (!the_machine().has_peer_access) return cudaErrorPeerAccessUnsupported;
        if (d.reaches & bit(peer)) return cudaErrorPeerAccessAlreadyEnabled;
        d.reaches |= bit(peer);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return api(function::cudaDeviceDisablePeerAccess, [&](guard&) {
        auto& d = current_device();
        if (!find_device(peer)) return cudaErrorInvalidDevice;
        if (!(d.reaches & bit(peer))) return cudaErrorPeerAccessNotEnabled;
        d.reaches &= ~bit(peer);
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, cudaMemAccessDesc const* wanted, size_t count) {
    return api(function::cudaMemPoolSetAccess, [&](guard&) {
        std::shared_ptr<pool> p;
        if (auto const error = find_pool(handle, p); error != cudaSuccess) return error;
        if (!wanted && count != 0) return cudaErrorInvalidValue;
        for (std::size_t i = 0; i < count; ++i)
            if (auto const error = check(*p, wanted[i]); error != cudaSuccess) return error;
        for (std::size_t i = 0; i < count; ++i) {
            auto const who = bit(wanted[i].location.id);
            bool const opens = wanted[i].flags == cudaMemAccessFlagsProtReadWrite;
            p->open_to = opens ? p->open_to | who : p->open_to & ~who;
        }
        return cudaSuccess;
    });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* out, cudaMemPool_t handle, cudaMemLocation* where) {
    return api(function::cudaMemPoolGetAccess, [&](guard&) {
        std::shared_ptr<pool> p;
        if (auto const error = find_pool(handle, p); error != cudaSuccess) return error;
        if (!out || !where || where->type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
        if (!find_device(where->id)) return cudaErrorInvalidDevice;
        bool const open = where->id == p->device || (p->open_to & bit(where->id));
        *out = open ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
        return cudaSuccess;
    });
}
