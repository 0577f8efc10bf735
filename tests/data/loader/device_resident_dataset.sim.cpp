// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/device_resident_dataset.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/samples.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::device_resident_dataset;
using support::machine;
using support::mentions;
using support::numbered_source;
using support::seen_by;
using support::thrown;

namespace {

struct copy_bytes {
    cuota::device_span<std::byte const> from;
    cuota::device_span<std::byte> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

std::vector<std::byte> bytes_of(cuota::stream const& s, cuota::batch const& b) {
    std::vector<std::byte> all;
    for (std::size_t k = 0; k != b.fields().size(); ++k) {
        auto const from = b.view<std::byte>(s, k);
        cuota::device_buffer<std::byte> seen{from.size(), s, cuota::device_memory{}, cuota::no_init};
        cuota::for_each_index(s, seen.size(), copy_bytes{from, seen.write(s)});
        auto const here = seen.to_vector(s);
        all.insert(all.end(), here.begin(), here.end());
    }
    return all;
}

void expect_same(cuota::batch_loader& one, cuota::batch_loader& other, std::uint64_t epoch) {
    cuota::stream const s;
    CHECK(cuota::fields_text(one.fields()) == cuota::fields_text(other.fields()));
    auto first = one.epoch(epoch);
    auto second = other.epoch(epoch);
    while (true) {
        auto const a = first.next();
        auto const b = second.next();
        REQUIRE(a.has_value() == b.has_value());
        if (!a) break;
        CHECK(std::ranges::equal(a->samples(), b->samples()));
        CHECK(bytes_of(s, *a) == bytes_of(s, *b));
    }
}

// Fields of 3, 4, 48 and 10 bytes, which use every word width.
auto mixed(std::size_t samples) {
    std::vector<std::uint8_t> a(samples * 3);
    std::vector<std::int32_t> b(samples);
    std::vector<double> c(samples * 6);
    std::vector<std::int16_t> d(samples * 5);
    for (std::size_t i = 0; i != a.size(); ++i) a[i] = static_cast<std::uint8_t>(i * 7);
    for (std::size_t i = 0; i != b.size(); ++i) b[i] = static_cast<std::int32_t>(i) - 5;
    for (std::size_t i = 0; i != c.size(); ++i) c[i] = static_cast<double>(i) / 3;
    for (std::size_t i = 0; i != d.size(); ++i) d[i] = static_cast<std::int16_t>(i * 31);
    return cuota::zip_dataset{cuota::memory_dataset{"a", a, {3}}, cuota::memory_dataset{"b", b},
                              cuota::memory_dataset{"c", c, {6}}, cuota::memory_dataset{"d", d, {5}}};
}

}  // namespace

TEST_CASE("a device_resident_dataset has the same batches as its dataset",
          "[data][device_resident_dataset]") {
    auto const seed = GENERATE(std::uint64_t{0}, std::uint64_t{1});
    machine const on;
    if (seed != 0) sim::set_schedule(sim::schedule::late, seed);
    sim::set_race_checks(sim::race_checks::report);
    auto const from = mixed(37);
    cuota::loader_options const how{.batch_size = 5, .seed = 3, .workers = 2};
    cuota::batch_loader streamed{from, how};
    device_resident_dataset const data{from, how};
    CHECK(data.size() == 37);
    CHECK(data.name() == from.name());
    CHECK(cuota::fields_text(data.fields()) == cuota::fields_text(from.fields()));
    cuota::batch_loader kept = data.loader(how);
    CHECK(kept.plan().host_slot.sample_bytes == 8);
    for (std::uint64_t epoch = 0; epoch != 3; ++epoch) expect_same(streamed, kept, epoch);
    CHECK(sim::race_reports() == std::vector<std::string>{});

    // The second loader resumes where the first one was.
    {
        auto epoch = streamed.epoch(4);
        (void)epoch.next();
    }
    auto on_from_there = kept.epoch(streamed.state());
    CHECK(on_from_there.next()->index() == 0);
    CHECK(kept.state().position == 10);
}

TEST_CASE("a device_resident_dataset has the same batches as its dataset through a transform",
          "[data][device_resident_dataset]") {
    machine const on;
    auto const from = mixed(20);
    cuota::loader_options const how{
        .batch_size = 6,
        .seed = 3,
        .transform = cuota::converted_on_device(from.fields(), {{"a", cuota::element_type::f32, 0.5, 1}})};
    cuota::batch_loader streamed{from, how};
    cuota::batch_loader kept = device_resident_dataset{from, how}.loader(how);
    expect_same(streamed, kept, 0);
    CHECK(kept.plan().scratch.sample_bytes == streamed.plan().host_slot.sample_bytes);

    cuota::memory_dataset const other{"x", std::vector<float>{1, 2, 3}, {3}};
    CHECK_THROWS_AS((device_resident_dataset{other, {.batch_size = 1}}.loader(how)), cuota::usage_error);
}

TEST_CASE("a device_resident_dataset is read once, and is charged while it is in use",
          "[data][device_resident_dataset]") {
    machine const on;
    cuota::stream const s;
    cuota::budget const device{"device", 100'000};
    cuota::budget const pinned{"pinned", 100'000};
    std::atomic<std::uint64_t> read = 0;
    auto from = numbered_source{50}.before_each(
        [&](std::span<std::uint64_t const> samples) { read += samples.size(); });
    cuota::loader_options const how{
        .batch_size = 8, .device_budget = device, .pinned_budget = pinned, .seed = 1};
    std::optional<cuota::batch> last;
    {
        std::optional<device_resident_dataset> data{std::in_place, from, how};
        CHECK(read == 50);
        CHECK(data->bytes() == 1024 + 512);  // 20 and 8 bytes per sample, rounded up to multiples of 256
        CHECK(device.held() == 1536);
        CHECK(pinned.held() == 0);
        cuota::batch_loader loader = data->loader(how);
        data.reset();
        CHECK(device.held() == 1536 + loader.plan().device_bytes);
        for (std::uint64_t epoch = 0; epoch != 2; ++epoch)
            for (cuota::batch b : loader.epoch(epoch)) {
                auto const seen = seen_by(s, b);
                CHECK(std::ranges::equal(seen, b.samples()));
            }
        CHECK(read == 50);
        CHECK(loader.stats().bytes == 50 * 8);  // transferred to the device
        auto epoch = loader.epoch(2);
        last = epoch.next();
    }
    CHECK(std::ranges::equal(seen_by(s, *last), last->samples()));
    last.reset();
    CHECK(device.held() == 0);
    CHECK(pinned.held() == 0);
}

TEST_CASE("cached_on_device keeps the data on the device if it fits, and streams it otherwise",
          "[data][device_resident_dataset]") {
    machine const on;
    cuota::stream const s;
    numbered_source const from{500};
    cuota::budget const pinned{"pinned", 1'000'000};
    // Exactly the required bytes, and one byte less.
    cuota::loader_options how{.batch_size = 8, .pinned_budget = pinned, .seed = 1};
    std::size_t const needed = device_resident_dataset::bytes_for(from, how);
    for (std::size_t const limit : {needed, needed - 1}) {
        cuota::budget const device{"device", limit};
        how.device_budget = device;
        auto [loader, cached] = cuota::cached_on_device(from, how);
        INFO("a budget of " << limit);
        CHECK(cached == (limit == needed ? 10'240 + 4'096 : 0));
        CHECK(device.held() == cached + loader.plan().device_bytes);
        CHECK(device.peak() <= limit);
        std::uint64_t samples = 0;
        for (cuota::batch b : loader.epoch(0)) {
            auto const seen = seen_by(s, b);
            CHECK(std::ranges::equal(seen, b.samples()));
            samples += b.size();
        }
        CHECK(samples == 500);
    }
    how.device_budget.reset();
    CHECK(mentions(thrown<cuota::usage_error>([&] { (void)cuota::cached_on_device(from, how); }).what(),
                   "device_resident_dataset of numbers: keeping the data only if it fits requires a budget"));
}

TEST_CASE("cached_on_device streams the data if the device has less memory than the budget",
          "[data][device_resident_dataset]") {
    machine const on;
    cuota::budget const device{"device", std::size_t{1} << 30};
    sim::fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
    auto const [loader, cached] =
        cuota::cached_on_device(numbered_source{50}, {.batch_size = 8, .device_budget = device});
    CHECK(cached == 0);
    CHECK(device.held() == loader.plan().device_bytes);
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("an automatic batch beside data on the device uses the remaining bytes",
          "[data][device_resident_dataset]") {
    machine const on;
    cuota::budget const device{"device", 200'000};
    auto const [loader, cached] = cuota::cached_on_device(
        numbered_source{5000}, {.batch_size = cuota::automatic_batch, .device_budget = device});
    CHECK(cached == 100'096 + 40'192);
    CHECK(device.held() <= 200'000);
    CHECK(loader.plan().batch_size > 500);
}

TEST_CASE("data that cannot be read leaves nothing allocated on the device",
          "[data][device_resident_dataset]") {
    machine const on;
    auto from = numbered_source{50}.before_each([](std::span<std::uint64_t const> samples) {
        if (samples.front() >= 32) throw cuota::data_error{"x.bin", 0, "is torn"};
    });
    cuota::budget const device{"device", 100'000};
    CHECK(mentions(thrown<cuota::data_error>([&] {
                       (void)device_resident_dataset{from, {.batch_size = 8, .device_budget = device}};
                   }).what(),
                   "is torn"));
    CHECK(device.held() == 0);
}

TEST_CASE("a device_resident_dataset refuses a loader on another device", "[data][device_resident_dataset]") {
    machine const on{{.devices = 2}};
    device_resident_dataset const data{numbered_source{10}, {.batch_size = 5}};
    cuota::device_scope const there{cuota::device{1}};
    CHECK(
        mentions(thrown<cuota::usage_error>([&] { (void)data.loader({.batch_size = 5}); }).what(),
                 "device_resident_dataset of numbers: the data is on device 0, but the current device is 1"));
}

TEST_CASE("a device_resident_dataset can be empty", "[data][device_resident_dataset]") {
    machine const on;
    device_resident_dataset const data{numbered_source{0}, {.batch_size = 5}};
    CHECK(data.bytes() == 0);
    cuota::batch_loader loader = data.loader({.batch_size = 5});
    CHECK_FALSE(loader.epoch(0).next());
}

TEST_CASE("when any CUDA call fails, a device_resident_dataset leaks nothing",
          "[data][device_resident_dataset]") {
    machine on;
    auto const seen = support::survives_every_failure(on, [] {
        cuota::stream const s;
        cuota::batch_loader loader =
            device_resident_dataset{numbered_source{12}, {.batch_size = 4}}.loader({.batch_size = 4});
        for (cuota::batch b : loader.epoch(0)) (void)b.view<std::uint32_t>(s);
    });
    CHECK(seen.thrown > 0);
}
