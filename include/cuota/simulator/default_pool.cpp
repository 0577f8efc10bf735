// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

using namespace cuota::simulator;

#if CUDART_VERSION >= 13000  // 12 has pools of devices only, and the functions of devices for them
namespace {

/// Calls `use` with the device that has pools of the kind. Pools of the host and of managed memory are missing.
template <class Use>
cudaError_t with_pools(function f, cudaMemLocation const* where, cudaMemAllocationType type, Use use) {
    return api(f, [&](guard&) {
        if (!where) return cudaErrorInvalidValue;
        bool const of_device =
            where->type == cudaMemLocationTypeDevice && type == cudaMemAllocationTypePinned;
        if (!of_device) return cudaErrorNotSupported;
        auto* const d = find_device(where->id);
        return d ? use(*d) : cudaErrorInvalidDevice;
    });
}

cudaError_t give(cudaMemPool_t* out, cudaMemPool_t handle) {
    if (!out) return cudaErrorInvalidValue;
    *out = handle;
    return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* out, cudaMemLocation* where, cudaMemAllocationType type) {
    return with_pools(function::cudaMemGetDefaultMemPool, where, type,
                      [&](device& d) { return give(out, d.default_pool_handle); });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* out, cudaMemLocation* where, cudaMemAllocationType type) {
    return with_pools(function::cudaMemGetMemPool, where, type,
                      [&](device& d) { return give(out, d.current_pool_handle); });
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* where, cudaMemAllocationType type, cudaMemPool_t handle) {
    return with_pools(function::cudaMemSetMemPool, where, type, [&](device& d) {
        auto const p = the_machine().pools.find(handle);
        if (!p) ++the_machine().misuse.bad_handles;
        if (!p || p->device != d.index) return cudaErrorInvalidValue;
        d.current_pool_handle = handle;
        return cudaSuccess;
    });
}
#endif
