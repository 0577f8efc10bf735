// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippet of docs/interoperability.md that needs headers of cuBLAS, cuFFT and cuSOLVER.
#include <cuota/interop/libraries/cublas.hpp>
#include <cuota/interop/libraries/cufft.hpp>
#include <cuota/interop/libraries/cusolver.hpp>

#include <cstddef>
#include <vector>

#include "docs/page.hpp"

namespace {

TEST_CASE("workspaces of NVIDIA's libraries", "[docs]") {
    using namespace cuota::literals;
    cuota::budget const budget{"device", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr int n = 2, length = 8, batch = 2;
    float const one = 1, zero = 0;
    cuota::device_buffer<float> left{{4, 2, 2, 10}, stream, pool}, right{{1, 0, 0, 1}, stream, pool},
        product{n * n, stream, pool};
    cuota::device_buffer<cufftComplex> waves{length * batch, cufftComplex{1, 0}, stream, pool};
    cuota::device_buffer<int> failures{1, 7, stream, pool};
    {
        auto const a = left.write(stream), c = product.write(stream);
        auto const b = right.read(stream);
        auto const wave = waves.write(stream);
        auto const info = failures.write(stream);
#include "interoperability/libraries.inc"
    }
    CHECK(product.to_vector(stream) == std::vector<float>{4, 2, 2, 10});
    CHECK(left.to_vector(stream) == std::vector<float>{2, 1, 2, 3});
    CHECK(waves.to_vector(stream)[0].x == Approx(length));
    CHECK(failures.to_vector(stream)[0] == 0);
    CHECK(budget.held() <= 40_MiB);
}

}  // namespace
