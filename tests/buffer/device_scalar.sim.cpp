// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_scalar.hpp>

#include <thread>
#include <utility>

#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

namespace simulator = cuota::simulator;

namespace {

using number = cuota::device_scalar<double>;

}  // namespace

TEST_CASE("the value that is passed to set or set_async may be destroyed after the call",
          "[buffer][device_scalar]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::staging_ring ring{1, 64};
    number some{stream, cuota::device_memory{}};
    support::gate gate{stream};

    SECTION("set waits until the value is copied") {
        std::thread opener{[&] { gate.open(); }};
        some.set(2.5, stream);
        opener.join();
        CHECK(stream.is_idle());
    }
    SECTION("set_async copies the value into a slot") {
        {
            double value = 2.5;
            some.set_async(value, ring, stream);
            value = -1;
        }
        CHECK_FALSE(stream.is_idle());
        gate.open();
    }
    CHECK(some.get() == 2.5);
}

TEST_CASE("get_async returns the value that a device_scalar had when it was called",
          "[buffer][device_scalar]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::staging_ring ring{1, 64};
    number some{1.0, stream, cuota::device_memory{}};
    cuota::pinned_buffer<double> slot{1};
    support::gate gate{stream};

    auto const first = some.get_async(std::move(slot), stream);
    some.set_async(2.0, ring, stream);
    CHECK_FALSE(first.is_done());
    gate.open();

    CHECK(first.get()[0] == 1.0);
    CHECK(some.get() == 2.0);
}

TEST_CASE("a device_scalar survives the failure of any CUDA call, and leaks nothing",
          "[buffer][device_scalar]") {
    support::machine machine;
    cuota::budget budget{"test", 1_MiB};

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const home;
        cuota::stream const other;
        cuota::scoped_pool pool{budget};
        cuota::staging_ring ring{1, 64};
        number some{1.0, home, pool};
        some.set(2.0, other);
        some.set_async(3.0, ring, home);
        auto const pending = some.get_async(other);
        number moved{std::move(some)};
        some.set(4.0, home);
        (void)moved.get(other);
        (void)pending.get();
    });

    CHECK(seen.thrown > 20);
    CHECK(budget.held() == 0);
}

TEST_CASE("an empty device_scalar stays empty when set fails", "[buffer][device_scalar]") {
    support::machine machine;
    cuota::stream const stream;
    number first{1.0, stream, cuota::device_memory{}};
    number const second{std::move(first)};
    std::uint64_t nth = 0;
    for (bool was_used = true; was_used;) {
        number const away{std::move(first)};
        auto const injected = simulator::faults_injected();
        simulator::fail_call(nullptr, ++nth, cudaErrorUnknown);
        bool threw = false;
        try {
            first.set(2.0, stream);
        } catch (cuota::cuda_error const&) { threw = true; }
        simulator::clear_faults();
        was_used = simulator::faults_injected() != injected;
        (void)machine.errors.take();
        INFO("call " << nth << " fails");
        REQUIRE(first.is_empty() == threw);
    }
    CHECK(nth > 2);
    CHECK(first.get() == 2.0);
}
