// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUB's caching allocator as a peer of pools, if CCCL is available beside the toolkit; in that case CUOTA_BENCH_CUB is defined.
#pragma once

#if __has_include(<cub/util_allocator.cuh>)
#define CUOTA_BENCH_CUB

#include <cstddef>
#include <limits>

#include <cub/util_allocator.cuh>

#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/stream.hpp>

namespace bench {

class cub_caching {
public:
    /// Bins of growth^smallest to growth^largest bytes; never releases memory to the runtime.
    cub_caching(unsigned growth, unsigned smallest, unsigned largest)
        : all_{growth, smallest, largest, std::numeric_limits<std::size_t>::max()} {}

    void* allocate(cuota::stream_ref s, std::size_t bytes) {
        void* p = nullptr;
        cuota::rt::check(all_.DeviceAllocate(&p, bytes, s.get()), "DeviceAllocate");
        return p;
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t) {
        cuota::rt::check(all_.DeviceFree(p), "DeviceFree");
    }
    /// Returns the bytes allocated from the runtime, live or cached.
    [[nodiscard]] std::size_t taken() const {
        auto const& bytes = all_.cached_bytes.at(cuota::device::current().ordinal());
        return bytes.free + bytes.live;
    }

private:
    cub::CachingDeviceAllocator all_;
};

}  // namespace bench

#endif
