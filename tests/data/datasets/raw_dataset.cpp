// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/detail/datasets/read_coalescer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::element_type;
using cuota::raw_dataset;
using support::gathered;
using support::mentions;

/// Returns a small layout like CIFAR-10: a label, then an image.
cuota::raw_layout labelled() {
    return {.header = 5,
            .record_bytes = 0,
            .fields = {{"label", element_type::u8, {}}, {"image", element_type::u8, {2, 3}}}};
}
cuota::raw_layout plain(std::size_t record) { return {.fields = {{"x", element_type::u8, {record}}}}; }

/// The reads of a run_reader: offset and sizes of the parts.
using reads = std::vector<std::pair<std::uint64_t, std::vector<std::size_t>>>;
auto recorder(reads& into) {
    return cuota::detail::run_reader{[&into]<class T>(std::uint64_t offset, std::span<T> parts) {
        into.emplace_back(offset, std::vector<std::size_t>{});
        if constexpr (std::is_same_v<T, std::byte>) into.back().second.push_back(parts.size());
        else
            for (iovec const& part : parts) into.back().second.push_back(part.iov_len);
    }};
}

}  // namespace

TEST_CASE("raw_dataset gathers samples in the requested order, repeats included", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", "aabbccddee"),
                           {.record_bytes = 2, .fields = plain(2).fields}};

    CHECK(from.size() == 5);
    CHECK(from.name() == folder.path("x.raw"));
    CHECK(gathered(from, {0, 1, 2, 3, 4}) == std::vector<std::string>{"aabbccddee"});
    CHECK(gathered(from, {4, 1, 1, 0, 3}) == std::vector<std::string>{"eebbbbaadd"});
    CHECK(gathered(from, {}) == std::vector<std::string>{""});
}

TEST_CASE("raw_dataset splits records into fields", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", "HEAD:0abcdef1ghijkl2mnopqr"), labelled()};

    CHECK(from.size() == 3);
    CHECK(from.fields().size() == 2);
    CHECK(gathered(from, {0, 1, 2}) == std::vector<std::string>{"012", "abcdefghijklmnopqr"});
    CHECK(gathered(from, {2, 0}) == std::vector<std::string>{"20", "mnopqrabcdef"});
}

TEST_CASE("raw_dataset gathers the same bytes in random order as one sample at a time",
          "[data][raw_dataset]") {
    support::temp_folder const folder;
    std::string const header(5, '#');
    raw_dataset const from{folder.write("x.raw", header + support::pattern(7 * 1000)), labelled()};
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i != 1000; ++i)
        samples.push_back(i * 387 % 1000 / 3 * 3 % 1000 + (i % 5 == 0 ? 1 : 0));
    for (auto& sample : samples) sample %= 1000;

    std::vector<std::string> expected(2);
    for (auto const sample : samples) {
        auto const one = gathered(from, {sample});
        expected[0] += one[0];
        expected[1] += one[1];
    }
    CHECK(gathered(from, samples) == expected);
    CHECK(gathered(from, support::first_samples(1000))[1].substr(0, 6) == support::pattern(7).substr(1));
}

TEST_CASE("consecutive samples are one read, and random samples are one read each", "[data][raw_dataset]") {
    std::vector<std::byte> memory(40);
    std::span<std::byte> const out{memory};

    SECTION("one field: one read of one part") {
        reads seen;
        auto reader = recorder(seen);
        for (std::size_t i = 0; i != 10; ++i) reader.add(100 + 4 * i, out.subspan(4 * i, 4));
        reader.flush();
        CHECK(seen == reads{{100, {40}}});
    }
    SECTION("two fields: one read into alternating parts") {
        reads seen;
        auto reader = recorder(seen);
        for (std::size_t i = 0; i != 3; ++i) {
            reader.add(4 * i, out.subspan(i, 1));
            reader.add(4 * i + 1, out.subspan(10 + 3 * i, 3));
        }
        reader.flush();
        CHECK(seen == reads{{0, {1, 3, 1, 3, 1, 3}}});
    }
    SECTION("random samples: one read each; no samples: no read") {
        reads seen;
        auto reader = recorder(seen);
        reader.flush();
        reader.add(8, out.subspan(0, 4));
        reader.add(4, out.subspan(4, 4));
        reader.add(4, out.subspan(8, 4));
        reader.flush();
        reader.flush();
        CHECK(seen == reads{{8, {4}}, {4, {4}}, {4, {4}}});
    }
    SECTION("parts beyond the limit of one read are in the next read, without a gap") {
        reads seen;
        auto reader = recorder(seen);
        for (std::size_t i = 0; i != 300; ++i) reader.add(i, out.subspan(i % 2 * 20, 1));
        reader.flush();
        CHECK(seen.size() == 2);
        CHECK(seen[0].second.size() == 256);
        CHECK(seen[1].first == 256);
        CHECK(seen[1].second.size() == 44);
    }
    SECTION("a full read is extended by bytes that continue its last part") {
        reads seen;
        auto reader = recorder(seen);
        for (std::size_t i = 0; i != 256; ++i) reader.add(i, out.subspan(i % 2 * 20, 1));
        reader.add(256, out.subspan(21, 1));
        reader.flush();
        CHECK(seen.size() == 1);
        CHECK(seen[0].second.back() == 2);
    }
}

TEST_CASE("raw_dataset gathers without allocating", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", support::pattern(5 + 7 * 3000)), labelled()};
    auto const samples = support::first_samples(3000);
    std::vector<std::byte> labels(3000);
    std::vector<std::byte> images(18'000);
    std::vector<std::span<std::byte>> const out{labels, images};

    support::heap_watch const watch;
    from.gather(samples, out);
    std::size_t const allocations = watch.allocations();

    CHECK(allocations == 0);
}

TEST_CASE("raw_dataset refuses a file that ends inside a record or its header", "[data][raw_dataset]") {
    support::temp_folder const folder;

    auto const inside = support::thrown<cuota::data_error>(
        [&] { raw_dataset const from(folder.write("x.raw", "aabbc"), plain(2)); });
    CHECK(inside.offset() == 4);
    CHECK(inside.why() == "the last record has 1 of its 2 bytes");
    auto const header = support::thrown<cuota::data_error>(
        [&] { raw_dataset const from(folder.write("y.raw", "HEA"), labelled()); });
    CHECK(header.offset() == 3);
    CHECK(mentions(header.why(), "header of 5 bytes"));
}

TEST_CASE("raw_dataset accepts a file without records", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", "HEAD:"), labelled()};

    CHECK(from.size() == 0);
    CHECK(gathered(from, {}).size() == 2);
    REQUIRE_THROWS_AS(gathered(from, {0}), cuota::usage_error);
}

TEST_CASE("raw_dataset refuses a layout that contradicts itself", "[data][raw_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.write("x.raw", "aabbccdd");
    std::size_t const half = std::size_t{1} << 63;

    REQUIRE_THROWS_AS((raw_dataset{path, {}}), cuota::usage_error);
    REQUIRE_THROWS_AS((raw_dataset{path, {.record_bytes = 3, .fields = plain(2).fields}}),
                      cuota::usage_error);
    REQUIRE_THROWS_AS((raw_dataset{path, plain(0)}), cuota::usage_error);
    REQUIRE_THROWS_AS(
        (raw_dataset{path, {.fields = {{"a", element_type::u8, {half}}, {"b", element_type::u8, {half}}}}}),
        cuota::usage_error);
    REQUIRE_THROWS_AS((raw_dataset{path, {.fields = {{"a", element_type::f64, {half}}}}}),
                      cuota::usage_error);
}

TEST_CASE("raw_dataset names the sample and the offset when the file has shrunk", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", "HEAD:0abcdef1ghijkl2mnopqr"), labelled()};
    REQUIRE(::truncate(from.name().c_str(), 15) == 0);

    CHECK(gathered(from, {0})[1] == "abcdef");
    auto const run = support::thrown<cuota::data_error>([&] { gathered(from, {0, 1, 2}); });
    CHECK(run.offset() == 15);
    CHECK(run.file() == from.name());
    CHECK(mentions(run.why(), "sample 1 cannot be read"));
    auto const last = support::thrown<cuota::data_error>([&] { gathered(from, {2}); });
    CHECK(last.offset() == 19);
    CHECK(mentions(last.why(), "sample 2 cannot be read"));
}

TEST_CASE("several threads can gather from copies of a raw_dataset at once", "[data][raw_dataset]") {
    support::temp_folder const folder;
    raw_dataset const from{folder.write("x.raw", support::pattern(5 + 7 * 512)), labelled()};
    auto const all = gathered(from, support::first_samples(512));

    std::vector<std::string> images(4);
    {
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t != 4; ++t)
            threads.emplace_back([&images, t, copy = from] {
                for (int round = 0; round != 20; ++round) {
                    std::vector<std::uint64_t> samples;
                    for (std::uint64_t i = 0; i != 512; ++i) samples.push_back((i * (2 * t + 1)) % 512);
                    images[t] = gathered(copy, samples)[1];
                }
            });
        for (std::thread& thread : threads) thread.join();
    }
    for (std::size_t t = 0; t != 4; ++t) {
        std::string expected;
        for (std::size_t i = 0; i != 512; ++i) expected += all[1].substr(6 * ((i * (2 * t + 1)) % 512), 6);
        CHECK(images[t] == expected);
    }
}
