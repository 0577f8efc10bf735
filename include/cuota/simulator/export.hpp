// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Visibility of the simulated runtime's symbols and of CUDA's declarations.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

#include "older_toolkits.hpp"
#pragma GCC visibility pop

/// Makes a function of the simulator visible; all symbols but CUDA's are hidden otherwise.
#define CUOTA_SIMULATOR_API [[gnu::visibility("default")]]
