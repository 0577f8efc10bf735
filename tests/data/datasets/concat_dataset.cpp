// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/concat_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::concat_dataset;
using cuota::element_type;
using cuota::raw_dataset;
using support::gathered;
using support::mentions;

static_assert(cuota::dataset<concat_dataset>);
static_assert(std::is_nothrow_move_constructible_v<concat_dataset>);

raw_dataset letters(support::temp_folder const& folder, char const* name, std::string const& text,
                    cuota::field const& f = {"letter"}) {
    return raw_dataset{folder.write(name, text), {.fields = {f}}};
}

/// Returns a dataset that records its requests.
using requests = std::vector<std::vector<std::uint64_t>>;
auto noting(requests& into, std::uint64_t size, std::size_t fields = 1) {
    auto const fill = [&into](std::span<std::uint64_t const> samples,
                              std::span<std::span<std::byte> const> out) {
        into.emplace_back(samples.begin(), samples.end());
        for (std::span<std::byte> const room : out)
            for (std::size_t i = 0; i != room.size(); ++i) room[i] = static_cast<std::byte>(samples[i]);
    };
    return cuota::callable_dataset{"noting", size, std::vector<cuota::field>(fields, {"x"}), fill};
}

}  // namespace

TEST_CASE("concat_dataset has the samples of its datasets one after the other", "[data][concat_dataset]") {
    support::temp_folder const folder;
    auto const first = letters(folder, "first", "abc");
    concat_dataset const all{first, letters(folder, "none", ""), letters(folder, "second", "de"),
                             letters(folder, "third", "fgh")};

    CHECK(all.size() == 8);
    CHECK(all.name() == folder.path("first") + " and 3 more");
    REQUIRE(all.fields().size() == 1);
    CHECK(all.fields()[0] == cuota::field{"letter"});
    CHECK(gathered(all, support::first_samples(8))[0] == "abcdefgh");
    CHECK(gathered(all, {7, 2, 3, 3, 0, 4, 5})[0] == "hcddaef");
    CHECK(gathered(all, {})[0].empty());
    REQUIRE_THROWS_AS(gathered(all, {8}), cuota::usage_error);

    concat_dataset const copy = all;
    CHECK(gathered(copy, {5})[0] == "f");
}

TEST_CASE(
    "concat_dataset accepts datasets of different types, with several fields, and other concat_datasets",
    "[data][concat_dataset]") {
    support::temp_folder const folder;
    raw_dataset const pairs{folder.write("pairs", "a0b1c2"), {.fields = {{"x"}, {"y"}}}};
    cuota::zip_dataset const zipped{letters(folder, "x", "UVW", {"x"}), letters(folder, "y", "345", {"y"})};

    concat_dataset const both{pairs, cuota::subset_dataset{zipped, 1, 2}};
    CHECK(gathered(both, {4, 1, 3}) == std::vector<std::string>{"WbV", "514"});
    concat_dataset const more{both, pairs, both};
    CHECK(more.size() == 13);
    CHECK(gathered(more, {12, 0, 5, 9}) == std::vector<std::string>{"Waab", "5001"});
}

TEST_CASE("concat_dataset requires at least one dataset in a vector", "[data][concat_dataset]") {
    support::temp_folder const folder;
    concat_dataset const one{std::vector{letters(folder, "x", "abc")}};

    CHECK(one.name() == folder.path("x"));
    CHECK(gathered(one, {2, 0})[0] == "ca");
    REQUIRE_THROWS_AS(concat_dataset{std::vector<raw_dataset>{}}, cuota::usage_error);
}

TEST_CASE("concat_dataset gathers successive samples of one dataset in a single request",
          "[data][concat_dataset]") {
    requests first;
    requests second;
    concat_dataset const both{noting(first, 3000), noting(second, 10)};

    SECTION("samples are requested from each dataset in the given order") {
        CHECK(gathered(both, {5, 2999, 7, 3000, 3009, 0})[0] == std::string{"\5\xb7\7\0\11\0", 6});
        CHECK(first == requests{{5, 2999, 7}, {0}});
        CHECK(second == requests{{0, 9}});
    }
    SECTION("a request has at most 1024 samples") {
        CHECK(gathered(both, support::first_samples(3010))[0].size() == 3010);
        REQUIRE(first.size() == 3);
        CHECK(first[0].size() == 1024);
        CHECK(first[2].back() == 2999);
        CHECK(second == requests{support::first_samples(10)});
    }
    SECTION("an invalid request reaches no dataset") {
        REQUIRE_THROWS_AS(gathered(both, {0, 3010}), cuota::usage_error);
        CHECK(first.empty());
    }
}

TEST_CASE("concat_dataset refuses datasets of different fields, and names both", "[data][concat_dataset]") {
    support::temp_folder const folder;
    auto const a = letters(folder, "a", "abcdef");
    auto const refused = [&](raw_dataset const& other) {
        return std::string{
            support::thrown<cuota::usage_error>([&] { concat_dataset const all(a, other); }).what()};
    };

    CHECK(refused(letters(folder, "b", "abcdef", {"letter", element_type::u8, {2}})) ==
          "cuota::usage_error: concat_dataset: the datasets have different fields: " + folder.path("b") +
              " has letter u8[2]; " + folder.path("a") + " has letter u8");
    CHECK(mentions(refused(letters(folder, "b", "abcdef", {"letter", element_type::i8})), "letter i8; "));
    raw_dataset const pairs{folder.write("c", "abcd"), {.fields = {{"x"}, {"y"}}}};
    raw_dataset const swapped{folder.write("d", "abcd"), {.fields = {{"y"}, {"x"}}}};
    CHECK(mentions(refused(pairs), "has x u8 + y u8; "));
    REQUIRE_THROWS_AS((concat_dataset{pairs, swapped}), cuota::usage_error);
}

TEST_CASE("a single field may have another name in each dataset", "[data][concat_dataset]") {
    support::temp_folder const folder;
    concat_dataset const all{letters(folder, "a", "ab", {"first"}), letters(folder, "b", "cd", {"second"})};

    CHECK(all.fields()[0].name == "first");
    CHECK(gathered(all, {3, 0})[0] == "da");
}

TEST_CASE("concat_dataset refuses more samples than std::uint64_t can count", "[data][concat_dataset]") {
    requests seen;
    auto const most = std::numeric_limits<std::uint64_t>::max();
    concat_dataset const all{noting(seen, most - 1), noting(seen, 1)};

    CHECK(all.size() == most);
    (void)gathered(all, {most - 1, most - 2});
    CHECK(seen == requests{{0}, {most - 2}});
    REQUIRE_THROWS_AS((concat_dataset{all, noting(seen, 1)}), cuota::usage_error);
}

TEST_CASE("concat_dataset gathers up to 16 fields without allocating, and accepts more fields",
          "[data][concat_dataset]") {
    support::temp_folder const folder;
    auto const of = [&](std::size_t fields) {
        raw_dataset const part{folder.write("x", support::pattern(fields * 600)),
                               {.fields = std::vector<cuota::field>(fields, {"x"})}};
        return concat_dataset{part, part, part};
    };
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i != 1800; ++i) samples.push_back(i * 7 % 1800);
    for (std::size_t const fields : {1U, 16U, 17U, 40U}) {
        INFO(fields);
        concat_dataset const all = of(fields);
        std::vector<std::vector<std::byte>> memory(fields, std::vector<std::byte>(samples.size()));
        std::vector<std::span<std::byte>> const out{memory.begin(), memory.end()};

        support::heap_watch const watch;
        all.gather(samples, out);
        std::size_t const allocations = watch.allocations();

        CHECK(allocations <= (fields > 16 ? 1 : 0));
        std::string const part = support::pattern(fields * 600);
        for (std::size_t i = 0; i < samples.size(); i += 97)
            for (std::size_t k = 0; k != fields; ++k)
                REQUIRE(memory[k][i] == static_cast<std::byte>(part[samples[i] % 600 * fields + k]));
    }
}

TEST_CASE("an error of concat_dataset names the file and the sample's number in it",
          "[data][concat_dataset]") {
    support::temp_folder const folder;
    concat_dataset const all{letters(folder, "a", "abcd"), letters(folder, "b", "efgh")};
    REQUIRE(::truncate(folder.path("b").c_str(), 2) == 0);

    auto const error = support::thrown<cuota::data_error>([&] { gathered(all, {0, 6}); });
    CHECK(error.file() == folder.path("b"));
    CHECK(error.offset() == 2);
    CHECK(mentions(error.why(), "sample 2 cannot be read"));
}
