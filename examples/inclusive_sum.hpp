// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUB's DeviceScan::InclusiveSum if the compiler is nvcc; otherwise, as CUB does not compile, the same two-phase interface with kernels of
/// cuota for the simulated device.
#pragma once

#if defined(__CUDACC__)
#include <cub/device/device_scan.cuh>
#endif

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/cuota.hpp>

#if defined(__CUDACC__)

inline constexpr char const* who_sums = "CUB";

inline cudaError_t inclusive_sum(void* scratch, std::size_t& bytes, int const* from, int* to, int count,
                                 cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(scratch, bytes, from, to, count, stream);
}

#else

inline constexpr char const* who_sums = "a function of this example, in CUB's place: nvcc did not compile it";

/// to[i] = from[i] + from[i - distance], or from[i] if i < distance.
struct add_from_left {
    int const* from;
    int* to;
    std::size_t distance;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        to[i] = i < distance ? from[i] : from[i] + from[i - distance];
    }
};

/// Hillis-Steele scan: each step adds the element at twice the distance to the left. The steps alternate between scratch and `to`, and the
/// last one writes `to`.
inline cudaError_t inclusive_sum(void* scratch, std::size_t& bytes, int const* from, int* to, int count,
                                 cudaStream_t stream) {
    auto const n = static_cast<std::size_t>(count);
    if (!scratch) {
        bytes = n * sizeof(int);
        return cudaSuccess;
    }
    std::size_t steps = 1;
    while (n >> steps != 0) ++steps;
    int* into = steps % 2 == 1 ? to : static_cast<int*>(scratch);
    int* other = steps % 2 == 1 ? static_cast<int*>(scratch) : to;
    for (std::size_t i = 0; i != steps; ++i) {
        cuota::for_each_index(stream, n, add_from_left{from, into, std::size_t{1} << i}, "inclusive_sum");
        from = into;
        std::swap(into, other);
    }
    return cudaSuccess;
}

#endif
