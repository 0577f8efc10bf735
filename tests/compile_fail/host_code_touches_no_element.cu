// expect: calling a __device__ function\(.*operator \[\].*\) from a __host__ function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#define CUOTA_SIMULATED_KERNELS 0
#include <cuota/buffer/device_span.hpp>
#include <cuota/runtime/for_each_index.hpp>

struct fill {
    cuota::device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = 1; }
};

void use(cuota::device_span<float> x, cuota::stream_ref s) {
    cuota::for_each_index(s, x.size(), fill{x});
    cuota::for_each_index(s, x.size(), [x] CUOTA_KERNEL(std::size_t i) { x[i] = 2; });
#ifndef CUOTA_FIXED
    x[0] = 3;
#endif
}
