// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests each rule of a diagnosis on a real program that violates it, and on the most similar program that does not.

#include <cuota/report/diagnosis/diagnosis.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/report/recording/recorded.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "report/program_samples.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::finding_kind;
using program_samples::is_told;
using program_samples::program;
using program_samples::shown;

namespace {

using found_ones = std::vector<cuota::finding>;

struct part {
    cuota::tag name;
    std::size_t bytes;
};

// Pinned memory with a coarse granularity.
template <std::size_t Granule>
struct coarse_pinned : cuota::pinned_memory {
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return Granule; }
};

// Records 24 MiB of pinned memory and returns the findings.
template <class Upstream>
[[nodiscard]] found_ones of_24_MiB_from(Upstream upstream) {
    cuota::recorder const recorder;
    cuota::recorded memory{upstream, recorder, "staging"};
    void* const p =
        memory.allocate_sync(24_MiB, 256, cuota::label{"batch", cuota::source_location::current()});
    found_ones found = diagnosis_samples::only(finding_kind::pinned, cuota::diagnose(recorder.read()));
    memory.deallocate_sync(p, 24_MiB);
    return found;
}

// At its peak, a pool of segments has blocks of 8 MiB with small ones between them; then the large ones are freed.
[[nodiscard]] found_ones after_the_large_ones_went(cuota::pool_growth growth, bool small_ones_go,
                                                   unsigned& line) {
    program p{512_MiB, {.initial_size = 256_MiB, .growth = growth}};
    std::vector<void*> large, small;
    for (int i = 0; i != 31; ++i) {
        large.push_back(p.take(8_MiB, "activations"));
        line = __LINE__ + 1;
        small.push_back(p.take(256, "log"));
    }
    for (void* const at : large) p.give(at);
    if (small_ones_go)
        for (void* const at : small) p.give(at);
    p.stream.synchronize();
    return p.found(finding_kind::fragmentation);
}

}  // namespace

TEST_CASE("program: memory that each step keeps is a leak", "[report][diagnosis_programs]") {
    auto const keeping = [](std::size_t most, unsigned& line) {
        program p{256_MiB};
        std::vector<void*> kept;
        p.run(8, [&](std::size_t) {
            line = __LINE__ + 1;
            kept.push_back(p.take(2_MiB, "history"));
            if (kept.size() <= most) return;
            p.give(kept.front());
            kept.erase(kept.begin());
        });
        return p.found(finding_kind::leak);
    };
    unsigned line = 0;
    found_ones const found = keeping(100, line);
    INFO(shown(found));
    CHECK(is_told(found, "history", line, 14_MiB, "grew by 2.0 MiB in each of the last 7 steps"));
    CHECK(found.at(0).level == cuota::severity::problem);
    CHECK(found.at(0).subject == "work");
    CHECK(keeping(2, line).empty());
    CHECK(keeping(1, line).empty());
}

TEST_CASE("program: a leak is found by a recorder that starts late and by one with a small capacity",
          "[report][diagnosis_programs]") {
    auto const found_by = [](std::size_t most, std::size_t capacity) {
        cuota::budget const budget{"trainer", 256_MiB};
        cuota::stream const stream;
        cuota::scoped_pool pool{budget, {.name = "work"}};
        std::vector<void*> kept;
        auto const step = [&] {
            auto const one = pool.begin_step();
            for (int i = 0; i != 20; ++i)
                pool.deallocate(stream, pool.allocate(stream, 4096, 256, "scratch"), 4096);
            kept.push_back(pool.allocate(stream, 2_MiB, 256, "history"));
            if (kept.size() <= most) return;
            pool.deallocate(stream, kept.front(), 2_MiB);
            kept.erase(kept.begin());
        };
        for (int i = 0; i != 6; ++i) step();
        cuota::recorder const recorder{budget, {.capacity = capacity}};
        for (int i = 0; i != 20; ++i) step();
        found_ones found = diagnosis_samples::only(finding_kind::leak, cuota::diagnose(recorder.read()));
        for (void* const at : kept) pool.deallocate(stream, at, 2_MiB);
        return found;
    };
    found_ones const late = found_by(100, 65'536);
    REQUIRE(late.size() == 1);
    CHECK(late[0].steps == 19);
    CHECK(late[0].bytes == 38_MiB);
    found_ones const short_one = found_by(100, 512);
    REQUIRE(short_one.size() == 1);
    CHECK(short_one[0].name == cuota::tag{"history"});
    CHECK(short_one[0].steps >= 5);
    CHECK(short_one[0].steps < 19);
    for (std::size_t const most : {1U, 2U, 5U})
        for (std::size_t const capacity : {256U, 512U, 65'536U}) CHECK(found_by(most, capacity).empty());
}

TEST_CASE("program: a hundred allocations in a step are churn unless all are live at once",
          "[report][diagnosis_programs]") {
    auto const with = [](std::size_t steps, std::size_t at_once, unsigned& line) {
        program p{256_MiB};
        p.run(steps, [&](std::size_t) {
            for (std::size_t done = 0; done != 100; done += at_once) {
                std::vector<void*> held;
                for (std::size_t i = 0; i != at_once; ++i) {
                    line = __LINE__ + 1;
                    held.push_back(p.take(64_KiB, "scratch"));
                }
                for (void* const at : held) p.give(at);
            }
        });
        return p.found(finding_kind::churn);
    };
    unsigned line = 0;
    found_ones const found = with(4, 1, line);
    INFO(shown(found));
    CHECK(is_told(found, "scratch", line, 64_KiB,
                  "allocated and freed at least 100 times in each of the last 3 steps"));
    CHECK(with(4, 100, line).empty());
    CHECK(with(4, 25, line).size() == 1);
    CHECK(with(3, 1, line).empty());  // the first growth may be set-up
}

TEST_CASE("program: small blocks fragment a segment, but not pages", "[report][diagnosis_programs]") {
    unsigned line = 0;
    found_ones const found = after_the_large_ones_went(cuota::pool_growth::segments, false, line);
    INFO(shown(found));
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == cuota::tag{"log"});
    CHECK(found[0].where.line == line);
    CHECK(found[0].bytes >= 31 * 8_MiB);
    CHECK(found[0].reference_bytes >= 8_MiB);
    CHECK(found[0].reference_bytes < 17_MiB);
    CHECK(found[0].text.find("blocks of log (") != std::string::npos);
    CHECK(found[0].coalesced_bytes >= 31 * 8_MiB);
    CHECK(after_the_large_ones_went(cuota::pool_growth::segments, true, line).empty());
    program const pages{16_MiB, {.initial_size = 4_MiB}};
    if (cuota::snapshot_of(pages.budget).pools[0].segments[0].is_paged)  // only with virtual memory
        CHECK(after_the_large_ones_went(cuota::pool_growth::automatic, false, line).empty());
}

TEST_CASE("program: memory of the start is idle unless steps release it", "[report][diagnosis_programs]") {
    auto const with = [](std::size_t steps, std::size_t threshold) {
        program p{512_MiB, {.release_threshold = threshold}};
        p.take_and_give(256_MiB, "warm-up");
        p.run(steps, [&](std::size_t) { p.take_and_give(1_MiB, "batch"); });
        return p.found(finding_kind::idle);
    };
    found_ones const found = with(11, cuota::unlimited);
    INFO(shown(found));
    CHECK(is_told(found, {}, 0, 255_MiB, "pool work holds 255.0 MiB that were not used in the last 10"));
    CHECK(found.at(0).reference_bytes == 256_MiB);
    CHECK(with(11, 1_MiB).empty());
    CHECK(with(10, cuota::unlimited).empty());
}

TEST_CASE("program: a refusal is a problem and reported with its shortfall", "[report][diagnosis_programs]") {
    auto const asking = [](std::size_t bytes, unsigned& line) {
        program p{64_MiB};
        p.take(48_MiB, "weights");
        try {
            line = __LINE__ + 1;
            p.take(bytes, "activations");
        } catch (cuota::budget_exceeded const&) {}
        return p.found(finding_kind::refusals);
    };
    unsigned line = 0;
    found_ones const found = asking(32_MiB, line);
    INFO(shown(found));
    CHECK(
        is_told(found, "activations", line, 16_MiB, "budget trainer refused 1 request, short by 16.0 MiB;"));
    CHECK(found.at(0).reference_bytes == 32_MiB);
    CHECK(found.at(0).text.find("that much free") == std::string::npos);
    CHECK(asking(16_MiB, line).empty());
}

TEST_CASE("program: a refusal reports that enough bytes were free but fragmented",
          "[report][diagnosis_programs]") {
    program p{64_MiB, {.initial_size = 64_MiB, .growth = cuota::pool_growth::segments}};
    std::vector<void*> held;
    for (int i = 0; i != 4; ++i) held.push_back(p.take(16_MiB, "weights"));
    p.give(held[0]);
    p.give(held[2]);
    p.stream.synchronize();
    for (int i = 0; i != 2; ++i) CHECK_THROWS_AS(p.take(32_MiB, "activations"), cuota::budget_exceeded);
    found_ones const found = p.found(finding_kind::refusals);
    INFO(shown(found));
    REQUIRE(found.size() == 1);
    CHECK(found[0].bytes == 32_MiB);
    CHECK(found[0].text.find("refused 2 requests") != std::string::npos);
    CHECK(found[0].text.find("each time its pools had that much free") != std::string::npos);
}

TEST_CASE("program: a refusal by an outer budget is attributed to it, with its shortfall",
          "[report][diagnosis_programs]") {
    program p{64_MiB};
    p.take(48_MiB, "weights");
    cuota::scoped_pool other{p.budget, {.name = "other", .max_size = 60_MiB}};
    unsigned const line = __LINE__ + 1;
    CHECK_THROWS_AS(other.allocate(p.stream, 32_MiB, 256, "cache"), cuota::budget_exceeded);
    found_ones found = p.found(finding_kind::refusals);
    INFO(shown(found));
    CHECK(is_told(found, "cache", line, 16_MiB, "budget trainer refused 1 request, short by 16.0 MiB;"));
    CHECK(found.at(0).subject == "trainer");
}

TEST_CASE("program: no refusal is reported when other pools release memory in time",
          "[report][diagnosis_programs]") {
    program p{64_MiB};
    p.take_and_give(48_MiB, "weights");
    {
        cuota::scoped_pool other{p.budget, {.name = "other"}};
        other.deallocate(p.stream, other.allocate(p.stream, 32_MiB, 256, "cache"), 32_MiB);
        p.stream.synchronize();
        CHECK(p.found(finding_kind::refusals).empty());
    }
}

TEST_CASE("program: a budget is full by memory in use, not by free memory of its pool",
          "[report][diagnosis_programs]") {
    program p{100_MiB};
    void* const held = p.take(96_MiB, "weights");
    found_ones const found = p.found(finding_kind::budget_full);
    INFO(shown(found));
    CHECK(is_told(found, {}, 0, 96_MiB, "budget trainer is nearly full: 96.0 MiB in use, 96 % of its limit"));
    CHECK(found.at(0).reference_bytes == 100_MiB);
    p.give(held);
    p.stream.synchronize();
    CHECK(p.budget.held() == 96_MiB);
    CHECK(p.found(finding_kind::budget_full).empty());
}

TEST_CASE("program: pinned memory with a coarse granularity is reported", "[report][diagnosis_programs]") {
    found_ones const found = of_24_MiB_from(coarse_pinned<64_MiB>{});
    INFO(shown(found));
    CHECK(
        is_told(found, {}, 0, 40_MiB, "resource staging is 2.7 x the requested size: 64.0 MiB for 24.0 MiB"));
    CHECK(of_24_MiB_from(coarse_pinned<32_MiB>{}).empty());
    CHECK(of_24_MiB_from(cuota::pinned_memory{}).empty());
}

TEST_CASE("program: a pinned pool of twice the requested size is reported", "[report][diagnosis_programs]") {
    auto const with = [](std::size_t initial) {
        cuota::budget const budget{"host", 128_MiB};
        cuota::stream const stream;
        cuota::scoped_pool pool{budget, cuota::pinned_memory{}, {.name = "staging", .initial_size = initial}};
        void* const p = pool.allocate(stream, 24_MiB, 256, "batch");
        found_ones found =
            diagnosis_samples::only(finding_kind::pinned, cuota::diagnose(cuota::snapshot_of(budget)));
        pool.deallocate(stream, p, 24_MiB);
        return found;
    };
    found_ones const found = with(48_MiB);
    INFO(shown(found));
    CHECK(is_told(found, {}, 0, 24_MiB, "pinned memory of pool staging is 2.0 x the requested size"));
    CHECK(with(24_MiB).empty());
}

TEST_CASE("program: many very small blocks are reported as rounding", "[report][diagnosis_programs]") {
    auto const with = [](std::size_t bytes) {
        program p{128_MiB};
        std::vector<void*> held;
        for (int i = 0; i != 70'000; ++i) held.push_back(p.pool.allocate(p.stream, bytes, 1, "flag"));
        found_ones found =
            diagnosis_samples::only(finding_kind::rounding, cuota::diagnose(cuota::snapshot_of(p.budget)));
        for (void* const at : held) p.pool.deallocate(p.stream, at, bytes);
        return found;
    };
    found_ones const found = with(1);
    INFO(shown(found));
    CHECK(is_told(found, "flag", 0, 70'000 * 255, "blocks of flag requested 68.4 KiB and occupy 17.1 MiB"));
    CHECK(found.at(0).count == 70'000);
    CHECK(with(256).empty());
}

TEST_CASE("program: untagged memory is reported", "[report][diagnosis_programs]") {
    auto const with = [](cuota::tag name) {
        program p{128_MiB};
        p.take(8_MiB, "weights");
        p.take(16_MiB, name);
        return p.found(finding_kind::untagged);
    };
    found_ones const found = with({});
    INFO(shown(found));
    CHECK(is_told(found, {}, 0, 16_MiB, "66 % of live memory has no tag (16.0 MiB in 1 block)"));
    CHECK(with("activations").empty());
}

TEST_CASE("program: the largest part of a peak is attributed to a tag or to untagged memory",
          "[report][diagnosis_programs]") {
    unsigned line = 0;
    auto const with = [&](std::vector<part> const& parts) {
        program p{128_MiB};
        std::vector<void*> held;
        for (auto const& [name, bytes] : parts) {
            line = __LINE__ + 1;
            held.push_back(p.take(bytes, name));
        }
        for (void* const at : held) p.give(at);  // freed before the recorder is read
        p.take_and_give(1_MiB, "late");
        return p.found(finding_kind::peak);
    };
    found_ones const found = with({{"a", 70_MiB}, {"b", 30_MiB}});
    INFO(shown(found));
    CHECK(is_told(found, "a", line, 70_MiB, "pool work: at its peak of 100.0 MiB, 70 % was a ("));
    CHECK(with({{"a", 40_MiB}, {"b", 30_MiB}, {"c", 30_MiB}}).empty());
}

TEST_CASE("program: loaders that each step keeps are a leak", "[report][diagnosis_programs]") {
    std::vector<float> const values(1'000'000);
    auto const keeping = [&](std::size_t most) {
        program p{256_MiB};
        std::vector<cuota::batch_loader> kept;
        p.run(6, [&](std::size_t) {
            cuota::loader_options how{.batch_size = 100'000, .device_budget = p.budget};
            how.name = "loader";
            kept.emplace_back(cuota::memory_dataset{"numbers", values}, how);
            if (kept.size() > most) kept.erase(kept.begin());
        });
        return p.found(finding_kind::leak);
    };
    found_ones const found = keeping(100);
    INFO(shown(found));
    REQUIRE(!found.empty());
    CHECK(found[0].subject == "loader");
    CHECK(found[0].text.find("leak in resource loader: loader (") == 0);
    CHECK(found[0].steps == 5);
    CHECK(keeping(2).empty());
}
