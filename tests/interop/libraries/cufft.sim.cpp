// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// On the simulated library.
#include <cuota/interop/libraries/cufft.hpp>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/async_memory.hpp>

#include "interop/libraries/what_of.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

namespace {

auto plan_of(int n, int batch) {
    return [=](cufftHandle p, std::size_t* bytes) { return cufftMakePlan1d(p, n, CUFFT_C2C, batch, bytes); };
}

}  // namespace

TEST_CASE("a plan's work area is charged while a scope lives", "[interop][cufft]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 64_KiB};
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::budgeted<cuota::async_memory>{budget}, plan_of(16, 8)};
    CHECK(plan.workspace_bytes() == 16 * 8 * sizeof(cufftComplex));
    CHECK(budget.held() == 0);
    std::vector<cufftComplex> wave(16 * 8);
    for (std::size_t i = 0; i != wave.size(); ++i)
        wave[i] = {static_cast<float>(std::cos(2 * std::acos(-1.0) * static_cast<double>(i % 16) / 16)), 0};
    cuota::device_buffer<cufftComplex> x{wave, s, cuota::async_memory{}};
    {
        auto const on = plan.on(s);
        CHECK(budget.held() == 1_KiB);
        auto const all = x.write(s);
        cuota::cufft_plan::check(cufftExecC2C(on, all, all, CUFFT_FORWARD), "cufftExecC2C");
    }
    CHECK(budget.held() == 0);
    auto const lines = x.to_vector(s);
    for (std::size_t i = 0; i != lines.size(); ++i) {
        CHECK(lines[i].x == Approx(i % 16 == 1 || i % 16 == 15 ? 8 : 0).margin(1e-4));
        CHECK(lines[i].y == Approx(0).margin(1e-4));
    }
}

TEST_CASE("outside of a scope a plan has no work area", "[interop][cufft]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::async_memory{}, plan_of(16, 1)};
    cuota::device_buffer<cufftComplex> x{16, s, cuota::async_memory{}};
    cufftHandle native = 0;
    { native = plan.on(s); }
    auto const all = x.write(s);
    CHECK(cufftExecC2C(native, all, all, CUFFT_FORWARD) == CUFFT_NO_WORKSPACE);
}

TEST_CASE("a plan that cuFFT rejects is an error, and leaves nothing", "[interop][cufft]") {
    support::machine const machine;
    std::string const text = what_of<cuota::library_error>([] {
        cuota::cufft_plan const plan{cuota::async_memory{}, plan_of(0, 1)};
    });
    CHECK(support::has(text, "cufftMakePlan failed: status 8"));
    CHECK(support::has(text, "cufft.sim.cpp"));
}

TEST_CASE("a work area that does not fit is refused", "[interop][cufft]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 1_KiB};
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::budgeted<cuota::async_memory>{budget}, plan_of(256, 1), "transform"};
    CHECK(support::has(what_of<cuota::budget_exceeded>([&] { (void)plan.on(s); }), "transform"));
}

TEST_CASE("a moved-from cufft_plan refuses each use", "[interop][cufft][moved_from]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::async_memory{}, plan_of(16, 1)};
    cuota::cufft_plan const other{std::move(plan)};
    CHECK(other.workspace_bytes() == 16 * sizeof(cufftComplex));
    CHECK_THROWS_AS(plan.on(s), cuota::usage_error);
}
