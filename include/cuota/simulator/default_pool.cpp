// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

using namespace cuota::simulator;

#if CUDART_VERSION >= 13000  // 12 has pools of devices only, and cudaDeviceGetDefaultMemPool for them
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* out, cudaMemLocation* where, cudaMemAllocationType type) {
    return api(function::cudaMemGetDefaultMemPool, [&](guard&) {
        if (!out || !where) return cudaErrorInvalidValue;
        bool const managed = type == cudaMemAllocationTypeManaged;
        if (!managed && type != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
        if (where->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;  // pools of the host
        auto const* const d = find_device(where->id);
        if (!d) return cudaErrorInvalidDevice;
        *out = managed ? d->managed_pool_handle : d->default_pool_handle;
        return cudaSuccess;
    });
}
#endif
