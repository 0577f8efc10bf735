// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include <atomic>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

TEST_CASE("a launch returns before its work has finished", "[runtime][for_each_index]") {
    support::machine const sim;
    cuota::stream const s;
    std::atomic<int> ran = 0;
    {
        cuota::simulator::hold const nothing_runs;
        cuota::for_each_index(s, 5, [&ran](std::size_t) { ++ran; });
        REQUIRE(ran == 0);
        REQUIRE(!s.is_idle());
    }
    s.synchronize();
    REQUIRE(ran == 5);
}

TEST_CASE("a launch reports its own error only, not an earlier one", "[runtime][for_each_index]") {
    support::machine const sim;
    cuota::simulator::set_unkindness({.stale_errors = true});
    std::atomic<int> ran = 0;
    {
        cuota::stream const s;
        REQUIRE_NOTHROW(cuota::for_each_index(s, 5, [&ran](std::size_t) { ++ran; }));
        REQUIRE(cudaGetLastError() == cudaErrorInvalidTexture);  // the stale error is still there
        s.synchronize();
    }
    REQUIRE(ran == 5);
}

TEST_CASE("an exception in a kernel is thrown at the next wait, with its text", "[runtime][for_each_index]") {
    support::machine sim;
    {
        cuota::stream const s;
        cuota::for_each_index(
            s, 3,
            [](std::size_t i) {
                if (i == 1) throw std::out_of_range{"index 12 of 10"};
            },
            "relu");
        auto const error = support::thrown<cuota::cuda_error>([&] { s.synchronize(); });
        REQUIRE(error.code() == cudaErrorLaunchFailure);
        REQUIRE(support::has(error.what(), "kernel relu at for_each_index.sim.cpp:"));
        REQUIRE(support::has(error.what(), " threw: index 12 of 10"));

        // The error is sticky, as on a real device.
        REQUIRE_THROWS_AS(cuota::for_each_index(s, 1, [](std::size_t) {}), cuota::cuda_error);
    }
    (void)sim.errors.take();
    cuota::simulator::reset();
}

TEST_CASE("the error of a failed launch names the kernel and the call site, and nothing runs",
          "[runtime][for_each_index]") {
    support::machine sim;
    cuota::stream const s;
    std::atomic<int> ran = 0;
    cuota::simulator::fail_call("cuota_simulator_launch", 1, cudaErrorLaunchOutOfResources);
    auto const count = [&ran](std::size_t) { ++ran; };
    unsigned line = 0;
    auto const error = support::thrown<cuota::cuda_error>([&] {
        line = __LINE__ + 1;
        cuota::for_each_index(s, 5, count, "relu");
    });
    REQUIRE(error.call() == "relu");
    REQUIRE(error.where().line == line);
    s.synchronize();
    REQUIRE(ran == 0);
}

TEST_CASE("kernels and events run on their stream's device, whichever device is current",
          "[runtime][for_each_index]") {
    support::machine const sim{{.devices = 2}};
    std::atomic<int> ran = 0;
    {
        auto const made_on = [](int ordinal) {
            cuota::device_scope const here{cuota::device{ordinal}};
            return cuota::stream{};
        };
        cuota::stream const other = made_on(1);
        REQUIRE(cuota::device::current() == cuota::device{0});
        cuota::for_each_index(other, 3, [&ran](std::size_t) { ++ran; });
        cuota::event const done{other};
        done.synchronize();
        REQUIRE(ran == 3);
        REQUIRE(cuota::device::current() == cuota::device{0});
    }
}
