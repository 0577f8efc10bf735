// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Rules of a diagnosis on programs whose work is delayed, and beside other programs.

#include <cuota/report/diagnosis/diagnosis.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/simulator.hpp>

#include "report/program_samples.hpp"
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using cuota::finding_kind;
using program_samples::is_told;
using program_samples::program;
using program_samples::shown;

TEST_CASE("program: freed memory is pending until its stream has reached the free",
          "[report][diagnosis_programs]") {
    program p{256_MiB};
    void* const at = p.take(64_MiB, "batch");
    p.take(32_MiB, "weights");
    support::gate closed{p.stream};
    p.give(at);
    auto const found = p.found(finding_kind::pending);
    INFO(shown(found));
    CHECK(is_told(found, {}, 0, 64_MiB,
                  "64.0 MiB wait for stream " + std::to_string(cuota::stream_ref{p.stream}.id())));
    CHECK(found.at(0).reference_bytes == 96_MiB);
    CHECK(found.at(0).count == 1);
    closed.open();
    p.stream.synchronize();
    CHECK(p.found(finding_kind::pending).empty());
}

TEST_CASE("program: device memory that other programs allocate after the baseline is reported",
          "[report][diagnosis_programs]") {
    support::machine const machine{{1, 2_GiB}};
    cuota::simulator::set_other_programs(0, 100_MiB);
    {
        program p{cuota::budget::for_device(cuota::device::current()), {}};
        CHECK(p.budget.record_baseline() == 100_MiB);
        p.take(16_MiB, "weights");
        cuota::simulator::set_other_programs(0, 355_MiB);
        CHECK(p.found(finding_kind::external).empty());
        cuota::simulator::set_other_programs(0, 356_MiB);
        auto const found = p.found(finding_kind::external);
        INFO(shown(found));
        CHECK(is_told(found, {}, 0, 256_MiB, "356.0 MiB are held outside cuota"));
        CHECK(found.at(0).text.find("at the start it was 100.0 MiB") != std::string::npos);
        CHECK(found.at(0).reference_bytes == 16_MiB);
        CHECK(found.at(0).level == cuota::severity::warning);
    }
    cuota::simulator::set_other_programs(0, 0);
}
