// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// cuSOLVER's dense handles on the simulated runtime, and cusolverDnSpotrf, which gets its workspace as an argument.
#if __has_include(<cusolverDn.h>)
#include <cmath>

#include <cusolverDn.h>

#include "simulated_library.hpp"

using namespace cuota_simulated;

struct cusolverDnContext : library_context {};

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* out) {
    if (!out) return CUSOLVER_STATUS_INVALID_VALUE;
    return make_handle(out, 98 * mib) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t h) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    delete h;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t h, cudaStream_t s) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    h->stream = s;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t h, cudaStream_t* s) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (!s) return CUSOLVER_STATUS_INVALID_VALUE;
    *s = h->stream;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSpotrf_bufferSize(cusolverDnHandle_t h, cublasFillMode_t, int n, float*, int lda,
                                             int* elements) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (n < 0 || lda < n || !elements) return CUSOLVER_STATUS_INVALID_VALUE;
    *elements = n * n;
    return CUSOLVER_STATUS_SUCCESS;
}

// The factor is computed in the workspace.
cusolverStatus_t cusolverDnSpotrf(cusolverDnHandle_t h, cublasFillMode_t part, int n, float* a, int lda,
                                  float* workspace, int elements, int* info) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (n < 0 || lda < n || elements < n * n || !info) return CUSOLVER_STATUS_INVALID_VALUE;
    auto const factor = [=] {
        bool const is_lower = part == CUBLAS_FILL_MODE_LOWER;
        auto const at = [=](int row, int column) -> float& {
            return is_lower ? a[std::ptrdiff_t{lda} * column + row] : a[std::ptrdiff_t{lda} * row + column];
        };
        *info = 0;
        for (int column = 0; column != n; ++column)
            for (int row = column; row != n; ++row) {
                float sum = at(row, column);
                for (int i = 0; i != column; ++i) sum -= workspace[row * n + i] * workspace[column * n + i];
                if (row == column && !(sum > 0)) {
                    *info = column + 1;
                    return;
                }
                workspace[row * n + column] =
                    row == column ? std::sqrt(sum) : sum / workspace[column * n + column];
            }
        for (int column = 0; column != n; ++column)
            for (int row = column; row != n; ++row) at(row, column) = workspace[row * n + column];
    };
    auto const bytes = [](int count) { return static_cast<std::size_t>(count) * sizeof(float); };
    bool const is_enqueued = enqueue(h->stream, "cusolverDnSpotrf",
                                     {{a, bytes(n == 0 ? 0 : lda * (n - 1) + n), true},
                                      {workspace, bytes(n * n), true},
                                      {info, sizeof(int), true}},
                                     factor);
    return is_enqueued ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}
#endif
