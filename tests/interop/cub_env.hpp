// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What cub_env.cu has, for tests that nvcc does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include <cuota/fwd.hpp>

/// CUB's sum, with scratch of the pool.
[[nodiscard]] cudaError_t cub_sum(int const* in, int* out, int count, cudaStream_t s,
                                  cuota::scoped_pool const& pool);
