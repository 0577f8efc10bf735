// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/coming_from.md, except those that need Thrust and CCCL: coming_from_cccl.sim.cpp. The snippets of RMM's side are not
// compiled.
#include <cstddef>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

struct add_index {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] += static_cast<float>(i); }
};

constexpr std::size_t n = 1000;

/// The typed overload of cuda_runtime.h.
template <class T>
cudaError_t cudaMalloc(T** at, std::size_t bytes) {
    return ::cudaMalloc(reinterpret_cast<void**>(at), bytes);
}

TEST_CASE("coming from cudaMalloc: both sides give the same", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    std::vector<float> host(n);
    {
        cudaStream_t const stream = nullptr;  // the legacy stream; with another one, the snippet has a race
        auto const saxpy = [](float* x, std::size_t count, cudaStream_t) {
            cuota::for_each_index(cuota::stream_ref{cudaStreamLegacy}, count, add_index{{x, count}});
        };
#include "coming_from/cuda_before.inc"
    }
    std::vector<float> const before = host;
    cuota::stream const stream;
    {
        auto const saxpy = [](cuota::lease<float> const& x, cuota::stream const& on) {
            cuota::for_each_index(on, n, add_index{x});
        };
#include "coming_from/cuda_after.inc"
    }
    CHECK(host == before);
    CHECK(host[n - 1] == 999.0f);
    {
        auto const library_wants = [](void* p) { CHECK(p != nullptr); };
#include "coming_from/raw.inc"
        CHECK(pool.stats().live_blocks == 0);
    }
}

TEST_CASE("coming from RMM: our side runs", "[docs]") {
    cuota::stream const stream;
    auto const saxpy = [](cuota::lease<float> const& x, cuota::stream const& on) {
        cuota::for_each_index(on, n, add_index{x});
    };
#include "coming_from/rmm_after.inc"
    CHECK(budget.held() == 2_MiB);
}

}  // namespace
