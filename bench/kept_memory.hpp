// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cudaMallocAsync in a program that is tuned for speed.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace bench {

/// While it exists, the default pool of the current device caches freed memory: its release threshold is at the maximum. With the default
/// threshold of 0, the driver releases memory at each synchronization. The destructor restores the threshold and releases the cached
/// memory.
class kept_memory {
public:
    kept_memory() {
        int device = 0;
        std::uint64_t all = UINT64_MAX;
        if (cudaGetDevice(&device) != cudaSuccess ||
            cudaDeviceGetDefaultMemPool(&pool_, device) != cudaSuccess)
            return;
        (void)cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_);
        (void)cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all);
    }
    kept_memory(kept_memory const&) = delete;
    kept_memory& operator=(kept_memory const&) = delete;
    ~kept_memory() {
        if (!pool_) return;
        (void)cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_);
        (void)cudaMemPoolTrimTo(pool_, 0);
    }

private:
    cudaMemPool_t pool_ = nullptr;
    std::uint64_t before_ = 0;
};

}  // namespace bench
