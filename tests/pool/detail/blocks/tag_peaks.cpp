// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/tag_peaks.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "support/catch.hpp"

using cuota::tag;
using cuota::detail::tag_peaks;

namespace {

std::map<std::string, std::size_t> peaks_of(tag_peaks const& peaks) {
    std::map<std::string, std::size_t> all;
    peaks.for_each([&](tag name, std::size_t peak) { REQUIRE(all.emplace(name.text(), peak).second); });
    return all;
}

}  // namespace

TEST_CASE("tag_peaks has the peak of each tag, at its own time", "[pool][tag_peaks]") {
    tag_peaks peaks;
    REQUIRE(peaks_of(peaks).empty());
    peaks.add("a", 10);
    peaks.add("a", 5);
    peaks.drop("a", 12);
    peaks.add("b", 7);
    peaks.add("a", 4);
    peaks.add({}, 3);
    REQUIRE(peaks_of(peaks) == std::map<std::string, std::size_t>{{"a", 15}, {"b", 7}, {"", 3}});
}

TEST_CASE("tag_peaks counts equal texts at two addresses as one tag", "[pool][tag_peaks]") {
    tag_peaks peaks;
    tag const literal = "weights";
    tag const named = tag::named("weights");
    REQUIRE(literal.text() != named.text());
    peaks.add(literal, 10);
    peaks.add(named, 10);
    peaks.drop(literal, 20);
    REQUIRE(peaks_of(peaks) == std::map<std::string, std::size_t>{{"weights", 20}});
}

TEST_CASE("tag_peaks stores a fixed number of tags, and counts the rest under the empty tag",
          "[pool][tag_peaks]") {
    tag_peaks peaks;
    std::vector<tag> names;
    for (std::size_t i = 0; i != tag_peaks::most + 100; ++i)
        names.push_back(tag::named("n" + std::to_string(i)));
    for (tag const name : names) peaks.add(name, 2);
    for (tag const name : names) peaks.add(name, 1);
    auto const all = peaks_of(peaks);
    REQUIRE(all.size() == tag_peaks::most + 1);
    REQUIRE(all.at("") == 300);
    REQUIRE(all.at("n0") == 3);
    REQUIRE(all.at("n511") == 3);
}
