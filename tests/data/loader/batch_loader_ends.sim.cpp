// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using support::has;
using support::machine;
using support::numbered_source;
using support::thrown;

namespace {

std::uint64_t batches_of(cuota::batch_loader& loader, std::uint64_t epoch) {
    std::uint64_t n = 0;
    for (cuota::batch b : loader.epoch(epoch)) n += b.size() != 0;
    return n;
}

// A dataset whose gathers block until `go_on` is set.
struct held_source {
    explicit held_source(std::uint64_t samples) : from{samples} {
        from.before_each([this](std::span<std::uint64_t const>) {
            reading.count_down();
            go_on.wait(false);
        });
    }
    void let_go() {
        go_on = true;
        go_on.notify_all();
    }
    numbered_source from;
    std::latch reading{1};
    std::atomic<bool> go_on = false;
};

}  // namespace

// ---- stop ----

TEST_CASE("a stopped epoch delivers no more batches, and can be resumed at that position",
          "[data][batch_loader][stop]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{40}, {.batch_size = 4, .seed = 1}};
    std::vector<std::uint64_t> whole;
    for (cuota::batch b : loader.epoch(0)) whole.insert(whole.end(), b.samples().begin(), b.samples().end());

    std::stop_source stop;
    std::vector<std::uint64_t> seen;
    for (cuota::batch b : loader.epoch(0, stop.get_token())) {
        seen.insert(seen.end(), b.samples().begin(), b.samples().end());
        if (b.index() == 3) stop.request_stop();
    }
    CHECK(seen.size() == 16);
    auto rest = loader.epoch(loader.state());
    while (auto const b = rest.next()) seen.insert(seen.end(), b->samples().begin(), b->samples().end());
    CHECK(seen == whole);
}

TEST_CASE("stopping an epoch wakes a program that waits for a batch", "[data][batch_loader][stop]") {
    machine const on;
    held_source held{20};
    std::stop_source stop;
    bool const by_wait_for = GENERATE(false, true);
    cuota::batch_loader loader{held.from, {.batch_size = 4}};
    {
        auto epoch = loader.epoch(0, stop.get_token());
        held.reading.wait();
        std::jthread const other{[&] { stop.request_stop(); }};
        if (by_wait_for) CHECK(epoch.wait_for(std::chrono::hours{1}));
        CHECK_FALSE(epoch.next());
        CHECK_FALSE(epoch.next());
        CHECK(epoch.wait_for(std::chrono::hours{1}));
    }
    held.let_go();
    CHECK(batches_of(loader, 0) == 5);
}

TEST_CASE("an epoch that was stopped before it began delivers nothing", "[data][batch_loader][stop]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{20}, {.batch_size = 4}};
    std::stop_source stop;
    stop.request_stop();
    auto epoch = loader.epoch(0, stop.get_token());
    CHECK_FALSE(epoch.next());
    CHECK(loader.state().position == 0);
}

// ---- close ----

TEST_CASE("a loader can be closed when no epoch is running and no batch is alive",
          "[data][batch_loader][close]") {
    machine const on;
    cuota::budget const device{"device", cuota::unlimited};
    cuota::batch_loader loader{numbered_source{20}, {.batch_size = 4, .device_budget = device}};
    {
        auto epoch = loader.epoch(0);
        CHECK(has(thrown<cuota::usage_error>([&] { loader.close(); }).what(),
                  "cannot close: an epoch is running"));
        CHECK(epoch.next());
    }
    {
        std::vector<cuota::batch> kept;
        {
            auto epoch = loader.epoch(0);
            kept.push_back(*epoch.next());
            kept.push_back(*epoch.next());
        }
        CHECK(has(thrown<cuota::usage_error>([&] {
                      loader.close({"train.cpp", 9});
                  }).what(),
                  "cannot close: 2 batches are alive"));
        kept.pop_back();
        CHECK(has(thrown<cuota::usage_error>([&] { loader.close(); }).what(), "1 batch is alive"));
    }
    CHECK(batches_of(loader, 0) == 5);
    CHECK(device.held() != 0);
    loader.close();
    CHECK(device.held() == 0);
    CHECK(sim::live().total() == 0);

    std::string const gone = "a loader was used after it was closed or moved from";
    CHECK(has(thrown<cuota::usage_error>([&] { loader.close(); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.epoch(0); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.epoch(cuota::loader_state{}); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.state(); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.stats(); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.plan(); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.size(); }).what(), gone));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.fields(); }).what(), gone));
}

TEST_CASE("close throws the failures that the destructor would report", "[data][batch_loader][close]") {
    machine on;
    cuota::budget const device{"device", cuota::unlimited};
    auto const make = [&] {
        return cuota::batch_loader{numbered_source{20}, {.batch_size = 4, .device_budget = device}};
    };
    {
        cuota::batch_loader loader = make();
        CHECK(batches_of(loader, 0) == 5);
        sim::fail_call("cudaFree", 1);
        CHECK(thrown<cuota::cuda_error>([&] { loader.close(); }).call() == "cudaFree");
        CHECK(on.errors.count() == 0);
        CHECK(device.held() == 0);
        CHECK(sim::live().total() == 0);
    }
    {
        cuota::batch_loader loader = make();
        CHECK(batches_of(loader, 0) == 5);
        sim::fail_call("cudaFree", 1);
    }
    CHECK(on.errors.take().size() == 1);
    CHECK(device.held() == 0);
}

// ---- workers ----

TEST_CASE("worker_init is called with each worker's number before the worker reads", "[data][batch_loader]") {
    machine const on;
    std::array<std::atomic<int>, 3> started{};
    std::atomic<bool> early = false;
    numbered_source from{40};
    thread_local bool is_ready = false;
    from.before_each([&](auto) { early = early || !is_ready; });
    {
        cuota::batch_loader loader{from,
                                   {.batch_size = 2, .workers = 3, .worker_init = [&](std::size_t worker) {
                                        ++started.at(worker);
                                        is_ready = true;
                                    }}};
        CHECK(batches_of(loader, 0) == 20);
        CHECK(batches_of(loader, 1) == 20);
    }
    CHECK_FALSE(early);
    for (auto const& n : started) CHECK(n <= 1);  // 0 if the worker never read
}

TEST_CASE("an exception of worker_init is thrown in place of batches, in every epoch",
          "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{40}, {.batch_size = 4, .worker_init = [](std::size_t) {
                                                         throw std::runtime_error{"no such processor"};
                                                     }}};
    CHECK_THROWS_WITH(batches_of(loader, 0), "no such processor");
    CHECK_THROWS_WITH(batches_of(loader, 1), "no such processor");
}

// ---- any end, at any point ----

TEST_CASE("batch_loader leaks nothing, however and wherever it is ended", "[data][batch_loader][stress]") {
    std::uint64_t random = 5;
    auto const below = [&](std::uint64_t n) { return (random = cuota::detail::mixed(random + 1)) % n; };
    char const* const rounds = std::getenv("CUOTA_STRESS");
    int const all = rounds ? std::atoi(rounds) : 200;
    for (int round = 0; round != all; ++round) {
        machine on;
        cuota::budget const device{"device", cuota::unlimited};
        cuota::budget const pinned{"pinned", cuota::unlimited};
        std::uint64_t const throw_at = below(120);
        std::uint64_t const leave_at = below(14);
        std::uint64_t const how = below(6);
        std::stop_source stop;
        std::vector<cuota::batch> kept;
        std::jthread other;
        numbered_source from{44};
        from.before_each([=](std::span<std::uint64_t const> samples) {
            if (std::ranges::find(samples, throw_at) != samples.end()) throw std::runtime_error{"a worker's"};
        });
        if (how == 5) sim::fail_randomly("cudaMemcpyAsync", 0.1, random);
        try {
            cuota::stream const s;
            cuota::batch_loader loader{from,
                                       {.batch_size = 4,
                                        .device_budget = device,
                                        .pinned_budget = pinned,
                                        .seed = below(9),
                                        .workers = 1 + below(3),
                                        .device_slots = 2 + below(2),
                                        .host_slots = 1 + below(4),
                                        .time_copies = below(2) == 0}};
            for (std::uint64_t epoch = 0; epoch != 2; ++epoch) {
                if (how == 4) other = std::jthread{[&] { stop.request_stop(); }};
                for (cuota::batch b : loader.epoch(epoch, stop.get_token())) {
                    (void)b.view<std::uint32_t>(s);
                    if (below(2) == 0) (void)loader.stats();
                    if (b.index() != leave_at) continue;
                    if (how == 1) throw std::runtime_error{"the program's"};
                    if (how == 2 && kept.empty()) kept.push_back(std::move(b));
                    if (how != 0) break;
                }
            }
            if (below(2) == 0 && kept.empty()) loader.close();
        } catch (std::runtime_error const&) {  // includes cuda_error
        }
        if (other.joinable()) other.join();
        kept.clear();
        sim::clear_faults();
        (void)on.errors.take();
        CHECK(device.held() == 0);
        CHECK(pinned.held() == 0);
    }
}
