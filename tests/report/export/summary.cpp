// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/summary.hpp>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "report/summary_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::memory_snapshot;
using cuota::summary;
using cuota::summary_options;
using namespace cuota::literals;

namespace {

[[nodiscard]] std::vector<std::string> lines_of(std::string const& text) {
    std::vector<std::string> lines;
    std::istringstream in{text};
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

[[nodiscard]] std::vector<std::string> rows_of(std::string const& text, std::string const& heading) {
    std::vector<std::string> rows;
    bool is_inside = false;
    for (std::string const& line : lines_of(text)) {
        if (line.empty()) is_inside = false;
        if (is_inside) rows.push_back(line);
        if (line.starts_with(heading)) is_inside = true;
    }
    return rows;
}

[[nodiscard]] memory_snapshot of_budgets(std::vector<cuota::budget_entry> budgets) {
    memory_snapshot s;
    s.budgets = std::move(budgets);
    return s;
}
[[nodiscard]] std::vector<std::string> budget_rows(std::vector<cuota::budget_entry> budgets,
                                                   summary_options how = {}) {
    return rows_of(summary(of_budgets(std::move(budgets)), how), "budget");
}

[[nodiscard]] cuota::pool_info pool_with(std::string name, std::vector<cuota::tag_info> tags) {
    cuota::pool_info p;
    p.name = std::move(name);
    p.tags = std::move(tags);
    return p;
}

}  // namespace

TEST_CASE("a summary has budgets, pools, tags, other holders and devices on one screen",
          "[report][summary]") {
    REQUIRE(summary(summary_samples::small_snapshot()) ==
            R"(memory at 2026-01-01 00:01:01 UTC

budget                                           full       held      limit  available       peak
gpu                           [##########....]   75 %   12.0 KiB   16.0 KiB    4.0 KiB   14.0 KiB
  training                    [##########....]   75 %    6.0 KiB    8.0 KiB    2.0 KiB    8.0 KiB
  reservation batches         [###...........]   25 %    1.0 KiB    4.0 KiB    3.0 KiB    2.0 KiB

pool                                            requested   allocated      active    reserved
main (device 0, budget training)                  1.5 KiB     1.8 KiB     2.0 KiB     6.0 KiB
  3 blocks in 2 segments                 peak     2.0 KiB     2.2 KiB     2.5 KiB     8.0 KiB
  free 4.2 KiB in 3 blocks, the largest 2.0 KiB: 53 % fragmented; 256 B pending

tag                                live   share           peak    blocks     steps  pool
weights                         1.0 KiB    57 %        1.0 KiB         2         4  main
activations                       768 B    43 %        1.2 KiB         1         0  main

other holders                       in use     cached  budget              largest
loader train                         768 B      256 B  batches             staging (loader.cpp:7)

device                       total       free        own   in pools   external   at start    unknown
0 simulated                1.0 GiB    1.0 GiB   16.0 KiB    6.0 KiB    4.0 KiB    1.0 KiB    3.0 KiB)");
}

TEST_CASE("a summary of an empty snapshot is one line, and empty sections have no heading",
          "[report][summary]") {
    CHECK(summary({}) == "memory at 1970-01-01 00:00:00 UTC: nothing to show");
    memory_snapshot s;
    s.devices = {{1, "simulated", 100, 90, 10}};
    CHECK(summary(s) ==
          R"(memory at 1970-01-01 00:00:00 UTC

device                       total       free        own   in pools   external   at start    unknown
1 simulated                  100 B       90 B       10 B        0 B        0 B          -        0 B)");
    s.devices.clear();
    s.pools = {pool_with("empty", {})};
    CHECK(summary(s) ==
          R"(memory at 1970-01-01 00:00:00 UTC

pool                                            requested   allocated      active    reserved
empty (budget ?)                                      0 B         0 B         0 B         0 B
  0 blocks in 0 segments                 peak         0 B         0 B         0 B         0 B
  no free memory)");
}

TEST_CASE("a budget without a limit has no bar, and one at or over its limit has a full bar",
          "[report][summary]") {
    std::vector<std::string> const rows = budget_rows({{{"any", cuota::unlimited, 5, 6}, 0, {}},
                                                       {{"at", 100, 100, 100}, 0, {}},
                                                       {{"over", 100, 250, 250}, 0, {}},
                                                       {{"far over", 1, 10_GiB, 10_GiB}, 0, {}},
                                                       {{"zero", 0, 0, 0}, 0, {}},
                                                       {{"above zero", 0, 1, 1}, 0, {}},
                                                       {{"nearly", 1000, 999, 999}, 0, {}},
                                                       {{"hardly", 1000, 1, 1}, 0, {}}});
    CHECK(
        rows ==
        std::vector<std::string>{
            R"(far over                      [##############] >999 %   10.0 GiB        1 B        0 B   10.0 GiB)",
            R"(nearly                        [#############.]   99 %      999 B     1000 B        1 B      999 B)",
            R"(over                          [##############]  250 %      250 B      100 B        0 B      250 B)",
            R"(at                            [##############]  100 %      100 B      100 B        0 B      100 B)",
            R"(any                                                 -        5 B  unlimited  unlimited        6 B)",
            R"(above zero                    [##############]      -        1 B        0 B        0 B        1 B)",
            R"(hardly                        [..............]   <1 %        1 B     1000 B      999 B        1 B)",
            R"(zero                          [..............]      -        0 B        0 B        0 B        0 B)"});
}

TEST_CASE("a budget's available bytes respect all outer budgets, a reservation's are its own",
          "[report][summary]") {
    std::vector<std::string> const rows = budget_rows({{{"gpu", 1000, 900, 900}, 0, {}},
                                                       {{"free to take", cuota::unlimited, 0, 0}, 1, 0},
                                                       {{"mine", 500, 100, 100, true}, 1, 0},
                                                       {{"over", 80, 0, 0, true, true}, 1, 0}});
    CHECK(
        rows ==
        std::vector<std::string>{
            R"(gpu                           [############..]   90 %      900 B     1000 B      100 B      900 B)",
            R"(  reservation mine            [##............]   20 %      100 B      500 B      400 B      100 B)",
            R"(  free to take                                      -        0 B  unlimited      100 B        0 B)",
            R"(  ended reservation over      [..............]    0 %        0 B       80 B        0 B        0 B)"});
}

TEST_CASE("siblings are listed below their parent, by held bytes and then by name", "[report][summary]") {
    std::vector<std::string> const rows = budget_rows({{{"b", 10, 3, 3}, 0, {}},
                                                       {{"b1", 10, 1, 1}, 1, 0},
                                                       {{"b2", 10, 2, 2}, 1, 0},
                                                       {{"c", 10, 3, 3}, 0, {}},
                                                       {{"a", 10, 4, 4}, 0, {}}});
    std::vector<std::string> names;
    for (std::string const& row : rows) names.push_back(row.substr(0, 5));
    CHECK(names == std::vector<std::string>{"a    ", "b    ", "  b2 ", "  b1 ", "c    "});
}

TEST_CASE("a long list of budgets is cut to those that hold most, with their parents", "[report][summary]") {
    std::vector<cuota::budget_entry> all = {{{"small", 100, 50, 50}, 0, {}}};
    for (int i = 0; i != 40; ++i) all.push_back({{"s" + std::to_string(i), 100, 1, 1}, 1, 0});
    all.push_back({{"large", 100, 90, 90}, 0, {}});
    all.push_back({{"deep", 100, 80, 80}, 1, 41});
    all.push_back({{"deeper", 100, 70, 70}, 2, 42});
    std::vector<std::string> const rows = budget_rows(all, {.max_budgets = 4});
    std::vector<std::string> begins;
    for (std::string const& row : rows) begins.push_back(row.substr(0, 12));
    CHECK(begins == std::vector<std::string>{"large       ", "  deep      ", "    deeper  ", "small       ",
                                             "  and 40 mor"});
    CHECK(rows.back() == "  and 40 more, 40 B");
    // Budgets inside another omitted budget are not added again.
    CHECK(budget_rows(all, {.max_budgets = 0}) == std::vector<std::string>{"  and 44 more, 140 B"});
}

TEST_CASE("a hand-made budget list that is not a tree is still drawn", "[report][summary]") {
    CHECK(budget_rows(
              {{{"itself", 1, 0, 0}, 0, 0}, {{"nobody's", 1, 0, 0}, 3, 77}, {{"before", 1, 0, 0}, 0, 2}})
              .size() == 3);
    CHECK(
        budget_rows({{{"deep", 1, 0, 0, true, true}, 1'000'000, {}}}) ==
        std::vector<std::string>{
            R"(  ended reservation deep      [..............]    0 %        0 B        1 B        0 B        0 B)"});
}

TEST_CASE("a budget that holds more than its parent is shown together with the parent", "[report][summary]") {
    std::vector<std::string> const both =
        budget_rows({{{"parent", 9, 1, 1}, 0, {}}, {{"child", 9, 5, 5}, 1, 0}}, {.max_budgets = 1});
    REQUIRE(both.size() == 2);
    CHECK(both[0].starts_with("parent  "));
}

TEST_CASE("bars have block characters if the utf8 option is set", "[report][summary]") {
    CHECK(
        budget_rows({{{"gpu", 16, 12, 12}, 0, {}}}, {.utf8 = true}) ==
        std::vector<std::string>{
            R"(gpu                           [██████████▌░░░]   75 %       12 B       16 B        4 B       12 B)"});
}

TEST_CASE("colors are off by default, and mark only budgets that are nearly full", "[report][summary]") {
    std::vector<cuota::budget_entry> const all = {
        {{"red", 100, 90, 90}, 0, {}}, {{"yellow", 100, 75, 75}, 0, {}}, {{"plain", 100, 74, 74}, 0, {}}};
    CHECK_FALSE(support::has(summary(of_budgets(all)), "\x1b"));
    std::vector<std::string> const rows = budget_rows(all, {.color = true});
    CHECK(support::has(rows[0], "\x1b[31m[############..]\x1b[0m   90 %"));
    CHECK(support::has(rows[1], "\x1b[33m[##########....]\x1b[0m   75 %"));
    CHECK_FALSE(support::has(rows[2], "\x1b"));
}

TEST_CASE("pools are sorted by reserved bytes and show the share of the largest free piece",
          "[report][summary]") {
    memory_snapshot s;
    s.pools = {pool_with("b", {}), pool_with("c", {}), pool_with("a", {})};
    s.pools[0].stats = {
        .allocated = 100, .active = 100, .reserved = 200, .free_blocks = 1, .largest_free = 100};
    s.pools[1].stats = {
        .allocated = 100, .active = 100, .reserved = 200, .free_blocks = 100, .largest_free = 1};
    s.pools[2].stats = {.allocated = 300, .active = 300, .reserved = 300};
    s.pools[1].memory = cuota::memory_kind::pinned;
    s.pools[0].memory = cuota::memory_kind::managed;
    std::vector<std::string> const rows = rows_of(summary(s), "pool");
    REQUIRE(rows.size() == 9);
    CHECK(rows[0].starts_with("a (budget ?)  "));
    CHECK(rows[2] == "  no free memory");
    CHECK(rows[3].starts_with("b (managed, budget ?)  "));
    CHECK(rows[5] == "  free 100 B in 1 block, the largest 100 B: 0 % fragmented");
    CHECK(rows[6].starts_with("c (pinned, budget ?)  "));
    CHECK(rows[8] == "  free 100 B in 100 blocks, the largest 1 B: 99 % fragmented");
    CHECK(rows_of(summary(s, {.max_pools = 1}), "pool")[3] == "  and 2 more, 400 B");
}

TEST_CASE("a tag's bytes are summed over pools, and its peak is a bound if all pools record peaks",
          "[report][summary]") {
    memory_snapshot s;
    s.pools = {
        pool_with("one", {{"both", 1, 90, 100, 3, 150}, {"unseen", 1, 50, 50, 0, 60}, {"", 1, 5, 5, 0, 7}}),
        pool_with("two", {{"both", 2, 90, 100, 9, 120}, {"unseen", 1, 50, 50, 0, {}}}),
        pool_with("three", {{"gone", 0, 0, 0, 0, 4000}, {"also gone", 0, 0, 0, 0, 4000}})};
    CHECK(
        rows_of(summary(s), "tag") ==
        std::vector<std::string>{
            R"(both                              200 B    66 %       <= 270 B         3         9  2 pools)",
            R"(unseen                            100 B    33 %              -         2         0  2 pools)",
            R"(untagged                            5 B     2 %            7 B         1         0  one)",
            R"(also gone                           0 B     0 %        3.9 KiB         0         0  three)",
            R"(gone                                0 B     0 %        3.9 KiB         0         0  three)"});
}

TEST_CASE("of three hundred tags, the largest are listed and the others are summed", "[report][summary]") {
    memory_snapshot s;
    s.pools = {pool_with("main", {})};
    for (std::size_t i = 0; i != 300; ++i)
        s.pools[0].tags.push_back({cuota::tag::named("tag " + std::to_string(i)), 1, 1024, 1024 * (i + 1)});
    std::vector<std::string> const rows = rows_of(summary(s), "tag");
    REQUIRE(rows.size() == 13);
    CHECK(rows[0] ==
          "tag 299                       300.0 KiB     1 %              -         1         0  main");
    CHECK(rows[11].starts_with("tag 288  "));
    CHECK(rows[12] == "  and 288 more, 40.6 MiB");
}

TEST_CASE("other holders are sorted by size, with used and cached bytes apart", "[report][summary]") {
    memory_snapshot s = of_budgets({{{"gpu", 1000, 0, 0}, 0, {}}});
    s.holders = {{"b", 0, {{"", {}, 40}, {"x", {"a.cpp", 1}, 20}}},
                 {"nothing", 7, {}},
                 {"c", 0, {{"parts", {}, 100, true}}},
                 {"a", 0, {{"weights", {"a.cpp", 1}, 60}}}};
    CHECK(
        rows_of(summary(s), "other holders") ==
        std::vector<std::string>{
            R"(c                                      0 B      100 B  gpu                 parts)",
            R"(a                                     60 B        0 B  gpu                 weights (a.cpp:1))",
            R"(b                                     60 B        0 B  gpu                 untagged)",
            R"(nothing                                0 B        0 B  ?)"});
    CHECK(rows_of(summary(s, {.max_holders = 2}), "other holders")[2] == "  and 2 more, 60 B");
}

TEST_CASE("a device's row shows the bytes of other programs and the unaccounted bytes", "[report][summary]") {
    memory_snapshot s;
    s.devices = {{0, "NVIDIA H100 80GB HBM3", 80_GiB, 60_GiB, 12_GiB, 3_GiB},
                 {1, "less free than the total says", 1_GiB, 2_GiB, 0, 5_GiB}};
    s.pools = {pool_with("mine", {}), pool_with("pinned", {}), pool_with("other's", {})};
    for (cuota::pool_info& p : s.pools) p.stats.reserved = 4_GiB;
    s.pools[0].device = s.pools[1].device = 0;
    s.pools[1].memory = cuota::memory_kind::pinned;
    s.pools[2].device = 2;
    CHECK(
        rows_of(summary(s), "device") ==
        std::vector<std::string>{
            R"(0 NVIDIA H100 80GB HBM3   80.0 GiB   60.0 GiB   12.0 GiB    4.0 GiB    8.0 GiB    3.0 GiB    5.0 GiB)",
            R"(1 less fre...total says    1.0 GiB    2.0 GiB        0 B        0 B        0 B    5.0 GiB        0 B)"});
    CHECK(rows_of(summary(s, {.max_devices = 1}), "device")[1] == "  and 1 more, 0 B");
}

TEST_CASE("names of any script are aligned, and control characters are shown as question marks",
          "[report][summary]") {
    std::vector<std::string> const rows = budget_rows({{{"größer", 16, 4, 4}, 0, {}},
                                                       {{"予算", 16, 3, 3}, 0, {}},
                                                       {{"x\x1b[31m\n\xC2\x9B"
                                                         "2J\xE2\x80\xAE\xFF",
                                                         16, 2, 2},
                                                        0,
                                                        {}}});
    CHECK(
        rows ==
        std::vector<std::string>{
            R"(größer                        [###...........]   25 %        4 B       16 B       12 B        4 B)",
            R"(予算                          [##............]   19 %        3 B       16 B       13 B        3 B)",
            R"(x?[31m??2J??                  [#.............]   12 %        2 B       16 B       14 B        2 B)"});
}

TEST_CASE("no line is wider than a hundred columns for any names and figures", "[report][summary]") {
    memory_snapshot s;
    std::string name;
    std::size_t widest = 0;
    for (int i = 0; i != 60; ++i) {
        name += i % 3 == 0 ? "予" : i % 3 == 1 ? "ä" : "x\x1b";
        std::size_t const huge = i % 2 == 0 ? cuota::unlimited - 1 : 1023 * 1_MiB;
        auto const budget = static_cast<std::size_t>(i);
        s.budgets.push_back({{name, huge, huge, huge, i % 4 == 0, i % 8 == 0}, budget, {}});
        cuota::tag const tag = cuota::tag::named(name);
        s.pools = {pool_with(name, {{tag, 1'000'000, huge, huge, 1'000'000, huge}})};
        s.pools[0].device = i;
        s.pools[0].budget = budget;
        s.pools[0].stats = {huge, huge, huge, huge, huge, huge, huge, huge, 12'345'678, 678, huge, 1'000};
        s.holders = {{name, budget, {{tag, {"a file with a name.cpp", 4'000'000'000}, huge}}}};
        s.devices = {{-1'000'000, name, huge, 1, 1, 1}};
        for (std::string const& line : lines_of(summary(s)))
            if (cuota::detail::columns_of(line) > widest) {
                widest = cuota::detail::columns_of(line);
                INFO(line);
                CHECK(widest <= 100);
            }
    }
    CHECK(widest >= 98);
}
