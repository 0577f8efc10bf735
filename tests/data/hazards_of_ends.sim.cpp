// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Hazards H10 to H13, H17 and H20 of loading data: ends of epochs, loaders, processes and programs while work is in progress.
// tests/README.md lists the guard against each.
#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/rounds.hpp"
#include "support/seen_by.hpp"
#include "support/sink.hpp"
#include "support/thread_waits.hpp"

namespace sim = cuota::simulator;
using cuota::batch_loader;
using support::has;
using support::machine;
using support::numbered_source;
using support::order_of;
using support::seen_by;

namespace {

template <class T>
concept starts_epochs = requires(T&& loader) {
    std::forward<T>(loader).epoch(0);
};
template <class T>
concept goes_on = requires(T&& loader) {
    std::forward<T>(loader).epoch(cuota::loader_state{});
};

}  // namespace

TEST_CASE("H10: an epoch that is left at any point leaves the loader ready for another epoch",
          "[data][hazard]") {
    machine const on;
    cuota::stream const s;
    SECTION("after any batch") {
        batch_loader loader{numbered_source{60}, {.batch_size = 4, .seed = 3, .workers = 2}};
        auto const whole = order_of(loader.epoch(0));
        for (std::size_t stop = 0; stop != 15; ++stop) {
            std::vector<std::uint64_t> part;
            for (cuota::batch b : loader.epoch(0)) {
                (void)b.view<std::uint32_t>(s);
                part.insert(part.end(), b.samples().begin(), b.samples().end());
                if (b.index() == stop) break;
            }
            REQUIRE(std::equal(part.begin(), part.end(), whole.begin()));
        }
        CHECK(order_of(loader.epoch(0)) == whole);
    }
    SECTION("with all slots filled in advance, which do not block the next epoch") {
        std::atomic<std::uint64_t> gathers = 0;
        numbered_source from{60};
        from.before_each([&](auto) { ++gathers; });
        batch_loader loader{from, {.batch_size = 4, .workers = 2, .device_slots = 3, .host_slots = 4}};
        for (std::uint64_t epoch = 0; epoch != 30; ++epoch) {
            gathers = 0;
            auto const left = loader.epoch(epoch);
            while (gathers < 3 + 4) std::this_thread::yield();  // then all slots of both sides fill up
        }
        auto epoch = loader.epoch(30);
        std::vector<cuota::batch> all_slots;
        for (std::uint64_t i = 0; i != 3; ++i) {
            auto b = epoch.next();
            REQUIRE(b);
            REQUIRE(b->samples()[0] == i * 4);
            all_slots.push_back(std::move(*b));
        }
    }
    SECTION("while a worker reads, whose result belongs to no later epoch") {
        std::latch reading{1};
        std::atomic<bool> go_on = false;
        numbered_source from{8};
        from.before_each([&](std::span<std::uint64_t const> samples) {
            if (go_on || samples[0] != 0) return;
            reading.count_down();
            go_on.wait(false);
            throw cuota::data_error{"numbers", 0, "of an epoch that is over"};
        });
        batch_loader loader{from, {.batch_size = 4}};
        {
            auto const left = loader.epoch(0);
            reading.wait();
        }
        auto epoch = loader.epoch(1);
        go_on = true;
        go_on.notify_all();
        CHECK(order_of(std::move(epoch)).size() == 8);
    }
}

TEST_CASE("H11: workers wait without polling, and the destruction of a loader wakes them", "[data][hazard]") {
    if (!support::are_waits_counted()) CUOTA_SKIP("a sanitizer has waits of its own");
    machine const on;
    sim::set_schedule(sim::schedule::workers);
    std::atomic<std::uint64_t> gathers = 0;
    numbered_source from{12};
    from.before_each([&](auto) {
        support::mark_this_thread();
        support::forget_waits();
        ++gathers;
    });
    auto const until_it_waits = [] {
        for (support::thread_waits now;
             now = support::waits_of_marked_threads(), now.until_told + now.timed == 0;)
            std::this_thread::yield();
    };
    SECTION("when they have no work") {
        batch_loader loader{from, {.batch_size = 12}};
        CHECK(order_of(loader.epoch(0)).size() == 12);
        until_it_waits();
    }
    SECTION("when no slot is free") {
        batch_loader loader{from, {.batch_size = 4, .device_slots = 1, .host_slots = 1}};
        auto epoch = loader.epoch(0);
        auto const held = epoch.next();
        while (gathers != 2) std::this_thread::yield();
        until_it_waits();
        auto const goes_first = std::move(loader);
    }
    CHECK(support::waits_of_marked_threads().timed == 0);
}

// An epoch cannot be started from a temporary loader.
static_assert(starts_epochs<batch_loader&> && !starts_epochs<batch_loader> &&
              !starts_epochs<batch_loader const>);
static_assert(goes_on<batch_loader&> && !goes_on<batch_loader> && !goes_on<batch_loader const>);

TEST_CASE("H12: a batch outlives its epoch and its loader, and an epoch its loader", "[data][hazard]") {
    machine const on;
    cuota::stream const s;
    cuota::budget device{"device", 2 * 512};
    std::optional<cuota::batch> kept;
    {
        std::optional<cuota::epoch_range> epoch;
        {
            batch_loader loader{numbered_source{20},
                                {.batch_size = 4, .device_budget = device, .reclaim_priority = 0}};
            epoch.emplace(loader.epoch(0));
            for (std::uint64_t i = 0; i != 3; ++i) kept = epoch->next();
        }
        CHECK_THROWS_AS(device.charge(1), cuota::budget_exceeded);
    }
    CHECK_THROWS_AS(device.charge(1), cuota::budget_exceeded);  // asks the loader, whose kept batch is alive
    CHECK(seen_by(s, *kept) == std::vector<std::uint32_t>{8, 9, 10, 11});
    kept.reset();
    CHECK(device.held() == 0);
}

TEST_CASE("H13: in a child, a loader refuses all requests, and its destruction does not hang",
          "[data][hazard]") {
    machine const on;
    batch_loader loader{numbered_source{40}, {.batch_size = 4, .seed = 1, .workers = 2}};
    auto epoch = loader.epoch(3);
    std::optional<cuota::batch> first = epoch.next();

    int const status = support::status_of_child([&] {  // the simulator's threads do not exist in it
        int refused = 0;
        auto const expect_refusal = [&](auto action) {
            try {
                action();
            } catch (cuota::usage_error const& e) { refused += has(e.what(), "used in a forked child"); }
        };
        expect_refusal([&] { (void)epoch.next(); });
        expect_refusal([&] { (void)epoch.wait_for({}); });
        expect_refusal([&] { (void)loader.epoch(4); });
        expect_refusal([&] { (void)loader.epoch(cuota::loader_state{}); });
        expect_refusal([&] { (void)loader.state(); });
        expect_refusal([&] { (void)first->size(); });
        auto const calls = sim::calls();
        first.reset();
        { auto const gone = std::move(epoch); }
        { auto const gone = std::move(loader); }
        ::_exit(refused == 6 && sim::calls() == calls ? 0 : 1);
    });
    CHECK(status == 0);
    CHECK(epoch.next());  // the parent continues
    CHECK(first->size() == 4);
}

namespace {

struct left_alone {
    batch_loader loader;
    cuota::epoch_range epoch;
    std::optional<cuota::batch> first;

    left_alone()
        : loader{numbered_source{400}, {.batch_size = 4, .workers = 2}},
          epoch{loader.epoch(0)},
          first{epoch.next()} {}
};

// Runs after the members of a static `left_alone` have been destroyed.
void tell_of_the_end() {
    std::printf("frees=%d\n", static_cast<int>(sim::calls("cudaFree")));
    std::fflush(stdout);
    std::_Exit(0);  // skips the leak check: the leak is intended
}

}  // namespace

TEST_CASE("a program exits with a static loader after CUDA was unloaded", "[.][at_exit]") {
    (void)std::atexit(tell_of_the_end);
    static left_alone const stays;
    (void)std::atexit([] {
        // CUDA is unloaded from here on, as if its static objects were destroyed first.
        sim::fail_call(nullptr, 1, cudaErrorCudartUnloading, sim::fault_kind::until_cleared);
    });
}

namespace {

// Runs this program with the tests of this tag and returns its output; requires a normal exit.
std::string output_of(std::string const& tag) {
    auto const self = std::filesystem::read_symlink("/proc/self/exe").string();
    auto* const pipe = ::popen(("'" + self + "' '" + tag + "' 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    char part[512];
    while (std::fgets(part, sizeof part, pipe)) text += part;
    int const status = ::pclose(pipe);
    INFO(text);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    return text;
}

}  // namespace

TEST_CASE("H17: a loader destroyed after CUDA was unloaded makes no further call, and the program exits",
          "[data][hazard]") {
    std::string const text = output_of("[at_exit]");
    INFO(text);
    CHECK(has(text, "frees=1\n"));              // called once, not again
    CHECK_FALSE(has(text, "cudaFree failed"));  // memory that the driver reclaims is not a leak
}

namespace {

// Owners of all kinds, with work behind them, that are destroyed after CUDA was unloaded.
struct all_left_alone {
    cuota::budget account{"all", std::size_t{64} << 20};
    cuota::scoped_pool pages{account};
    cuota::scoped_pool segments{account, {.growth = cuota::pool_growth::segments}};
    cuota::stream s{};
    cuota::event mark{s};
    cuota::device_buffer<int> of_pages{1'000'000, s, pages};
    cuota::device_buffer<int> of_segments{1'000'000, s, segments};
    cuota::device_buffer<int> of_driver{1000, s, cuota::device_memory{}};
    cuota::device_buffer<int> of_drivers_pool{1000, s, cuota::async_memory{}};
    cuota::pinned_buffer<int> pinned{1000, cuota::pinned_memory{}};
    cuota::staging_ring ring{2, 4096};
    cuota::step_plan plan{pages.resource()};
    std::vector<int> const host = std::vector<int>(1000, 1);
    std::optional<cuota::graph_exec> graph{};
    cuota::batch_loader loader{support::numbered_source{40, 1}, {.batch_size = 4}};

    all_left_alone() {
        cuota::upload(std::span<int const>{host}, of_driver, ring, s);
        graph = cuota::capture(s, [&] { cuota::device_buffer<int> const within{1000, s, pages}; });
        graph->launch(s);
        for (cuota::batch b : loader.epoch(0)) (void)b;
        segments.deallocate(s, segments.allocate(s, 4096), 4096);
    }
};

// Runs after the members of a static `all_left_alone` have been destroyed.
void tell_of_reports() {
    std::puts("the end");
    std::fflush(stdout);
    std::_Exit(0);
}

}  // namespace

TEST_CASE("a program exits with static owners of all kinds after CUDA was unloaded", "[.][owners_at_exit]") {
    (void)std::atexit(tell_of_reports);
    static all_left_alone const stays;
    (void)std::atexit(
        [] { sim::fail_call(nullptr, 1, cudaErrorCudartUnloading, sim::fault_kind::until_cleared); });
}

TEST_CASE("H17: owners that are destroyed after CUDA was unloaded report no error", "[data][hazard]") {
    std::string const text = output_of("[owners_at_exit]");
    INFO(text);
    CHECK(has(text, "the end\n"));
    CHECK_FALSE(has(text, "cuota: error that could not be thrown"));
}

TEST_CASE("H20: workers, the consumer and threads that end epochs or loaders share data only under a lock",
          "[data][hazard][threads]") {
    machine const on;
    cuota::stream const s;
    for (int round = 0; round != support::rounds(200); ++round) {
        std::vector<cuota::batch> kept;
        batch_loader loader{numbered_source{64},
                            {.batch_size = 2, .workers = 3, .device_slots = 3, .host_slots = 4}};
        for (std::uint64_t number = 0; number != 3; ++number) {
            auto epoch = loader.epoch(number);
            std::uint64_t const stop = static_cast<std::uint64_t>(round) % 11 + number;
            std::thread elsewhere;
            for (std::uint64_t i = 0; i != stop; ++i) {
                auto b = epoch.next();
                REQUIRE(b);
                REQUIRE(b->samples()[0] == i * 2);
                if (i % 4 == 1) (void)b->view<std::uint32_t>(s);
                if (i % 4 == 3) {  // ends on another thread
                    if (elsewhere.joinable()) elsewhere.join();
                    elsewhere = std::thread{[ends = std::move(*b)] {}};
                }
            }
            if (elsewhere.joinable()) elsewhere.join();
            REQUIRE(loader.state().position == stop * 2);
        }
    }
}
