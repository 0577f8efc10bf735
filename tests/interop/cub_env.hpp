// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Functions of cub_env.cu for tests that nvcc does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include <cuota/fwd.hpp>

[[nodiscard]] cudaError_t cub_sum(int const* in, int* out, int count, cudaStream_t s,
                                  cuota::scoped_pool const& pool);
