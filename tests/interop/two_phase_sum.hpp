// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A function in two phases, as CUB's are, that any compiler takes.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace support {

/// to[i] = from[i] + from[i - distance]: a step of a scan.
struct add_from_left {
    int const* from;
    int* to;
    std::size_t distance;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        to[i] = i < distance ? from[i] : from[i] + from[i - distance];
    }
};
struct copy_ints {
    int const* from;
    int* to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i]; }
};

/// Sums x in place, each element with all before it. Its scratch is as large as x, and holds every other step.
inline cudaError_t inclusive_sum(void* scratch, std::size_t& bytes, cuota::device_span<int> x,
                                 cuota::stream_ref s) {
    if (!scratch) {
        bytes = x.size() * sizeof(int);
        return cudaSuccess;
    }
    int* from = x.data();
    int* to = static_cast<int*>(scratch);
    for (std::size_t distance = 1; distance < x.size(); distance *= 2) {
        cuota::for_each_index(s, x.size(), add_from_left{from, to, distance}, "add_from_left");
        int* const next = from;
        from = to;
        to = next;
    }
    if (from != x.data()) cuota::for_each_index(s, x.size(), copy_ints{from, x.data()}, "copy_ints");
    return cudaSuccess;
}

}  // namespace support
