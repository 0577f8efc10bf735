// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/refusal.hpp>

#include <type_traits>
#include <utility>

#include "support/catch.hpp"

static_assert(std::is_aggregate_v<cuota::refusal> && std::is_nothrow_move_constructible_v<cuota::refusal>);

TEST_CASE("the shortfall is that of the budget that refused", "[core][refusal]") {
    cuota::refusal r;
    REQUIRE(r.shortfall() == 0);  // no budget refused
    REQUIRE(r.refusing_budget() == nullptr);
    r.charged = 50;
    r.budgets = {{"a", 100, 0, 0}, {"b", 60, 20, 20}};
    REQUIRE(r.shortfall() == 0);
    r.refused_by = 1;
    REQUIRE(r.shortfall() == 10);
    REQUIRE(r.refusing_budget()->name == "b");
    r.refused_by = 2;  // not a valid index
    REQUIRE(r.shortfall() == 0);
}

TEST_CASE("a budget over its limit has no free bytes, and its excess is part of the shortfall",
          "[core][refusal]") {
    cuota::budget_info const lowered{"b", 100, 130, 130};
    REQUIRE(lowered.free() == 0);
    REQUIRE(lowered.shortfall_for(0) == 0);
    REQUIRE(lowered.shortfall_for(5) == 35);
    REQUIRE(lowered.shortfall_for(cuota::unlimited) == cuota::unlimited);
    cuota::budget_info const full{"b", 100, 100, 130};
    REQUIRE(full.shortfall_for(5) == 5);
    REQUIRE(full.shortfall_for(cuota::unlimited) == cuota::unlimited);
}

TEST_CASE("max_fit_count is in units of the request", "[core][refusal]") {
    cuota::refusal r;
    r.max_fit = 100;
    REQUIRE(r.max_fit_count() == 100);
    r.request.unit_bytes = 12;
    REQUIRE(r.max_fit_count() == 8);
    r.request.unit_bytes = 0;
    REQUIRE(r.max_fit_count() == 0);
}

TEST_CASE("device memory that is used but not by this process is external", "[core][refusal]") {
    cuota::device_info d{0, "simulated", 100, 30, 50};
    REQUIRE(d.external() == 20);
    d.own = 90;  // managed memory may exceed the driver's used bytes
    REQUIRE(d.external() == 0);
    d.free = 101;
    REQUIRE(d.external() == 0);
}

TEST_CASE("the shortfall of a device is 0 if its free memory or a pool's largest free block suffices",
          "[core][refusal]") {
    cuota::refusal r;
    r.charged = 50;
    REQUIRE(r.device_shortfall() == 0);
    r.device = cuota::device_info{0, "simulated", 100, 30, 70};
    REQUIRE(r.device_shortfall() == 20);
    r.largest_free = 49;
    REQUIRE(r.device_shortfall() == 20);
    r.largest_free = 50;
    REQUIRE(r.device_shortfall() == 0);
    r.largest_free = 0;
    r.device->free = 50;
    REQUIRE(r.device_shortfall() == 0);
}

TEST_CASE("holders with one tag and call site are added up, and sorted by their texts", "[core][refusal]") {
    std::vector<cuota::allocation_group> sums;
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
