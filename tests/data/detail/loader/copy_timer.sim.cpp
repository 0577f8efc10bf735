// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/copy_timer.hpp>

#include <chrono>
#include <cstddef>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

namespace sim = cuota::simulator;
using cuota::detail::copy_timer;
using namespace std::chrono_literals;

TEST_CASE("copy_timer sums the durations of copies, without the time for which they waited",
          "[data][copy_timer]") {
    support::machine const on;
    cuota::stream const s;
    cuota::pinned_buffer<std::byte> const from{1 << 20};
    cuota::device_buffer<std::byte> to{1 << 20, s, cuota::device_memory{}};
    copy_timer clock{3};
    CHECK(clock.busy() == 0ns);
    sim::set_link({.to_device = std::uint64_t{1} << 30});  // about 1 ms per copy
    for (int i = 0; i != 10; ++i) {
        if (i == 4) s.synchronize();
        clock.begin(s);
        from.upload(to, s);
        clock.end(s);
        if (i % 3 == 2) s.synchronize();
    }
    s.synchronize();
    CHECK(clock.busy() >= 9ms);
    CHECK(clock.busy() == clock.busy());  // counts each copy once

    clock.forget();
    CHECK(clock.busy() == 0ns);
}

TEST_CASE("copy_timer does not count copies that are in progress", "[data][copy_timer]") {
    support::machine const on;
    cuota::stream const s;
    copy_timer clock{2};
    {
        sim::hold const nothing_runs;
        clock.begin(s);
        clock.end(s);
        CHECK(clock.busy() == 0ns);
    }
    s.synchronize();
    CHECK_NOTHROW(clock.busy());
}

TEST_CASE("copy_timer does not count a copy whose end was not recorded", "[data][copy_timer]") {
    support::machine const on;
    cuota::stream const s;
    copy_timer clock{1};
    clock.begin(s);
    sim::fail_call("cudaEventCreate", 1);
    CHECK_THROWS_AS(clock.end(s), cuota::cuda_error);
    s.synchronize();
    CHECK(clock.busy() == 0ns);
    clock.begin(s);
    clock.end(s);
    s.synchronize();
    CHECK_NOTHROW(clock.busy());
}
