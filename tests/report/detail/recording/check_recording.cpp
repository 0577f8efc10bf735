// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/check_recording.hpp>

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/export/chrome_trace.hpp>
#include <cuota/report/export/lifetimes_csv.hpp>
#include <cuota/report/export/memory_viz.hpp>
#include <cuota/report/export/timeline.hpp>
#include <cuota/report/export/timeline_svg.hpp>
#include <cuota/report/recording/usage_series.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::event_kind;
using cuota::recording;
using cuota::source_kind;
using support::has;

// A program, two nested budgets and a pool with one block that was allocated and freed.
recording one_block() {
    recording r;
    r.sites = {{}, {cuota::tag{"weights"}, {}}};
    r.sources = {{.kind = source_kind::program},
                 {.kind = source_kind::budget, .name = "gpu"},
                 {.kind = source_kind::budget, .name = "model", .parent = std::uint16_t{1}},
                 {.kind = source_kind::pool, .name = "pool", .device = 0, .budget = std::uint16_t{2}}};
    cuota::memory_event e{.kind = event_kind::allocated, .source = 3, .site = 1, .at = 10, .address = 512};
    e.bytes = e.size = 256;
    r.events.push_back(e);
    e.kind = event_kind::free_requested;
    e.at = 20;
    r.events.push_back(e);
    return r;
}

// Every function that reads a recording.
std::vector<std::function<void(recording const&)>> const readers{
    [](recording const& r) { (void)cuota::lifetimes_of(r); },
    [](recording const& r) { (void)cuota::usage_over_time(r, {.by = cuota::group_by::tag}); },
    [](recording const& r) { (void)cuota::usage_over_time(r, {.by = cuota::group_by::source}); },
    [](recording const& r) { (void)cuota::diagnose(r); },
    [](recording const& r) {
        std::ostringstream to;
        cuota::write_chrome_trace(to, r);
    },
    [](recording const& r) {
        std::ostringstream to;
        cuota::write_memory_viz_json(to, r);
    },
    [](recording const& r) {
        std::ostringstream to;
        cuota::write_timeline(to, r);
    },
    [](recording const& r) {
        std::ostringstream to;
        cuota::write_timeline_svg(to, r);
    },
    [](recording const& r) {
        std::ostringstream to;
        cuota::write_lifetimes_csv(to, r, {.with_facts = true});
    }};

void check_refused(recording const& r, char const* why) {
    for (auto const& reader : readers)
        CHECK(has(support::thrown<cuota::usage_error>([&] { reader(r); }).what(), why));
}

}  // namespace

TEST_CASE("a recording with valid indices is read", "[report][check_recording]") {
    recording r = one_block();
    for (auto const& reader : readers) CHECK_NOTHROW(reader(r));
    for (cuota::memory_event& e : r.events) e.site = 0;
    r.sites.clear();
    for (auto const& reader : readers) CHECK_NOTHROW(reader(r));
}

TEST_CASE("every reader refuses a recording with an index out of range", "[report][check_recording]") {
    recording r = one_block();
    SECTION("a source of an event") {
        r.events[1].source = 4;
        check_refused(r, "recording: event 1 has source 4, which is out of range: 4 exist");
    }
    SECTION("a site of an event") {
        r.events[0].site = 2;
        check_refused(r, "recording: event 0 has site 2, which is out of range: 2 exist");
    }
    SECTION("a budget of a pool") {
        r.sources[3].budget = std::uint16_t{9};
        check_refused(r, "recording: source 3 has budget 9, which is out of range: 4 exist");
    }
    SECTION("a parent of a budget") {
        r.sources[2].parent = std::uint16_t{4};
        check_refused(r, "recording: source 2 has parent 4, which is out of range: 4 exist");
    }
    SECTION("a pool in the snapshot") {
        r.sources[3].pool = 0;
        check_refused(r, "recording: source 3 has pool 0, which is out of range: 0 exist");
    }
}

TEST_CASE("budgets that are their own ancestors are refused", "[report][check_recording]") {
    recording r = one_block();
    r.sources[1].parent = std::uint16_t{2};
    check_refused(r, "recording: source 1 is its own ancestor");
}
