// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the simulated runtime's library shows, and CUDA's own declarations shown likewise.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/// What the simulated runtime's library shows of itself, beside CUDA's functions: everything else in it is hidden.
#define CUOTA_SIMULATOR_API [[gnu::visibility("default")]]
