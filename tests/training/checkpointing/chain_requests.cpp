// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/chain_requests.hpp>

#include <algorithm>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/catch.hpp"
#include "support/number_chain.hpp"

using cuota::chain_schedule;
using support::number_chain;

namespace {

/// Returns the maximum of live bytes, by summation.
[[nodiscard]] std::size_t most_alive(std::vector<cuota::lifetime> const& requests, std::size_t granularity) {
    std::size_t most = 0;
    for (cuota::lifetime const& at : requests) {
        std::size_t alive = 0;
        for (cuota::lifetime const& l : requests)
            if (l.from <= at.from && at.from < l.until) alive += cuota::round_up(l.size, granularity);
        most = std::max(most, alive);
    }
    return most;
}

[[nodiscard]] std::vector<chain_schedule> some_schedules(cuota::chain const& sizes) {
    std::size_t const most = simulate(sizes, cuota::store_all_plan(sizes)).peak;
    std::size_t const least = cuota::min_chain_bytes(sizes);
    std::vector<chain_schedule> all{cuota::store_all_plan(sizes), cuota::sqrt_plan(sizes),
                                    cuota::chain_plan(sizes, least),
                                    cuota::chain_plan(sizes, (least + most) / 2)};
    try {
        all.push_back(cuota::offload_plan(sizes, (least + 3 * most) / 4));
    } catch (cuota::out_of_memory const&) {}
    return all;
}

}  // namespace

TEST_CASE("the peak of a chain's requests equals its simulated peak", "[training][chain_requests]") {
    for (unsigned seed = 0; seed != 20; ++seed) {
        cuota::chain sizes;
        for (support::number_stage const& s : support::random_number_stages(1 + seed % 7, seed))
            sizes.stages.push_back({s.output, s.saved, s.forward_scratch, s.backward_scratch});
        for (chain_schedule const& plan : some_schedules(sizes))
            for (std::size_t const granularity : {std::size_t{1}, std::size_t{256}})
                CHECK(most_alive(chain_requests(sizes, plan), granularity) ==
                      simulate(sizes.rounded_to(granularity), plan).peak);
    }
}

TEST_CASE("a chain runs from one slab that was charged before, with every request at its planned offset",
          "[training][chain_requests][gpu]") {
    std::size_t without_waste = 0, plans = 0;
    for (unsigned seed = 0; seed != 5; ++seed) {
        cuota::stream const stream;
        number_chain net{support::random_number_stages(3 + seed, seed), 300, stream};
        auto const stages = net.stages();
        cuota::chain const sizes = cuota::chain_of(stages, 1);
        std::vector<support::word> right;
        for (chain_schedule const& plan : some_schedules(sizes.rounded_to(256))) {
            INFO("chain " << seed << ": " << schedule_text(plan));
            cuota::budget const account{"device", cuota::unlimited};
            cuota::step_plan memory{cuota::budgeted<cuota::device_memory>{account}};
            memory.set_plan(chain_requests(sizes, plan));
            memory.prepare();
            std::size_t const slab = memory.planned().peak;
            std::size_t const charged = account.info().held;
            CHECK(charged == cuota::round_up(slab, cuota::device_memory::granularity()));
            {
                cuota::checkpointed one{stages, plan, stream, memory.resource()};
                for (int turn = 0; turn != 3; ++turn) {
                    net.clear();
                    auto const step = memory.begin();
                    CHECK_FALSE(step.is_recorded());
                    one.run(net.input(), 7);
                    if (right.empty()) right = net.sums();
                    CHECK(net.sums() == right);
                }
            }
            CHECK(account.info().peak == charged);  // no request was served elsewhere
            CHECK(memory.planned().lower_bound == simulate(sizes.rounded_to(256), plan).peak);
            without_waste += slab == memory.planned().lower_bound;
            ++plans;
        }
    }
    CHECK(without_waste * 10 >= plans * 7);
}

TEST_CASE("chain_requests requires a valid schedule", "[training][chain_requests]") {
    cuota::chain sizes;
    sizes.stages.resize(2);
    CHECK(chain_requests(sizes, cuota::store_all_plan(sizes)).empty());  // all sizes are 0
    CHECK_THROWS_AS(chain_requests(sizes, {}), cuota::usage_error);
}
