// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/no_gpu.md.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <regex>
#include <stdexcept>
#include <string>

#include <cuota/simulator/simulator.hpp>

#include "docs/page.hpp"
#include "support/machine.hpp"

namespace {

using namespace cuota::literals;

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

/// Without what differs from run to run: addresses, numbers of streams and allocations, how lines are broken.
std::string without_numbers(std::string const& text) {
    return std::regex_replace(
        std::regex_replace(text, std::regex{"0x[0-9a-f]+|#[0-9]+|\\(schedule .*\\)"}, ""), std::regex{"\\s+"},
        " ");
}

TEST_CASE("no GPU: a race is named with both places", "[docs]") {
    support::machine const machine;
    {
#include "no_gpu/race.inc"
        work.synchronize();
        copies.synchronize();
    }
    page::check_prints(
        "no_gpu/race", [] { std::puts(cuota::simulator::order_reports().back().c_str()); }, without_numbers);
    cuota::simulator::reset();
}

TEST_CASE("no GPU: a planned fault is a refusal, and nothing is lost", "[docs]") {
    support::machine const machine;
    page::check_prints("no_gpu/fault", [] {
#include "no_gpu/fault.inc"
    });
    cuota::simulator::reset();
}

TEST_CASE("no GPU: every call fails in turn", "[docs]") {
    namespace sim = cuota::simulator;
    support::machine machine;
    std::size_t steps = 0;
    auto const step = [&] {
        cuota::stream const stream;
        cuota::device_buffer<float> x{1000, stream, cuota::device_memory{}, "x"};
        cuota::for_each_index(stream, x.size(), twice{x.write(stream)});
        (void)x.to_vector(stream);
        ++steps;
    };
#include "no_gpu/every_failure.inc"
    CHECK(steps >= 1);
    (void)machine.errors.take();  // what failed in destructors
}

TEST_CASE("no GPU: nothing runs until the test says so", "[docs]") {
    namespace sim = cuota::simulator;
    support::machine const machine;
    cuota::stream const stream;
    page::check_prints("no_gpu/hold", [&] {
#include "no_gpu/hold.inc"
    });
}

}  // namespace
