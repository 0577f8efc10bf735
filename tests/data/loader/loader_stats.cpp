// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/loader_stats.hpp>

#include <chrono>
#include <string>

#include "support/catch.hpp"

using cuota::loader_stage;
using cuota::loader_stats;
using namespace std::chrono_literals;

namespace {

loader_stats half_way() {
    return {.epoch = 3,
            .batches = 500,
            .total_batches = 1000,
            .samples = 32'000,
            .bytes = std::uint64_t{500} << 20,
            .workers = 2,
            .elapsed = 10s};
}

}  // namespace

TEST_CASE("loader_stats names no bottleneck at the beginning of an epoch", "[data][loader_stats]") {
    CHECK(loader_stats{}.bottleneck() == loader_stage::none);
    loader_stats first = half_way();
    first.batches = 1;
    first.reading = 10s;
    CHECK(first.bottleneck() == loader_stage::none);
    CHECK(loader_stats{}.share(1s) == 0.0);
    CHECK(loader_stats{}.batches_per_second() == 0.0);
}

TEST_CASE("loader_stats names the stage that limits the throughput", "[data][loader_stats]") {
    loader_stats s = half_way();

    s.reading = 19s;
    s.waiting_for_batches = 900ms;
    CHECK(s.bottleneck() == loader_stage::consumer);  // batches are ready when the program asks

    s.waiting_for_batches = 6s;
    s.waiting_for_slots = 1s;
    CHECK(s.bottleneck() == loader_stage::reading);
    s.drawing = 1s;
    s.reading = 100ms;
    CHECK(s.bottleneck() == loader_stage::reading);

    s.waiting_for_slots = 18s;
    CHECK(s.bottleneck() == loader_stage::device);
    s.copying = 9500ms;
    CHECK(s.bottleneck() == loader_stage::transfer);
    s.copying = 2s;
    CHECK(s.bottleneck() == loader_stage::compute);
}

TEST_CASE("share is relative to the epoch's time, and worker_fraction to the time of all workers",
          "[data][loader_stats]") {
    loader_stats const s = half_way();
    CHECK(s.share(4s) == 0.4);
    CHECK(s.share(11s) == 1.0);
    CHECK(s.worker_fraction(4s) == 0.2);
    CHECK(s.batches_per_second() == 50.0);
}

TEST_CASE("stats_text names the bottleneck and a remedy in one line", "[data][loader_stats]") {
    loader_stats s = half_way();
    s.reading = 19s;
    s.waiting_for_batches = 6100ms;
    CHECK(cuota::stats_text(s) == "epoch 3: 500 of 1000 batches, 50.0 a second (50.0 MiB/s); 2 workers read "
                                  "95 % of the time and wait 0 % for the device, the program waits 61 % for "
                                  "batches; bottleneck: reading (try more workers or faster storage)");
    s.workers = 1;
    s.reading = 1s;
    s.waiting_for_slots = 8s;
    s.copying = 9900ms;
    CHECK(cuota::stats_text(s) ==
          "epoch 3: 500 of 1000 batches, 50.0 a second (50.0 MiB/s); 1 worker reads 10 % of the time and "
          "waits 80 % for the device, the link is busy 99 %, the program waits 61 % for batches; bottleneck: "
          "copying to the device (try smaller elements, such as u8 that the device converts)");
    CHECK(cuota::stats_text(loader_stats{.total_batches = 7}) ==
          "epoch 0: 0 of 7 batches, 0.0 a second (0 B/s)");
    CHECK(cuota::stats_text(loader_stats{.batches = 3, .covered = 0.25}) ==
          "epoch 0: 3 batches, 25 % of the samples, 0.0 a second (0 B/s)");
}

TEST_CASE("stats_text names a read that has lasted longer than a second", "[data][loader_stats]") {
    cuota::loader_stats s;
    s.longest_read = cuota::loader_read{2, std::chrono::milliseconds{3'040}, 30, 39, "nfs"};
    CHECK(stats_text(s).ends_with("; worker 2 has been reading samples 30 to 39 of nfs for 3.0 s"));
    s.longest_read->lasted = std::chrono::milliseconds{999};
    CHECK(stats_text(s).find("has been reading") == std::string::npos);
}
