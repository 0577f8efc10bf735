// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/simple_plans.hpp>

#include <algorithm>
#include <random>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_cost;
using cuota::schedule_text;
using cuota::simulate;

namespace {

[[nodiscard]] chain equal_stages(std::size_t count) {
    return {std::vector<cuota::chain_stage>(count, {1, 1, 0, 0, 1, 2}), 0, 0};
}

}  // namespace

TEST_CASE("store_all_plan runs every stage once", "[training][store_plans]") {
    CHECK(schedule_text(store_all_plan(equal_stages(3))) == "S0 S1 S2 B2 B1 B0");
    chain_cost const run = simulate(equal_stages(50), store_all_plan(equal_stages(50)));
    CHECK(run.recomputed == 0);
    CHECK(run.time == 150);
    CHECK(run.peak == 101);
    CHECK_THROWS_AS(cuota::store_all_plan({}), cuota::usage_error);
}

TEST_CASE("a segment runs first for its last output, and again to save its records",
          "[training][store_plans]") {
    CHECK(schedule_text(cuota::detail::segment_plan(5, 2)) ==
          "F0 F1 D0 F2 D1 S3 S4 B4 B3 D2 S0 S1 S2 B2 B1 B0");
    CHECK(schedule_text(cuota::detail::segment_plan(3, 3)) == "F0 F1 S2 B2 D1 S1 B1 D0 S0 B0");
    CHECK(schedule_text(cuota::detail::segment_plan(1, 1)) == "S0 B0");
}

TEST_CASE("sqrt_plan keeps about 2 sqrt(L) records for less than one more forward run",
          "[training][store_plans]") {
    for (std::size_t root : {4u, 8u, 16u, 30u}) {
        chain const c = equal_stages(root * root);
        chain_cost const run = simulate(c, sqrt_plan(c));
        CHECK(run.recomputed < root * root);
        CHECK(run.peak <= 3 * root + 3);  // per segment an output, or a record of two; gradients
    }
    CHECK_THROWS_AS(cuota::sqrt_plan({}), cuota::usage_error);
}

TEST_CASE("sqrt_plan has the smallest peak of all numbers of segments, and among those the least time",
          "[training][store_plans]") {
    std::mt19937 random{5};
    auto const up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{0, most}(random);
    };
    std::size_t wrong = 0;
    std::size_t with_segments = 0;
    for (int round = 0; round != 500; ++round) {
        chain c;
        c.stages.resize(1 + up_to(12));
        for (cuota::chain_stage& s : c.stages)
            s = {up_to(5), up_to(9), up_to(2), up_to(2), double(1 + up_to(4)), 1};
        chain_cost const run = simulate(c, sqrt_plan(c));
        for (std::size_t k = 1; k <= c.stages.size(); ++k) {
            chain_cost const other = simulate(c, cuota::detail::segment_plan(c.stages.size(), k));
            wrong += other.peak < run.peak || (other.peak == run.peak && other.time < run.time);
        }
        with_segments += run.recomputed != 0;
    }
    CHECK(wrong == 0);
    CHECK(with_segments > 100);
}
