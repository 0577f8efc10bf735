// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/chain_simulation.hpp>

#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_cost;
using cuota::chain_op;
using cuota::chain_schedule;
using cuota::simulate;

namespace {

// Parses "F0 S1 B1": the inverse of schedule_text.
[[nodiscard]] chain_schedule schedule_of(std::string const& text) {
    chain_schedule schedule;
    for (std::size_t at = 0; at < text.size(); ++at)
        if (text[at] >= 'A') {
            auto const act = std::string{"FSBDOI"}.find(text[at]);
            schedule.push_back({static_cast<cuota::chain_op_kind>(act), std::stoul(text.substr(at + 1))});
        }
    return schedule;
}

// Sizes for which each sum identifies its terms.
[[nodiscard]] chain three_stages() {
    return {{{1, 10, 100, 1000, 1, 2}, {2, 20, 200, 2000, 4, 8}, {4, 40, 400, 4000, 16, 32}}, 0, 0};
}

[[nodiscard]] std::string broken_rule(std::string const& schedule) {
    return support::thrown<cuota::usage_error>([&] { (void)simulate(three_stages(), schedule_of(schedule)); })
        .what();
}

// Three stages of 10 bytes that run for 10 time units; an offload takes 3 units per byte, a fetch 5.
[[nodiscard]] chain with_links() {
    return {{{10, 0, 0, 0, 10, 10}, {10, 0, 0, 0, 10, 10}, {10, 0, 0, 0, 10, 10}}, 3, 5};
}

}  // namespace

TEST_CASE("schedule_text writes each op as a letter and a stage", "[training][chain_simulation]") {
    std::string const text = "F0 S1 B1 D0 O12 I12";
    CHECK(cuota::schedule_text(schedule_of(text)) == text);
    CHECK(cuota::schedule_text({}).empty());
}

TEST_CASE("the simulated peak of a run that keeps everything equals the sum by hand",
          "[training][chain_simulation]") {
    chain_cost const run = simulate(three_stages(), schedule_of("S0 S1 S2 B2 B1 B0"));
    // B2 holds all records, the gradient of stage 1 and scratch.
    CHECK(run.peak == 11 + 22 + 44 + 2 + 4000);
    CHECK(run.peak_op == 3);
    CHECK(run.time == 63);
    CHECK(run.compute_time == 63);
    CHECK(run.forward_runs == 3);
    CHECK(run.recomputed == 0);
    CHECK(run.recomputed_time == 0);
    CHECK(run.host_peak == 0);
    CHECK(run.offloaded_bytes == 0);
}

TEST_CASE("each op holds the expected bytes while it runs", "[training][chain_simulation]") {
    auto const peak_with = [](std::size_t scratch_of, bool backward) {
        chain c = three_stages();
        for (cuota::chain_stage& s : c.stages) s.forward_scratch = s.backward_scratch = 0;
        (backward ? c.stages[scratch_of].backward_scratch : c.stages[scratch_of].forward_scratch) = 10'000;
        chain_cost const run = simulate(c, schedule_of("F0 F1 D0 S2 B2 D1 S0 S1 B1 B0"));
        return std::pair{run.peak, run.peak_op};
    };
    CHECK(peak_with(0, false) == std::pair<std::size_t, std::size_t>{10'000 + 2 + 11, 6});  // gradient of 1
    CHECK(peak_with(1, false) == std::pair<std::size_t, std::size_t>{10'000 + 11 + 22 + 2, 7});
    CHECK(peak_with(2, false) == std::pair<std::size_t, std::size_t>{10'000 + 2 + 44, 3});
    CHECK(peak_with(0, true) == std::pair<std::size_t, std::size_t>{10'000 + 11 + 1, 9});
    CHECK(peak_with(1, true) == std::pair<std::size_t, std::size_t>{10'000 + 11 + 22 + 2 + 1, 8});
    CHECK(peak_with(2, true) == std::pair<std::size_t, std::size_t>{10'000 + 2 + 44 + 2, 4});
}

TEST_CASE("recomputed stages are counted and timed", "[training][chain_simulation]") {
    chain_cost const run = simulate(three_stages(), schedule_of("F0 F1 D0 S2 B2 D1 F0 S1 B1 D0 S0 B0"));
    CHECK(run.forward_runs == 6);
    CHECK(run.recomputed == 3);
    CHECK(run.recomputed_time == 1 + 4 + 1);
    CHECK(run.time == 63 + 6);
    CHECK(run.compute_time == 63 + 6);
}

TEST_CASE("a record on the host uses no device memory from its offload to its fetch",
          "[training][chain_simulation]") {
    chain c = three_stages();
    for (cuota::chain_stage& s : c.stages) s.forward_scratch = s.backward_scratch = 0;
    chain_cost const run = simulate(c, schedule_of("S0 S1 O0 S2 B2 I0 B1 B0"));
    CHECK(run.peak == 22 + 44 + 2);  // B2, without stage 0
    CHECK(run.peak_op == 4);
    CHECK(run.host_peak == 11);
    CHECK(run.offloaded_bytes == 11);
    chain_cost const fetched_early = simulate(c, schedule_of("S0 S1 O0 S2 I0 B2 B1 B0"));
    CHECK(fetched_early.peak == 11 + 22 + 44 + 2);
    CHECK(fetched_early.host_peak == 11);
    chain_cost const twice = simulate(c, schedule_of("S0 S1 O0 S2 I0 O0 B2 I0 B1 B0"));
    CHECK(twice.host_peak == 11);
    CHECK(twice.offloaded_bytes == 22);
}

TEST_CASE("copies overlap with computation, and each link works independently",
          "[training][chain_simulation]") {
    // O0 runs from 10, when its record exists (S1 before it need not have finished), to 40; I0 from 40 to 90; B1 waits for I0.
    CHECK(simulate(with_links(), schedule_of("S0 S1 O0 S2 I0 B2 B1 B0")).time == 90 + 20);
    // Cheaper links: O0 ends at 11, but I0 starts with B2, the op before it, at 30 and ends at 35.
    chain c = with_links();
    c.offload_time_per_byte = 0.1;
    c.fetch_time_per_byte = 0.5;
    CHECK(simulate(c, schedule_of("S0 S1 O0 S2 B2 I0 B1 B0")).time == 60);
    c.fetch_time_per_byte = 1.5;  // I0 from 30 to 45, B1 waits from 40
    CHECK(simulate(c, schedule_of("S0 S1 O0 S2 B2 I0 B1 B0")).time == 65);
    CHECK(simulate(c, schedule_of("S0 S1 O0 S2 I0 B2 B1 B0")).time == 60);  // from 20 to 35
    c.fetch_time_per_byte = 0.5;
    c.offload_time_per_byte = 2.5;  // O0 from 10 to 35: I0 waits for O0, not for B2
    CHECK(simulate(c, schedule_of("S0 S1 O0 S2 B2 I0 B1 B0")).time == 60);
    c.offload_time_per_byte = 4;  // O0 from 10 to 50, I0 to 55, B1 and B0 to 75
    CHECK(simulate(c, schedule_of("S0 S1 O0 S2 B2 I0 B1 B0")).time == 75);
}

TEST_CASE("each link makes one copy at a time", "[training][chain_simulation]") {
    chain c = with_links();
    c.stages.push_back(c.stages[0]);
    c.offload_time_per_byte = 2;  // O0 10..30, O1 30..50
    c.fetch_time_per_byte = 2;    // I1 50..70, I0 70..90
    chain_schedule const both = schedule_of("S0 S1 O0 S2 O1 S3 I1 I0 B3 B2 B1 B0");
    CHECK(simulate(c, both).time == 110);
    CHECK(simulate(c, both).compute_time == 80);
    CHECK(simulate(c, both).host_peak == 20);
    // A forward run waits for a fetched input: O0 10..30, I0 30..50, then S1.
    c.stages.resize(2);
    CHECK(simulate(c, schedule_of("S0 O0 I0 S1 B1 B0")).time == 80);
    // A backward run waits for its own record.
    CHECK(simulate(c, schedule_of("S0 S1 O1 I1 B1 B0")).time == 60 + 20);
}

TEST_CASE("an invalid schedule is refused with the op and the rule", "[training][chain_simulation]") {
    auto const breaks = [](char const* schedule, char const* what) {
        INFO(schedule << " gave " << broken_rule(schedule));
        CHECK(support::has(broken_rule(schedule), what));
    };
    breaks("S0 S3", "schedule op 1, S3: the stage is out of range: the chain has 3 stages");
    breaks("F1", "schedule op 0, F1: the record of stage 0 must be on the device, but is not stored");
    breaks("S0 S2", "schedule op 1, S2: the record of stage 1 must be on the device, but is not stored");
    breaks("F0 D0 F1", "schedule op 2, F1: the record of stage 0 must be on the device, but is not stored");
    breaks("S0 O0 S1", "schedule op 2, S1: the record of stage 0 must be on the device, but is on the host");
    breaks("F0 S0", "schedule op 1, S0: the record is already on the device");
    breaks("F0 O0 F0", "schedule op 2, F0: the record is already on the host");
    breaks("S0 S1 S2 B1", "schedule op 3, B1: the next stage to run backward is stage 2");
    breaks("S0 S1 S2 B2 B2", "schedule op 4, B2: the next stage to run backward is stage 1");
    breaks("S0 S1 S2 B2 B1 B0 S0 B0", "schedule op 7, B0: all stages have already been run backward");
    breaks("F0 F1 B2", "schedule op 2, B2: the record of stage 2 must be on the device, but is not stored");
    breaks("S0 S1 F2 B2", "schedule op 3, B2: the forward run did not save for it");
    breaks("S0 S1 S2 O2 B2",
           "schedule op 4, B2: the record of stage 2 must be on the device, but is on the host");
    breaks("S0 S1 S2 D1 B2",
           "schedule op 4, B2: the record of stage 1 must be on the device, but is not stored");
    breaks("S0 S1 S2 O1 B2",
           "schedule op 4, B2: the record of stage 1 must be on the device, but is on the host");
    breaks("D0", "schedule op 0, D0: the record of stage 0 must be on the device, but is not stored");
    breaks("F0 O0 D0", "schedule op 2, D0: the record of stage 0 must be on the device, but is on the host");
    breaks("O0", "schedule op 0, O0: the record of stage 0 must be on the device, but is not stored");
    breaks("F0 O0 O0", "schedule op 2, O0: the record of stage 0 must be on the device, but is on the host");
    breaks("I0", "schedule op 0, I0: the record must be on the host, but is not stored");
    breaks("F0 I0", "schedule op 1, I0: the record must be on the host, but is on the device");
    breaks("", "incomplete schedule: stage 2 was not run backward");
    breaks("S0 S1 S2 B2 B1", "incomplete schedule: stage 0 was not run backward");
    breaks("S0 S1 S2 B2 B1 B0 F0", "incomplete schedule: the record of stage 0 is still on the device");
    breaks("S0 S1 S2 B2 B1 B0 F0 F1 O0 D1",
           "incomplete schedule: the record of stage 0 is still on the host");
}

TEST_CASE("errors of simulate have the call site of the caller", "[training][chain_simulation]") {
    unsigned const line = __LINE__ + 1;
    auto const op = support::thrown<cuota::usage_error>([&] { (void)simulate(three_stages(), {{}, {}}); });
    CHECK(op.where().line == line);
    CHECK_THROWS_AS(simulate({}, {}), cuota::usage_error);
}
