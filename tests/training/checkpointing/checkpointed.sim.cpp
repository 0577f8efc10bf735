// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The executor of chains: its calls, failing calls, and several devices.
#include <cuota/training/checkpointing/checkpointed.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/number_chain.hpp"

using cuota::chain_op_kind;
using cuota::chain_schedule;
using cuota::checkpointed;
using support::calls_since;
using support::number_chain;
using support::word;

namespace simulator = cuota::simulator;

namespace {

/// Returns a schedule of five stages that offloads and fetches the first one while others run.
[[nodiscard]] chain_schedule one_stage_away() {
    return {{chain_op_kind::forward_saving, 0}, {chain_op_kind::forward_saving, 1},
            {chain_op_kind::offload, 0},        {chain_op_kind::forward_saving, 2},
            {chain_op_kind::forward_saving, 3}, {chain_op_kind::forward_saving, 4},
            {chain_op_kind::backward, 4},       {chain_op_kind::fetch, 0},
            {chain_op_kind::backward, 3},       {chain_op_kind::backward, 2},
            {chain_op_kind::backward, 1},       {chain_op_kind::backward, 0}};
}
[[nodiscard]] std::vector<support::number_stage> five_stages() {
    return std::vector<support::number_stage>(5, {400, 300, 100, 100});
}
[[nodiscard]] std::vector<word> sums_when_all_is_kept() {
    cuota::stream const stream;
    number_chain net{five_stages(), 300, stream};
    auto stages = net.stages();
    cuota::chain const sizes = cuota::chain_of(stages, 512);
    checkpointed kept{std::move(stages), cuota::store_all_plan(sizes), stream, cuota::device_memory{}};
    kept.run(net.input(), 7);
    return net.sums();
}
[[nodiscard]] cuota::scoped_pool roomy_pool() {
    return cuota::scoped_pool{cuota::any_resource{cuota::device_memory{}},
                              {.initial_size = std::size_t{1} << 20}};
}

}  // namespace

TEST_CASE("the stream waits for a copy only where the record is used, and the host never waits",
          "[training][checkpointed]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::scoped_pool const pool{roomy_pool()};
    number_chain net{five_stages(), 300, stream};
    auto stages = net.stages();
    std::optional<calls_since> waits;
    std::vector<std::uint64_t> seen;  // waits enqueued between stage runs
    for (cuota::checkpoint_stage& s : stages)
        for (auto* const f : {&s.forward, &s.backward})
            *f = [&, inside = *f](cuota::stage_context const& run) {
                seen.push_back(waits ? waits->count() : 0);
                inside(run);
                waits.emplace("cudaStreamWaitEvent");
            };
    checkpointed executor{std::move(stages), one_stage_away(), stream, pool.resource()};
    executor.run(net.input(), 7);
    stream.synchronize();
    seen.clear();

    calls_since const host_waits{"cudaStreamSynchronize"}, device_waits{"cudaDeviceSynchronize"},
        event_waits{"cudaEventSynchronize"}, allocations{"cudaMalloc"}, host_allocations{"cudaHostAlloc"},
        events{"cudaEventCreateWithFlags"}, streams{"cudaStreamCreateWithPriority"};
    waits.reset();
    executor.run(net.input(), 7);

    CHECK(host_waits.count() + device_waits.count() + event_waits.count() == 0);
    CHECK(allocations.count() + host_allocations.count() + events.count() + streams.count() == 0);
    REQUIRE(seen.size() == 10);
    // Stages run forward from 0 to 4, then backward from 4 to 0. The offload waits for stage 1 and for earlier reads of its host memory;
    // the fetch waits for the offload; the backward run of stage 1 waits for the fetch.
    CHECK(seen[1] == 0);
    CHECK(seen[2] >= 1);
    CHECK(seen[3] + seen[4] + seen[5] == 0);
    CHECK(seen[6] >= 1);
    CHECK(seen[7] == 0);
    CHECK(seen[8] >= 1);
    CHECK(seen[9] == 0);
}

TEST_CASE("the copies of a chain use its stream's device, whichever device is current",
          "[training][checkpointed]") {
    support::machine const machine{{.devices = 2}};
    std::vector<word> const right = sums_when_all_is_kept();
    cuota::device const second{1};
    std::optional<cuota::stream> stream;
    {
        cuota::device_scope const there{second};
        stream.emplace();
    }
    number_chain net{five_stages(), 300, *stream, cuota::device_memory{second}};
    checkpointed executor{net.stages(), one_stage_away(), *stream, cuota::device_memory{second}};
    for (int step = 0; step != 2; ++step) {
        net.clear();
        executor.run(net.input(), 7);
        CHECK(net.sums() == right);
    }
    CHECK(simulator::misuse().races == 0);
}

TEST_CASE("after a step that failed, the next step can reuse the host memory for records",
          "[training][checkpointed]") {
    support::machine const machine;
    std::vector<word> const right = sums_when_all_is_kept();
    cuota::stream const stream;
    cuota::scoped_pool const pool{roomy_pool()};
    number_chain net{five_stages(), 300, stream};
    checkpointed executor{net.stages(), one_stage_away(), stream, pool.resource()};
    for (std::size_t call = 1; call <= 10; ++call) {
        net.fail_at = call;
        CHECK_THROWS_AS(executor.run(net.input(), 9), std::runtime_error);
        net.fail_at = 0;
        net.clear();
        executor.run(net.input(), 7);
        CHECK(net.sums() == right);
    }
    CHECK(simulator::misuse().races == 0);
}

TEST_CASE("when any CUDA call of a step with an offloaded record fails, nothing leaks",
          "[training][checkpointed]") {
    support::machine machine;
    std::vector<word> const right = sums_when_all_is_kept();
    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const stream;
        cuota::scoped_pool const pool{roomy_pool()};
        number_chain net{five_stages(), 300, stream, pool.resource()};
        checkpointed executor{net.stages(), one_stage_away(), stream, pool.resource()};
        executor.run(net.input(), 7);
        if (net.sums() != right) throw std::runtime_error{"a failure that nobody saw changed the gradients"};
    });
    CHECK(seen.thrown > 20);
}
