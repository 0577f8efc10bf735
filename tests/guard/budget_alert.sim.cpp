// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budget_alert.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <cuota/guard/budgeted.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;

TEST_CASE("an alert reports when other programs take device memory from a budget", "[guard][budget_alert]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::budget const b = cuota::budget::for_device(cuota::device{0}, 1.0, 0, 0ns);
    cuota::budgeted<> memory{b};
    std::vector<cuota::alert_event> seen;
    cuota::alert_options options;
    options.falling = true;
    cuota::budget_alert const w{
        b, {0.9}, 0.1, [&](cuota::alert_event const& e) { seen.push_back(e); }, options};

    void* const p = memory.allocate_sync(32_MiB);
    cuota::simulator::set_other_programs(0, 30_MiB);
    REQUIRE(seen.empty());
    void* const small = memory.allocate_sync(1_MiB);
    REQUIRE(seen.size() == 1);
    REQUIRE(seen[0].rising);
    REQUIRE(seen[0].limit == 34_MiB);

    cuota::simulator::set_other_programs(0, 0);
    memory.deallocate_sync(small, 1_MiB);
    REQUIRE(seen.size() == 1);  // a deallocation does not query the driver
    memory.deallocate_sync(memory.allocate_sync(1_MiB), 1_MiB);
    REQUIRE(seen.size() == 2);
    REQUIRE(!seen[1].rising);
    REQUIRE(seen[1].limit == 64_MiB);
    memory.deallocate_sync(p, 32_MiB);
}

TEST_CASE("an alert fires at an administrator's soft limit, also when another process reaches it",
          "[guard][budget_alert]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::simulator::set_memory_limits(0, {32_MiB, 48_MiB, 4_MiB});
    cuota::budget const b = cuota::budget::for_device(cuota::device{0}, 1.0, 0, 0ns);
    cuota::budgeted<> memory{b};
    std::vector<cuota::alert_event> seen;
    cuota::budget_alert const w{b, {0.9}, 0.1, [&](cuota::alert_event const& e) { seen.push_back(e); }};
    void* const p = memory.allocate_sync(20_MiB);
    REQUIRE(seen.empty());  // of 28 MiB
    cuota::simulator::set_memory_limits(0, {32_MiB, 48_MiB, 10_MiB});
    void* const small = memory.allocate_sync(1_MiB);
    REQUIRE(seen.size() == 1);
    REQUIRE(seen[0].limit == 22_MiB);
    memory.deallocate_sync(small, 1_MiB);
    memory.deallocate_sync(p, 20_MiB);
}

TEST_CASE("an alert's event has the tag and the call site of the allocation", "[guard][budget_alert]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::budget const b{"b", 64_MiB};
    cuota::budgeted<> memory{b};
    std::vector<cuota::alert_event> seen;
    cuota::budget_alert const w{b, {0.5}, 0.1, [&](cuota::alert_event const& e) { seen.push_back(e); }};
    void* const p = memory.allocate_sync(32_MiB, 256, {"weights", {"train.cpp", 7}});
    REQUIRE(seen.size() == 1);
    REQUIRE(seen[0].charge_tag == cuota::tag{"weights"});
    REQUIRE(cuota::source_location_text(seen[0].charge_site) == "train.cpp:7");
    memory.deallocate_sync(p, 32_MiB);
}
