// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

using namespace cuota::simulator;

#if CUDART_VERSION >= 13000  // 12 has only device pools, with functions of their own
namespace {

struct pools_of {
    cudaMemPool_t given;
    cudaMemPool_t& current;
};

/// Host pools are not implemented.
template <class Use>
cudaError_t with_pools(function f, cudaMemLocation const* where, cudaMemAllocationType type, Use use) {
    return api(f, [&](guard&) {
        bool const managed = type == cudaMemAllocationTypeManaged;
        if (!where || (!managed && type != cudaMemAllocationTypePinned)) return cudaErrorInvalidValue;
        if (where->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
        auto* const d = find_device(where->id);
        if (!d) return cudaErrorInvalidDevice;
        return managed ? use(*d, pools_of{d->managed_pool_handle, d->current_managed_pool_handle})
                       : use(*d, pools_of{d->default_pool_handle, d->current_pool_handle});
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
                      [&](device&, pools_of pools) { return give(out, pools.given); });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* out, cudaMemLocation* where, cudaMemAllocationType type) {
    return with_pools(function::cudaMemGetMemPool, where, type,
                      [&](device&, pools_of pools) { return give(out, pools.current); });
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* where, cudaMemAllocationType type, cudaMemPool_t handle) {
    return with_pools(function::cudaMemSetMemPool, where, type, [&](device& d, pools_of pools) {
        auto const p = the_machine().pools.find(handle);
        if (!p) bad_handle();
        bool const managed = type == cudaMemAllocationTypeManaged;
        if (!p || p->device != d.index || (p->kind == memory_kind::managed) != managed)
            return cudaErrorInvalidValue;
        pools.current = handle;
        return cudaSuccess;
    });
}
#endif
