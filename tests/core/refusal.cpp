// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/refusal.hpp>

#include <type_traits>
#include <utility>

#include "support/catch.hpp"

static_assert(std::is_aggregate_v<cuota::refusal> && std::is_nothrow_move_constructible_v<cuota::refusal>);

TEST_CASE("what is missing is counted at the budget that refused", "[core][refusal]") {
    cuota::refusal r;
    REQUIRE(r.missing() == 0);  // no budget refused
    REQUIRE(r.refuser() == nullptr);
    r.charged = 50;
    r.budgets = {{"a", 100, 0, 0}, {"b", 60, 20, 20}};
    REQUIRE(r.missing() == 0);
    r.refused_by = 1;
    REQUIRE(r.missing() == 10);
    REQUIRE(r.refuser()->name == "b");
    r.refused_by = 2;  // not a valid index
    REQUIRE(r.missing() == 0);
}

TEST_CASE("a budget that holds more than its limit has nothing free, and lacks what is over as well",
          "[core][refusal]") {
    cuota::budget_facts const lowered{"b", 100, 130, 130};
    REQUIRE(lowered.free() == 0);
    REQUIRE(lowered.missing_for(0) == 0);
    REQUIRE(lowered.missing_for(5) == 35);
    REQUIRE(lowered.missing_for(cuota::unlimited) == cuota::unlimited);
    cuota::budget_facts const full{"b", 100, 100, 130};
    REQUIRE(full.missing_for(5) == 5);
    REQUIRE(full.missing_for(cuota::unlimited) == cuota::unlimited);
}

TEST_CASE("what would fit is counted in the unit of the request", "[core][refusal]") {
    cuota::refusal r;
    r.would_fit = 100;
    REQUIRE(r.fitting_count() == 100);
    r.request.unit_bytes = 12;
    REQUIRE(r.fitting_count() == 8);
    r.request.unit_bytes = 0;
    REQUIRE(r.fitting_count() == 0);
}

TEST_CASE("memory that is gone and not ours is elsewhere", "[core][refusal]") {
    cuota::device_facts d{0, "simulated", 100, 30, 50};
    REQUIRE(d.elsewhere() == 20);
    d.ours = 90;  // managed memory may exceed the driver's used bytes
    REQUIRE(d.elsewhere() == 0);
    d.free = 101;
    REQUIRE(d.elsewhere() == 0);
}

TEST_CASE("a device lacks what neither it nor a pool has ready", "[core][refusal]") {
    cuota::refusal r;
    r.charged = 50;
    REQUIRE(r.missing_on_device() == 0);
    r.device = cuota::device_facts{0, "simulated", 100, 30, 70};
    REQUIRE(r.missing_on_device() == 20);
    r.largest_free = 49;
    REQUIRE(r.missing_on_device() == 20);
    r.largest_free = 50;
    REQUIRE(r.missing_on_device() == 0);
    r.largest_free = 0;
    r.device->free = 50;
    REQUIRE(r.missing_on_device() == 0);
}

TEST_CASE("holdings of one tag and place are added up, and stand in the order of their texts",
          "[core][refusal]") {
    std::vector<cuota::holding> sums;
    auto const add = [&](cuota::tag name, unsigned line, std::size_t bytes) {
        cuota::detail::add_up(sums, {name, {"train.cpp", line}, bytes, false});
    };
    add("weights", 7, 10);
    add("ids", 7, 1);
    add(cuota::tag::named("weights"), 7, 5);  // the same text at another address
    add("weights", 3, 2);
    add("ids", 7, 1);
    REQUIRE(sums.size() == 3);
    REQUIRE(sums[0].name == cuota::tag{"ids"});
    REQUIRE(sums[0].bytes == 2);
    REQUIRE(sums[1].where.line == 3);
    REQUIRE(sums[1].bytes == 2);
    REQUIRE(sums[2].where.line == 7);
    REQUIRE(sums[2].bytes == 15);
}
