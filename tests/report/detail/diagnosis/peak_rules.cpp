// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/diagnosis/peak_rules.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/report/diagnosis/diagnosis.hpp>

#include "report/diagnosis_samples.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::finding_kind;
using diagnosis_samples::only;
using diagnosis_samples::script;

namespace {

[[nodiscard]] std::vector<cuota::finding> peaks_in(script const& s) {
    return only(finding_kind::peak, cuota::diagnose(s.made()));
}
[[nodiscard]] std::vector<cuota::finding> pinned_in(script const& s) {
    return only(finding_kind::pinned, cuota::diagnose(s.made()));
}
[[nodiscard]] script two_tags(std::size_t first, std::size_t second, cuota::tag name = "activations") {
    script s;
    auto const pool = s.pool("work");
    auto const a = s.take(pool, s.site(name), first);
    auto const b = s.take(pool, s.site("weights", 5), second);
    s.give(a);
    s.give(b);
    return s;
}
[[nodiscard]] script pinned_blocks(std::size_t requested, std::size_t size) {
    script s;
    auto const host = s.resource("host", cuota::memory_kind::pinned);
    s.give(s.take(host, s.site("batch"), size, requested));
    return s;
}

}  // namespace

TEST_CASE("a peak of which one tag has most bytes is reported with the tag's share", "[report][diagnosis]") {
    auto const found = peaks_in(two_tags(71_MiB, 29_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "pool work: at its peak of 100.0 MiB, 71 % was activations (train.cpp:17): 71.0 MiB in 1 block");
    CHECK(found[0].level == cuota::severity::note);
    CHECK(found[0].bytes == 71_MiB);
    CHECK(found[0].reference_bytes == 100_MiB);
    CHECK(found[0].count == 1);
    CHECK(found[0].where.line == 17);
}

TEST_CASE("a peak is attributed to a tag that has at least half of it", "[report][diagnosis]") {
    CHECK(peaks_in(two_tags(16_MiB + 1, 16_MiB - 1)).size() == 1);
    script thirds = two_tags(30_MiB, 29_MiB);
    CHECK(peaks_in(thirds).size() == 1);
    script three;
    auto const pool = three.pool("work");
    static_cast<void>(three.take(pool, three.site("a"), 50_MiB));
    static_cast<void>(three.take(pool, three.site("b"), 49_MiB));
    static_cast<void>(three.take(pool, three.site("c"), 1_MiB));
    CHECK(peaks_in(three).size() == 1);
    static_cast<void>(three.take(pool, three.site("d"), 1));
    CHECK(peaks_in(three).empty());
    CHECK(peaks_in(two_tags(16_MiB, 1_MiB)).size() == 1);
    CHECK(peaks_in(two_tags(16_MiB - 1, 1_MiB)).empty());
    CHECK(peaks_in(two_tags(71_MiB, 29_MiB, {})).empty());         // covered by another rule
    CHECK(peaks_in(two_tags(71_MiB, 29_MiB, "weights")).empty());  // all of the peak: not worth a finding
}

TEST_CASE("a peak counts the bytes of one instant only", "[report][diagnosis]") {
    // 60 of a, then 100 of which a has 40: neither earlier nor later bytes of a count.
    script s;
    auto const pool = s.pool("work");
    auto const a = s.site("a");
    auto const b = s.site("b", 2);
    s.give(s.take(pool, a, 60_MiB));
    auto const first = s.take(pool, a, 40_MiB);
    auto const second = s.take(pool, b, 30_MiB);
    auto const third = s.take(pool, b, 30_MiB);
    s.give(second);
    static_cast<void>(s.take(pool, a, 29_MiB));
    auto const found = peaks_in(s);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "pool work: at its peak of 100.0 MiB, 60 % was b (train.cpp:2): 60.0 MiB in 2 blocks");
    static_cast<void>(first), static_cast<void>(third);
}

TEST_CASE("a tag with several call sites is named without a call site", "[report][diagnosis]") {
    script s;
    auto const pool = s.pool("work");
    static_cast<void>(s.take(pool, s.site("a", 1), 40_MiB));
    static_cast<void>(s.take(pool, s.site("a", 2), 40_MiB));
    static_cast<void>(s.take(pool, s.site("b", 3), 20_MiB));
    auto const found = peaks_in(s);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "pool work: at its peak of 100.0 MiB, 80 % was a: 80.0 MiB in 2 blocks");
    CHECK(found[0].where.line == 0);
}

TEST_CASE("blocks from before a recording count for its peak", "[report][diagnosis]") {
    script s = two_tags(71_MiB, 29_MiB);
    s.drop(1);  // only the deallocation is recorded
    auto const found = peaks_in(s);
    REQUIRE(found.size() == 1);
    CHECK(found[0].reference_bytes == 100_MiB);
    s.drop(1);
    CHECK(peaks_in(s).size() == 1);
}

TEST_CASE("a resource's pinned memory is compared with the requested bytes at its peak",
          "[report][diagnosis]") {
    auto const found = pinned_in(pinned_blocks(130_MiB, 256_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "pinned memory of resource host is 2.0 x the requested size: 256.0 MiB for 130.0 MiB");
    CHECK(pinned_in(pinned_blocks(64_MiB, 80_MiB)).size() == 1);
    CHECK(pinned_in(pinned_blocks(64_MiB, 80_MiB - 1)).empty());
    CHECK(pinned_in(pinned_blocks(1_MiB, 16_MiB)).empty());
    script managed;
    auto const memory = managed.resource("host", cuota::memory_kind::managed);
    managed.give(managed.take(memory, 0, 256_MiB, 130_MiB));
    CHECK(pinned_in(managed).empty());
}

TEST_CASE("peaks agree with a sum over all events", "[report][diagnosis]") {
    std::mt19937 random{11};
    for (int round = 0; round != 50; ++round) {
        script s;
        std::uint16_t const pools[] = {s.pool("a"), s.pool("b")};
        std::map<std::uint64_t, std::pair<std::uint16_t, std::size_t>> held;
        std::size_t now[3] = {}, most[3] = {}, blocks[3] = {}, there[3] = {};
        for (int i = 0; i != 200; ++i) {
            if (!held.empty() && random() % 2 == 0) {
                auto const at = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
                now[at->second.first] -= at->second.second;
                --there[at->second.first];
                s.give(at->first);
                held.erase(at);
                continue;
            }
            std::uint16_t const pool = pools[random() % 2];
            std::size_t const size = random() % 1000 + 1;
            held[s.take(pool, 0, size)] = {pool, size};
            now[pool] += size;
            ++there[pool];
            if (now[pool] > most[pool]) most[pool] = now[pool], blocks[pool] = there[pool];
        }
        cuota::memory_lifetimes const all = cuota::lifetimes_of(s.made());
        auto const peaks = cuota::detail::diagnosis::peaks_of(s.made(), all);
        for (std::uint16_t const pool : pools) {
            REQUIRE(peaks[pool].size == most[pool]);
            REQUIRE(peaks[pool].bytes == most[pool]);
            REQUIRE(peaks[pool].blocks.size() == blocks[pool]);
        }
    }
}
