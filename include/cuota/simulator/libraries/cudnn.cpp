// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// cuDNN's handles on the simulated runtime. Its operations get their workspaces as arguments.
#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include "simulated_library.hpp"

using namespace cuota_simulated;

struct cudnnContext : library_context {};

cudnnStatus_t cudnnCreate(cudnnHandle_t* out) {
    if (!out) return CUDNN_STATUS_BAD_PARAM;
    return make_handle(out, 2 * mib) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_INITIALIZED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
    delete h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s) {
    if (!h) return CUDNN_STATUS_BAD_PARAM;
    h->stream = s;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t* s) {
    if (!h || !s) return CUDNN_STATUS_BAD_PARAM;
    *s = h->stream;
    return CUDNN_STATUS_SUCCESS;
}

char const* cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
        case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
        case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
        case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
        default: return "CUDNN_UNKNOWN_STATUS";
    }
}
#endif
