// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the library asks of a simulated runtime, when one is linked in place of CUDA's.
#pragma once

#include <cuda_runtime_api.h>

// Weak: null when the program is linked to the real runtime. The simulator defines them.
extern "C" {
/// Enqueues work that stands for a kernel. On success takes `body`: `run` once in stream order, then `drop`.
__attribute__((weak)) cudaError_t cuota_simulator_launch(cudaStream_t stream, char const* name,
                                                         void (*run)(void* body), void (*drop)(void* body),
                                                         void* body);
/// 1 while the calling thread runs a simulated kernel.
__attribute__((weak)) int cuota_simulator_in_kernel(void);
/// What made the simulated device fail for good, or "".
__attribute__((weak)) char const* cuota_simulator_fault(void);
}

namespace cuota::inline v0 {

/// True when this program runs on the simulated runtime: no GPU is involved.
[[nodiscard]] inline bool is_simulated() noexcept { return cuota_simulator_launch != nullptr; }

}  // namespace cuota::inline v0
