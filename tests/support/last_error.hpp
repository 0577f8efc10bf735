// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA's last error, without the stale errors that the simulator injects.
#pragma once

#include <cuda_runtime_api.h>

namespace support {

/// Returns CUDA's last error of this thread and does not clear it. Ignores cudaErrorInvalidTexture, a code that neither cuota nor a test
/// causes and that the simulator leaves as another library would (unkindness::stale_errors).
inline cudaError_t last_error() {
    cudaError_t const code = cudaPeekAtLastError();
    return code == cudaErrorInvalidTexture ? cudaSuccess : code;
}

}  // namespace support
