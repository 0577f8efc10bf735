// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The kernel and copy times set in the simulator are lower bounds of measured times.
#include <cuota/training/checkpointing/measure_stages.hpp>

#include <chrono>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/number_chain.hpp"

using namespace std::chrono_literals;
using support::number_chain;

namespace simulator = cuota::simulator;

namespace {

struct nothing {
    CUOTA_KERNEL void operator()(std::size_t) const {}
};

/// Each call launches one kernel with a name of its own.
[[nodiscard]] std::vector<cuota::checkpoint_stage> timed_stages(std::size_t& calls) {
    static constexpr char const* names[][2] = {{"first forward", "first backward"},
                                               {"second forward", "second backward"}};
    std::vector<cuota::checkpoint_stage> stages(2);
    for (std::size_t i = 0; i != 2; ++i) {
        stages[i].output_bytes = 100'000;
        stages[i].forward = [&calls, i](cuota::stage_context const& run) {
            ++calls;
            cuota::for_each_index(run.stream(), 1, nothing{}, names[i][0]);
        };
        stages[i].backward = [i](cuota::stage_context const& run) {
            cuota::for_each_index(run.stream(), 1, nothing{}, names[i][1]);
        };
    }
    return stages;
}

}  // namespace

TEST_CASE("measured times equal those of the stages and of the link", "[training][measure_stages]") {
    support::machine const machine;
    simulator::set_link({.to_device = 50'000'000, .to_host = 25'000'000});  // 2 and 4 ms for 100,000 bytes
    simulator::set_kernel_time("first forward", 1ms);
    simulator::set_kernel_time("first backward", 2ms);
    simulator::set_kernel_time("second forward", 3ms);
    simulator::set_kernel_time("second backward", 5ms);
    cuota::stream const stream;
    std::size_t calls = 0;
    auto const stages = timed_stages(calls);

    cuota::chain const measured =
        measure_stages(stages, cuota::device_span<float const>{}, stream, cuota::device_memory{}, 3);

    CHECK(calls == 2 * (3 + 1));
    REQUIRE(measured.stages.size() == 2);
    double const clock = 1e-6;  // resolution of events
    CHECK(measured.stages[0].forward_time >= 1e-3 - clock);
    CHECK(measured.stages[0].backward_time >= 2e-3 - clock);
    CHECK(measured.stages[1].forward_time >= 3e-3 - clock);
    CHECK(measured.stages[1].backward_time >= 5e-3 - clock);
    CHECK(measured.offload_time_per_byte >= 1 / 25e6 - clock / 1e5);
    CHECK(measured.fetch_time_per_byte >= 1 / 50e6 - clock / 1e5);
    CHECK(measured.stages[0].output_bytes == cuota::round_up(100'000, cuota::device_memory::granularity()));
}

TEST_CASE("measuring uses the memory of a step that keeps everything, and frees it",
          "[training][measure_stages]") {
    support::machine const machine;
    cuota::stream const stream;
    number_chain net{support::random_number_stages(4, 3), 300, stream};
    auto const stages = net.stages();
    cuota::chain const sizes = cuota::chain_of(stages, cuota::device_memory::granularity());
    std::size_t const needed = simulate(sizes, cuota::store_all_plan(sizes)).peak;
    cuota::budget device{"device", needed}, host{"host", std::size_t{1} << 20};
    auto const measure = [&] {
        return measure_stages(stages, net.input(), stream, cuota::budgeted<cuota::device_memory>{device}, 1,
                              cuota::budgeted<cuota::pinned_memory>{host});
    };

    CHECK_NOTHROW(measure());
    CHECK(device.info().peak == needed);
    CHECK(host.info().peak != 0);
    CHECK(device.info().held + host.info().held == 0);

    for (auto* const of : {&device, &host}) {
        auto const elsewhere = of->reserve(of->limit() - (of == &device ? needed - 1 : 0), "others");
        std::size_t const held = device.info().held + host.info().held;
        CHECK_THROWS_AS(measure(), cuota::budget_exceeded);
        CHECK(device.info().held + host.info().held == held);
    }
    CHECK_THROWS_AS(measure_stages(stages, net.input(), stream, cuota::device_memory{}, 0),
                    cuota::usage_error);
    CHECK_THROWS_AS(measure_stages({}, net.input(), stream, cuota::device_memory{}), cuota::usage_error);
}

TEST_CASE("when any CUDA call of a measurement fails, nothing leaks", "[training][measure_stages]") {
    support::machine machine;
    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const stream;
        number_chain net{support::random_number_stages(2, 4), 300, stream};
        (void)measure_stages(net.stages(), net.input(), stream, cuota::device_memory{}, 1);
    });
    CHECK(seen.thrown > 20);
}
