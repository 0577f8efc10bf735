// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/diagnosis/diagnosis.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "report/diagnosis_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::diagnose;
using cuota::diagnosis_options;
using cuota::diagnosis_text;
using cuota::finding_kind;
using cuota::severity;
using diagnosis_samples::pool_of;
using diagnosis_samples::script;
using diagnosis_samples::segment_of;
using diagnosis_samples::snapshot_of;

namespace {

// A recording that violates each rule.
[[nodiscard]] cuota::recording all_that_can_be_wrong() {
    script s;
    auto const gpu = s.budget("gpu", 8_GiB);
    auto const pool = s.pool("work");
    auto const host = s.resource("host", cuota::memory_kind::pinned);
    s.charge(pool, gpu);
    auto const weights = s.site("weights", 5);
    auto const log = s.site("log");
    auto const scratch = s.site("scratch", 30);
    s.segment(pool, 4_GiB);
    static_cast<void>(s.take(pool, weights, 1_GiB));
    static_cast<void>(s.take(host, s.site("batch", 40), 256_MiB, 130_MiB));
    s.refuse(gpu, weights, 1_GiB, 8_GiB - 1_MiB);
    s.end_step(pool);
    for (int i = 0; i != 20; ++i) {
        static_cast<void>(s.take(pool, log, 1_MiB));
        for (int j = 0; j != 100; ++j) s.give(s.take(pool, scratch, 64_KiB));
        s.end_step(pool);
    }
    cuota::recording r = s.made();
    cuota::memory_snapshot& end = r.final_snapshot;
    end.budgets.push_back({{"gpu", 8_GiB, 8_GiB, 8_GiB}});
    end.devices.push_back({0, "H100", 80_GiB, 60_GiB, 8_GiB, 512_MiB});
    segment_of holes;
    for (int i = 0; i != 8; ++i) holes.free(64_MiB).live(256, "log");
    cuota::pool_info other = pool_of("other", {holes.pending(128_MiB, 7).made()});
    other.stats.allocated += 64_MiB;
    other.stats.active += 64_MiB;
    other.tags.push_back({{}, 7, 32_MiB, 64_MiB});
    end.pools.push_back(other);
    return r;
}

}  // namespace

TEST_CASE("a diagnosis has a line for each finding, the most severe first", "[report][diagnosis]") {
    CHECK(diagnosis_text(diagnose(all_that_can_be_wrong())) ==
          "2 problems, 5 warnings, 5 notes\n  problem  budget gpu refused 1 request, short by 1023.0 MiB; "
          "for weights (train.cpp:5); at that time its pools had that much free, fragmented or pending\n  "
          "problem  leak in pool work: log (train.cpp:17) grew by 1.0 MiB in each of the last 20 steps, 20.0 "
          "MiB in total; 20 blocks still live\n  warning  device 0: 12.0 GiB are held outside cuota, by the "
          "CUDA "
          "context, libraries or other programs; at the start it was 512.0 MiB\n  warning  budget gpu is "
          "nearly full: 8.0 GiB in use, 100 % of its limit of 8.0 GiB; 0 B are left\n  warning  pool work "
          "holds 3.0 GiB that were not used in the last 10 steps (4.0 GiB reserved, at most 1.0 GiB in use): "
          "trim it or set a release_threshold\n  warning  fragmentation of pool other: 640.0 MiB are free, "
          "the largest piece is 128.0 MiB; without 8 blocks of log (train.cpp:17), 2.0 KiB, 640.0 MiB would "
          "be contiguous\n  warning  pinned memory of resource host is 2.0 x the requested size: 256.0 MiB "
          "for 130.0 MiB\n  note     pool work: at its peak of 1.0 GiB, 98 % was weights (train.cpp:5): 1.0 "
          "GiB in 1 block\n  note     pool other: 128.0 MiB were freed, but work enqueued before may still "
          "use them: 128.0 MiB wait for stream 7\n  note     pool other: 99 % of live memory has no tag "
          "(64.0 MiB in 7 blocks): tag these allocations\n  note     rounding in pool other: 7 blocks of "
          "untagged memory requested 32.0 MiB and occupy 64.0 MiB: combine them into one allocation\n  note  "
          "   churn in pool work: scratch (train.cpp:30) was allocated and freed at least 100 times in each "
          "of the last 20 steps, at most 64.0 KiB at once: allocate it once and reuse it");
}

TEST_CASE("a diagnosis of a healthy program has no findings", "[report][diagnosis]") {
    CHECK(diagnose(cuota::recording{}).empty());
    CHECK(diagnose(cuota::memory_snapshot{}).empty());
    CHECK(diagnosis_text({}) == "no findings");

    // A healthy step: weights stay, scratch memory is freed, and the pool's size fits.
    script s;
    auto const pool = s.pool("work");
    auto const weights = s.site("weights", 5);
    auto const scratch = s.site("scratch");
    s.segment(pool, 1_GiB);
    static_cast<void>(s.take(pool, weights, 450_MiB));
    for (int i = 0; i != 50; ++i) {
        for (int j = 0; j != 20; ++j) s.give(s.take(pool, scratch, 450_MiB));
        s.end_step(pool);
    }
    diagnosis_options half{};
    half.peak_share = 0.51;
    CHECK(diagnosis_text(diagnose(s.made(), half)) == "no findings");
}

TEST_CASE("a recording's diagnosis includes that of its final snapshot", "[report][diagnosis]") {
    cuota::recording const r = all_that_can_be_wrong();
    auto const end = diagnose(r.final_snapshot);
    auto const all = diagnose(r);
    CHECK(end.size() == 6);
    for (cuota::finding const& f : end) CHECK(diagnosis_samples::text_of(f.kind, all) != "none");
    CHECK(all.size() > end.size());
}

TEST_CASE("counts of one finding are written in the singular", "[report][diagnosis]") {
    std::vector<cuota::finding> some(1);
    some[0].level = severity::warning;
    some[0].text = "x";
    CHECK(diagnosis_text(some) == "1 warning\n  warning  x");
    some.push_back({finding_kind::peak, severity::note, "y"});
    some.push_back({finding_kind::peak, severity::note, "z"});
    CHECK(diagnosis_text(some) == "1 warning, 2 notes\n  warning  x\n  note     y\n  note     z");
}

TEST_CASE("invalid options are refused by name", "[report][diagnosis]") {
    auto const refused = [](auto set) {
        diagnosis_options o{};
        set(o);
        return std::string{support::thrown<cuota::usage_error>([&] {
                               static_cast<void>(diagnose(cuota::recording{}, o));
                           }).what()};
    };
    CHECK(support::has(refused([](diagnosis_options& o) { o.leak_steps = 0; }),
                       "diagnosis_options::leak_steps must be at least 1"));
    CHECK(support::has(refused([](diagnosis_options& o) { o.churn_steps = 0; }),
                       "churn_steps must be at least 1"));
    CHECK(support::has(refused([](diagnosis_options& o) { o.idle_steps = 0; }),
                       "idle_steps must be at least 1"));
    CHECK(support::has(refused([](diagnosis_options& o) { o.peak_share = -1; }),
                       "peak_share must not be negative, got -1"));
    CHECK(support::has(
        refused([](diagnosis_options& o) { o.budget_share = std::numeric_limits<double>::quiet_NaN(); }),
        "budget_share must not be negative, got "));
    diagnosis_options o{};
    o.leak_steps = 0;
    CHECK_THROWS_AS(diagnose(cuota::memory_snapshot{}, o), cuota::usage_error);
}

TEST_CASE("long names and line breaks in names do not break a finding's line", "[report][diagnosis]") {
    std::string const name(300, 'n');
    script s;
    auto const pool = s.pool((name + "\n").c_str());
    auto const site = s.site(cuota::tag::named(name + "\n"));
    s.end_step(pool);
    for (int i = 0; i != 5; ++i) {
        static_cast<void>(s.take(pool, site, 1_MiB));
        s.end_step(pool);
    }
    auto const found = diagnose(s.made());
    REQUIRE(found.size() == 1);
    CHECK(found[0].text.find('\n') == std::string::npos);
    CHECK(found[0].text.size() < 250);
    CHECK(found[0].subject == name + "\n");
}

TEST_CASE("diagnoses of random recordings never fail", "[report][diagnosis]") {
    // Events in random order; indices that do not exist are refused.
    std::mt19937_64 random{3};
    for (int round = 0; round != 200; ++round) {
        script s;
        auto const gpu = s.budget("gpu", 1000);
        s.charge(s.pool("work"), gpu);
        cuota::recording r = s.made();
        for (int i = 0; i != 300; ++i)
            r.events.push_back(
                {static_cast<cuota::event_kind>(random() % 10),
                 static_cast<std::uint16_t>(random() % r.sources.size()),
                 static_cast<std::uint32_t>(random() % std::max<std::size_t>(r.sites.size(), 1)),
                 random() % 100, random() % 8, random() % 5000, random() % 5000, 0});
        for (cuota::finding const& f : diagnose(r)) REQUIRE(!f.text.empty());
        r.events[round].source = static_cast<std::uint16_t>(r.sources.size());
        REQUIRE_THROWS_AS(diagnose(r), cuota::usage_error);
    }
}
