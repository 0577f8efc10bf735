// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

namespace support {

/// Returns CUDA's last error of this thread without clearing it. Ignores cudaErrorInvalidTexture, which only the simulator sets, to
/// simulate an error of another library (unkindness::stale_errors).
inline cudaError_t last_error() {
    cudaError_t const code = cudaPeekAtLastError();
    return code == cudaErrorInvalidTexture ? cudaSuccess : code;
}

}  // namespace support
