// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Reports of live and in-flight memory, by a pool whose work a test can block.
#include <cuota/pool/detail/blocks/live_report.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/words.hpp"

using namespace cuota::literals;

namespace simulator = cuota::simulator;

TEST_CASE("stats_by_tag lists the live bytes by tag, most bytes first", "[pool][live_report]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<std::pair<void*, std::size_t>> live;
    for (std::size_t const n : {1000, 2000, 3000}) {
        live.emplace_back(pool.allocate(s, n, 256, "weights", {"a.cpp", unsigned(n)}), n);
        live.emplace_back(pool.allocate(s, 100, 256, "ids"), 100);
    }
    auto const tags = pool.stats_by_tag();
    REQUIRE(tags.size() == 2);
    CHECK(tags[0].name == cuota::tag{"weights"});
    CHECK(tags[0].live_blocks == 3);
    CHECK(tags[0].requested == 6000);
    CHECK(tags[0].allocated == 1024 + 2048 + 3072);
    CHECK(tags[1].name == cuota::tag{"ids"});
    CHECK(tags[1].requested == 300);
    CHECK(tags[1].allocated == 768);
    std::size_t sum = 0;
    for (auto const& t : tags) sum += t.allocated;
    CHECK(sum == pool.stats().allocated);
    for (auto const& [p, n] : live) pool.deallocate(s, p, n);
    CHECK(pool.stats_by_tag().empty());
}

TEST_CASE("freed bytes count as active until the work before the free has finished", "[pool][live_report]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    void* const p = pool.allocate(a, 1_MiB);
    void* const kept = pool.allocate(b, 1_MiB);
    void* const q = pool.allocate(b, 1_MiB);
    bool const is_native = GENERATE(false, true);
    {
        support::gate const gate{a};
        pool.deallocate(is_native ? cuota::stream_ref{a.get()} : cuota::stream_ref{a}, p, 1_MiB);
        pool.deallocate(b, q, 1_MiB);
        b.synchronize();
        CHECK(pool.stats().allocated == 1_MiB);
        CHECK(pool.stats().active == 2_MiB);
    }
    a.synchronize();
    CHECK(pool.stats().active == 1_MiB);
    CHECK(pool.stats().peak_active == 3_MiB);
    pool.deallocate(b, kept, 1_MiB);
    b.synchronize();
    CHECK(pool.stats().active == 0);
}

TEST_CASE("querying the active bytes changes no order: a later request still waits", "[pool][live_report]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    pool.deallocate(a, pool.allocate(a, 1_MiB), 1_MiB);
    a.synchronize();
    CHECK(pool.stats().active == 0);
    support::calls_since const waits{"cudaStreamWaitEvent"};
    void* const p = pool.allocate(b, 1_MiB);
    CHECK(waits.count() == 1);
    CHECK(pool.stats().active == 1_MiB);
    pool.deallocate(b, p, 1_MiB);
}

TEST_CASE("a stream whose query fails counts as busy, and the failure is reported", "[pool][live_report]") {
    support::machine machine;
    cuota::stream const a;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    pool.deallocate(a, pool.allocate(a, 1_MiB), 1_MiB);
    a.synchronize();
    simulator::fail_call("cudaStreamQuery", 1, cudaErrorUnknown);
    CHECK(pool.stats().active == 1_MiB);
    CHECK(machine.errors.take().size() == 1);
    CHECK(pool.stats().active == 0);
}

TEST_CASE("statistics match a shadow: requested <= allocated <= active <= reserved, and their peaks",
          "[pool][live_report]") {
    support::machine const machine;
    struct held {
        void* p;
        std::size_t bytes;
        std::size_t tag;
    };
    std::mt19937 random{11};
    std::vector<cuota::stream> streams(3);
    cuota::tag const names[] = {"weights", "activations", "scratch"};
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB},
                            {.initial_size = 512_KiB, .release_threshold = 2_MiB}};
    std::vector<held> live;
    std::size_t requested = 0;
    std::size_t peak_requested = 0;
    std::map<std::string, std::size_t> by_tag;
    auto const check = [&] {
        cuota::pool_stats const now = pool.stats();
        REQUIRE(now.requested == requested);
        REQUIRE(now.peak_requested == peak_requested);
        REQUIRE(now.live_blocks == live.size());
        std::size_t allocated = 0;
        for (held const& h : live) allocated += cuota::round_up(h.bytes, 256);
        REQUIRE(now.allocated == allocated);
        REQUIRE(now.allocated <= now.active);
        REQUIRE(now.active <= now.reserved);
        REQUIRE(now.peak_requested <= now.peak_allocated);
        REQUIRE(now.peak_allocated <= now.peak_active);
        REQUIRE(now.peak_active <= now.peak_reserved);
        REQUIRE(now.active <= now.peak_active);
        std::map<std::string, std::size_t> seen;
        for (auto const& t : pool.stats_by_tag()) seen[t.name.text()] = t.requested;
        std::erase_if(by_tag, [](auto const& each) { return each.second == 0; });
        REQUIRE(seen == by_tag);
    };
    for (int round = 0; round != 30; ++round) {
        std::optional<support::gate> gate;
        if (random() % 4 == 0) gate.emplace(streams[0]);
        auto persistent = pool.persistent();
        for (int i = 0; i != 40; ++i) {
            cuota::stream const& s = streams[random() % 3];
            if (live.size() < 60 && random() % 2 == 0) {
                std::size_t const bytes = 1 + random() % (random() % 4 == 0 ? 100'000 : 1000);
                std::size_t const tag = random() % 3;
                void* const p = tag == 0 ? persistent.allocate(s, bytes, 256, {names[tag], {}})
                                         : pool.allocate(s, bytes, 256, names[tag]);
                live.push_back({p, bytes, tag});
                requested += bytes;
                peak_requested = std::max(peak_requested, requested);
                by_tag[names[tag].text()] += bytes;
            } else if (!live.empty()) {
                std::swap(live[random() % live.size()], live.back());
                held const h = live.back();
                live.pop_back();
                pool.deallocate(s, h.p, h.bytes);
                requested -= h.bytes;
                by_tag[names[h.tag].text()] -= h.bytes;
            }
            if (i % 10 == 9) check();
        }
        gate.reset();
    }
    for (cuota::stream const& s : streams) s.synchronize();
    CHECK(pool.stats().active == pool.stats().allocated);
    for (held const& h : live) pool.deallocate(streams[0], h.p, h.bytes);
}
