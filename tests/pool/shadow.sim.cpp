// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random walks through pools that are compared with a shadow, on a device with a race checker: no two live blocks overlap, no memory is
// reused too early, and all statistics are right.
#include <cuota/pool/scoped_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "pool/walk.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"

using namespace cuota::literals;
namespace simulator = cuota::simulator;
using pool_tests::grown_by;
using pool_tests::no_race;
using pool_tests::tell;
using pool_tests::walk;

namespace {

// A walk goes on until it has reached its goals, so short forms may begin with a quarter of its operations.
std::uint64_t share_of(double percent, std::uint64_t in_the_suite) {
    return pool_tests::share_of(percent, in_the_suite / std::min(support::divisor(), 4u));
}

}  // namespace

TEST_CASE("in a random walk, a pool of segments matches its shadow, without races",
          "[pool][scoped_pool][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const streams = GENERATE(1U, 2U, 4U, 8U, 16U);
    bool const late = GENERATE(false, true);
    simulator::set_schedule(late ? simulator::schedule::late : simulator::schedule::workers, streams);
    walk w{machine, {.streams = streams, .seed = 100 * streams + late}};
    w.run(share_of(4, 2'000), {.allocations = 500, .thread_cache_hits = 1, .stream_waits = streams > 1});

    no_race();
    CHECK(simulator::current_race_check_counts().accesses >= w.did().allocations);
    tell(late ? "late" : "at once", streams, w.figures());
}

TEST_CASE("in a random walk with CUDA failures, a pool of segments matches its shadow and leaks nothing",
          "[pool][scoped_pool][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const streams = GENERATE(1U, 3U, 16U);
    walk w{machine, {.streams = streams, .seed = 7 * streams}};
    w.run_with_faults(share_of(4, 4'000), {.allocations = 500, .failed = 1});

    no_race();
    tell("with faults", streams, w.figures());
}

TEST_CASE("in a random walk, a pool of pages matches its shadow, without races",
          "[pool][growing_range][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const streams = GENERATE(1U, 4U, 16U);
    std::size_t const cap = GENERATE(16_MiB, 9_MiB + 512);  // the remainder of a page becomes a segment
    std::size_t const largest = GENERATE(2_MiB, 8_MiB);
    bool const late = streams == 4;
    simulator::set_schedule(late ? simulator::schedule::late : simulator::schedule::workers, streams);
    walk w{machine,
           {.how = grown_by::pages,
            .cap = cap,
            .streams = streams,
            .seed = 30 * streams,
            .largest_mapping = largest}};
    w.run(share_of(2, 1'000), {.allocations = 200, .refusals = 1, .stream_waits = streams > 1});

    no_race();
    CHECK(w.stats().peak_reserved <= cap);
    tell("pages", streams, w.figures());
}

TEST_CASE("in a random walk with CUDA failures, a pool of pages matches its shadow and leaks nothing",
          "[pool][growing_range][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const streams = GENERATE(1U, 3U, 16U);
    std::size_t const cap = GENERATE(16_MiB, 9_MiB + 512);
    std::size_t const largest = GENERATE(2_MiB, 8_MiB);
    walk w{machine,
           {.how = grown_by::pages,
            .cap = cap,
            .streams = streams,
            .seed = 9 * streams,
            .largest_mapping = largest}};
    w.run_with_faults(share_of(1, 1'000), {.allocations = 200, .failed = 1});

    no_race();
    tell("pages with faults", streams, w.figures());
}

TEST_CASE("in a random walk with steps and frames, a pool matches its shadow and reports leaks",
          "[pool][pool_step][frame][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const streams = GENERATE(1U, 4U, 16U);
    grown_by const how = GENERATE(grown_by::segments, grown_by::pages);
    bool const by_pages = how == grown_by::pages;
    bool const fails = GENERATE(false, true);
    simulator::set_schedule(streams == 4 && !fails ? simulator::schedule::late : simulator::schedule::workers,
                            streams);
    walk w{machine,
           {.how = how,
            .cap = by_pages ? 16_MiB : 4_MiB,
            .streams = streams,
            .seed = 50 * streams + by_pages,
            .has_scopes = true,
            .release_threshold = streams == 1 ? cuota::unlimited : 3_MiB}};
    std::uint64_t const operations = share_of(by_pages ? 1 : 2, by_pages ? 1'000 : 1'500);
    if (fails)
        w.run_with_faults(operations,
                          {.allocations = 200, .failed = 1, .steps = 1, .survivors = 1, .frames_ended = 1});
    else w.run(operations, {.allocations = 200, .steps = 1, .survivors = 1, .frames_ended = 1});

    no_race();
    CHECK((w.did().failed != 0) == fails);
    tell(std::string{by_pages ? "pages" : "segments"} + ", steps and frames" + (fails ? " with faults" : ""),
         streams, w.figures());
}
