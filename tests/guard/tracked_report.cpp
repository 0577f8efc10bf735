// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/tracked_report.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::tracked_block;
using cuota::tracked_order;
using cuota::detail::report_of;

namespace {

std::vector<tracked_block> three_blocks() {
    return {{nullptr, 1024, "ids", {"src/load.cpp", 3}, std::nullopt, 3, 0},
            {nullptr, 4096, "weights", {"train.cpp", 10}, 7, 1, 2},
            {nullptr, 512, "ids", {"load.cpp", 4}, std::nullopt, 2, 1}};
}

}  // namespace

TEST_CASE("a report has the requested order and correct sums", "[guard][tracked_report]") {
    auto const oldest = report_of(three_blocks(), tracked_order::oldest);
    CHECK(oldest.count() == 3);
    CHECK(oldest.bytes == 5632);
    CHECK(oldest.blocks[0].number == 1);
    CHECK(oldest.blocks[2].number == 3);
    REQUIRE(oldest.tags.size() == 2);
    CHECK(oldest.tags[0].name == cuota::tag{"weights"});
    CHECK(oldest.tags[1].blocks == 2);
    CHECK(oldest.tags[1].bytes == 1536);
    CHECK(oldest.tags[1].oldest == 1);

    auto const largest = report_of(three_blocks(), tracked_order::largest);
    CHECK(largest.blocks[0].bytes == 4096);
    CHECK(largest.blocks[1].bytes == 1024);
    CHECK(report_of({}, tracked_order::largest).is_empty());
}

TEST_CASE("the text of a report is a list", "[guard][tracked_report]") {
    CHECK(report_of({}, tracked_order::oldest).text() == "0 blocks of 0 B");
    CHECK(report_of(three_blocks(), tracked_order::oldest).text() ==
          "3 blocks of 5.5 KiB"
          "\n  weights                                 1 block of 4.0 KiB"
          "\n  ids                                     2 blocks of 1.5 KiB"
          "\n  weights 4.0 KiB (train.cpp:10), 2 allocations ago, on stream 7"
          "\n  ids 512 B (load.cpp:4), 1 allocation ago"
          "\n  ids 1.0 KiB (load.cpp:3), 0 allocations ago");
}

TEST_CASE("the text of a long report has the number of blocks that it leaves out",
          "[guard][tracked_report]") {
    std::vector<tracked_block> const many(40, tracked_block{nullptr, 256, {}, {}, std::nullopt, 1, 0});
    std::string const text = report_of(many, tracked_order::oldest).text();
    CHECK(support::has(text, "40 blocks of 10.0 KiB\n  untagged 256 B, 0 allocations ago\n"));
    CHECK(support::has(text, "\n  and 24 more blocks"));
    cuota::tracked_diff const changed{report_of(many, tracked_order::oldest), {}};
    CHECK(!changed.is_empty());
    CHECK(support::has(changed.text(), "allocated since: 40 blocks"));
    CHECK(support::has(changed.text(), "\nfreed since: 0 blocks of 0 B"));
}
