// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/tag_totals.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

using cuota::memory_snapshot;
using cuota::tag_total;
using cuota::tag_totals;

namespace {

[[nodiscard]] memory_snapshot with_tags(std::vector<std::vector<cuota::tag_info>> pools) {
    memory_snapshot s;
    for (auto& tags : pools) {
        s.pools.push_back({});
        s.pools.back().tags = std::move(tags);
    }
    return s;
}

}  // namespace

TEST_CASE("live bytes of a tag are summed over all pools", "[report][tag_totals]") {
    auto const totals = tag_totals(with_tags(
        {{{"other", 1, 1, 2, 0, {}}}, {{"mine", 1, 10, 16, 3, 100}}, {{"mine", 2, 20, 32, 9, 200}}}));
    REQUIRE(totals.size() == 2);
    tag_total const& t = totals[0];
    CHECK(t.name == cuota::tag{"mine"});
    CHECK(t.pools == 2);
    CHECK(t.first_pool == 1);
    CHECK(t.live_blocks == 3);
    CHECK(t.requested == 30);
    CHECK(t.allocated == 48);
    CHECK(t.oldest == 9);
    CHECK(t.peak == 300);
    CHECK_FALSE(t.is_peak_exact());
    CHECK(totals[1].is_peak_exact());
    CHECK_FALSE(totals[1].peak);
}

TEST_CASE("a tag's peak is unknown if one of its pools has none", "[report][tag_totals]") {
    cuota::tag_info const known{"mine", 1, 10, 16, 0, 100};
    cuota::tag_info const unknown{"mine", 1, 10, 16, 0, {}};
    CHECK_FALSE(tag_totals(with_tags({{known}, {unknown}}))[0].peak);
    CHECK_FALSE(tag_totals(with_tags({{unknown}, {known}}))[0].peak);
    CHECK_FALSE(tag_totals(with_tags({{unknown}, {known}, {known}}))[0].peak);
}

TEST_CASE("tags are sorted by bytes, then by peak, then by name", "[report][tag_totals]") {
    auto const totals = tag_totals(with_tags({{{"e", 0, 0, 0, 0, {}},
                                               {"d", 0, 0, 0, 0, 7},
                                               {"c", 0, 0, 0, 0, 8},
                                               {"b", 1, 5, 5, 0, 5},
                                               {"a", 1, 5, 5, 0, 5}}}));
    std::string order;
    for (tag_total const& t : totals) order += t.name.text();
    CHECK(order == "abcde");
}

TEST_CASE("sums of tags saturate", "[report][tag_totals]") {
    std::size_t const huge = cuota::unlimited - 1;
    auto const totals = tag_totals(with_tags({{{"a", huge, huge, huge, 0, huge}}, {{"a", 9, 9, 9, 0, 9}}}));
    CHECK(totals[0].allocated == cuota::unlimited);
    CHECK(totals[0].requested == cuota::unlimited);
    CHECK(totals[0].live_blocks == cuota::unlimited);
    CHECK(totals[0].peak == cuota::unlimited);
    CHECK(tag_totals({}).empty());
}
