// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Workspaces of a library: cuBLAS multiplies on two streams with workspaces of one pool, which the budget counts.
///
/// Each scope of a handle allocates a workspace and frees it in the order of its stream, so that the next scope on the stream gets the same
/// bytes. On the simulated runtime, cuota::simulated_libraries takes the place of cuBLAS. Expected output:
///
///     8 products on 2 streams are right
///     two workspaces: 64.0 MiB of 80.0 MiB
///     a third stream is refused: cublas
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/interop/libraries/cublas.hpp>

using namespace cuota::literals;

constexpr int width = 64;

/// Enqueues c = a b for square matrices.
void multiply(cuota::cublas_handle& blas, cuota::stream const& s, float const* a, float const* b, float* c) {
    float const one = 1, zero = 0;
    auto const on_stream = blas.on(s);  // has the workspace
    blas.check(cublasSgemm(on_stream, CUBLAS_OP_N, CUBLAS_OP_N, width, width, width, &one, a, width, b, width,
                           &zero, c, width),
               "cublasSgemm");
}

int main() try {
    cuota::budget const budget{"workspaces", 80_MiB};
    cuota::scoped_pool const pool{budget};
    cuota::cublas_handle blas{pool, 32_MiB};
    cuota::stream const streams[3];

    std::vector<cuota::device_buffer<float>> results;
    for (std::size_t i = 0; i != 8; ++i) {
        cuota::stream const& s = streams[i % 2];
        cuota::budgeted<cuota::device_memory> const memory{cuota::budget{"matrices", 1_MiB}};
        cuota::device_buffer<float> const a{width * width, 2.0F, s, memory},
            b{width * width, 3.0F, s, memory};
        results.emplace_back(width * width, s, cuota::device_memory{});
        multiply(blas, s, a.read(s), b.read(s), results.back().write(s));
    }
    std::size_t right = 0;
    for (cuota::device_buffer<float> const& c : results)
        right += c.to_vector(c.home()) == std::vector<float>(width * width, 2.0F * 3.0F * width);
    std::printf("%zu products on 2 streams are right\n", right);

    cuota::cublas_handle another{pool, 32_MiB};
    auto const first = blas.on(streams[0]);
    auto const second = another.on(streams[1]);
    std::printf("two workspaces: %s of %s\n", cuota::bytes_text(budget.held()).c_str(),
                cuota::bytes_text(budget.limit()).c_str());
    cuota::cublas_handle third{pool, 32_MiB};
    try {
        (void)third.on(streams[2]);
    } catch (cuota::budget_exceeded const& refused) {
        std::printf("a third stream is refused: %s\n", refused.info().request.name.text());
    }
    return right == 8 ? 0 : 1;
} catch (std::exception const& error) {
    std::puts(error.what());
    return 1;
}
