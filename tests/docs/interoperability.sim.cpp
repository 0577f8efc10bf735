// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/interoperability.md. Those that need Thrust and CCCL are in interoperability_cccl.sim.cpp, those
// that need cuBLAS and others in interoperability_libraries.sim.cpp.
#include <chrono>
#include <cstddef>
#include <vector>

#include <cuota/interop/cub.hpp>
#include <cuota/training/distributed/thread_group.hpp>

#include "docs/page.hpp"
#include "interop/reversed_in_two_phases.hpp"

namespace {

using namespace cuota::literals;
using namespace std::chrono_literals;

namespace cub {

/// Replaces CUB, which g++ does not compile. examples/one_budget.cpp uses CUB itself if nvcc compiles it.
struct DeviceScan {
    static cudaError_t InclusiveSum(void* scratch, std::size_t& bytes, int const*, int* to, int count,
                                    cudaStream_t stream) {
        return support::reverse(scratch, bytes, {to, static_cast<std::size_t>(count)}, stream);
    }
};

}  // namespace cub

TEST_CASE("CUB's scratch is the pool's", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr int n = 1000;
    cuota::device_buffer<int> out{std::vector<int>{1, 2, 3}, stream, pool};
    out.resize(n);
    {
        auto const lease = out.write(stream);
        int const* const from = nullptr;
        int* const to = lease.span().data();
#include "interoperability/cub.inc"
    }
    CHECK(out.to_vector(stream)[n - 1] == 1);
    CHECK(pool.stats().peak_requested >= 2 * n * sizeof(int));
}

TEST_CASE("ranks share each step", "[docs]") {
    constexpr std::size_t gpus = 2;
    constexpr std::size_t rank = 0;
    cuota::memory_dataset const dataset{"numbers", std::vector<float>(512, 1.0f)};
#include "interoperability/ranks.inc"
    CHECK(loader.epoch(0).next()->size() == 64);
}

}  // namespace
