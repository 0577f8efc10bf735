// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>

#include <cuota/cuota.hpp>
#include <cuota/interop/libraries/cublas.hpp>

int main() {
    cuota::scoped_pool const pool{cuota::budget{"libraries", 64 << 20}};
    cuota::stream const stream;
    cuota::cublas_handle blas{pool};
    cudaStream_t set = nullptr;
    auto const on_stream = blas.on(stream);
    bool const is_set = cublasGetStream(on_stream, &set) == CUBLAS_STATUS_SUCCESS && set == stream.get();
    std::printf("a workspace of %zu bytes\n", blas.workspace_bytes());
    return is_set ? 0 : 1;
}
