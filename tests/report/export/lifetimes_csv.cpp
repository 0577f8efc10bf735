// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/lifetimes_csv.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/report/recording/usage_series.hpp>

#include "../examples/trace_file.hpp"
#include "report/trace_samples.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::event_kind;
using cuota::lifetime;
using cuota::lifetimes_by;
using cuota::lifetimes_csv_options;

std::string csv_of(cuota::recording const& r, lifetimes_csv_options const& options = {}) {
    std::ostringstream to;
    cuota::write_lifetimes_csv(to, r, options);
    return to.str();
}

// Reads the file as plan_trace does; empty if it has no block, which plan_trace refuses.
std::vector<lifetime> read_back(std::string const& csv) {
    if (csv.find('\n') + 1 == csv.size()) return {};
    support::temp_folder const folder;
    trace::trace_file const file = trace::read(folder.write("lives.csv", csv));
    for (std::size_t i = 0; i != file.ids.size(); ++i) REQUIRE(file.ids[i] == std::to_string(i));
    return file.blocks;
}

// Plans the written blocks and returns the lower bound of the plan.
std::size_t bound_of(cuota::recording const& r, lifetimes_csv_options const& options) {
    std::vector<lifetime> const blocks = read_back(csv_of(r, options));
    cuota::plan_options how;
    how.time_limit = std::chrono::nanoseconds{1};
    cuota::offset_plan const plan = cuota::plan_offsets(blocks, how);
    REQUIRE_FALSE(cuota::check_offsets(blocks, plan));
    return plan.lower_bound;
}

// Returns the peak of each complete step of a source, computed from the events alone.
std::vector<std::size_t> peaks_of_steps(cuota::recording const& r, std::uint16_t source) {
    std::vector<std::size_t> peaks;
    std::optional<std::size_t> peak;
    cuota::usage_options const only{.sources = {source}};
    // Memory from before the recording: the first point.
    std::size_t now = cuota::usage_over_time(r, only).total.points.front().bytes;
    for (cuota::memory_event const& e : r.events) {
        if (e.source != source) continue;
        if (e.kind == event_kind::allocated) now += e.size;
        if (e.kind == event_kind::free_requested) now -= e.size;
        if (e.kind == event_kind::step_begun) peak = now;
        if (peak) peak = std::max(*peak, now);
        if (e.kind == event_kind::step_ended && peak) peaks.push_back(*std::exchange(peak, std::nullopt));
    }
    return peaks;
}

void check_bounds(cuota::recording const& r) {
    for (lifetimes_by const by : {lifetimes_by::event, lifetimes_by::time}) {
        REQUIRE(bound_of(r, {.by = by}) == cuota::usage_over_time(r).total.peak);
        for (std::uint16_t s = 0; s != r.sources.size(); ++s) {
            REQUIRE(bound_of(r, {.by = by, .source = s}) ==
                    cuota::usage_over_time(r, {.sources = {s}}).total.peak);
            std::vector<std::size_t> const peaks = peaks_of_steps(r, s);
            for (std::size_t k = 0; k != peaks.size(); ++k)
                REQUIRE(bound_of(r, {.by = by, .source = s, .step = k}) == peaks[k]);
            REQUIRE_THROWS_AS(csv_of(r, {.by = by, .source = s, .step = peaks.size()}), cuota::usage_error);
        }
    }
}

cuota::memory_event lives_event(event_kind kind, std::uint64_t at, std::uint64_t address = 0,
                                std::size_t bytes = 0, std::uint32_t site = 0) {
    return {.kind = kind,
            .source = 1,
            .site = site,
            .at = at,
            .address = address,
            .bytes = bytes,
            .size = bytes + 1};
}

cuota::recording lives_by_hand() {
    cuota::recording r;
    r.sites = {{}, {"a,b\n\"x\"", {"dir/x.cpp", 7}}, {"=cmd", {}}};
    r.sources.resize(2);
    r.sources[1] = {cuota::source_kind::pool, "main", 0};
    r.events = {lives_event(event_kind::allocated, 10, 1, 9, 1),
                lives_event(event_kind::step_begun, 20),
                lives_event(event_kind::allocated, 20, 2, 19, 2),
                lives_event(event_kind::free_requested, 20, 1, 9),
                lives_event(event_kind::free_requested, 30, 3, 29),  // from before
                lives_event(event_kind::step_ended, 31),
                lives_event(event_kind::allocated, 40, 1, 39, 1)};
    return r;
}

}  // namespace

TEST_CASE("lifetimes begin and end at the events of their blocks", "[report][lifetimes_csv]") {
    cuota::recording const r = lives_by_hand();
    CHECK(csv_of(r, {.with_facts = false}) == "id,lower,upper,size\n"
                                              "0,0,5,30\n"
                                              "1,1,4,10\n"
                                              "2,3,8,20\n"
                                              "3,7,8,40\n");
    CHECK(csv_of(r, {.by = lifetimes_by::time, .with_facts = false}) == "id,lower,upper,size\n"
                                                                        "0,0,30,30\n"
                                                                        "1,10,22,10\n"
                                                                        "2,21,41,20\n"
                                                                        "3,40,41,40\n");
    CHECK(csv_of(r, {.source = 1, .step = 0, .with_facts = false}) == "id,lower,upper,size\n"
                                                                      "0,0,3,30\n"
                                                                      "1,0,2,10\n"
                                                                      "2,1,4,20\n");
    CHECK(csv_of(r, {.by = lifetimes_by::time, .source = 1, .step = 0, .with_facts = false}) ==
          "id,lower,upper,size\n"
          "0,0,10,30\n"
          "1,0,2,10\n"
          "2,1,11,20\n");
    CHECK(csv_of(r, {.source = 0}) == "id,lower,upper,size,bytes,source,tag,location\n");
    check_bounds(r);
}

TEST_CASE("lifetimes: steps from before the recording and a second free of a block are ignored",
          "[report][lifetimes_csv]") {
    cuota::recording r = lives_by_hand();
    r.events.insert(r.events.begin(), lives_event(event_kind::step_ended, 5));
    CHECK(csv_of(r, {.source = 1, .step = 0, .with_facts = false}) == "id,lower,upper,size\n"
                                                                      "0,0,3,30\n"
                                                                      "1,0,2,10\n"
                                                                      "2,1,4,20\n");
    check_bounds(r);
    r = lives_by_hand();
    r.events.resize(4);
    r.events.push_back(lives_event(event_kind::free_requested, 50, 1, 9));
    CHECK(csv_of(r, {.with_facts = false}) == "id,lower,upper,size\n"
                                              "0,0,5,10\n"
                                              "1,1,4,10\n"
                                              "2,3,6,20\n");
    check_bounds(r);
}

TEST_CASE("lifetimes have source, tag and location in fields that no name can break",
          "[report][lifetimes_csv]") {
    std::string const csv = csv_of(lives_by_hand());
    CHECK(csv == "id,lower,upper,size,bytes,source,tag,location\n"
                 "0,0,5,30,29,main,,\n"
                 "1,1,4,10,9,main,a_b__x_,x.cpp:7\n"
                 "2,3,8,20,19,main,_cmd,\n"
                 "3,7,8,40,39,main,a_b__x_,x.cpp:7\n");
    cuota::recording r = lives_by_hand();
    r.sources[1].name = "\xFF\xFE\r\n\t,,,\x7F"
                        "ok \xC3\xA9";
    CHECK(csv_of(r).find(",_________ok \xC3\xA9,") != std::string::npos);
    CHECK(read_back(csv_of(r)).size() == 4);
}

TEST_CASE("a plan of random lifetimes needs exactly the peak of the live bytes", "[report][lifetimes_csv]") {
    for (std::uint64_t seed = 0; seed != 40; ++seed)
        check_bounds(trace_samples::random_recording{seed, 1 + seed * 4}.get());
    check_bounds({});
}

TEST_CASE("a plan of the lifetimes of real pools needs exactly the peak of the live bytes",
          "[report][lifetimes_csv]") {
    cuota::recording const r = trace_samples::of_real_pools();
    check_bounds(r);
    auto const main = std::ranges::find(r.sources, std::string_view{"main"}, &cuota::event_source::name);
    auto const source = static_cast<std::uint16_t>(main - r.sources.begin());
    REQUIRE(peaks_of_steps(r, source).size() == 4);
    std::vector<lifetime> const blocks = read_back(csv_of(r, {.source = source, .step = 2}));
    REQUIRE(blocks.size() == 4);  // from before, activations, gradients, workspace
    CHECK(blocks[0].from == 0);
    CHECK(blocks[0].size >= 3'000'001);
    CHECK(blocks[1].size >= 3'000'009);
    CHECK(blocks[1].until < blocks[3].until);
}

TEST_CASE("lifetimes of a source or step that does not exist are refused before any output",
          "[report][lifetimes_csv]") {
    cuota::recording const r = lives_by_hand();
    std::ostringstream none;
    auto const refused = [&](lifetimes_csv_options const& options) {
        unsigned const line = __LINE__ + 2;
        auto const error =
            support::thrown<cuota::usage_error>([&] { cuota::write_lifetimes_csv(none, r, options); });
        CHECK(error.where().line == line);
        return std::string{error.what()};
    };
    CHECK(refused({.source = 2}).find("source index 2 is out of range: the recording has 2 sources") !=
          std::string::npos);
    CHECK(refused({.step = 0}).find("lifetimes of step 0: the source is not set") != std::string::npos);
    CHECK(
        refused({.source = 1, .step = 1}).find("step index 1 of main is out of range: the recording has 1") !=
        std::string::npos);
    CHECK(none.str().empty());
}

TEST_CASE("a failure to write lifetimes throws data_error", "[report][lifetimes_csv]") {
    cuota::recording const r = lives_by_hand();
    std::size_t const size = csv_of(r).size();
    for (std::size_t const room : {std::size_t{0}, std::size_t{20}, size - 1}) {
        trace_samples::full_stream disk{room};
        std::ostream to{&disk};
        auto const failed = support::thrown<cuota::data_error>([&] { cuota::write_lifetimes_csv(to, r); });
        CHECK(failed.file() == "lifetimes CSV");
    }
    trace_samples::full_stream enough{size};
    std::ostream to{&enough};
    CHECK_NOTHROW(cuota::write_lifetimes_csv(to, r));
}
