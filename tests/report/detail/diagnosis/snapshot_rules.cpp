// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/diagnosis/snapshot_rules.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <cuota/report/diagnosis/diagnosis.hpp>

#include "report/diagnosis_samples.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::finding_kind;
using diagnosis_samples::pool_of;
using diagnosis_samples::segment_of;
using diagnosis_samples::snapshot_of;
using diagnosis_samples::text_of;

namespace {

[[nodiscard]] cuota::memory_snapshot one_budget(std::size_t limit, std::size_t held) {
    cuota::memory_snapshot s{};
    s.budgets.push_back({{"gpu", limit, held, held}});
    return s;
}
[[nodiscard]] cuota::memory_snapshot one_device(std::size_t external, std::size_t ours,
                                                std::size_t baseline) {
    cuota::memory_snapshot s{};
    s.devices.push_back({0, "H100", 80_GiB, 80_GiB - ours - external, ours, baseline});
    return s;
}
[[nodiscard]] cuota::memory_snapshot one_tag(cuota::tag name, std::size_t requested, std::size_t allocated,
                                             std::size_t in_pool) {
    cuota::pool_info p{};
    p.name = "work";
    p.stats.allocated = p.stats.active = p.stats.reserved = in_pool;
    p.tags.push_back({name, 4096, requested, allocated});
    return snapshot_of(p);
}
[[nodiscard]] cuota::memory_snapshot pinned_pool(std::size_t asked, std::size_t reserved) {
    cuota::pool_info p{};
    p.name = "staging";
    p.memory = cuota::memory_kind::pinned;
    p.stats.peak_requested = asked;
    p.stats.peak_reserved = reserved;
    return snapshot_of(p);
}

}  // namespace

TEST_CASE("a budget is nearly full from 95 % of its limit", "[report][diagnosis]") {
    auto const found = cuota::diagnose(one_budget(8_GiB, 7_GiB + 960_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "budget gpu is nearly full: 7.9 GiB in use, 99 % of its limit of 8.0 GiB; 64.0 MiB are left");
    CHECK(found[0].level == cuota::severity::warning);
    CHECK(found[0].bytes == 7_GiB + 960_MiB);
    CHECK(found[0].reference_bytes == 8_GiB);
    CHECK(found[0].subject == "gpu");

    CHECK(cuota::diagnose(one_budget(1000, 950)).size() == 1);
    CHECK(cuota::diagnose(one_budget(1000, 949)).empty());
    CHECK(cuota::diagnose(one_budget(1000, 999))[0].text.ends_with("; 1 B is left"));
    CHECK(cuota::diagnose(one_budget(1000, 1100))[0].text.ends_with(
        "; 0 B are left"));  // the limit was lowered
    CHECK(cuota::diagnose(one_budget(cuota::unlimited, cuota::unlimited)).empty());
    CHECK(cuota::diagnose(one_budget(0, 0)).empty());
}

TEST_CASE("a full reservation is not reported as nearly full", "[report][diagnosis]") {
    cuota::memory_snapshot s = one_budget(1000, 1000);
    CHECK(cuota::diagnose(s).size() == 1);
    s.budgets[0].facts.is_reservation = true;
    CHECK(cuota::diagnose(s).empty());
}

TEST_CASE("free memory in pools and caches does not count as budget in use", "[report][diagnosis]") {
    cuota::memory_snapshot s = one_budget(1000, 1000);
    s.budgets.push_back({{"model", cuota::unlimited, 1000, 1000}, 1, 0});
    cuota::pool_info p{};
    p.name = "work";
    p.budget = 1;
    p.stats.reserved = 900;
    p.stats.active = 850;
    s.pools.push_back(p);
    CHECK(cuota::diagnose(s).size() == 1);  // 950 in use
    s.pools[0].stats.active = 849;
    CHECK(cuota::diagnose(s).empty());

    s.pools[0].stats.active = 900;
    s.holders.push_back({"loader", 0, {{"batches", {}, 51, false}}});
    CHECK(cuota::diagnose(s).size() == 1);
    s.holders[0].allocation_groups[0].is_cached = true;
    CHECK(cuota::diagnose(s).empty());
    s.holders[0].allocation_groups[0].bytes = 50;
    CHECK(cuota::diagnose(s).size() == 1);
}

TEST_CASE("device memory outside cuota is reported when it grew or when it is most of the device",
          "[report][diagnosis]") {
    auto const grown = cuota::diagnose(one_device(3_GiB, 10_GiB, 512_MiB));
    REQUIRE(grown.size() == 1);
    CHECK(grown[0].text == "device 0: 3.0 GiB are held outside cuota, by the CUDA context, libraries or "
                           "other programs; at the start it "
                           "was 512.0 MiB");
    CHECK(grown[0].level == cuota::severity::warning);
    CHECK(grown[0].bytes == 2_GiB + 512_MiB);
    CHECK(cuota::diagnose(one_device(768_MiB, 10_GiB, 512_MiB)).size() == 1);
    CHECK(cuota::diagnose(one_device(768_MiB - 1, 10_GiB, 512_MiB)).empty());
    CHECK(cuota::diagnose(one_device(768_MiB, 10_GiB, 0)).empty());  // no baseline

    auto const large = cuota::diagnose(one_device(2_GiB, 1_GiB, 0));
    REQUIRE(large.size() == 1);
    CHECK(large[0].text == "device 0: 2.0 GiB are held outside cuota, by the CUDA context, libraries or "
                           "other programs; cuota holds 1.0 "
                           "GiB");
    CHECK(large[0].level == cuota::severity::note);
    CHECK(cuota::diagnose(one_device(1_GiB, 1_GiB, 0)).size() == 1);
    CHECK(cuota::diagnose(one_device(1_GiB, 1_GiB + 1, 0)).empty());
    CHECK(cuota::diagnose(one_device(1_GiB - 1, 1, 0)).empty());
    CHECK(cuota::diagnose(one_device(2_GiB, 1_GiB, 2_GiB)).size() == 1);  // large, though not grown
}

TEST_CASE("rounding is reported when it adds at least a quarter", "[report][diagnosis]") {
    auto const found = cuota::diagnose(one_tag("ids", 64_MiB, 128_MiB, 1_GiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "rounding in pool work: 4'096 blocks of ids requested 64.0 MiB and occupy 128.0 "
                           "MiB: combine them into one allocation");
    CHECK(found[0].kind == finding_kind::rounding);
    CHECK(found[0].level == cuota::severity::note);
    CHECK(found[0].bytes == 64_MiB);
    CHECK(found[0].name == cuota::tag{"ids"});
    CHECK(cuota::diagnose(one_tag("ids", 64_MiB, 80_MiB, 1_GiB)).size() == 1);
    CHECK(cuota::diagnose(one_tag("ids", 64_MiB, 80_MiB - 1, 1_GiB)).empty());
    CHECK(cuota::diagnose(one_tag("ids", 128_MiB, 160_MiB - 1, 1_GiB)).empty());  // a small share
    CHECK(cuota::diagnose(one_tag("ids", 15_MiB, 31_MiB, 1_GiB)).size() == 1);
    CHECK(cuota::diagnose(one_tag("ids", 16, 16_MiB, 1_GiB)).empty());  // few bytes
}

TEST_CASE("a pool's pinned memory is compared with the requested bytes", "[report][diagnosis]") {
    auto const found = cuota::diagnose(pinned_pool(130_MiB, 256_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "pinned memory of pool staging is 2.0 x the requested size: 256.0 MiB for 130.0 MiB");
    CHECK(found[0].kind == finding_kind::pinned);
    CHECK(found[0].level == cuota::severity::warning);
    CHECK(found[0].bytes == 126_MiB);
    CHECK(found[0].reference_bytes == 130_MiB);
    CHECK(found[0].subject == "staging");
    CHECK(cuota::diagnose(pinned_pool(64_MiB, 80_MiB)).size() == 1);
    CHECK(cuota::diagnose(pinned_pool(64_MiB, 80_MiB - 1)).empty());
    CHECK(cuota::diagnose(pinned_pool(128_MiB, 160_MiB - 1)).empty());
    CHECK(cuota::diagnose(pinned_pool(1_MiB, 16_MiB)).empty());
    CHECK(cuota::diagnose(pinned_pool(0, 16_MiB)).empty());  // not used yet

    cuota::memory_snapshot device = pinned_pool(130_MiB, 256_MiB);
    device.pools[0].memory = cuota::memory_kind::device;
    CHECK(cuota::diagnose(device).empty());
    cuota::memory_snapshot rounded = one_tag("ids", 64_MiB, 128_MiB, 1_GiB);
    rounded.pools[0].memory = cuota::memory_kind::pinned;
    CHECK(cuota::diagnose(rounded).empty());  // reported once, for the pool
}

TEST_CASE("a large amount of pending memory is reported with the stream that has most of it",
          "[report][diagnosis]") {
    auto const of = [](std::size_t pending, std::size_t live) {
        return diagnosis_samples::only(
            finding_kind::pending, cuota::diagnose(snapshot_of(pool_of("work", {segment_of{}
                                                                                    .pending(pending - 300, 7)
                                                                                    .pending(100, 3)
                                                                                    .pending(200, 9)
                                                                                    .live(live, "weights")
                                                                                    .made()}))));
    };
    auto const found = of(2_GiB, 2_GiB);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "pool work: 2.0 GiB were freed, but work enqueued before may still use them: 2.0 "
                           "GiB wait for stream 7");
    CHECK(found[0].level == cuota::severity::note);
    CHECK(found[0].bytes == 2_GiB);
    CHECK(found[0].reference_bytes == 4_GiB);
    CHECK(found[0].count == 3);
    CHECK(of(64_MiB, 192_MiB).size() == 1);
    CHECK(of(64_MiB, 192_MiB + 1).empty());
    CHECK(of(64_MiB - 1, 256).empty());

    cuota::memory_snapshot no_blocks = snapshot_of(pool_of("work", {segment_of{}.pending(1_GiB, 7).made()}));
    no_blocks.pools[0].segments.clear();
    CHECK(text_of(finding_kind::pending, cuota::diagnose(no_blocks)) ==
          "pool work: 1.0 GiB were freed, but work enqueued before may still use them");
}

TEST_CASE("untagged memory is reported when it is at least half of the live bytes", "[report][diagnosis]") {
    auto const found = cuota::diagnose(one_tag({}, 71_MiB, 71_MiB, 100_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "pool work: 71 % of live memory has no tag (71.0 MiB in 4'096 blocks): tag these allocations");
    CHECK(found[0].level == cuota::severity::note);
    CHECK(found[0].bytes == 71_MiB);
    CHECK(found[0].reference_bytes == 100_MiB);
    CHECK(cuota::diagnose(one_tag({}, 16_MiB, 16_MiB, 32_MiB)).size() == 1);
    CHECK(cuota::diagnose(one_tag({}, 16_MiB, 16_MiB, 32_MiB + 1)).empty());
    CHECK(cuota::diagnose(one_tag({}, 16_MiB - 1, 16_MiB - 1, 16_MiB)).empty());
    CHECK(cuota::diagnose(one_tag("weights", 71_MiB, 71_MiB, 100_MiB)).empty());
}

TEST_CASE("each pending byte is attributed to the stream of its last deallocation", "[report][diagnosis]") {
    cuota::recording r;
    r.sources.resize(3);
    r.sources[1].pool = 0;
    r.sources[2].pool = 1;
    auto const given = [&](std::uint16_t source, std::uint64_t address, std::size_t size,
                           std::uint64_t stream) {
        r.events.push_back({cuota::event_kind::free_requested, source, 0, 0, address, size, size, stream});
    };
    given(1, 1000, 400, 7);
    given(1, 1100, 100, 8);  // inside
    given(1, 1300, 200, 9);  // across an end
    given(2, 1000, 999, 5);  // in another pool
    given(1, 2000, 100, cuota::memory_event::no_stream);
    using counted = std::map<std::uint64_t, std::size_t>;
    auto const streams_of = [&](std::uint64_t address, std::size_t size) {
        counted by_stream;
        cuota::detail::diagnosis::last_frees{r, 0}.count(address, size, by_stream);
        return by_stream;
    };
    CHECK(streams_of(900, 2000) == counted{{7, 200}, {8, 100}, {9, 200}});
    CHECK(streams_of(1150, 100) == counted{{7, 50}, {8, 50}});
    CHECK(streams_of(1500, 100).empty());
    given(1, 900, 2000, 4);
    CHECK(streams_of(900, 2000) == counted{{4, 2000}});
}
