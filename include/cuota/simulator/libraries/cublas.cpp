// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// cuBLAS on the simulated runtime: handles, streams and workspaces as cuBLAS documents them, and cublasSgemm.
#if __has_include(<cublas_v2.h>)
#include <cstdint>

#include <cublas_v2.h>

#include "simulated_library.hpp"

using namespace cuota_simulated;

struct cublasContext : library_context {
    void* workspace = nullptr;  ///< the program's; null: the handle's own
    std::size_t bytes = 0;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t* out) {
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    return make_handle(out, 64 * mib) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    h->stream = s;
    h->workspace = nullptr;
    h->bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t h, cudaStream_t* s) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!s) return CUBLAS_STATUS_INVALID_VALUE;
    *s = h->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void* workspace, std::size_t bytes) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    h->workspace = workspace;
    h->bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

char const* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS: return "success";
        case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
        case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "an unsupported value or parameter was passed to the function";
        default: return "an unknown status";
    }
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t transposed_a,
                              cublasOperation_t transposed_b, int m, int n, int k, float const* alpha,
                              float const* a, int lda, float const* b, int ldb, float const* beta, float* c,
                              int ldc) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    bool const turn_a = transposed_a != CUBLAS_OP_N, turn_b = transposed_b != CUBLAS_OP_N;
    int const rows_a = turn_a ? k : m, columns_a = turn_a ? m : k;
    int const rows_b = turn_b ? n : k, columns_b = turn_b ? k : n;
    if (m < 0 || n < 0 || k < 0 || lda < rows_a || ldb < rows_b || ldc < m || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
    auto const bytes = [](int leading, int rows, int columns) {
        if (rows == 0 || columns == 0) return std::size_t{0};
        return sizeof(float) * (static_cast<std::size_t>(leading) * static_cast<std::size_t>(columns - 1) +
                                static_cast<std::size_t>(rows));
    };
    auto const product = [=, scale = *alpha, keep = *beta, workspace = static_cast<float*>(h->workspace)] {
        auto const at = [](float const* of, int leading, int row, int column) {
            return of[static_cast<std::ptrdiff_t>(leading) * column + row];
        };
        for (int column = 0; column != n; ++column)
            for (int row = 0; row != m; ++row) {
                float sum = 0;
                for (int i = 0; i != k; ++i)
                    sum += (turn_a ? at(a, lda, i, row) : at(a, lda, row, i)) *
                           (turn_b ? at(b, ldb, column, i) : at(b, ldb, i, column));
                if (workspace) *workspace = sum;
                float& to = c[static_cast<std::ptrdiff_t>(ldc) * column + row];
                to = scale * (workspace ? *workspace : sum) + (keep == 0 ? 0 : keep * to);
            }
    };
    bool const is_enqueued = enqueue(h->stream, "cublasSgemm",
                                     {{a, bytes(lda, rows_a, columns_a)},
                                      {b, bytes(ldb, rows_b, columns_b)},
                                      {c, bytes(ldc, m, n), true},
                                      {h->workspace, h->bytes, true}},
                                     product);
    return is_enqueued ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
#endif
