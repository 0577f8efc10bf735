// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/wait_set.hpp>

#include <algorithm>
#include <map>
#include <new>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::wait_point;
using cuota::detail::wait_set;

static_assert(!std::is_copy_constructible_v<wait_set> && !std::is_copy_assignable_v<wait_set>);
static_assert(std::is_nothrow_move_constructible_v<wait_set> && std::is_nothrow_move_assignable_v<wait_set>);

namespace {

std::vector<wait_point> points(wait_set const& waits) {
    std::vector<wait_point> found;
    waits.for_each([&](wait_point point) { found.push_back(point); });
    return found;
}

void merge(wait_set& into, wait_point point) {
    wait_set one{point};
    into.merge(one);
}

wait_set set_of(std::vector<wait_point> const& all) {
    wait_set made;
    for (wait_point point : all) merge(made, point);
    return made;
}

}  // namespace

TEST_CASE("a wait_set keeps the latest point of each stream", "[pool][wait_set]") {
    wait_set all{wait_point{0, 5}};
    wait_set none;

    merge(all, {0, 3});
    merge(all, {1, 1});
    merge(all, {0, 9});
    all.merge(none);
    merge(all, {1, 2});

    CHECK(points(all) == std::vector<wait_point>{{0, 9}, {1, 2}});
    CHECK_FALSE(all.is_empty());
    CHECK(wait_set{}.is_empty());
    CHECK(points(wait_set{}).empty());
}

TEST_CASE("merging into an empty wait_set yields the other set", "[pool][wait_set]") {
    wait_set two = set_of({{3, 1}, {4, 1}});
    wait_set none;

    none.merge(two);

    CHECK(points(none) == std::vector<wait_point>{{3, 1}, {4, 1}});
}

TEST_CASE("merging empties the other wait_set", "[pool][wait_set]") {
    wait_set other;
    wait_set into;
    SECTION("one stream") {
        into = wait_set{{0, 1}};
        other = wait_set{{0, 2}};
    }
    SECTION("two streams") {
        into = wait_set{{0, 1}};
        other = wait_set{{1, 2}};
    }
    SECTION("many streams") {
        into = set_of({{0, 1}, {1, 2}, {2, 3}});
        other = set_of({{3, 1}, {2, 9}, {4, 1}});
    }
    SECTION("into an empty one") { other = set_of({{3, 1}, {4, 1}}); }

    into.merge(other);

    CHECK(other.is_empty());
    CHECK(points(other).empty());
    CHECK_FALSE(into.is_empty());
    merge(other, {7, 7});  // it can be reused and has lost its old points
    CHECK(points(other) == std::vector<wait_point>{{7, 7}});
}

TEST_CASE("a moved-from wait_set is empty and can be used again", "[pool][wait_set]") {
    wait_set first = set_of({{0, 1}, {1, 2}});

    wait_set second{std::move(first)};
    CHECK(first.is_empty());
    CHECK(points(first).empty());
    CHECK(points(second) == std::vector<wait_point>{{0, 1}, {1, 2}});

    wait_set third{wait_point{5, 5}};
    third = std::move(second);
    CHECK(second.is_empty());
    CHECK(points(third) == std::vector<wait_point>{{0, 1}, {1, 2}});

    first = wait_set{wait_point{2, 3}};
    CHECK(points(first) == std::vector<wait_point>{{2, 3}});
    third = {};
    CHECK(third.is_empty());
    CHECK(points(third).empty());
}

TEST_CASE("points of one stream are merged without host allocations", "[pool][wait_set]") {
    wait_set all{wait_point{4, 1}};
    wait_set later{wait_point{4, 2}};
    wait_set earlier{wait_point{4, 1}};
    wait_set two = set_of({{0, 1}, {1, 1}});
    wait_set none;

    {
        support::failing_heap const heap{0};
        all.merge(later);
        all.merge(earlier);
        none.merge(two);
        CHECK(heap.refused() == 0);
    }
    CHECK(points(all) == std::vector<wait_point>{{4, 2}});
}

TEST_CASE("both wait_sets are unchanged when the host has no memory to merge them", "[pool][wait_set]") {
    std::vector<wait_point> mine{{0, 5}};
    std::vector<wait_point> others{{1, 1}};
    SECTION("one point and one point") {}
    SECTION("one point and many") { others = {{0, 9}, {1, 1}, {2, 2}}; }
    SECTION("many points and one") { mine = {{0, 5}, {3, 1}, {4, 1}}; }
    SECTION("many points and many") {
        mine = {{0, 5}, {3, 1}, {4, 1}};
        others = {{0, 9}, {4, 7}, {5, 1}, {6, 1}, {7, 1}};
    }
    wait_set into = set_of(mine);
    wait_set other = set_of(others);

    std::size_t refused = 0;
    for (bool merged = false; !merged;) {
        bool failed = false;
        {
            support::failing_heap const heap{refused};
            try {
                into.merge(other);
            } catch (std::bad_alloc const&) { failed = true; }
        }
        merged = !failed;
        if (!failed) continue;
        REQUIRE(points(into) == mine);
        REQUIRE(points(other) == others);
        REQUIRE(++refused < 100);
    }

    CHECK(refused > 0);
    CHECK(other.is_empty());
    std::map<std::uint32_t, std::uint64_t> latest;
    for (auto const& all : {mine, others})
        for (wait_point point : all) latest[point.stream] = std::max(latest[point.stream], point.ticket);
    CHECK(points(into).size() == latest.size());
    for (wait_point point : points(into)) CHECK(point.ticket == latest.at(point.stream));
}

TEST_CASE("wait_sets match a map of the latest points over random merges", "[pool][wait_set]") {
    using reference = std::map<std::uint32_t, std::uint64_t>;
    std::mt19937 random{20'261'121};
    std::vector<wait_set> sets(6);
    std::vector<reference> expected(sets.size());

    for (int step = 0; step != 100'000; ++step) {
        std::size_t const into = random() % sets.size();
        std::size_t const from = random() % sets.size();
        if (random() % 3 == 0) {
            wait_point const point{static_cast<std::uint32_t>(random() % 8), random() % 1000};
            sets[into] = wait_set{point};
            expected[into] = {{point.stream, point.ticket}};
        } else if (into != from) {
            sets[into].merge(sets[from]);
            for (auto const& [stream, ticket] : std::exchange(expected[from], {}))
                expected[into][stream] = std::max(expected[into][stream], ticket);
        }

        reference found;
        sets[into].for_each([&](wait_point point) {
            REQUIRE_FALSE(found.contains(point.stream));
            found[point.stream] = point.ticket;
        });
        if (found != expected[into]) FAIL("the points differ after step " << step);
        if (sets[from].is_empty() != expected[from].empty()) FAIL("not empty after step " << step);
    }
}
