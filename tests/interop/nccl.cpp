// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// One rank, which runs on a single GPU. nccl.sim.cpp tests several ranks on the simulator.
#include <cuota/interop/nccl.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

#include <cuota/training/distributed/gradient_buckets.hpp>

#include "support/catch.hpp"
#include "support/gradient_set.hpp"

namespace {

static_assert(cuota::all_reduce_backend<cuota::nccl_all_reduce>);
static_assert(!std::is_copy_constructible_v<cuota::nccl_all_reduce>);

TEST_CASE("one rank's sums are its own gradients, on the device", "[interop][nccl][gpu]") {
    std::vector<std::size_t> const counts{5, 4000, 1, 300};
    cuota::rank_consensus alone;
    cuota::gradient_buckets sums{
        cuota::nccl_all_reduce{alone}, counts, {.bytes = 1024, .memory = cuota::device_memory{}}};
    support::gradient_set gradients{0, counts};
    for (std::size_t step = 0; step != 3; ++step) {
        sums.reduce(alone, [&] {
            for (std::size_t g = 0; g != counts.size(); ++g) {
                gradients.make(g, step);
                sums.ready(g, gradients[g]);
            }
        });
        CHECK(gradients.values() == support::sums_of_ranks(1, counts, step));
    }
}

}  // namespace
