// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA's last error, as far as it is the program's own.
#pragma once

#include <cuda_runtime_api.h>

namespace support {

/// What calls of this thread have left as CUDA's last error; it stays. Not what the simulator leaves there in somebody else's
/// name (unkindness::stale_errors), which is a code that neither cuota nor a test ever gets.
inline cudaError_t last_error() {
    cudaError_t const code = cudaPeekAtLastError();
    return code == cudaErrorInvalidTexture ? cudaSuccess : code;
}

}  // namespace support
