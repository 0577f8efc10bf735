// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/loader_plan.hpp>

#include <array>
#include <cstddef>
#include <string>

#include <cuota/data/loader/batch_loader.hpp>

#include "support/catch.hpp"
#include "support/numbered_source.hpp"

using support::numbered_source;

TEST_CASE("plan_loader sums the bytes of all slots, with each field aligned", "[data][loader_plan]") {
    // 5 u32 and one u64 per sample; 100 samples take 2000 -> 2048 and 800 -> 1024 bytes.
    cuota::loader_plan const plan =
        cuota::plan_loader(numbered_source{1000}, {.batch_size = 100, .workers = 2, .device_slots = 3});

    CHECK(plan.batch_size == 100);
    CHECK(plan.batches == 10);
    CHECK(plan.host_slot.sample_bytes == 28);
    CHECK(plan.host_slot.bytes == 3072);
    CHECK(plan.host_slot.offsets == std::vector<std::size_t>{0, 2048});
    CHECK(plan.device_slots == 3);
    CHECK(plan.host_slots == 4);
    CHECK(plan.device_bytes == 3 * 3072);
    CHECK(plan.pinned_bytes == 4 * 3072);
}

TEST_CASE("plan_loader counts the batches of an epoch", "[data][loader_plan]") {
    auto const batches = [](std::uint64_t samples, std::size_t batch, cuota::last_batch_policy last) {
        return cuota::plan_loader(numbered_source{samples}, {.batch_size = batch, .last_batch = last})
            .batches;
    };
    using enum cuota::last_batch_policy;
    CHECK(batches(0, 4, partial) == 0);
    CHECK(batches(0, 4, drop) == 0);
    CHECK(batches(3, 4, partial) == 1);
    CHECK(batches(3, 4, drop) == 0);
    CHECK(batches(4, 4, partial) == 1);
    CHECK(batches(4, 4, drop) == 1);
    CHECK(batches(9, 4, partial) == 3);
    CHECK(batches(9, 4, drop) == 2);
}

TEST_CASE("plan_loader limits the batch size to the size of the dataset", "[data][loader_plan]") {
    cuota::loader_plan const plan = cuota::plan_loader(numbered_source{10}, {.batch_size = 1'000'000});
    CHECK(plan.batch_size == 10);
    CHECK(plan.host_slot.bytes == 256 + 256);
}

TEST_CASE("plan_loader refuses invalid options", "[data][loader_plan]") {
    numbered_source const from{10};
    CHECK_THROWS_AS(cuota::plan_loader(from, {}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::plan_loader(from, {.batch_size = 1, .workers = 0}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::plan_loader(from, {.batch_size = 1, .device_slots = 0}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::plan_loader(from, {.batch_size = 1, .device_slots = cuota::unlimited / 2}),
                    cuota::usage_error);
    CHECK_THROWS_AS(cuota::plan_loader(from, {.batch_size = 1, .host_slots = cuota::unlimited / 2}),
                    cuota::usage_error);
    CHECK_THROWS_AS(
        cuota::plan_loader(numbered_source{cuota::unlimited}, {.batch_size = cuota::unlimited / 2}),
        cuota::usage_error);
}

TEST_CASE("largest_fitting finds the largest batch whose plan fits, for any number of available bytes",
          "[data][loader_plan]") {
    numbered_source const from{300};
    cuota::loader_options const options{.batch_size = 200};
    auto const largest = [&](cuota::detail::loader_room room) {
        return cuota::detail::largest_fitting("x", from.size(), from.fields(), options,
                                              &cuota::loader_options::batch_size, room);
    };
    std::size_t most = 0;
    for (std::size_t room = 0; room <= 16'384; room += 128) {
        std::size_t const found = largest({.device = room});
        std::size_t expected = 0;
        for (std::size_t batch = 1; batch <= 200; ++batch)
            if (cuota::plan_loader(from, {.batch_size = batch}).device_bytes <= room) expected = batch;
        REQUIRE(found == expected);
        most = std::max(most, found);
    }
    CHECK(most == 200);
    CHECK(largest({.pinned = 3 * 512}) == 12);
    // 5 slots within one limit for both sides.
    CHECK(largest({.both = 5 * 512}) == 12);
    CHECK(largest({.both = 5 * 512 - 1}) == 0);
}

TEST_CASE("an automatic batch is the largest that fits the available bytes of the budgets",
          "[data][loader_plan]") {
    numbered_source const from{1000};
    cuota::budget device{"device", 20'000};
    cuota::budget const pinned{"pinned", cuota::unlimited};
    auto const planned = [&](cuota::loader_options options) {
        options.batch_size = cuota::automatic_batch;
        return cuota::plan_loader(from, options);
    };
    std::size_t const fits = planned({.device_budget = device, .pinned_budget = pinned}).batch_size;
    REQUIRE(fits > 0);
    CHECK(cuota::plan_loader(from, {.batch_size = fits}).device_bytes <= 20'000);
    CHECK(cuota::plan_loader(from, {.batch_size = fits + 1}).device_bytes > 20'000);

    // Bytes held by others are not available.
    device.charge(10'000);
    std::size_t const beside = planned({.device_budget = device}).batch_size;
    CHECK(beside < fits);
    CHECK(cuota::plan_loader(from, {.batch_size = beside}).device_bytes <= 10'000);
    device.refund(10'000);

    cuota::loader_plan const both = planned({.device_budget = device, .pinned_budget = device});
    CHECK(both.device_bytes + both.pinned_bytes <= 20'000);
    CHECK(both.batch_size < fits);

    CHECK(planned({.pinned_budget = pinned}).batch_size == 1000);  // all samples, not more
    CHECK(planned({.device_budget = cuota::budget{"small", 1}}).batch_size ==
          1);  // the constructor refuses it
    CHECK_THROWS_AS(planned({}), cuota::usage_error);
}
