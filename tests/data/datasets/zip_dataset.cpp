// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/zip_dataset.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::raw_dataset;
using cuota::zip_dataset;
using support::gathered;

static_assert(cuota::dataset<zip_dataset<raw_dataset, raw_dataset>>);
static_assert(std::is_same_v<decltype(zip_dataset{std::declval<raw_dataset>(), std::declval<raw_dataset>()}),
                             zip_dataset<raw_dataset, raw_dataset>>);
template <class... Datasets>
concept zippable = requires {
    typename zip_dataset<Datasets...>;
};
static_assert(!zippable<raw_dataset>);
static_assert(!zippable<raw_dataset, int>);

raw_dataset records(std::string const& path, std::size_t bytes, char const* name) {
    return raw_dataset{path, {.fields = {{name, cuota::element_type::u8, {bytes}}}}};
}

}  // namespace

TEST_CASE("zip_dataset gathers the same sample from every dataset", "[data][zip_dataset]") {
    support::temp_folder const folder;
    auto const images = records(folder.write("images", "aaabbbcccddd"), 3, "image");
    auto const labels = records(folder.write("labels", "0123"), 1, "label");
    zip_dataset const both{images, labels};

    CHECK(both.size() == 4);
    CHECK(both.name() == folder.path("images") + " + " + folder.path("labels"));
    REQUIRE(both.fields().size() == 2);
    CHECK(both.fields()[0].name == "image");
    CHECK(both.fields()[1].name == "label");
    CHECK(gathered(both, {3, 0, 1}) == std::vector<std::string>{"dddaaabbb", "301"});
}

TEST_CASE("zip_dataset accepts datasets of several fields and other zip_datasets", "[data][zip_dataset]") {
    support::temp_folder const folder;
    raw_dataset const pairs{
        folder.write("pairs", "a0b1c2"),
        {.fields = {{"x", cuota::element_type::u8, {}}, {"y", cuota::element_type::u8, {}}}}};
    auto const more = records(folder.write("more", "UVW"), 1, "z");
    zip_dataset const inner{more, pairs};
    zip_dataset const outer{inner, more};

    CHECK(outer.fields().size() == 4);
    CHECK(gathered(outer, {2, 1}) == std::vector<std::string>{"WV", "cb", "21", "WV"});
}

TEST_CASE("zip_dataset names both datasets when their sizes differ", "[data][zip_dataset]") {
    support::temp_folder const folder;
    auto const images = records(folder.write("images", "aaabbbcccddd"), 3, "image");
    auto const labels = records(folder.write("labels", "012"), 1, "label");

    auto const error = support::thrown<cuota::data_error>([&] { zip_dataset const both(images, labels); });
    CHECK(error.file() == folder.path("labels"));
    CHECK(error.why() == "cannot combine 3 samples with the 4 of " + folder.path("images"));
}

TEST_CASE("zip_dataset checks a gather before anything is written", "[data][zip_dataset]") {
    support::temp_folder const folder;
    auto const images = records(folder.write("images", "aaabbb"), 3, "image");
    auto const labels = records(folder.write("labels", "01"), 1, "label");
    zip_dataset const both{images, labels};
    std::vector<std::byte> image(3, std::byte{'?'});
    std::vector<std::byte> label(2);
    std::vector<std::uint64_t> const samples{0};
    std::vector<std::span<std::byte>> const out{image, label};
    std::vector<std::span<std::byte>> const too_few{image};

    REQUIRE_THROWS_AS(both.gather(samples, out), cuota::usage_error);
    CHECK(image == std::vector<std::byte>(3, std::byte{'?'}));
    REQUIRE_THROWS_AS(both.gather(samples, too_few), cuota::usage_error);
    REQUIRE_THROWS_AS(gathered(both, {2}), cuota::usage_error);
}
