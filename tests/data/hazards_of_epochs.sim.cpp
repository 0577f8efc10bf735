// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Hazards H14, H15 and H21 to H23 of loading data: resuming an epoch, a loader's memory, and its device. tests/README.md lists the guard
// against each.
#include <cuota/data/loader/batch_loader.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/runtime/device.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::batch_loader;
using cuota::loader_options;
using support::has;
using support::machine;
using support::numbered_source;
using support::order_of;
using support::thrown;

namespace {

std::vector<std::uint64_t> counted(std::uint64_t n, std::uint64_t from = 0) {
    std::vector<std::uint64_t> v;
    while (from != n) v.push_back(from++);
    return v;
}

}  // namespace

TEST_CASE("H14: a loader's state counts batches that were delivered, not those read ahead",
          "[data][hazard]") {
    machine const on;
    batch_loader loader{numbered_source{40}, {.batch_size = 4, .workers = 2, .device_slots = 3}};
    CHECK(loader.state().epoch == 0);
    CHECK(loader.state().position == 0);
    {
        auto epoch = loader.epoch(6);
        CHECK(epoch.wait_for(std::chrono::hours{1}));  // the first batch is ready but not delivered
        CHECK(loader.state().epoch == 6);
        CHECK(loader.state().position == 0);
        for (std::uint64_t delivered = 1; delivered != 4; ++delivered) {
            CHECK(epoch.next());
            CHECK(epoch.wait_for(std::chrono::hours{1}));
            CHECK(loader.state().position == delivered * 4);
        }
    }
    cuota::loader_state const left = loader.state();
    CHECK(left.position == 12);
    CHECK(order_of(loader.epoch(left)) == counted(40, 12));
    CHECK(loader.state().position == 40);
    CHECK(order_of(loader.epoch(loader.state())).empty());
}

TEST_CASE("H15: the position at which an epoch was resumed does not affect later epochs", "[data][hazard]") {
    machine const on;
    batch_loader loader{numbered_source{40}, {.batch_size = 4, .workers = 2}};
    cuota::loader_state from = loader.state();
    from.position = 12;
    for (int again = 0; again != 3; ++again) {
        CHECK(order_of(loader.epoch(from)) == counted(40, 12));
        CHECK(order_of(loader.epoch(1)) == counted(40));
    }
    {
        auto left = loader.epoch(from);
        CHECK(left.next());
    }
    {
        auto whole = loader.epoch(2);
        auto const b = whole.next();
        CHECK(b->index() == 0);
        CHECK(b->samples()[0] == 0);
    }
    CHECK(loader.state().position == 4);
    CHECK(order_of(loader.epoch(2)) == counted(40));
}

TEST_CASE("H21: a second epoch is refused while one is running, and the first continues", "[data][hazard]") {
    machine const on;
    batch_loader loader{numbered_source{40}, {.batch_size = 4}};
    {
        auto epoch = loader.epoch(0);
        CHECK(epoch.next());
        auto const refuse = [&](auto const& number) {
            auto const refused = thrown<cuota::usage_error>([&] {
                (void)loader.epoch(number, {}, {"train.cpp", 7});
            });
            CHECK(has(refused.what(), "loader of numbers: an epoch is already running"));
            CHECK(has(refused.what(), "(train.cpp:7)"));
        };
        refuse(std::uint64_t{1});
        refuse(loader.state());
        std::thread{[&] { refuse(std::uint64_t{2}); }}.join();
        auto const rest = order_of(std::move(epoch));
        CHECK(rest == counted(40, 4));
    }
    CHECK(order_of(loader.epoch(1)) == counted(40));
}

TEST_CASE("H22: a loader allocates exactly its plan, and only after its budgets have accepted all of it",
          "[data][hazard]") {
    machine const on;
    SECTION("it holds exactly its plan and frees it") {
        cuota::budget const device{"device", cuota::unlimited};
        cuota::budget const pinned{"pinned", cuota::unlimited};
        std::size_t const workers = GENERATE(std::size_t{1}, std::size_t{3});
        {
            numbered_source const from{100};
            loader_options const how{
                .batch_size = 9, .device_budget = device, .pinned_budget = pinned, .workers = workers};
            cuota::loader_plan const plan = cuota::plan_loader(from, how);
            batch_loader loader{from, how};
            for (std::uint64_t epoch = 0; epoch != 2; ++epoch)
                CHECK(order_of(loader.epoch(epoch)).size() == 100);
            CHECK(device.held() == plan.device_bytes);
            CHECK(pinned.held() == plan.pinned_bytes);
            CHECK(device.peak() == plan.device_bytes);
            CHECK(pinned.peak() == plan.pinned_bytes);
            CHECK(sim::peak_device_bytes() == plan.device_bytes);
            CHECK(sim::peak_pinned_bytes() == plan.pinned_bytes);
        }
        CHECK(device.held() == 0);
        CHECK(pinned.held() == 0);
    }
    SECTION("it is refused as a whole, with the largest batch that would fit, before any allocation") {
        bool const device_is_short = GENERATE(true, false);
        bool const is_one = GENERATE(true, false);
        cuota::budget const one{"device and pinned", 40'000};
        cuota::budget const device{"device", device_is_short ? 20'000 : cuota::unlimited};
        cuota::budget const pinned{"pinned", device_is_short ? cuota::unlimited : 20'000};
        loader_options how{.batch_size = 500,
                           .device_budget = is_one ? one : device,
                           .pinned_budget = is_one ? one : pinned};
        auto const allocations = sim::allocation_calls();
        auto const refused = thrown<cuota::budget_exceeded>([&] {
            batch_loader{numbered_source{1000}, how};
        });
        CHECK(sim::allocation_calls() == allocations);
        std::size_t const fits = refused.info().max_fit_count();
        INFO(refused.what());
        CHECK(has(refused.what(), "loader slots"));
        CHECK(has(refused.what(), std::to_string(fits) + " samples in a batch"));
        CHECK(device.held() + pinned.held() + one.held() == 0);
        CHECK(sim::live().total() == 0);

        REQUIRE(fits > 0);
        how.batch_size = fits;
        CHECK_NOTHROW(batch_loader{numbered_source{1000}, how});
        how.batch_size = fits + 1;
        CHECK_THROWS_AS((batch_loader{numbered_source{1000}, how}), cuota::budget_exceeded);
    }
}

TEST_CASE("H23: a loader and its dataset use the loader's device, whichever device is current",
          "[data][hazard]") {
    machine const on{{.devices = 3}};
    std::mutex guard;
    std::set<int> seen;
    numbered_source from{40};
    from.before_each([&](auto) {
        std::scoped_lock const lock{guard};
        seen.insert(cuota::device::current().ordinal());
    });
    std::optional<batch_loader> loader;
    std::size_t const free_before = cuota::device{2}.memory().free;
    {
        cuota::device_scope const there{cuota::device{2}};
        loader.emplace(from, loader_options{.batch_size = 4, .workers = 2});
    }
    CHECK(cuota::device{2}.memory().free + loader->plan().device_bytes == free_before);
    CHECK(cuota::device{0}.memory().free == cuota::device{1}.memory().free);
    {
        cuota::device_scope const elsewhere{cuota::device{1}};
        cuota::stream const of_another;
        for (std::uint64_t number = 0; number != 2; ++number) {
            std::uint32_t next = 0;
            for (cuota::batch b : loader->epoch(number)) {
                cuota::device_scope const home{cuota::device{2}};
                cuota::stream const s;
                for (std::uint32_t const value : support::seen_by(s, b)) CHECK(value == next++);
                cuota::device_scope const away{cuota::device{0}};
                b.used_on(of_another);
                { cuota::batch const ended = std::move(b); }
                CHECK(cuota::device::current() == cuota::device{0});
            }
            CHECK(next == 40);
        }
        CHECK(cuota::device::current() == cuota::device{1});
        loader.reset();
        CHECK(cuota::device::current() == cuota::device{1});
    }
    CHECK(seen == std::set<int>{2});
    CHECK(cuota::device{2}.memory().free == free_before);
    CHECK(sim::misuse().total() == 0);
}
