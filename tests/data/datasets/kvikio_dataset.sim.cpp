// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// KvikIO's own library without GPUDirect reads through its own pinned memory. The driver is tests/support/simulated_driver.cpp.
#include <cuota/data/datasets/kvikio_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/npy_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/machine.hpp"
#include "support/samples.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using cuota::batch_loader;
using cuota::element_type;
using cuota::kvikio_dataset;
using cuota::raw_dataset;
using support::gathered;
using support::machine;
using support::mentions;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

// Returns 100 samples of `width` numbers, each the sample's index, after a header of 12 bytes.
raw_dataset numbered(support::temp_folder const& folder, char const* name, std::size_t width = 600) {
    std::vector<std::uint32_t> all(3, 77);
    for (std::uint32_t i = 0; i != 100; ++i) all.insert(all.end(), width, i);
    return {folder.write(name, support::bytes_of(all)),
            {.header = 12, .fields = {{name, element_type::u32, {width}}}}};
}
numbers mixed() {
    numbers samples{5, 6, 7, 99, 0, 0};
    for (std::uint64_t i = 0; i != 100; ++i) samples.push_back(i * 7 % 100);
    return samples;
}

struct first_of_row {
    cuota::device_span<std::uint32_t const> rows;
    cuota::device_span<std::uint32_t> out;
    std::size_t width;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        out[i] = rows[i * width] == rows[i * width + width - 1] ? rows[i * width] : ~0U;
    }
};
// Returns each sample's number as field k has it on the device, or ~0 if the sample's first and last value differ.
numbers seen(cuota::stream const& s, cuota::batch const& b, std::size_t k = 0) {
    cuota::device_buffer<std::uint32_t> out{b.size(), s, cuota::device_memory{}, cuota::no_init};
    cuota::for_each_index(s, b.size(),
                          first_of_row{b.view<std::uint32_t>(s, k), out.write(s), b.fields()[k].count()});
    std::vector<std::uint32_t> const all = out.to_vector(s);
    return {all.begin(), all.end()};
}
cuota::loader_options on_the_device(std::size_t batch) {
    return {.batch_size = batch, .workers = 2, .host_memory = cuota::device_memory{}};
}

static_assert(cuota::detail::reads_runs<kvikio_dataset>);
static_assert(cuota::subset_dataset<kvikio_dataset>::fills_device_memory);
static_assert(cuota::zip_dataset<kvikio_dataset, kvikio_dataset>::fills_device_memory);
static_assert(!cuota::zip_dataset<kvikio_dataset, cuota::memory_dataset>::fills_device_memory);

}  // namespace

TEST_CASE("kvikio_dataset reads the same samples as its dataset, in any order", "[data][kvikio_dataset]") {
    machine const on;
    support::temp_folder const folder;
    raw_dataset const raw = numbered(folder, "x");
    kvikio_dataset const from{raw};
    CHECK(from.size() == 100);
    CHECK(from.name() == raw.name());
    CHECK(cuota::fields_text(from.fields()) == "x u32[600]");
    CHECK(gathered(from, mixed()) == gathered(raw, mixed()));
    CHECK(gathered(from, {}) == gathered(raw, {}));
    std::vector<cuota::sample_run> const runs{{3, 40}, {99, 1}, {0, 0}, {43, 2}};
    std::vector<std::uint32_t> room(43 * 600);
    std::span<std::byte> const out[] = {std::as_writable_bytes(std::span{room})};
    from.gather_runs(runs, out);
    for (std::size_t i = 0; i != 43; ++i) REQUIRE(room[i * 600] == (i < 40 ? 3 + i : i == 40 ? 99 : i + 2));
    CHECK_THROWS_AS(gathered(from, {100}), cuota::usage_error);
}

TEST_CASE("kvikio_dataset can read into device memory", "[data][kvikio_dataset]") {
    machine const on;
    cuota::stream const s;
    support::temp_folder const folder;
    raw_dataset const raw = numbered(folder, "x");
    numbers const samples = mixed();
    cuota::device_buffer<std::uint32_t> there{samples.size() * 600, s, cuota::device_memory{}};
    s.synchronize();
    {
        auto const lease = there.write(s);
        std::span<std::byte> const out[] = {
            {reinterpret_cast<std::byte*>(lease.span().data()), samples.size() * 2400}};
        kvikio_dataset{raw}.gather(samples, out);
    }
    CHECK(support::bytes_of(there.to_vector(s)) == gathered(raw, samples)[0]);
}

TEST_CASE("a loader with slots in device memory reads into them", "[data][kvikio_dataset]") {
    machine const on;
    cuota::stream const s;
    support::temp_folder const folder;
    cuota::zip_dataset const both{kvikio_dataset{numbered(folder, "a")},
                                  cuota::subset_dataset{kvikio_dataset{numbered(folder, "b", 3)}, 0, 100}};
    cuota::budget const device{"device", 1 << 20};
    cuota::loader_options how = on_the_device(9);
    how.seed = 3;
    how.device_budget = how.pinned_budget = device;
    {
        batch_loader loader{both, how};
        CHECK(device.held() == loader.plan().device_bytes + loader.plan().pinned_bytes);
        for (std::uint64_t number = 0; number != 3; ++number) {
            numbers all;
            for (cuota::batch const b : loader.epoch(number)) {
                numbers const now(b.samples().begin(), b.samples().end());
                REQUIRE(seen(s, b, 0) == now);
                REQUIRE(seen(s, b, 1) == now);
                all.insert(all.end(), now.begin(), now.end());
            }
            numbers order(100);
            cuota::shuffle_sampler{3}.draw(100, number, 0, order);
            CHECK(all == order);
        }
    }
    CHECK(device.held() == 0);
    how.pinned_budget = cuota::budget{"small", 1000};
    CHECK(thrown<cuota::budget_exceeded>([&] {
              batch_loader{both, how};
          })
              .info()
              .device);  // the device of the slots
    how.host_memory = cuota::pinned_memory{};
    CHECK(!thrown<cuota::budget_exceeded>([&] { batch_loader{both, how}; }).info().device);
    CHECK(device.held() == 0);
}

TEST_CASE("a loader refuses slots in device memory if its dataset can only fill host memory",
          "[data][kvikio_dataset]") {
    machine const on;
    support::temp_folder const folder;
    cuota::zip_dataset const half{kvikio_dataset{numbered(folder, "a")},
                                  cuota::memory_dataset{"b", std::vector<std::uint8_t>(100)}};
    CHECK(mentions(thrown<cuota::usage_error>([&] {
                       batch_loader{half, on_the_device(4)};
                   }).what(),
                   "+ b: host_memory is device memory, but this dataset can only fill host memory"));
    CHECK_NOTHROW(batch_loader{half, {.batch_size = 4}});
}

TEST_CASE("kvikio_dataset names an unreadable sample, and the error is thrown in place of its batch",
          "[data][kvikio_dataset]") {
    machine const on;
    cuota::stream const s;
    support::temp_folder const folder;
    kvikio_dataset const from{numbered(folder, "x")};
    REQUIRE(::truncate(folder.path("x").c_str(), 12 + 2400 * 50 + 100) == 0);
    auto const error = thrown<cuota::data_error>([&] { (void)gathered(from, {3, 49, 50, 70, 2}); });
    CHECK(error.file() == folder.path("x"));
    CHECK(mentions(error.why(), "sample 49 cannot be read"));  // 49 and 50 are one read
    CHECK(error.offset() == 12 + 2400 * 49);
    CHECK(gathered(from, {3, 49}).size() == 1);

    batch_loader loader{from, on_the_device(10)};
    auto epoch = loader.epoch(0);
    for (std::uint64_t i = 0; i != 5; ++i) {
        auto const b = epoch.next();
        REQUIRE(b);
        CHECK(seen(s, *b)[0] == 10 * i);
    }
    CHECK(mentions(thrown<cuota::data_error>([&] { (void)epoch.next(); }).why(), "sample 50 cannot be read"));
}

TEST_CASE("kvikio_dataset reads a .npy file from the offset of its data", "[data][kvikio_dataset]") {
    machine const on;
    support::temp_folder const folder;
    std::string header = "{'descr': '<u4', 'fortran_order': False, 'shape': (100, 8), }";
    header.resize(117, ' ');
    header += '\n';
    std::vector<std::uint32_t> values(800);
    for (std::size_t i = 0; i != values.size(); ++i) values[i] = static_cast<std::uint32_t>(i / 8);
    std::string const magic{"\x93NUMPY\x01\x00", 8};
    std::string const length{static_cast<char>(header.size()), '\0'};
    cuota::npy_dataset const array{
        folder.write("x.npy", magic + length + header + support::bytes_of(values))};
    CHECK(gathered(kvikio_dataset{array}, mixed()) == gathered(array, mixed()));
}

TEST_CASE("kvikio_dataset refuses records of several fields", "[data][kvikio_dataset]") {
    support::temp_folder const folder;
    raw_dataset const two{folder.write("x", "abcd"), {.fields = {{"a"}, {"b"}}}};
    CHECK(mentions(thrown<cuota::usage_error>([&] { kvikio_dataset{two}; }).what(),
                   "x: kvikio_dataset requires exactly one field, not a u8, b u8"));
}

TEST_CASE("a kvikio_dataset that was moved from is still valid", "[data][kvikio_dataset][moved_from]") {
    machine const on;
    support::temp_folder const folder;
    kvikio_dataset first{numbered(folder, "x")};
    kvikio_dataset const second{std::move(first)};
    CHECK(first.name() == second.name());
    CHECK(support::gathered(first, mixed()) == support::gathered(second, mixed()));
}

TEST_CASE("in a child, a kvikio_dataset is destroyed without a CUDA call, and a read is refused as misuse",
          "[data][kvikio_dataset][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    machine const on;
    support::temp_folder const folder;
    std::optional<kvikio_dataset> from{numbered(folder, "x")};
    CHECK(gathered(*from, mixed()).size() == 1);
    int const ends = support::status_of_ends_in_child([&] { from.reset(); });
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        std::vector<std::uint32_t> room(600);
        std::span<std::byte> const out[] = {std::as_writable_bytes(std::span{room})};
        ask.refuses("gather", [&] { from->gather(numbers{5}, out); });
        ask.refuses("gather_runs", [&] { from->gather_runs(std::vector<cuota::sample_run>{{3, 1}}, out); });
    });
    CHECK(requests == 0);
}
