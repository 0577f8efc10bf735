// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/recording/usage_series.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::downsample;
using cuota::event_kind;
using cuota::group_by;
using cuota::usage_at;
using cuota::usage_curve;
using cuota::usage_over_time;
using cuota::usage_point;
using cuota::usage_series;

using curve_points = std::vector<usage_point>;

cuota::recording recording_for_levels() {
    cuota::recording r;
    r.sites = {{},
               {"weights", {"a.cpp", 1}},
               {cuota::tag::named("weights"), {"dir/a.cpp", 2}},
               {"x", {"b.cpp", 1}},
               {"y", {}}};
    r.sources.resize(4);
    r.sources[1] = {cuota::source_kind::pool, "main"};
    r.sources[1].pool = 0;
    r.sources[2] = {cuota::source_kind::pool, "main"};
    r.sources[3] = {cuota::source_kind::resource, "pinned"};
    r.final_snapshot.pools.resize(1);
    return r;
}

void level_event(cuota::recording& to, event_kind kind, std::uint64_t at, std::uint64_t address,
                 std::size_t size, std::uint32_t site = 0, std::uint16_t source = 1) {
    to.events.push_back({.kind = kind,
                         .source = source,
                         .site = site,
                         .at = at,
                         .address = address,
                         .bytes = size - size / 3,  // fewer bytes were requested
                         .size = size});
    if (kind == event_kind::segment_allocated || kind == event_kind::segment_freed)
        to.events.back().bytes = size;
}

cuota::block_info block_for_usage(std::uint64_t address, std::size_t size, cuota::tag name) {
    cuota::block_info b;
    b.address = address;
    b.size = size;
    b.requested = size - 1;
    b.use = cuota::block_use::live;
    b.name = name;
    return b;
}

/// Four tags, one of them from two call sites; memory from before the recording; two pools with the same address.
cuota::recording usage_by_hand() {
    cuota::recording r = recording_for_levels();
    r.final_snapshot.pools[0].segments = {{900, 100, false, {block_for_usage(900, 30, "y")}}};
    level_event(r, event_kind::segment_allocated, 10, 1000, 1000);
    level_event(r, event_kind::allocated, 20, 1000, 100, 1);
    level_event(r, event_kind::allocated, 30, 1100, 50, 2);
    level_event(r, event_kind::allocated, 40, 1000, 7, 3, 2);
    level_event(r, event_kind::free_requested, 50, 950, 20, 3);  // allocated before the recording
    level_event(r, event_kind::free_completed, 55, 950, 20, 3);
    level_event(r, event_kind::free_requested, 60, 1000, 100, 1);
    level_event(r, event_kind::allocated, 70, 2000, 400, 0, 3);
    level_event(r, event_kind::segment_freed, 80, 1500, 500);
    level_event(r, event_kind::free_requested, 90, 2000, 400, 0, 3);
    level_event(r, event_kind::step_ended, 100, 0, 0);
    return r;
}

std::vector<std::string> names_of(usage_series const& all) {
    std::vector<std::string> result;
    for (usage_curve const& c : all.parts) result.push_back(c.name);
    return result;
}

}  // namespace

TEST_CASE("an empty recording has empty levels", "[report][levels]") {
    usage_series const none = usage_over_time({});
    CHECK(none.parts.empty());
    CHECK(none.total.points == curve_points{{0, 0}});
    CHECK(none.reserved.points == curve_points{{0, 0}});
    CHECK(none.at_peak.empty());
    CHECK(usage_at({}, 5) == 0);
}

TEST_CASE("levels by tag have every change and sum up to the total", "[report][levels]") {
    usage_series const all = usage_over_time(usage_by_hand());
    CHECK(all.from == 10);
    CHECK(all.until == 100);
    REQUIRE(names_of(all) == std::vector<std::string>{"untagged", "weights", "y", "x"});
    CHECK(all.parts[0].points == curve_points{{10, 0}, {70, 400}, {90, 0}});
    CHECK(all.parts[1].points == curve_points{{10, 0}, {20, 100}, {30, 150}, {60, 50}});
    CHECK(all.parts[2].points == curve_points{{10, 30}});
    CHECK(all.parts[3].points == curve_points{{10, 20}, {40, 27}, {50, 7}});
    CHECK(all.parts[1].peak == 150);
    CHECK(all.parts[1].peak_at == 30);
    CHECK(all.parts[2].peak == 30);
    CHECK(all.parts[2].peak_at == 10);
    CHECK(all.total.points ==
          curve_points{{10, 50}, {20, 150}, {30, 200}, {40, 207}, {50, 187}, {60, 87}, {70, 487}, {90, 87}});
    CHECK(all.reserved.points == curve_points{{10, 100}, {10, 1100}, {80, 600}});
    CHECK(all.reserved.peak == 1100);
}

TEST_CASE("a peak has its time and its parts", "[report][levels]") {
    usage_series const all = usage_over_time(usage_by_hand());
    CHECK(all.total.peak == 487);
    CHECK(all.total.peak_at == 70);
    REQUIRE(all.at_peak.size() == 4);
    CHECK(all.at_peak[0].name == "untagged");
    CHECK(all.at_peak[0].bytes == 400);
    CHECK(all.at_peak[1].name == "weights");
    CHECK(all.at_peak[1].bytes == 50);
    CHECK(all.at_peak[2].name == "y");
    CHECK(all.at_peak[3].bytes == 7);

    cuota::recording twice = recording_for_levels();
    level_event(twice, event_kind::allocated, 10, 1, 5, 1);
    level_event(twice, event_kind::free_requested, 20, 1, 5, 1);
    level_event(twice, event_kind::allocated, 30, 2, 5, 3);
    CHECK(usage_over_time(twice).total.peak_at == 10);
    REQUIRE(usage_over_time(twice).at_peak.size() == 1);
    CHECK(usage_over_time(twice).at_peak[0].name == "weights");
}

TEST_CASE("levels can be grouped by site or by source", "[report][levels]") {
    usage_series const sites = usage_over_time(usage_by_hand(), {.by = group_by::site});
    CHECK(names_of(sites) ==
          std::vector<std::string>{"untagged", "weights (a.cpp:1)", "weights (a.cpp:2)", "y", "x (b.cpp:1)"});
    usage_series const sources = usage_over_time(usage_by_hand(), {.by = group_by::source});
    CHECK(names_of(sources) == std::vector<std::string>{"pinned", "main", "main"});
    CHECK(sources.parts[1].peak == 200);
    CHECK(sources.parts[2].peak == 7);
}

TEST_CASE("levels are limited to the chosen sources", "[report][levels]") {
    usage_series const second = usage_over_time(usage_by_hand(), {.sources = {2}});
    CHECK(names_of(second) == std::vector<std::string>{"x"});
    CHECK(second.total.points == curve_points{{10, 0}, {40, 7}});
    CHECK(second.reserved.points == curve_points{{10, 0}});
    CHECK(second.until == 100);
    usage_series const first = usage_over_time(usage_by_hand(), {.sources = {1, 3}});
    CHECK(first.total.peak == 480);
    CHECK(first.reserved.peak == 1100);

    auto const refused = support::thrown<cuota::usage_error>([] {
        static_cast<void>(usage_over_time(usage_by_hand(), {.sources = {1, 4}}));
    });
    CHECK(std::string{refused.what()}.find("source index 4 is out of range: the recording has 4 sources") !=
          std::string::npos);
    CHECK(refused.where().line != 0);
}

TEST_CASE("curves beyond the maximum are summed as others", "[report][levels]") {
    usage_series const two = usage_over_time(usage_by_hand(), {.max_groups = 2});
    REQUIRE(names_of(two) == std::vector<std::string>{"untagged", "weights", "others"});
    CHECK(two.parts[0].merged == 0);
    CHECK(two.parts[2].merged == 2);
    CHECK(two.parts[2].points == curve_points{{10, 50}, {40, 57}, {50, 37}});
    CHECK(two.parts[2].peak == 57);
    CHECK(two.parts[2].peak_at == 40);
    CHECK(names_of(usage_over_time(usage_by_hand(), {.max_groups = 4})).back() == "x");

    usage_series const none = usage_over_time(usage_by_hand(), {.max_groups = 0});
    REQUIRE(none.parts.size() == 1);
    CHECK(none.parts[0].merged == 4);
    CHECK(none.parts[0].points == none.total.points);
    CHECK(usage_over_time(usage_by_hand(), {.max_groups = cuota::unlimited}).parts.size() == 4);
}

TEST_CASE("changes at the same time stay in the order of the events", "[report][levels]") {
    cuota::recording r = recording_for_levels();
    level_event(r, event_kind::allocated, 10, 1, 5, 1);
    level_event(r, event_kind::allocated, 20, 2, 90, 1);
    level_event(r, event_kind::free_requested, 20, 2, 90, 1);
    level_event(r, event_kind::allocated, 15, 3, 1, 1);  // by a slower clock: counts as after the others
    level_event(r, event_kind::allocated, 30, 4, 0, 1);  // no change
    usage_series const all = usage_over_time(r);
    CHECK(all.total.points == curve_points{{10, 0}, {10, 5}, {20, 95}, {20, 5}, {20, 6}});
    CHECK(all.total.peak == 95);
    CHECK(usage_at(all.total, 9) == 0);
    CHECK(usage_at(all.total, 19) == 5);
    CHECK(usage_at(all.total, 20) == 6);
    CHECK(usage_at(all.total, 1000) == 6);
    CHECK(all.until == 30);
}

TEST_CASE("levels equal a sum over live blocks, wherever the recording begins", "[report][levels]") {
    for (std::uint64_t seed = 0; seed != 30; ++seed) {
        std::mt19937_64 random{seed};
        cuota::recording whole = recording_for_levels();
        std::map<std::uint64_t, std::pair<std::uint32_t, std::size_t>> live;
        using sums = std::map<std::string, std::size_t>;
        std::vector<sums> after;  // after each event
        for (std::uint64_t at = 0; at != 300; ++at) {
            auto const i = live.lower_bound(random() % 40);
            if (i != live.end() && random() % 2 == 0) {
                level_event(whole, event_kind::free_requested, at, i->first, i->second.second,
                            i->second.first);
                live.erase(i);
            } else {
                std::uint64_t address = random() % 1000;
                while (live.contains(address)) ++address;
                live[address] = {static_cast<std::uint32_t>(random() % 5), 1 + random() % 1000};
                level_event(whole, event_kind::allocated, at, address, live[address].second,
                            live[address].first);
            }
            sums now{{"weights", 0}, {"x", 0}, {"y", 0}, {"untagged", 0}};
            for (auto const& [address, block] : live) {
                cuota::tag const name = whole.sites[block.first].name;
                now[name.is_empty() ? "untagged" : name.text()] += block.second;
            }
            after.push_back(now);
        }
        auto& segment = whole.final_snapshot.pools[0].segments.emplace_back();
        segment.size = 2000;
        for (auto const& [address, block] : live) {
            segment.blocks.push_back(block_for_usage(address, block.second, whole.sites[block.first].name));
            segment.blocks.back().where = whole.sites[block.first].where;
        }
        for (std::size_t const first : {0U, 1U, 77U, 250U}) {
            cuota::recording r = whole;
            r.events.erase(r.events.begin(), r.events.begin() + static_cast<std::ptrdiff_t>(first));
            usage_series const all = usage_over_time(r);
            std::size_t wrong = 0;
            std::size_t peak = 0;
            for (std::size_t at = first; at != 300; ++at) {
                std::size_t total = 0;
                for (auto const& [name, bytes] : after[at]) {
                    auto const part = std::ranges::find(all.parts, name, &usage_curve::name);
                    wrong += bytes != (part == all.parts.end() ? 0 : usage_at(*part, at));
                    total += bytes;
                }
                wrong += usage_at(all.total, at) != total;
                peak = std::max(peak, total);
            }
            if (first != 0)
                for (auto const& [name, bytes] : after[first - 1]) {  // memory from before
                    auto const part = std::ranges::find(all.parts, name, &usage_curve::name);
                    wrong += part != all.parts.end() && part->points.front().bytes != bytes;
                    peak = std::max(peak, all.total.points.front().bytes);
                }
            CHECK(wrong == 0);
            CHECK(all.total.peak == peak);
            CHECK(std::ranges::count(all.total.points, usage_point{all.total.peak_at, peak}) == 1);
            std::size_t at_peak = 0;
            for (cuota::usage_share const& s : all.at_peak) at_peak += s.bytes;
            CHECK(at_peak == peak);
        }
    }
}

TEST_CASE("a few points are all kept, and many are reduced to the requested number", "[report][levels]") {
    curve_points const few{{0, 1}, {5, 2}, {9, 0}, {10, 7}};
    CHECK(downsample(few, 4) == few);
    CHECK(downsample({}, 4).empty());
    curve_points const five{{0, 5}, {1, 2}, {2, 9}, {3, 4}, {4, 6}};
    CHECK(downsample(five, 4) == curve_points{{0, 5}, {1, 2}, {2, 9}, {4, 6}});
    curve_points const even{{0, 5}, {1, 5}, {2, 5}, {3, 5}, {4, 5}};
    CHECK(downsample(even, 4) == curve_points{{0, 5}, {4, 5}});
    CHECK_THROWS_AS(downsample(five, 3), cuota::usage_error);
    curve_points const at_once(100, {7, 3});
    CHECK(downsample(at_once, 8).size() <= 8);
}

TEST_CASE("each interval of time keeps its first, last, lowest and highest point", "[report][levels]") {
    std::mt19937_64 random{3};
    for (std::size_t const n : {4U, 7U, 40U, 1000U}) {
        curve_points all;
        std::uint64_t at = 1000;
        for (std::size_t i = 0; i != 5000; ++i) {
            all.push_back({at, random() % 100 == 0 ? random() % 100'000 : 100 + random() % 100});
            at += random() % 3;
        }
        all.back().at = 1000 + 8191;  // a range of 2^13 in all
        std::ranges::sort(all, {}, &usage_point::at);
        curve_points const kept = downsample(all, n);
        CHECK(kept.size() <= n);
        CHECK(kept.size() * 4 > n);
        CHECK(std::ranges::is_sorted(kept, {}, &usage_point::at));
        CHECK(kept.front() == all.front());
        CHECK(kept.back() == all.back());
        std::uint64_t const stretches = n / 4;
        std::size_t wrong = 0;
        for (std::uint64_t s = 0; s != stretches; ++s) {
            curve_points in;
            curve_points kept_in;
            auto const is_in = [&](usage_point p) { return (p.at - 1000) * stretches / 8192 == s; };
            std::ranges::copy_if(all, std::back_inserter(in), is_in);
            std::ranges::copy_if(kept, std::back_inserter(kept_in), is_in);
            if (in.empty()) continue;
            auto const bytes = &usage_point::bytes;
            wrong += kept_in.empty() || kept_in.size() > 4 || kept_in.front() != in.front() ||
                     kept_in.back() != in.back() ||
                     std::ranges::max(kept_in, {}, bytes) != std::ranges::max(in, {}, bytes) ||
                     std::ranges::min(kept_in, {}, bytes).bytes != std::ranges::min(in, {}, bytes).bytes;
        }
        CHECK(wrong == 0);
    }
}
