// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/checkpointed.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/revolve_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/catch.hpp"
#include "support/number_chain.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using cuota::chain;
using cuota::chain_schedule;
using cuota::checkpointed;
using support::number_chain;
using support::word;

static_assert(!std::is_copy_constructible_v<checkpointed>);

namespace {

using budgeted_device = cuota::budgeted<cuota::device_memory>;
using budgeted_pinned = cuota::budgeted<cuota::pinned_memory>;

/// A chain and its gradients when everything is kept.
struct checkpoint_case {
    explicit checkpoint_case(std::size_t stages, unsigned seed)
        : net{support::random_number_stages(stages, seed), 300, stream},
          sizes{cuota::chain_of(net.stages(), cuota::device_memory::granularity())} {
        right = run(cuota::store_all_plan(sizes), cuota::device_memory{});
    }
    [[nodiscard]] std::vector<word> run(chain_schedule const& plan, cuota::any_resource memory,
                                        cuota::any_resource host = cuota::pinned_memory{}) {
        net.clear();
        checkpointed one{net.stages(), plan, stream, std::move(memory), std::move(host)};
        one.run(net.input(), 7);
        return net.sums();
    }
    [[nodiscard]] std::size_t peak_of(chain_schedule const& plan) const { return simulate(sizes, plan).peak; }

    cuota::stream stream{};
    number_chain net;
    chain sizes;
    std::vector<word> right;
};

/// Calls f with plans of every kind, for limits from the minimum to all that the chain can use.
void for_each_checkpoint_plan(checkpoint_case const& c, std::function<void(chain_schedule const&)> const& f) {
    f(cuota::store_all_plan(c.sizes));
    f(cuota::sqrt_plan(c.sizes));
    std::size_t const most = c.peak_of(cuota::store_all_plan(c.sizes));
    std::size_t const least = cuota::min_chain_bytes(c.sizes);
    for (std::size_t i = 0; i <= 6; ++i) f(cuota::chain_plan(c.sizes, least + (most - least) * i / 6));
    for (std::size_t i = 0; i <= 6; ++i) {
        try {
            f(cuota::offload_plan(c.sizes, least + (most - least) * i / 6));
        } catch (cuota::out_of_memory const&) {}  // the limit requires recomputation
    }
}

}  // namespace

TEST_CASE("gradients are equal bit for bit under every plan, and the measured peak equals the plan's",
          "[training][checkpointed][gpu]") {
    std::size_t plans = 0, offloading = 0, recomputing = 0;
    for (unsigned seed = 0; seed != 6; ++seed) {
        checkpoint_case c{2 + seed, seed};
        for_each_checkpoint_plan(c, [&](chain_schedule const& plan) {
            INFO("chain " << seed << ": " << schedule_text(plan));
            budget const on_device{"device", cuota::unlimited};
            budget const in_host{"host", cuota::unlimited};
            cuota::chain_cost const expected = simulate(c.sizes, plan);

            CHECK(c.run(plan, budgeted_device{on_device}, budgeted_pinned{in_host}) == c.right);

            CHECK(on_device.info().peak == expected.peak);
            CHECK(on_device.info().held == 0);
            CHECK((in_host.info().peak != 0) == (expected.host_peak != 0));
            CHECK(in_host.info().held == 0);
            ++plans;
            offloading += expected.host_peak != 0;
            recomputing += expected.recomputed != 0;
        });
    }
    CHECK(plans > 60);
    CHECK(offloading > 6);
    CHECK(recomputing > 12);
}

TEST_CASE("a pool that serves a plan allocates exactly the peak of the plan",
          "[training][checkpointed][gpu]") {
    checkpoint_case c{8, 42};
    for_each_checkpoint_plan(c, [&](chain_schedule const& plan) {
        INFO(schedule_text(plan));
        cuota::scoped_pool pool{cuota::any_resource{cuota::device_memory{}}};
        CHECK(c.run(plan, pool.resource()) == c.right);
        CHECK(pool.stats().peak_allocated ==
              simulate(cuota::chain_of(c.net.stages(), pool.resource().granularity()), plan).peak);
    });
}

TEST_CASE("stages run as often as planned, and recomputed runs are marked", "[training][checkpointed][gpu]") {
    checkpoint_case c{9, 3};
    for_each_checkpoint_plan(c, [&](chain_schedule const& plan) {
        INFO(schedule_text(plan));
        c.net.forwards = c.net.recomputed = c.net.backwards = 0;
        CHECK(c.run(plan, cuota::device_memory{}) == c.right);
        cuota::chain_cost const expected = simulate(c.sizes, plan);
        CHECK(c.net.forwards == expected.forward_runs);
        CHECK(c.net.recomputed == expected.recomputed);
        CHECK(c.net.backwards == c.sizes.stages.size());
    });
}

TEST_CASE("one executor runs many steps, each with its own seed", "[training][checkpointed][gpu]") {
    checkpoint_case c{6, 5};
    auto const sums_of_steps = [&](chain_schedule const& plan) {
        std::vector<std::vector<word>> all;
        checkpointed net{c.net.stages(), plan, c.stream, cuota::device_memory{}};
        c.net.clear();
        for (std::uint64_t step = 0; step != 4; ++step) {
            net.run(c.net.input(), step / 2);
            all.push_back(c.net.sums());
        }
        return all;
    };
    auto const kept = sums_of_steps(cuota::store_all_plan(c.sizes));
    for_each_checkpoint_plan(c, [&](chain_schedule const& plan) { CHECK(sums_of_steps(plan) == kept); });

    auto const added = [&](std::size_t step) {
        std::vector<word> sums = kept[step];
        if (step != 0)
            for (std::size_t i = 0; i != sums.size(); ++i) sums[i] -= kept[step - 1][i];
        return sums;
    };
    CHECK(added(0) == added(1));  // the same seed gives the same step
    CHECK(added(2) == added(3));
    CHECK(added(1) != added(2));
}

TEST_CASE("a step that is refused at any allocation holds nothing, and the next step is correct",
          "[training][checkpointed][gpu]") {
    checkpoint_case c{5, 11};
    std::size_t refused = 0;
    for_each_checkpoint_plan(c, [&](chain_schedule const& plan) {
        INFO(schedule_text(plan));
        std::size_t const peak = c.peak_of(plan);
        std::size_t const step = cuota::device_memory::granularity();
        for (std::size_t limit = 0; limit < peak; limit += step * 2) {
            budget account{"device", peak};
            checkpointed net{c.net.stages(), plan, c.stream, budgeted_device{account}};
            {
                auto const elsewhere = account.reserve(peak - limit, "others");
                CHECK_THROWS_AS(net.run(c.net.input(), 7), cuota::budget_exceeded);
                CHECK(account.info().held == peak - limit);
                ++refused;
            }
            c.net.clear();
            net.run(c.net.input(), 7);
            CHECK(c.net.sums() == c.right);
            CHECK(account.info().held == 0);
        }
    });
    CHECK(refused > 50);
}

TEST_CASE("an exception of a stage is passed on, and nothing stays held", "[training][checkpointed][gpu]") {
    checkpoint_case c{5, 23};
    for_each_checkpoint_plan(c, [&](chain_schedule const& plan) {
        budget const account{"device", cuota::unlimited};
        checkpointed net{c.net.stages(), plan, c.stream, budgeted_device{account}};
        cuota::chain_cost const expected = simulate(c.sizes, plan);
        for (std::size_t call = 1; call <= expected.forward_runs + c.sizes.stages.size(); ++call) {
            c.net.fail_at = call;
            CHECK_THROWS_AS(net.run(c.net.input(), 7), std::runtime_error);
            CHECK(account.info().held == 0);
        }
        c.net.fail_at = 0;
        c.net.clear();
        net.run(c.net.input(), 7);
        CHECK(c.net.sums() == c.right);
    });
}

TEST_CASE("host memory for records is allocated at construction, all or nothing",
          "[training][checkpointed][gpu]") {
    checkpoint_case c{6, 8};
    std::size_t const most = c.peak_of(cuota::store_all_plan(c.sizes));
    chain_schedule const plan = cuota::offload_plan(c.sizes, most - 1);
    budget host{"host", std::size_t{1} << 20};
    std::size_t bytes = 0;
    {
        checkpointed const net{c.net.stages(), plan, c.stream, cuota::device_memory{}, budgeted_pinned{host}};
        bytes = net.host_bytes();
        CHECK(bytes != 0);
        CHECK(host.info().held == bytes);
    }
    CHECK(host.info().held == 0);

    auto const elsewhere = host.reserve(host.limit() - bytes + 1, "others");
    CHECK_THROWS_AS(
        (checkpointed{c.net.stages(), plan, c.stream, cuota::device_memory{}, budgeted_pinned{host}}),
        cuota::budget_exceeded);
    CHECK(host.info().held == host.limit() - bytes + 1);
}

TEST_CASE("invalid stages and schedules are refused with the reason", "[training][checkpointed][gpu]") {
    checkpoint_case c{3, 1};
    chain_schedule const plan = cuota::store_all_plan(c.sizes);
    auto const refused = [&](std::vector<cuota::checkpoint_stage> stages, chain_schedule const& p,
                             cuota::any_resource host = cuota::pinned_memory{}) {
        return std::string{
            support::thrown<cuota::usage_error>([&] {
                checkpointed const net{std::move(stages), p, c.stream, cuota::device_memory{}, host};
            }).what()};
    };

    auto lacking = c.net.stages();
    lacking[1].backward = nullptr;
    CHECK(support::has(refused(lacking, plan), "stage 1 of a chain has no backward function"));
    lacking[1].forward = nullptr;
    CHECK(support::has(refused(lacking, plan), "stage 1 of a chain has no forward function"));
    chain_schedule wrong = plan;
    std::swap(wrong[0], wrong[1]);
    CHECK_FALSE(refused(c.net.stages(), wrong).empty());
    using cuota::chain_op_kind;
    chain_schedule const away{{chain_op_kind::forward_saving, 0},
                              {chain_op_kind::offload, 0},
                              {chain_op_kind::fetch, 0},
                              {chain_op_kind::backward, 0}};
    auto one = c.net.stages();
    one.resize(1);
    CHECK(support::has(refused(one, away, cuota::device_memory{}), "be offloaded to pinned host memory"));
    checkpointed const right{one, away, c.stream, cuota::device_memory{}};
    CHECK(right.host_bytes() != 0);
}

TEST_CASE("a stage can access only the values that it has, by fitting types",
          "[training][checkpointed][gpu]") {
    checkpoint_case c{3, 1};
    auto stages = c.net.stages();
    stages[1].name = "middle";
    chain_schedule const plan = cuota::store_all_plan(c.sizes);
    auto const refused = [&] {
        return std::string{support::thrown<cuota::usage_error>([&] {
                               checkpointed net{stages, plan, c.stream, cuota::device_memory{}};
                               net.run(c.net.input(), 1);
                           }).what()};
    };
    stages[1].forward = [](cuota::stage_context const& run) { (void)run.result<word>(); };
    CHECK(support::has(refused(), "result of stage 1 (middle)"));
    stages[1] = c.net.stages()[1];
    stages[1].backward = [](cuota::stage_context const& run) { (void)run.output<word>(); };
    CHECK(support::has(refused(), "output of stage 1"));
    struct odd {
        unsigned char bytes[7919];
    };
    stages[1].backward = [](cuota::stage_context const& run) { (void)run.input<odd>(); };
    CHECK(support::has(refused(), "not a whole number of elements of 7'919"));
}
