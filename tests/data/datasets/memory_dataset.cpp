// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/memory_dataset.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuota/data/datasets/zip_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::memory_dataset;
using support::gathered;
using support::mentions;

namespace {

std::vector<std::uint8_t> letters(std::string const& text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("memory_dataset gathers samples in the requested order, repeats included",
          "[data][memory_dataset]") {
    memory_dataset const from{"x", letters("aabbccddee"), {2}};
    CHECK(from.size() == 5);
    CHECK(from.name() == "x");
    CHECK(cuota::field_text(from.fields()[0]) == "x u8[2]");
    CHECK(gathered(from, {0, 1, 2, 3, 4}) == std::vector<std::string>{"aabbccddee"});
    CHECK(gathered(from, {4, 1, 1, 0, 1, 3}) == std::vector<std::string>{"eebbbbaabbdd"});
    CHECK(gathered(from, {}) == std::vector<std::string>{""});
}

TEST_CASE("memory_dataset gathers samples of every size", "[data][memory_dataset]") {
    for (std::size_t const bytes : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 63u, 64u, 300u}) {
        constexpr std::size_t samples = 50;
        std::vector<std::uint8_t> values(samples * bytes);
        for (std::size_t i = 0; i != values.size(); ++i)
            values[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
        memory_dataset const from{"x", values, {bytes}};
        std::vector<std::uint64_t> asked;
        for (std::uint64_t i = 0; i != 200; ++i) asked.push_back(i % 11 < 5 ? i % samples : i * i % samples);
        std::vector<std::byte> out(asked.size() * bytes);
        std::span<std::byte> const to = out;
        from.gather(asked, {&to, 1});
        for (std::size_t i = 0; i != asked.size(); ++i)
            REQUIRE(std::memcmp(out.data() + i * bytes, values.data() + asked[i] * bytes, bytes) == 0);
    }
}

TEST_CASE("memory_dataset owns or refers to numbers of any type", "[data][memory_dataset]") {
    std::array<float, 6> const floats{1, 2, 3, 4, 5, 6};
    memory_dataset const seen = memory_dataset::of("images", std::span{floats}, {3});
    CHECK(cuota::field_text(seen.fields()[0]) == "images f32[3]");
    CHECK(seen.size() == 2);
    memory_dataset const labels{"labels", std::vector<std::int64_t>{-1, 7}};
    CHECK(cuota::field_text(labels.fields()[0]) == "labels i64");
    cuota::zip_dataset const both{seen, labels};
    std::array<float, 3> image{};
    std::int64_t label = 0;
    std::array<std::span<std::byte>, 2> const out{std::as_writable_bytes(std::span{image}),
                                                  std::as_writable_bytes(std::span{&label, 1})};
    std::uint64_t const second = 1;
    both.gather({&second, 1}, out);
    CHECK(image == std::array<float, 3>{4, 5, 6});
    CHECK(label == 7);
}

TEST_CASE("a copy of a memory_dataset keeps the values", "[data][memory_dataset]") {
    auto original = std::make_unique<memory_dataset>("x", letters("abcd"));
    memory_dataset const copy = *original;
    original.reset();
    CHECK(gathered(copy, {3, 0}) == std::vector<std::string>{"da"});
}

TEST_CASE("memory_dataset refuses incomplete samples and samples that are out of range",
          "[data][memory_dataset]") {
    using support::thrown;
    CHECK(mentions(thrown<cuota::usage_error>([] {
                       (void)memory_dataset{"x", letters("abc"), {2}};
                   }).what(),
                   "x: 3 values are not a whole number of samples of x u8[2]"));
    CHECK(mentions(thrown<cuota::usage_error>([] {
                       (void)memory_dataset{"x", letters("abc"), {0}};
                   }).what(),
                   "is empty"));
    memory_dataset const from{"x", letters("abcd")};
    CHECK(mentions(thrown<cuota::usage_error>([&] {
                       (void)gathered(from, {0, 4});
                   }).what(),
                   "x: gather: sample 4 is out of range: the dataset has 4 samples"));
    memory_dataset const empty{"x", std::vector<float>{}};
    CHECK(empty.size() == 0);
}

TEST_CASE("memory_dataset gathers without allocating", "[data][memory_dataset]") {
    memory_dataset const from{"x", letters("aabbccddee"), {2}};
    std::vector<std::uint64_t> const asked{3, 4, 0};
    std::array<std::byte, 6> room{};
    std::span<std::byte> const out = room;
    support::heap_watch const watch;
    from.gather(asked, {&out, 1});
    CHECK(watch.allocations() == 0);
}
