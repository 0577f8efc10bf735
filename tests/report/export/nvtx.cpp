// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/nvtx.hpp>

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/nvtx_tool.hpp"

using cuota::nvtx_counter;
using cuota::nvtx_mark;
using cuota::nvtx_range;
using cuota::nvtx_unique_range;
using lines_of_nvtx = std::vector<std::string>;

static_assert(!std::is_move_constructible_v<nvtx_range> && !std::is_copy_constructible_v<nvtx_unique_range>);
static_assert(std::is_nothrow_move_constructible_v<nvtx_unique_range>);

namespace {

lines_of_nvtx taken_lines() {
    std::scoped_lock const lock{nvtx_tool.guard};
    return std::exchange(nvtx_tool.lines, {});
}

}  // namespace

TEST_CASE("nvtx_range is pushed and popped with its scope, in cuota's domain", "[report][nvtx]") {
    taken_lines();
    REQUIRE(cuota::is_nvtx_traced());
    std::string const made_here = "step 7";
    {
        nvtx_range const outer{made_here.c_str()};
        { nvtx_range const inner{cuota::tag{"decode"}, 4096}; }
        nvtx_range const second{cuota::tag{"train"}};
    }
    CHECK(taken_lines() == lines_of_nvtx{"cuota push step 7 0", "cuota push #decode 4096", "cuota pop",
                                         "cuota push #train 0", "cuota pop", "cuota pop"});
    CHECK(nvtx_tool.domains == std::vector<std::string>{"cuota"});
}

TEST_CASE("the text of a tag is registered with NVTX only once", "[report][nvtx]") {
    nvtx_mark(cuota::tag{"told once"}, 1);
    auto const known = nvtx_tool.strings.size();
    nvtx_mark(cuota::tag::named(std::string{"told"} + " once"), 2);
    { nvtx_range const range{cuota::tag{"told once"}}; }
    CHECK(nvtx_tool.strings.size() == known);
    taken_lines();
}

TEST_CASE("nvtx_unique_range ends exactly once, on any thread and in any order", "[report][nvtx]") {
    taken_lines();
    auto const first = nvtx_tool.ranges + 1;
    auto const end_of = [&](std::uint64_t n) { return "cuota end " + std::to_string(first + n); };
    {
        nvtx_unique_range a{"a", 10};
        nvtx_unique_range b{"b", 20};
        nvtx_unique_range c{std::move(a)};
        std::thread{[moved = std::move(c)]() mutable { moved.end(); }}.join();
        a.end();
        c = nvtx_unique_range{"d"};
        c = nvtx_unique_range{"e"};
        b.end();
        b.end();
        nvtx_unique_range const none;
    }
    CHECK(taken_lines() == lines_of_nvtx{"cuota start #a 10", "cuota start #b 20", end_of(0),
                                         "cuota start #d 0", "cuota start #e 0", end_of(2), end_of(1),
                                         end_of(3)});
}

TEST_CASE("nvtx_mark writes a refusal with the requested bytes", "[report][nvtx]") {
    taken_lines();
    cuota::refusal r;
    r.requested = 123;
    nvtx_mark(r);
    r.request.name = "rows";
    r.budgets = {{"loader", 50, 10, 20, false, false}};
    nvtx_mark(r);
    nvtx_mark(cuota::budget_exceeded{r});

    CHECK(taken_lines() == lines_of_nvtx{"cuota mark refused 123 in color",
                                         "cuota mark refused rows of loader 123 in color",
                                         "cuota mark refused rows of loader 123 in color"});
}

TEST_CASE("nvtx_counter samples bytes if NVTX has counters", "[report][nvtx]") {
    taken_lines();
    nvtx_counter const held{"held"};
    held.sample(4096);
    held.sample(cuota::unlimited);

    if (nvtx_counter::is_supported)
        CHECK(taken_lines() == lines_of_nvtx{"cuota counter held in bytes", "cuota sample 77 4096",
                                             "cuota sample 77 9223372036854775807"});
    else CHECK(taken_lines().empty());
}

TEST_CASE("nvtx ranges of several threads are independent", "[report][nvtx]") {
    taken_lines();
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([] {
            for (int i = 0; i != 100; ++i) nvtx_range const range{cuota::tag{"of a thread"}};
        });
    for (auto& thread : threads) thread.join();
    CHECK(taken_lines().size() == 800);
}
