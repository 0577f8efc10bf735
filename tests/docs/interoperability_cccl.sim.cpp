// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/interoperability.md that need Thrust and CCCL.
#include <cuota/interop/cuda_mr.hpp>
#include <cuota/interop/cuda_mr_adaptor.hpp>
#include <cuota/interop/thrust.hpp>
#include <cuota/interop/thrust_allocator.hpp>

#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <cstddef>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

TEST_CASE("Thrust's algorithms and containers", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr std::size_t n = 4;
    cuota::device_buffer<int> x{std::vector<int>{3, 1, 4, 1}, stream, pool};
    {
#include "interoperability/thrust.inc"
        CHECK(v.size() == n);
    }
    CHECK(x.to_vector(stream) == std::vector<int>{1, 1, 3, 4});
}

TEST_CASE("memory for libraries of CCCL's, and of theirs", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    auto theirs = cuota::to_cuda_mr(cuota::device_memory{}, "theirs");
#include "interoperability/cuda_mr.inc"
    cuota::device_buffer<float> const x{1000, stream, limited, "x"};
    CHECK(budget.held() >= 4000);
    static_assert(cuda::has_property<std::remove_cv_t<decltype(mr)>, cuda::mr::device_accessible>);
}

}  // namespace
