// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/pool_footprint.hpp>

#include <cstddef>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>

#include "support/catch.hpp"

using namespace cuota::literals;

TEST_CASE("the largest batch by a pool's plan fits the pool, and one more sample does not",
          "[pool][pool_footprint]") {
    // Sizes near those of real programs: no multiple of a page.
    for (std::size_t const limit : {26_MiB, 31_MiB, 100_MiB}) {
        for (std::size_t const floats : {2'000'000, 1'234'567, 65'536}) {
            cuota::budget budget{"trainer", limit};
            cuota::scoped_pool pool{budget};
            cuota::stream const s;
            cuota::footprint plan = cuota::pool_footprint(pool);
            plan.add<float>("weights", 1000).per_sample<float>("activations", floats);
            std::size_t const batch = plan.largest_batch(budget).batch;
            CAPTURE(limit, floats, batch);
            auto const allocate = [&](std::size_t samples) {
                cuota::device_buffer<float> const weights{1000, s, pool, cuota::no_init};
                cuota::device_buffer<float> const activations{samples * floats, s, pool, cuota::no_init};
                return budget.held();
            };
            CHECK(allocate(batch) <= plan.bytes(batch));
            CHECK_THROWS_AS(allocate(batch + 1), cuota::budget_exceeded);
        }
    }
}

TEST_CASE("a plan with pages rounds the sum of its parts", "[pool][pool_footprint]") {
    auto plan = cuota::footprint::with_pages(256, 2_MiB);
    CHECK(plan.bytes() == 0);
    plan.add<float>("a", 1);
    CHECK(plan.bytes() == 2_MiB);
    plan.add<std::byte>("b", 2_MiB - 256);
    CHECK(plan.bytes() == 2_MiB);
    plan.add<std::byte>("c", 1);
    CHECK(plan.bytes() == 4_MiB);
    cuota::footprint both;
    both.add(plan);
    CHECK(both.bytes() == 4_MiB);
    plan.add<std::byte>("d", cuota::unlimited);
    CHECK(plan.bytes() == cuota::unlimited);
    CHECK_THROWS_AS(cuota::footprint::with_pages(256, 3), cuota::usage_error);
}
