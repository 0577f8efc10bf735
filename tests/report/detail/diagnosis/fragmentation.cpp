// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/diagnosis/fragmentation.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
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

namespace {

namespace rules = cuota::detail::diagnosis;

[[nodiscard]] std::vector<cuota::finding> fragmentation_in(std::vector<cuota::segment_info> segments,
                                                           cuota::diagnosis_options const& options = {}) {
    return diagnosis_samples::only(
        finding_kind::fragmentation,
        cuota::diagnose(snapshot_of(pool_of("work", std::move(segments))), options));
}
[[nodiscard]] std::string fragmentation_text(std::vector<cuota::segment_info> segments) {
    std::vector<cuota::finding> const found = fragmentation_in(std::move(segments));
    return found.empty() ? "none" : found.front().text;
}

// `pieces` free pieces, with a live block between each two.
[[nodiscard]] cuota::segment_info comb(std::size_t pieces, std::size_t free, std::size_t live) {
    segment_of s;
    for (std::size_t i = 0; i != pieces; ++i) {
        if (i != 0) s.live(live, "log");
        s.free(free);
    }
    return s.made();
}

}  // namespace

TEST_CASE("fragmentation names the blocks that separate most free memory", "[report][diagnosis]") {
    segment_of s;
    s.live(200_MiB, "weights", 5);
    s.free(40_MiB)
        .live(4_KiB, "log")
        .free(40_MiB)
        .live(4_KiB, "log")
        .free(40_MiB)
        .live(4_KiB, "log")
        .free(40_MiB);
    s.live(300_MiB, "weights", 6).free(20_MiB);
    auto const found = fragmentation_in({s.made()});
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "fragmentation of pool work: 180.0 MiB are free, the largest piece is 40.0 MiB; "
                           "without 3 blocks of log (train.cpp:17), 12.0 KiB, 160.0 MiB would be contiguous");
    CHECK(found[0].level == cuota::severity::warning);
    CHECK(found[0].bytes == 180_MiB);
    CHECK(found[0].reference_bytes == 40_MiB);
    CHECK(found[0].count == 3);
    CHECK(found[0].coalesced_bytes == 160_MiB + 12_KiB);
    CHECK(found[0].subject == "work");
    CHECK(found[0].name == cuota::tag{"log"});
    CHECK(found[0].where.line == 17);
}

TEST_CASE("fragmentation by several tags names the most frequent tag and uses the singular for one block",
          "[report][diagnosis]") {
    CHECK(fragmentation_text({segment_of{}
                                  .free(30_MiB)
                                  .live(512, "a", 1)
                                  .free(30_MiB)
                                  .live(256, "b", 2)
                                  .free(30_MiB)
                                  .live(256, "b", 2)
                                  .free(30_MiB)
                                  .made()}) ==
          "fragmentation of pool work: 120.0 MiB are free, the largest piece is 30.0 MiB; without 3 blocks, "
          "most of them of b (train.cpp:2), 1.0 KiB, 120.0 MiB would be contiguous");
    cuota::diagnosis_options half{};
    half.fragmentation_largest = 0.5;
    auto const found = fragmentation_in({comb(2, 64_MiB, 256)}, half);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "fragmentation of pool work: 128.0 MiB are free, the largest piece is 64.0 MiB; "
                           "without 1 block of log (train.cpp:17), 256 B, 128.0 MiB would be contiguous");
}

TEST_CASE("fragmentation is reported above a minimum of free bytes and below a share of the largest piece",
          "[report][diagnosis]") {
    CHECK(fragmentation_in({comb(4, 16_MiB, 256)}).size() == 1);  // 64 MiB, the largest piece a quarter of it
    CHECK(fragmentation_in({comb(4, 16_MiB - 256, 256)}).empty());  // slightly less
    CHECK(fragmentation_in({segment_of{}
                                .free(16_MiB + 256)
                                .live(256, "log")
                                .free(16_MiB)
                                .live(256, "log")
                                .free(32_MiB - 256)
                                .made()})
              .empty());  // half is in one piece
    CHECK(fragmentation_in({segment_of{}.free(1_GiB).made()}).empty());
    CHECK(fragmentation_in({segment_of{}.live(1_GiB, "weights").made()}).empty());
    CHECK(fragmentation_in({}).empty());
}

TEST_CASE("free memory in whole segments or on pages is not fragmentation", "[report][diagnosis]") {
    std::vector<cuota::segment_info> whole;
    for (int i = 0; i != 8; ++i) whole.push_back(segment_of{}.free(16_MiB).made());
    CHECK(fragmentation_in(whole).empty());

    cuota::segment_info paged = comb(8, 16_MiB, 256);
    CHECK(fragmentation_in({paged}).size() == 1);
    paged.is_paged = true;
    CHECK(fragmentation_in({paged}).empty());

    // A large free piece in any segment can serve a large request.
    CHECK(fragmentation_in({comb(8, 16_MiB, 256), segment_of{}.free(32_MiB).made()}).size() == 1);
    CHECK(fragmentation_in({comb(8, 16_MiB, 256), segment_of{}.free(33_MiB).made()}).empty());
    CHECK(fragmentation_in({comb(8, 16_MiB, 256), segment_of{}.free(33_MiB).paged().made()}).empty());
}

TEST_CASE("pending blocks do not count as separators of free memory, blocks that are being released do",
          "[report][diagnosis]") {
    CHECK(fragmentation_in({segment_of{}
                                .free(20_MiB)
                                .pending(1_MiB, 7)
                                .free(20_MiB)
                                .pending(1_MiB, 7)
                                .free(20_MiB)
                                .pending(1_MiB, 7)
                                .free(20_MiB)
                                .live(256, "log")
                                .free(20_MiB)
                                .made()})
              .empty());
    segment_of parted;
    for (int i = 0; i != 8; ++i) parted.free(16_MiB).leaving(1_MiB);
    parted.live(256, "log");
    auto const found = fragmentation_in({parted.made()});
    REQUIRE(found.size() == 1);
    CHECK(found[0].count == 0);
    CHECK(found[0].text == "fragmentation of pool work: 128.0 MiB are free, the largest piece is 16.0 MiB");
}

TEST_CASE("blocks that are as large as the memory that they separate are counted, but not blamed",
          "[report][diagnosis]") {
    auto const dense = fragmentation_in({comb(8, 16_MiB, 16_MiB)});
    REQUIRE(dense.size() == 1);
    CHECK(dense[0].text ==
          "fragmentation of pool work: 128.0 MiB are free, the largest piece is 16.0 MiB; "
          "in one segment, 7 blocks of log (train.cpp:17), 112.0 MiB, separate 128.0 MiB of free memory");
    CHECK(dense[0].coalesced_bytes == 0);
    // The blocks may have at most a quarter of the free bytes: 3 x 16 MiB for 4 x 48 MiB.
    CHECK(fragmentation_in({comb(4, 48_MiB, 16_MiB)})[0].coalesced_bytes == 240_MiB);
    CHECK(fragmentation_in({comb(4, 48_MiB, 16_MiB + 256)})[0].coalesced_bytes ==
          144_MiB + 2 * (16_MiB + 256));
}

TEST_CASE("blocks are not blamed if freeing them would not double the largest piece", "[report][diagnosis]") {
    auto const four_of = [](std::size_t first, std::size_t second) {
        std::vector<cuota::segment_info> all;
        for (int i = 0; i != 4; ++i)
            all.push_back(segment_of{}.free(first).live(256, "log").free(second).made());
        return fragmentation_in(std::move(all));
    };
    auto const less = four_of(20_MiB, 20_MiB - 512);
    REQUIRE(less.size() == 1);
    CHECK(less[0].coalesced_bytes == 0);
    CHECK(less[0].count == 1);
    CHECK(less[0].text.find("; in one segment, 1 block of log (train.cpp:17), 256 B, separate ") !=
          std::string::npos);
    auto const twice = four_of(20_MiB, 20_MiB - 256);
    REQUIRE(twice.size() == 1);
    CHECK(twice[0].coalesced_bytes == 40_MiB);
}

TEST_CASE("fragmentation by scratch memory that outlives its step advises another lifetime hint",
          "[report][diagnosis]") {
    auto const with = [](std::size_t age, cuota::lifetime_hint lifetime) {
        segment_of s;
        for (int i = 0; i != 4; ++i) s.free(32_MiB).live(256, "log", 17, age, lifetime);
        return fragmentation_text({s.made()});
    };
    std::string const advice = "; they outlive their steps: allocate them from persistent()";
    CHECK(with(1, cuota::lifetime_hint::scratch).ends_with(advice));
    CHECK(!with(0, cuota::lifetime_hint::scratch).ends_with(advice));
    CHECK(!with(1, cuota::lifetime_hint::persistent).ends_with(advice));
}

TEST_CASE("the window of blocks that is found is the best of all windows", "[report][diagnosis]") {
    std::mt19937 random{7};
    auto const up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{1, most}(random);
    };
    for (int round = 0; round != 300; ++round) {
        segment_of made;
        for (int i = 0; i != 24; ++i) {
            std::size_t const what = up_to(16);
            if (what == 1) made.leaving(up_to(50));
            else if (what < 9) made.free(up_to(100));
            else made.live(up_to(what == 9 ? 400 : 40), "x");
        }
        cuota::segment_info const& s = made.made();
        rules::free_window best{};
        for (std::size_t i = 0; i != s.blocks.size(); ++i)
            for (std::size_t j = i + 1; j <= s.blocks.size(); ++j) {
                if (!rules::will_be_free(s.blocks[i]) || !rules::will_be_free(s.blocks[j - 1])) continue;
                rules::free_window w{&s, i, j};
                bool is_whole = true;
                for (std::size_t k = i; k != j; ++k) {
                    cuota::block_info const& b = s.blocks[k];
                    is_whole &= b.use != cuota::block_use::releasing;
                    if (rules::will_be_free(b)) w.free += b.size;
                    else w.live += b.size, ++w.blocks;
                }
                if (is_whole && w.live * 4 <= w.free && w.is_better_than(best)) best = w;
            }
        auto const found = rules::window_search{s, 0.25}.run();
        REQUIRE(found.has_value() == (best.free != 0));
        if (!found) continue;
        REQUIRE(found->free == best.free);
        REQUIRE(found->live == best.live);
        REQUIRE(found->blocks == best.blocks);
        REQUIRE(found->first == best.first);
        REQUIRE(found->last == best.last);
    }
}
