// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// On the simulated library.
#include <cuota/interop/libraries/cufft.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

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
    std::string const text = support::thrown<cuota::library_error>([] {
                                 cuota::cufft_plan const plan{cuota::async_memory{}, plan_of(0, 1)};
                             }).what();
    CHECK(support::has(text, "cufftMakePlan failed: status 8"));
    CHECK(support::has(text, "cufft.sim.cpp"));
}

TEST_CASE("a plan without room for its tables gets idle memory, and a new handle for each try",
          "[interop][cufft]") {
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 60_MiB}};
    { cuota::device_buffer<char> const used{56_MiB, s, pool}; }
    s.synchronize();
    std::vector<cufftHandle> handles;
    auto const make = [&](cufftHandle p, std::size_t* bytes) {
        handles.push_back(p);
        if (cuota::device{0}.memory().free < 34_MiB) return CUFFT_ALLOC_FAILED;
        return cufftMakePlan1d(p, 16, CUFFT_C2C, 1, bytes);
    };
    { cuota::cufft_plan const plan{pool, make}; }
    REQUIRE(handles.size() == 2);
    CHECK(handles[0] != handles[1]);
    CHECK(cufftDestroy(handles[0]) == CUFFT_INVALID_PLAN);
    cuota::device_buffer<char> const used{56_MiB, s, pool};
    std::string const text = support::thrown<cuota::out_of_memory>([&] {
                                 cuota::cufft_plan const plan{pool, make};
                             }).what();
    CHECK(support::has(text, "cufftMakePlan: not enough free memory on the device"));
}

TEST_CASE("if the function that makes a plan throws, the handle of the plan is destroyed",
          "[interop][cufft]") {
    support::machine const machine;
    cufftHandle made = 0;
    auto const make = [&](cufftHandle p, std::size_t*) -> cufftResult {
        made = p;
        throw 7;
    };
    CHECK_THROWS_AS((cuota::cufft_plan{cuota::async_memory{}, make}), int);
    CHECK(cufftDestroy(made) == CUFFT_INVALID_PLAN);
}

TEST_CASE("a work area that does not fit is refused", "[interop][cufft]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 1_KiB};
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::budgeted<cuota::async_memory>{budget}, plan_of(256, 1), "transform"};
    CHECK(
        support::has(support::thrown<cuota::budget_exceeded>([&] { (void)plan.on(s); }).what(), "transform"));
}

TEST_CASE("a moved-from cufft_plan refuses each use", "[interop][cufft][moved_from]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::cufft_plan plan{cuota::async_memory{}, plan_of(16, 1)};
    cuota::cufft_plan const other{std::move(plan)};
    CHECK(other.workspace_bytes() == 16 * sizeof(cufftComplex));
    CHECK_THROWS_AS(plan.on(s), cuota::usage_error);
}
