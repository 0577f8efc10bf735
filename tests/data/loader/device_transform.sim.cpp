// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/device_transform.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/samples.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::device_transform;
using cuota::transform_context;
using support::machine;
using support::mentions;
using support::numbered_source;
using support::thrown;

namespace {

// Computes one number of each sample, and the sample's triple minus that number and the epoch.
struct first_of_each {
    cuota::device_span<std::uint32_t const> numbers;
    cuota::device_span<std::uint64_t const> triples;
    cuota::device_span<std::uint32_t> number;
    cuota::device_span<double> rest;
    std::uint64_t epoch;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        number[i] = numbers[i * numbers.size() / number.size()];
        rest[i] = static_cast<double>(triples[i]) - static_cast<double>(epoch);
    }
};

void take_first(transform_context const& job) {
    cuota::for_each_index(job.stream(), job.size(),
                          first_of_each{job.in<std::uint32_t>(0), job.in<std::uint64_t>(1),
                                        job.out<std::uint32_t>(0), job.out<double>(1), job.epoch()});
}

// Calls `also` with each job before its kernel is enqueued.
device_transform firsts(std::function<void(transform_context const&)> also = {}) {
    return {{{"number", cuota::element_type::u32, {}}, {"rest", cuota::element_type::f64, {}}},
            [also = std::move(also)](transform_context const& job) {
                if (also) also(job);
                take_first(job);
            }};
}

struct copy_rest {
    cuota::device_span<double const> from;
    cuota::device_span<double> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

void expect_transformed(cuota::stream const& s, cuota::batch const& b, std::uint64_t epoch) {
    cuota::device_buffer<double> rest{b.size(), s, cuota::device_memory{}, cuota::no_init};
    cuota::for_each_index(s, rest.size(), copy_rest{b.view<double>(s, 1), rest.write(s)});
    auto const numbers = support::seen_by(s, b);
    auto const rests = rest.to_vector(s);
    REQUIRE(numbers.size() == b.size());
    for (std::size_t i = 0; i != numbers.size(); ++i) {
        CHECK(numbers[i] == b.samples()[i]);
        CHECK(rests[i] == static_cast<double>(b.samples()[i] * 3) - static_cast<double>(epoch));
    }
}

}  // namespace

TEST_CASE("a batch has the output of its transform", "[data][device_transform]") {
    auto const seed = GENERATE(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2});
    machine const on;
    if (seed != 0) sim::set_schedule(sim::schedule::late, seed);
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{23},
                               {.batch_size = 5, .seed = 7, .workers = 2, .transform = firsts()}};
    CHECK(cuota::fields_text(loader.fields()) == "number u32, rest f64");
    for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
        std::vector<std::uint64_t> all;
        for (cuota::batch b : loader.epoch(epoch)) {
            CHECK(b.size() == (b.index() == 4 ? 3 : 5));
            CHECK(cuota::fields_text(b.fields()) == "number u32, rest f64");
            expect_transformed(s, b, epoch);
            all.insert(all.end(), b.samples().begin(), b.samples().end());
        }
        std::ranges::sort(all);
        CHECK(all.size() == 23);
        CHECK(std::ranges::adjacent_find(all) == all.end());
    }
    CHECK(sim::race_reports() == std::vector<std::string>{});
}

TEST_CASE("a transform runs for one batch at a time, with the loader's device current",
          "[data][device_transform]") {
    machine const on{{.devices = 2}};
    cuota::device const second{1};
    cuota::device_scope there{second};
    std::vector<std::vector<std::uint64_t>> seen;
    bool is_current = true;
    cuota::batch_loader loader{
        numbered_source{40},
        {.batch_size = 4, .workers = 3, .transform = firsts([&](transform_context const& job) {
                                            seen.emplace_back(job.samples().begin(), job.samples().end());
                                            is_current = is_current && cuota::device::current() == second &&
                                                         job.stream().device() == second;
                                        })}};
    std::vector<std::vector<std::uint64_t>> delivered;
    for (cuota::batch b : loader.epoch(0)) delivered.emplace_back(b.samples().begin(), b.samples().end());
    CHECK(is_current);
    CHECK(seen == delivered);
}

TEST_CASE("a loader with a transform plans the input and the output, and allocates exactly its plan",
          "[data][device_transform]") {
    machine const on;
    cuota::budget const device{"device", cuota::unlimited};
    cuota::budget const pinned{"pinned", cuota::unlimited};
    cuota::loader_options const how{.batch_size = 100,
                                    .device_budget = device,
                                    .pinned_budget = pinned,
                                    .device_slots = 3,
                                    .transform = firsts()};
    // 20 and 8 bytes per sample arrive, 4 and 8 are produced; each field of 100 is rounded up to a multiple of 256.
    auto const planned = cuota::plan_loader(numbered_source{1000}, how);
    CHECK(planned.host_slot == cuota::slot_layout{28, 2048 + 1024, {0, 2048}});
    CHECK(planned.device_slot == cuota::slot_layout{12, 512 + 1024, {0, 512}});
    CHECK(planned.staging_bytes == 3072);
    CHECK(planned.device_bytes == 3 * 1536 + 3072);
    CHECK(planned.pinned_bytes == 3 * 3072);

    auto const before = sim::live();
    cuota::batch_loader loader{numbered_source{1000}, how};
    CHECK(device.held() == planned.device_bytes);
    CHECK(pinned.held() == planned.pinned_bytes);
    CHECK(sim::live().device_bytes - before.device_bytes == planned.device_bytes);
    CHECK(sim::live().pinned_bytes - before.pinned_bytes == planned.pinned_bytes);

    for (cuota::batch b : loader.epoch(0)) (void)b.size();
    auto const allocations =
        sim::calls("cudaMalloc") + sim::calls("cudaHostAlloc") + sim::calls("cudaMallocAsync");
    auto const waits = sim::calls("cudaDeviceSynchronize");
    for (cuota::batch b : loader.epoch(1)) (void)b.size();
    CHECK(sim::calls("cudaMalloc") + sim::calls("cudaHostAlloc") + sim::calls("cudaMallocAsync") ==
          allocations);
    CHECK(sim::calls("cudaDeviceSynchronize") == waits);
    CHECK(device.peak() == planned.device_bytes);
}

TEST_CASE("a refusal for a loader with a transform reports the largest batch that would fit",
          "[data][device_transform]") {
    machine const on;
    cuota::budget const small{"small", 20'000};
    cuota::loader_options how{.batch_size = 1000, .device_budget = small, .transform = firsts()};
    auto const refused = thrown<cuota::budget_exceeded>([&] {
        (void)cuota::batch_loader{numbered_source{5000}, how};
    });
    auto const fits = refused.info().max_fit_count();
    how.batch_size = fits;
    CHECK(cuota::plan_loader(numbered_source{5000}, how).device_bytes <= 20'000);
    how.batch_size = fits + 1;
    CHECK(cuota::plan_loader(numbered_source{5000}, how).device_bytes > 20'000);
    how.batch_size = cuota::automatic_batch;
    CHECK(cuota::batch_loader{numbered_source{5000}, how}.plan().batch_size == fits);
}

TEST_CASE("an exception of a transform is thrown in place of its batch", "[data][device_transform]") {
    machine const on;
    cuota::stream const s;
    std::uint64_t bad = 8;
    cuota::batch_loader loader{numbered_source{20},
                               {.batch_size = 4, .transform = firsts([&](transform_context const& job) {
                                                     if (job.samples()[0] == bad)
                                                         throw std::runtime_error{"no such crop"};
                                                 })}};
    {
        auto epoch = loader.epoch(0);
        for (std::uint64_t i = 0; i != 2; ++i) expect_transformed(s, epoch.next().value(), 0);
        CHECK(mentions(thrown<std::runtime_error>([&] { (void)epoch.next(); }).what(), "no such crop"));
        CHECK_THROWS_AS(epoch.next(), std::runtime_error);
    }
    bad = 100;
    std::uint64_t batches = 0;
    for (cuota::batch b : loader.epoch(1)) {
        expect_transformed(s, b, 1);
        ++batches;
    }
    CHECK(batches == 5);
}

TEST_CASE("a transform can view its fields only by their types or as bytes", "[data][device_transform]") {
    machine const on;
    std::vector<std::string> said;
    cuota::batch_loader loader{
        numbered_source{4},
        {.batch_size = 4, .transform = firsts([&](transform_context const& job) {
                              auto const note = [&](auto view) {
                                  said.emplace_back(thrown<cuota::usage_error>([&] { (void)view(); }).what());
                              };
                              note([&] { return job.in<float>(0); });
                              note([&] { return job.in<std::uint32_t>(2); });
                              note([&] { return job.out<std::uint64_t>(1); });
                              note([&] { return job.out<double>(7); });
                              CHECK(job.in<std::byte>(0).size() == 4 * 5 * 4);
                              CHECK(job.out<std::byte>(1).size() == 4 * 8);
                          })}};
    auto epoch = loader.epoch(0);
    (void)epoch.next();
    REQUIRE(said.size() == 4);
    CHECK(mentions(said[0], "cannot view field numbers u32[5] of a transform's input as f32"));
    CHECK(mentions(said[1], "field index 2 is out of range: a transform's input has 2"));
    CHECK(mentions(said[2], "cannot view field rest f64 of a transform's output as u64"));
    CHECK(mentions(said[3], "field index 7 is out of range: a transform's output has 2"));
}

TEST_CASE("a transform that uses its own loader is refused, and does not hang", "[data][device_transform]") {
    machine const on;
    cuota::batch_loader* whose = nullptr;
    cuota::batch_loader loader{
        numbered_source{8},
        {.batch_size = 4, .transform = firsts([&](transform_context const&) { (void)whose->stats(); })}};
    whose = &loader;
    auto epoch = loader.epoch(0);
    CHECK(mentions(thrown<cuota::usage_error>([&] { (void)epoch.next(); }).what(),
                   "loader of numbers: cannot be used in its own device_transform"));
    CHECK(loader.stats().batches == 0);
}

TEST_CASE("a loader refuses a transform without a function or for other fields", "[data][device_transform]") {
    machine const on;
    auto const refused = [](device_transform wanted) {
        return std::string{thrown<cuota::usage_error>([&] {
                               (void)cuota::batch_loader{numbered_source{4},
                                                         {.batch_size = 2, .transform = std::move(wanted)}};
                           }).what()};
    };
    CHECK(mentions(refused({}), "the device_transform has no function to run"));
    device_transform others = firsts();
    others.input_fields = {{"images", cuota::element_type::u8, {28, 28}}};
    CHECK(mentions(refused(others), "loader of numbers: the device_transform does not match: the dataset has "
                                    "numbers u32[5], triple u64, the transform takes images u8[28, 28]"));
}

TEST_CASE("when any CUDA call fails, a loader with a transform leaks nothing", "[data][device_transform]") {
    machine on;
    auto const seen = support::survives_every_failure(on, [] {
        cuota::stream const s;
        cuota::batch_loader loader{numbered_source{12}, {.batch_size = 4, .transform = firsts()}};
        for (cuota::batch b : loader.epoch(0)) (void)b.view<double>(s, 1);
    });
    CHECK(seen.thrown > 0);
}

TEST_CASE("between epochs, a loader with a transform releases all of its slab", "[data][device_transform]") {
    machine const on;
    cuota::stream const s;
    cuota::budget device{"device", 20'000};
    cuota::batch_loader loader{
        numbered_source{12},
        {.batch_size = 4, .device_budget = device, .transform = firsts(), .reclaim_priority = 1}};
    for (cuota::batch b : loader.epoch(0)) expect_transformed(s, b, 0);
    device.charge(20'000);
    CHECK(device.held() == 20'000);
    device.refund(20'000);
    for (cuota::batch b : loader.epoch(1)) expect_transformed(s, b, 1);
}
