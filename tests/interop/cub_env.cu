// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A cuda_mr as the memory of CUB's algorithms that take an environment (CCCL 3.1), and of CCCL's buffer (3.2), compiled by nvcc.
#include <cuota/interop/cuda_mr.hpp>

#include <cub/device/device_reduce.cuh>

#if CCCL_VERSION >= 3002000
#include <cuda/buffer>
#endif

#include <cuota/pool/scoped_pool.hpp>

#include "interop/cub_env.hpp"

cudaError_t cub_sum(int const* in, int* out, int count, cudaStream_t s, cuota::scoped_pool const& pool) {
    auto const mr = cuota::to_cuda_mr(pool, "cub");
    cuda::std::execution::env<cuda::stream_ref, cuota::cuda_mr<cuota::pool_resource>> const env{
        cuda::stream_ref{s}, mr};
    return cub::DeviceReduce::Sum(in, out, count, env);
}

#if CCCL_VERSION >= 3002000
std::size_t bytes_of_a_buffer(int count, cudaStream_t s, cuota::scoped_pool const& pool) {
    auto const buffer =
        cuda::make_buffer<int>(cuda::stream_ref{s}, cuota::to_cuda_mr(pool), count, cuda::no_init);
    return buffer.size() * sizeof(int);
}
#endif
