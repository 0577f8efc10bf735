// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/coming_from.md that need Thrust and CCCL. On the simulated runtime Thrust's device system is that of the host.
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

TEST_CASE("coming from Thrust: both sides sort", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    std::vector<float> const host{3, 1, 4, 1, 5};
    std::vector<float> const sorted{1, 1, 3, 4, 5};
    {
#include "coming_from/thrust_before.inc"
        CHECK(std::vector<float>(v.begin(), v.end()) == sorted);
    }
    {
#include "coming_from/thrust_after.inc"
        CHECK(v.to_vector(stream) == sorted);
    }
    {
        constexpr std::size_t n = 5;
#include "coming_from/thrust_keep.inc"
        CHECK(v.size() == n);
        CHECK(pool.stats().live_blocks == 1);
    }
}

TEST_CASE("coming from RMM: memory for cuda::mr, and under a budget", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    auto const other = cuota::to_cuda_mr(cuota::device_memory{}, "other");
#include "coming_from/mr.inc"
    cuota::device_buffer<float> const x{1000, stream, theirs, "x"};
    CHECK(budget.held() >= 4000);
    CHECK(ours == ours);
}

}  // namespace
