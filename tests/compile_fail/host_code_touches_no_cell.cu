// expect: calling a __device__ function\(.*operator \(\).*\) from a __host__ function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#define CUOTA_SIMULATED_KERNELS 0
#include <cuota/buffer/device_matrix.hpp>
#include <cuota/runtime/for_each_index.hpp>

struct fill {
    cuota::device_matrix<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to(i, 0) = 1; }
};

void use(cuota::device_matrix<float> x, cuota::stream_ref s) {
    cuota::for_each_index(s, x.rows(), fill{x});
    cuota::for_each_index(s, x.rows(), [x] CUOTA_KERNEL(std::size_t i) { x(i, 0) = 2; });
#ifndef CUOTA_FIXED
    x(0, 0) = 3;
#endif
}
