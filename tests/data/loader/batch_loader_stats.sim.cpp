// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_loader.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"

namespace sim = cuota::simulator;
using support::machine;
using support::numbered_source;
using namespace std::chrono_literals;

namespace {

struct nothing {
    CUOTA_HOST_DEVICE void operator()(std::size_t) const {}
};

cuota::loader_stats stats_of(cuota::batch_loader& loader) {
    cuota::stream const s;
    for (cuota::batch b : loader.epoch(1)) {
        (void)b.view<std::uint32_t>(s);
        cuota::for_each_index(s, 1, nothing{});
    }
    s.synchronize();
    return loader.stats();
}

}  // namespace

TEST_CASE("batch_loader reports the progress of an epoch and its times", "[data][batch_loader][stats]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{22}, {.batch_size = 4, .workers = 2}};
    CHECK(loader.stats().elapsed == 0ns);
    CHECK(loader.stats().batches == 0);
    {
        auto epoch = loader.epoch(7);
        (void)epoch.next();
        (void)epoch.next();
        cuota::loader_stats const half = loader.stats();
        CHECK(half.epoch == 7);
        CHECK(half.batches == 2);
        CHECK(half.total_batches == 6);
        CHECK(half.samples == 8);
        CHECK(half.workers == 2);
        CHECK(half.elapsed > 0ns);
        CHECK_FALSE(half.copying);
        while (epoch.next()) {}
    }
    cuota::loader_stats const whole = loader.stats();
    CHECK(whole.batches == 6);
    CHECK(whole.samples == 22);
    // Each field of a batch is aligned, and the padding is copied as well.
    CHECK(whole.bytes >= 22 * loader.plan().host_slot.sample_bytes);
    CHECK(whole.bytes <= 6 * loader.plan().host_slot.bytes);
    CHECK(loader.stats().elapsed == whole.elapsed);  // the epoch has finished
    (void)loader.epoch(8);
    CHECK(loader.stats().batches == 0);
    CHECK(loader.stats().epoch == 8);
}

TEST_CASE("a loader whose slots cannot be pinned uses and reports pageable slots, if its options allow it",
          "[data][batch_loader][stats]") {
    machine on;
    cuota::stream const s;
    cuota::loader_options how{.batch_size = 4};
    sim::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    CHECK_THROWS_AS((cuota::batch_loader{numbered_source{22}, how}), cuota::out_of_memory);

    how.on_pin_failure = cuota::pin_failure_policy::use_pageable;
    sim::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    cuota::batch_loader slow{numbered_source{22}, how};
    CHECK(on.errors.take().size() == 1);
    CHECK_FALSE(slow.stats().is_pinned);
    CHECK(stats_text(slow.stats()).find("the slots are not pinned") != std::string::npos);
    std::uint32_t expected = 0;
    for (cuota::batch b : slow.epoch(0))
        for (std::uint32_t const value : support::seen_by(s, b)) CHECK(value == expected++);
    CHECK(expected == 22);

    cuota::batch_loader fast{numbered_source{22}, how};
    CHECK(fast.stats().is_pinned);
    CHECK(stats_text(fast.stats()).find("not pinned") == std::string::npos);
}

TEST_CASE("batch_loader adds each stage's time to that stage", "[data][batch_loader][stats]") {
    machine const on;
    std::chrono::milliseconds reading = 0ms;
    numbered_source from{48};
    from.before_each([&](std::span<std::uint64_t const>) { std::this_thread::sleep_for(reading); });
    cuota::batch_loader loader{from, {.batch_size = 4, .time_copies = true}};

    reading = 4ms;
    cuota::loader_stats s = stats_of(loader);
    CHECK(s.reading >= 48ms);
    CHECK(s.elapsed >= 48ms);
    CHECK(s.waiting_for_batches > 0ms);
    reading = 0ms;

    sim::link_options link;
    link.latency = 4ms;
    sim::set_link(link);
    s = stats_of(loader);
    CHECK(s.copying.value() >= 40ms);

    link.latency = 0ms;
    link.kernel = 4ms;
    sim::set_link(link);
    s = stats_of(loader);
    CHECK(s.waiting_for_slots >= 4ms);  // the third copy into a slot waits for the first batch's kernel

    cuota::batch_loader untimed{numbered_source{48}, {.batch_size = 4}};
    CHECK_FALSE(stats_of(untimed).copying);
}

TEST_CASE("a failure while a copy is timed is thrown in place of the batch", "[data][batch_loader][stats]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{12}, {.batch_size = 4, .time_copies = true}};
    sim::fail_call("cudaEventCreate", 2);
    {
        auto epoch = loader.epoch(0);
        CHECK_THROWS_AS(epoch.next(), cuota::cuda_error);
    }
    std::uint64_t batches = 0;
    for (cuota::batch b : loader.epoch(0)) batches += b.size() != 0;
    CHECK(batches == 3);
}

TEST_CASE("the statistics name a read that does not return", "[data][batch_loader][stats]") {
    machine const on;
    std::mutex guard;
    std::condition_variable changed;
    bool is_held = true;
    numbered_source from{40};
    from.before_each([&](std::span<std::uint64_t const> samples) {
        std::unique_lock lock{guard};
        if (samples[0] == 8) changed.wait(lock, [&] { return !is_held; });
    });
    cuota::batch_loader loader{from, {.batch_size = 4, .workers = 1}};
    auto epoch = loader.epoch(0);
    (void)epoch.next();
    (void)epoch.next();
    cuota::loader_stats s;
    while (!epoch.wait_for(5ms))
        if (s = loader.stats(); s.bottleneck() == cuota::loader_stage::reading) break;
    REQUIRE(s.longest_read);
    CHECK(s.longest_read->worker == 0);
    CHECK(s.longest_read->first == 8);
    CHECK(s.longest_read->last == 11);
    CHECK(s.longest_read->dataset == std::string{from.name()});
    CHECK(s.reading >= s.longest_read->lasted);
    CHECK(s.waiting_for_batches >= 5ms);  // from wait_for calls that timed out
    {
        std::lock_guard const lock{guard};
        is_held = false;
    }
    changed.notify_all();
    while (epoch.next()) {}
}
