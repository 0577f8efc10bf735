// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/subset_dataset.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::raw_dataset;
using cuota::subset_dataset;
using support::gathered;
using support::mentions;

static_assert(cuota::dataset<subset_dataset<raw_dataset>>);
static_assert(cuota::dataset<subset_dataset<subset_dataset<raw_dataset>>>);

raw_dataset letters(support::temp_folder const& folder, std::string const& text) {
    return raw_dataset{folder.write("letters", text), {.fields = {{"letter", cuota::element_type::u8, {}}}}};
}

}  // namespace

TEST_CASE("subset_dataset numbers its samples from 0", "[data][subset_dataset]") {
    support::temp_folder const folder;
    subset_dataset const middle{letters(folder, "abcdefgh"), 2, 4};

    CHECK(middle.size() == 4);
    CHECK(middle.name() == folder.path("letters") + "[2, 6)");
    CHECK(middle.fields()[0].name == "letter");
    CHECK(gathered(middle, {0, 3, 1})[0] == "cfd");
    REQUIRE_THROWS_AS(gathered(middle, {4}), cuota::usage_error);
}

TEST_CASE("a subset_dataset may have all samples, no samples, or samples of another subset",
          "[data][subset_dataset]") {
    support::temp_folder const folder;
    auto const whole = letters(folder, "abcdefgh");

    CHECK(gathered(subset_dataset{whole, 0, 8}, support::first_samples(8))[0] == "abcdefgh");
    CHECK(subset_dataset{whole, 8, 0}.size() == 0);
    subset_dataset const part{whole, 2, 5};
    CHECK(gathered(subset_dataset<subset_dataset<raw_dataset>>{part, 1, 3}, {2, 0})[0] == "fd");
    CHECK(gathered(subset_dataset{cuota::zip_dataset{whole, whole}, 1, 2}, {1, 0}) ==
          std::vector<std::string>{"cb", "cb"});
}

TEST_CASE("subset_dataset refuses a range outside of its dataset and states the dataset's size",
          "[data][subset_dataset]") {
    support::temp_folder const folder;
    auto const whole = letters(folder, "abcdefgh");
    auto const most = std::numeric_limits<std::uint64_t>::max();

    auto const error = support::thrown<cuota::usage_error>([&] { subset_dataset const part(whole, 5, 4); });
    CHECK(mentions(error.what(), "4 samples from sample 5 of " + folder.path("letters") +
                                     " are out of range: the dataset has 8"));
    REQUIRE_THROWS_AS((subset_dataset{whole, 9, 0}), cuota::usage_error);
    REQUIRE_THROWS_AS((subset_dataset{whole, 1, most}), cuota::usage_error);
    REQUIRE_THROWS_AS((subset_dataset{whole, most, 2}), cuota::usage_error);
}

TEST_CASE("subset_dataset gathers up to 1024 samples without allocating, and accepts more samples",
          "[data][subset_dataset]") {
    support::temp_folder const folder;
    std::string const text = support::pattern(3000);
    raw_dataset const from{folder.write("x", text), {.fields = {{"x", cuota::element_type::u8, {}}}}};
    subset_dataset const most{from, 500, 2500};

    CHECK(gathered(most, support::first_samples(2500))[0] == text.substr(500));
    CHECK(gathered(most, support::first_samples(1024))[0] == text.substr(500, 1024));
    CHECK(gathered(most, support::first_samples(1025))[0] == text.substr(500, 1025));

    auto const samples = support::first_samples(1024);
    std::vector<std::byte> memory(1024);
    std::vector<std::span<std::byte>> const out{memory};
    support::heap_watch const watch;
    most.gather(samples, out);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
}

TEST_CASE("an error of subset_dataset has the sample's number in the file", "[data][subset_dataset]") {
    support::temp_folder const folder;
    subset_dataset const part{letters(folder, "abcdefgh"), 2, 6};
    REQUIRE(::truncate(folder.path("letters").c_str(), 5) == 0);

    auto const error = support::thrown<cuota::data_error>([&] { gathered(part, {3}); });
    CHECK(error.offset() == 5);
    CHECK(mentions(error.why(), "sample 5 cannot be read"));
}
