// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A function with CUB's two-phase interface that any compiler accepts.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace support {

/// to[i] = from[last - i]
struct copy_from_the_end {
    int const* from;
    int* to;
    std::size_t last;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[last - i]; }
};
struct copy_as_it_is {
    int const* from;
    int* to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i]; }
};

/// Reverses x in place. Its scratch memory is as large as x.
inline cudaError_t reverse(void* scratch, std::size_t& bytes, cuota::device_span<int> x,
                           cuota::stream_ref s) {
    if (!scratch) {
        bytes = x.size() * sizeof(int);
        return cudaSuccess;
    }
    auto* const half_way = static_cast<int*>(scratch);
    cuota::for_each_index(s, x.size(), copy_from_the_end{x.data(), half_way, x.size() - 1});
    cuota::for_each_index(s, x.size(), copy_as_it_is{half_way, x.data()});
    return cudaSuccess;
}

}  // namespace support
