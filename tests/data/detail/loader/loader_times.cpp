// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/loader_times.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

#include "support/catch.hpp"

using cuota::detail::loader_times;
using namespace std::chrono_literals;

TEST_CASE("loader_times sums the times of an epoch and starts again with the next epoch",
          "[data][loader_times]") {
    loader_times times;
    CHECK(times.now().elapsed == 0ns);
    times.begin(4);
    times.filled({.waiting = 1ms, .drawing = 2ms, .reading = 3ms});
    times.filled({.waiting = 10ms, .drawing = 20ms, .reading = 30ms});
    times.copied(100);
    times.copied(50);
    times.waits();
    std::this_thread::sleep_for(1ms);
    times.waits_no_more();
    times.delivered(16);
    times.delivered(3);
    cuota::loader_stats const s = times.now();
    CHECK(times.epoch() == 4);
    CHECK(s.epoch == 4);
    CHECK(s.waiting_for_slots == 11ms);
    CHECK(s.drawing == 22ms);
    CHECK(s.reading == 33ms);
    CHECK(s.bytes == 150);
    CHECK(s.waiting_for_batches >= 1ms);
    CHECK(s.batches == 2);
    CHECK(s.samples == 19);

    times.begin(5);
    CHECK(times.now().batches == 0);
    CHECK(times.now().epoch == 5);
}

TEST_CASE("activities in progress count up to the present", "[data][loader_times]") {
    loader_times times;
    times.have_workers(4);
    times.goes_on(0, cuota::detail::worker_stage::waiting);
    times.begin(0);
    times.waits();
    std::uint64_t const samples[] = {30, 7, 39};
    times.goes_on(1, cuota::detail::worker_stage::reading, samples);
    times.goes_on(2, cuota::detail::worker_stage::drawing);
    std::this_thread::sleep_for(2ms);
    times.goes_on(3, cuota::detail::worker_stage::reading, samples);
    cuota::loader_stats const s = times.now();
    CHECK(s.waiting_for_slots >= 2ms);
    CHECK(s.waiting_for_slots <= s.elapsed);  // without the time before the epoch
    CHECK(s.drawing >= 2ms);
    CHECK(s.reading >= 2ms);
    CHECK(s.waiting_for_batches >= 2ms);
    REQUIRE(s.longest_read);
    CHECK(s.longest_read->worker == 1);
    CHECK(s.longest_read->lasted >= 2ms);
    CHECK(s.longest_read->first == 30);
    CHECK(s.longest_read->last == 39);

    times.waits_no_more();
    for (std::size_t worker = 0; worker != 4; ++worker)
        times.goes_on(worker, cuota::detail::worker_stage::idle);
    times.end();
    auto const waited = times.now().waiting_for_batches;
    CHECK(waited >= 2ms);
    std::this_thread::sleep_for(1ms);
    CHECK(times.now().waiting_for_batches == waited);
    CHECK(times.now().reading == 0ns);  // of batches that were not filled
    CHECK_FALSE(times.now().longest_read);
}

TEST_CASE("the elapsed time of an epoch stops when the epoch first ends", "[data][loader_times]") {
    loader_times times;
    times.begin(0);
    std::this_thread::sleep_for(1ms);
    auto const early = times.now().elapsed;
    CHECK(early >= 1ms);
    std::this_thread::sleep_for(1ms);
    CHECK(times.now().elapsed >= early + 1ms);
    times.end();
    auto const whole = times.now().elapsed;
    std::this_thread::sleep_for(1ms);
    times.end();
    CHECK(times.now().elapsed == whole);
}

TEST_CASE("a stopwatch adds the duration of its scope", "[data][loader_times]") {
    std::chrono::nanoseconds sum = 5s;
    {
        cuota::detail::stopwatch const time{sum};
        std::this_thread::sleep_for(1ms);
    }
    CHECK(sum >= 5s + 1ms);
}
