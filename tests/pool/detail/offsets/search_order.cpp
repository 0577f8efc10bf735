// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/offsets/search_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"

namespace {

using cuota::detail::lifetime_part;
using cuota::detail::search_order;
using index = search_order::index;

std::vector<index> numbers_below(std::size_t count) {
    std::vector<index> all(count);
    std::iota(all.begin(), all.end(), 0U);
    return all;
}

lifetime_part many_blocks() {
    std::mt19937_64 random{41};
    std::vector<cuota::lifetime> blocks = support::random_lifetimes(random, 60, 40, 900);
    blocks.push_back({0, 40, 1});
    return support::parts_of(blocks).front();
}

/// Returns the fraction of pairs of blocks that have the same order in both.
double rank_consensus(std::vector<index> const& a, std::vector<index> const& b) {
    std::size_t same = 0, pairs = 0;
    for (std::size_t i = 0; i != a.size(); ++i)
        for (std::size_t j = 0; j != i; ++j, ++pairs) same += (a[i] < a[j]) == (b[i] < b[j]);
    return static_cast<double>(same) / static_cast<double>(pairs);
}

std::vector<index> sorted(std::vector<index> ranks) {
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

/// Returns in how many of 300 newly drawn attempts block `first` has a lower rank than block `second`.
int times_before(search_order& preferences, index first, index second) {
    int count = 0;
    for (std::uint64_t attempt = 1; attempt != 601; attempt += 2) {
        preferences.begin(attempt);
        if (preferences.rank(first) < preferences.rank(second)) ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("repeatable_numbers are deterministic and evenly distributed", "[pool][search_order]") {
    cuota::detail::repeatable_numbers first, second;
    std::vector<int> tenths(10, 0);
    for (int i = 0; i != 10'000; ++i) {
        double const x = first.fraction();
        REQUIRE(x == second.fraction());
        REQUIRE((0 <= x && x < 1));
        ++tenths[static_cast<std::size_t>(x * 10)];
    }
    CHECK(*std::min_element(tenths.begin(), tenths.end()) > 900);
    CHECK(*std::max_element(tenths.begin(), tenths.end()) < 1'100);
}

TEST_CASE("search_order gives each block a unique rank, and nearly every attempt a different order",
          "[pool][search_order]") {
    lifetime_part const part = many_blocks();
    auto const all = numbers_below(part.blocks.size());
    search_order preferences{part}, same{part};
    std::set<std::vector<index>> seen;
    for (std::uint64_t attempt = 1; attempt != 51; ++attempt) {
        preferences.begin(attempt);
        same.begin(attempt);
        auto const ranks = preferences.ranks(all);
        REQUIRE(sorted(ranks) == all);
        REQUIRE(ranks == same.ranks(all));
        seen.insert(ranks);
        for (index const i : all) REQUIRE(preferences.rank(i) == ranks[i]);
    }
    CHECK(seen.size() > 40);  // a repeated attempt may have the ranks of the best one
}

TEST_CASE("search_order draws new ranks for some blocks, and restores them", "[pool][search_order]") {
    lifetime_part const part = many_blocks();
    auto const all = numbers_below(part.blocks.size());
    search_order preferences{part};
    preferences.begin(1);
    auto const before = preferences.ranks(all);
    std::vector<index> const some{3, 17, 5, 29, 30, 8, 11, 2};
    auto const of_some = preferences.ranks(some);

    preferences.draw(some);
    CHECK(sorted(preferences.ranks(some)) == numbers_below(some.size()));
    for (index const i : all)
        if (std::find(some.begin(), some.end(), i) == some.end()) CHECK(preferences.rank(i) == before[i]);

    preferences.restore(some, of_some);
    CHECK(preferences.ranks(all) == before);
}

TEST_CASE("search_order starts every other attempt from the order of the best attempt",
          "[pool][search_order]") {
    lifetime_part const part = many_blocks();
    auto const all = numbers_below(part.blocks.size());
    search_order preferences{part};
    preferences.begin(1);
    preferences.note_placed(40);
    preferences.note_placed(10);
    auto far = preferences.ranks(all);
    double repeated = 0, drawn = 0;
    for (std::uint64_t attempt = 2; attempt != 22; ++attempt) {
        preferences.begin(attempt);
        (attempt % 2 == 0 ? repeated : drawn) += rank_consensus(preferences.ranks(all), far) / 10;
        preferences.note_placed(20);
    }
    INFO(repeated << ' ' << drawn);
    CHECK(repeated > 0.93);
    CHECK(drawn < 0.85);

    // Each attempt reduces its weight a little, until 20 placed blocks count for more.
    for (std::uint64_t attempt = 22; attempt != 122; ++attempt) {
        preferences.begin(attempt);
        preferences.note_placed(20);
    }
    preferences.begin(122);
    CHECK(rank_consensus(preferences.ranks(all), far) < 0.9);
}

TEST_CASE("search_order prefers blocks that are large or have long lifetimes", "[pool][search_order]") {
    auto const sizes = support::parts_of({{0, 2, 1}, {0, 2, 1'000'000}}).front();
    search_order by_size{sizes};
    CHECK(times_before(by_size, 1, 0) > 250);

    auto const durations = support::parts_of({{0, 1'000, 5}, {0, 1, 5}, {2, 3, 5}}).front();
    REQUIRE(durations.blocks[1].row == 0);
    search_order by_duration{durations};
    CHECK(times_before(by_duration, 1, 0) > 230);
}

TEST_CASE("search_order prefers blocks in sections whose floors were too high", "[pool][search_order]") {
    auto const part =
        support::parts_of({{0, 2, 5}, {1, 4, 9}, {3, 5, 5}}).front();  // the last block is like the first
    search_order untroubled{part};
    int const by_chance = times_before(untroubled, 2, 0);
    CHECK(by_chance > 110);
    CHECK(by_chance < 190);

    search_order preferences{part};
    for (int i = 0; i != 50; ++i) preferences.note_trouble(part.blocks[2].first);
    CHECK(times_before(preferences, 2, 0) > by_chance + 30);
}
