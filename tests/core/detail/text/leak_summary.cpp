// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/leak_summary.hpp>

#include <string>

#include "support/catch.hpp"

using cuota::detail::leak_summary;

TEST_CASE("live allocations are grouped by tag and call site, most bytes first", "[core][survivors]") {
    leak_summary alive;
    CHECK(alive.text().empty());
    alive.add("ids", {"load.cpp", 3}, 1024);
    for (std::uint32_t age : {7U, 120U, 1U}) alive.add("weights", {"src/train.cpp", 10}, 3'984'589, age);
    alive.add("weights", {"src/train.cpp", 11}, 2048, 1);

    CHECK(alive.count() == 5);
    CHECK(alive.text() ==
          "5 allocations are still alive: weights 3 x 3.8 MiB (train.cpp:10, oldest 120 steps ago), "
          "weights 2.0 KiB (train.cpp:11, 1 step ago), ids 1.0 KiB (load.cpp:3)");
}

TEST_CASE("live allocations of different sizes are added up, and those without a tag are called untagged",
          "[core][survivors]") {
    leak_summary alive;
    alive.add({}, {}, 100);
    CHECK(alive.text() == "1 allocation is still alive: untagged 100 B");
    alive.add({}, {}, 200, 2);
    CHECK(alive.text() ==
          "2 allocations are still alive: untagged 300 B in 2 allocations (oldest 2 steps ago)");
}

TEST_CASE("the largest groups of live allocations are listed, and the others are counted",
          "[core][survivors]") {
    leak_summary alive;
    for (unsigned line = 1; line != 8; ++line) alive.add("x", {"a.cpp", line}, line * 100);
    CHECK(alive.text() ==
          "7 allocations are still alive: x 700 B (a.cpp:7), x 600 B (a.cpp:6), x 500 B (a.cpp:5), "
          "x 400 B (a.cpp:4), and 3 more (600 B)");
}
