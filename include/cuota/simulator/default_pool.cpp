// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

using namespace cuota::simulator;

#if CUDART_VERSION >= 13000  // 12 has pools of devices only, and cudaDeviceGetDefaultMemPool for them
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* out, cudaMemLocation* where, cudaMemAllocationType type) {
    return api(function::cudaMemGetDefaultMemPool, [&](guard&) {
        if (!out || !where) return cudaErrorInvalidValue;
        bool const of_device =
            where->type == cudaMemLocationTypeDevice && type == cudaMemAllocationTypePinned;
        if (!of_device) return cudaErrorNotSupported;  // pools of the host and of managed memory
        auto const* const d = find_device(where->id);
        if (!d) return cudaErrorInvalidDevice;
        *out = d->default_pool_handle;
        return cudaSuccess;
    });
}
#endif
