// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// What only the simulated device can show: which calls are made, what happens when they fail, and what a missing wait
// would do.
#include <cuota/pool/step_plan.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/step_program.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

/// Changes some of a step: sizes, requests that come twice or not at all, releases that do not come, other streams.
std::vector<support::step_action> deviate(std::vector<support::step_action> step, std::mt19937_64& random,
                                          std::size_t streams) {
    std::size_t const changes = support::pick(random, 0, 3);
    for (std::size_t i = 0; i != changes; ++i) {
        auto& a = step[support::pick(random, 0, step.size() - 1)];
        switch (support::pick(random, 0, 4)) {
            case 0:
                if (a.takes) a.number += 512;
                break;
            case 1: a.stream = support::pick(random, 0, streams - 1); break;
            case 2:
                if (!a.takes) step.erase(step.begin() + (&a - step.data()));  // it outlives the step
                break;
            case 3: step.resize(support::pick(random, 1, step.size())); break;
            default: break;
        }
    }
    return step;
}

/// 60 steps, most of them as recorded.
cuota::step_plan_stats run_program(std::uint64_t seed, std::size_t streams) {
    std::mt19937_64 random{seed};
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<cuota::stream> lanes(streams);
    void* const wrong = pool.allocate(lanes[0], 4);
    cuota::rt::fill_bytes(wrong, 0, 4, lanes[0]);
    lanes[0].synchronize();
    cuota::step_plan plan{pool};
    support::step_program program{plan, lanes, static_cast<support::word*>(wrong)};
    auto const step = support::random_step(random, 30, streams);
    for (int i = 0; i != 60; ++i) {
        if (i == 40) plan.record_again();
        auto const scope = plan.begin();
        if (i != 0 && random() % 4 == 0) program.take(1'000'000 + static_cast<std::size_t>(i), 1024, 0);
        program.run(i == 0 || random() % 2 == 0 ? step : deviate(step, random, streams));
        program.give_all_but(i == 0 ? 0 : support::pick(random, 0, 3));
    }
    program.give_all_but(0);
    cuota::device::current().synchronize();
    CHECK(support::words(lanes[0], wrong, 4)[0] == 0);
    pool.deallocate(lanes[0], wrong, 4);
    auto const stats = plan.stats();
    CHECK(stats.live == 0);
    CHECK(stats.steps == 60);
    return stats;
}

}  // namespace

TEST_CASE("programs at random never have bytes that are another's, nor before their turn",
          "[pool][step_plan]") {
    std::size_t const streams = GENERATE(1U, 2U, 5U);
    cuota::step_plan_stats all;
    for (std::uint64_t seed = 1; seed != 7; ++seed) {
        support::machine const machine;
        INFO("seed " << seed << ", " << streams << " streams");
        auto const stats = run_program(seed, streams);
        CHECK(simulator::misuse().races == 0);
        CHECK((streams == 1) == (stats.stream_waits == 0));
        CHECK(stats.served > 300);
        for (auto const count : {&cuota::step_plan_stats::served, &cuota::step_plan_stats::in_use,
                                 &cuota::step_plan_stats::other_size, &cuota::step_plan_stats::too_many,
                                 &cuota::step_plan_stats::skipped})
            all.*count += stats.*count;
    }
    INFO(all.served << ' ' << all.in_use << ' ' << all.other_size << ' ' << all.too_many << ' '
                    << all.skipped);
    CHECK(all.in_use > 50);
    CHECK(all.other_size > 10);
    CHECK(all.too_many > 0);
    CHECK(all.skipped > 50);
}
