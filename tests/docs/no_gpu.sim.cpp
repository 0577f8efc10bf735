// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/no_gpu.md.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/simulator.hpp>
#include <cuota/simulator/host_kernel.hpp>

#include "docs/page.hpp"
#include "support/machine.hpp"

namespace {

using namespace cuota::literals;

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

/// Removes the parts that differ between runs: addresses, numbers of streams and allocations, line breaks.
std::string without_numbers(std::string const& text) {
    return std::regex_replace(
        std::regex_replace(text, std::regex{"0x[0-9a-f]+|#[0-9]+|\\(schedule .*\\)"}, ""), std::regex{"\\s+"},
        " ");
}

// Stands for nvcc's host stub of a kernel; only its address matters.
void halve(float*, int) { throw std::logic_error{"never called"}; }

TEST_CASE("no GPU: a kernel of one's own has a body for the host", "[docs]") {
    support::machine const machine;
    {
#include "no_gpu/body.inc"
    } cuota::stream stream;
    cuota::device_buffer<float> x{3, 1.0f, stream, cuota::device_memory{}};
    {
        auto const lease = x.write(stream);
        float* at = cuota::device_span<float>{lease}.data();
        int count = 3;
        void* arguments[] = {&at, &count};
        auto const kernel = reinterpret_cast<void const*>(halve);
        CHECK(cudaLaunchKernel(kernel, {1, 1, 1}, {1, 1, 1}, arguments, 0, stream.get()) == cudaSuccess);
    }
    CHECK(x.to_vector(stream) == std::vector<float>{0.5f, 0.5f, 0.5f});
    cuota::simulator::run_on_host(reinterpret_cast<void const*>(halve), {});
}

TEST_CASE("no GPU: a race is named with both places", "[docs]") {
    support::machine const machine;
    cuota::simulator::set_race_checks(cuota::simulator::race_checks::report);
    {
#include "no_gpu/race.inc"
        work.synchronize();
        copies.synchronize();
    }
    page::check_prints(
        "no_gpu/race", [] { std::puts(cuota::simulator::race_reports().back().c_str()); }, without_numbers);
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
    (void)machine.errors.take();  // discards the errors that destructors reported
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
