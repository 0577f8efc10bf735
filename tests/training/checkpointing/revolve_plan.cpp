// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/revolve_plan.hpp>

#include <algorithm>
#include <vector>

#include <cuota/training/checkpointing/chain_simulation.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_cost;
using cuota::chain_schedule;
using cuota::revolve_forwards;
using cuota::revolve_plan;
using cuota::simulate;
using cuota::unlimited;

namespace {

// Returns the maximum number of outputs that are kept while a stage runs that neither reads nor makes them.
[[nodiscard]] std::size_t outputs_kept(std::size_t stages, chain_schedule const& schedule) {
    std::vector<bool> held(stages);
    std::size_t most = 0;
    for (cuota::chain_op const op : schedule) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i != stages; ++i) kept += held[i] && i != op.stage && i + 1 != op.stage;
        if (op.kind == cuota::chain_op_kind::drop) held[op.stage] = false;
        else {
            most = std::max(most, kept);
            held[op.stage] = op.kind != cuota::chain_op_kind::backward;
        }
    }
    return most;
}

[[nodiscard]] chain_cost run_of_uniform(std::size_t stages, std::size_t slots) {
    chain const c{std::vector<cuota::chain_stage>(stages, {1, 0, 0, 0, 1, 1}), 0, 0};
    return simulate(c, revolve_plan(stages, slots));
}

}  // namespace

TEST_CASE("revolve_forwards returns the published figures", "[training][revolve_plan]") {
    CHECK(revolve_forwards(10, 3) == 15);
    CHECK(revolve_forwards(50, 3) == 180);
    CHECK(revolve_forwards(79, 5) == 232);
    CHECK(revolve_forwards(1, 1) == 0);
    CHECK(revolve_forwards(10, 1) == 45);
    CHECK(revolve_forwards(10, 10) == 9);
    CHECK(revolve_forwards(10, unlimited) == 9);
    CHECK(revolve_forwards(std::size_t{1} << 32, 1) == (std::size_t{1} << 31) * ((std::size_t{1} << 32) - 1));
    CHECK(revolve_forwards(std::size_t{1} << 33, 1) == unlimited);
    CHECK(revolve_forwards(unlimited, unlimited) == unlimited - 1);
}

TEST_CASE("revolve_forwards is the minimum over all splits, and revolve_plan runs as many forwards",
          "[training][revolve_plan]") {
    std::size_t const most_stages = 80;
    std::size_t const most_slots = 7;
    // fewest[s][l]: the minimum over all positions of the next kept output.
    std::vector<std::vector<std::size_t>> fewest(most_slots + 1, std::vector<std::size_t>(most_stages));
    std::size_t wrong = 0;
    for (std::size_t s = 1; s <= most_slots; ++s)
        for (std::size_t l = 1; l != most_stages; ++l) {
            if (s == 1) fewest[s][l] = l * (l - 1) / 2;
            else if (l > 1) {
                fewest[s][l] = unlimited;
                for (std::size_t part = 1; part != l; ++part)
                    fewest[s][l] = std::min(fewest[s][l], part + fewest[s - 1][l - part] + fewest[s][part]);
            }
            chain_cost const run = run_of_uniform(l, s);
            wrong += revolve_forwards(l, s) != fewest[s][l];
            wrong += run.recomputed != fewest[s][l];
            wrong += run.peak > s + 3;
            wrong += outputs_kept(l, revolve_plan(l, s)) > s - 1;
        }
    CHECK(wrong == 0);
    CHECK(outputs_kept(79, revolve_plan(79, 5)) == 4);  // shows that the count works
}

TEST_CASE("revolve_plan recomputes only as much as its slots require", "[training][revolve_plan]") {
    CHECK(schedule_text(revolve_plan(3, 1)) == "F0 F1 D0 S2 B2 D1 F0 S1 B1 D0 S0 B0");
    CHECK(schedule_text(revolve_plan(3, 3)) == "F0 F1 S2 B2 D1 S1 B1 D0 S0 B0");
    CHECK(schedule_text(revolve_plan(1, 1)) == "S0 B0");
    CHECK(run_of_uniform(1000, 5).recomputed == revolve_forwards(1000, 5));
    CHECK(run_of_uniform(1000, unlimited).recomputed == 999);
}

TEST_CASE("revolve_plan refuses a chain without stages and a plan without slots",
          "[training][revolve_plan]") {
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)revolve_plan(3, 0); });
    CHECK(refused.where().line == line);
    CHECK(support::has(refused.what(), "at least one slot is required"));
    CHECK_THROWS_AS(revolve_plan(0, 1), cuota::usage_error);
    CHECK_THROWS_AS(revolve_forwards(0, 1), cuota::usage_error);
    CHECK_THROWS_AS(revolve_forwards(1, 0), cuota::usage_error);
}
