// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/offset_plan.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stop_token>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"
#include "support/rounds.hpp"

namespace {

using cuota::check_offsets;
using cuota::lifetime;
using cuota::offset_plan;
using cuota::plan_offsets;
using namespace std::chrono_literals;

/// A set of blocks with a plan of 12 bytes, which is also the lower bound.
std::vector<lifetime> const twelve{{0, 3, 4}, {3, 9, 4}, {0, 9, 4}, {9, 21, 4}, {0, 21, 4}};

/// Returns true if two conflicting blocks overlap; checks every pair.
bool overlaps(std::vector<lifetime> const& blocks, offset_plan const& plan) {
    for (std::size_t i = 0; i != blocks.size(); ++i)
        for (std::size_t j = 0; j != i; ++j)
            if (blocks[i].size != 0 && blocks[j].size != 0 && blocks[i].from < blocks[j].until &&
                blocks[j].from < blocks[i].until && plan.offsets[i] < plan.offsets[j] + blocks[j].size &&
                plan.offsets[j] < plan.offsets[i] + blocks[i].size)
                return true;
    return false;
}

std::size_t total(std::vector<lifetime> const& blocks) {
    std::size_t sum = 0;
    for (lifetime const& b : blocks) sum += b.size;
    return sum;
}

/// Lowers `best` to the smallest peak, by trying every offset of every block.
void try_every_offset(std::vector<lifetime> const& blocks, offset_plan& plan, std::size_t row,
                      std::size_t& best) {
    if (row == blocks.size()) {
        best = plan.peak;
        return;
    }
    std::size_t const peak = plan.peak;
    for (std::size_t at = 0; at + blocks[row].size < best; ++at) {
        plan.offsets.push_back(at);
        plan.peak = std::max(peak, at + blocks[row].size);
        std::vector<lifetime> const placed{blocks.begin(),
                                           blocks.begin() + static_cast<std::ptrdiff_t>(row) + 1};
        if (!overlaps(placed, plan)) try_every_offset(blocks, plan, row + 1, best);
        plan.offsets.pop_back();
        plan.peak = peak;
    }
}

}  // namespace

TEST_CASE("plan_offsets accepts empty input, one block and blocks of size zero", "[pool][offset_plan]") {
    offset_plan const none = plan_offsets({});
    CHECK(none.peak == 0);
    CHECK(none.proven);
    CHECK(none.ratio() == 1);

    std::vector<lifetime> const blocks{{3, 4, 0}, {3, 9, 7}, {0, 20, 0}};
    offset_plan const one = plan_offsets(blocks);
    CHECK(one.offsets == std::vector<std::size_t>{0, 0, 0});
    CHECK(one.peak == 7);
    CHECK(one.proven);
    CHECK(!check_offsets(blocks, one));
}

TEST_CASE("plan_offsets finds the least peak of a known example", "[pool][offset_plan]") {
    offset_plan const plan = plan_offsets(twelve);
    CHECK(plan.peak == 12);
    CHECK(plan.lower_bound == 12);
    CHECK(plan.proven);
    CHECK(!check_offsets(twelve, plan));
}

TEST_CASE("plan_offsets is as low as an exhaustive search, and proves it", "[pool][offset_plan]") {
    std::mt19937_64 random{31};
    for (int round = 0; round != support::rounds(1'500); ++round) {
        auto const blocks = support::random_lifetimes(random, support::pick(random, 1, 6), 5, 3);
        offset_plan tried;
        std::size_t best = total(blocks) + 1;
        try_every_offset(blocks, tried, 0, best);
        offset_plan const plan = plan_offsets(blocks);
        REQUIRE(plan.proven);
        REQUIRE(plan.peak == best);
        REQUIRE(!check_offsets(blocks, plan));
    }
}

TEST_CASE("plan_offsets proves that the lower bound cannot be reached", "[pool][offset_plan]") {
    for (auto const& blocks : support::above_their_bound()) {
        offset_plan const plan = plan_offsets(blocks);
        CHECK(plan.proven);
        CHECK(plan.peak == plan.lower_bound + 1);
        CHECK(!check_offsets(blocks, plan));
        CHECK(!plan_offsets(blocks, {.capacity = plan.lower_bound}).fits(plan.lower_bound));
        if (support::divisor() > 1) continue;  // this search takes most of the time
        offset_plan tried;
        std::size_t best = plan.peak;  // the search finds nothing lower
        try_every_offset(blocks, tried, 0, best);
        CHECK(best == plan.peak);
    }
}

TEST_CASE("plan_offsets of 10,000 random problems is sound and between its bounds", "[pool][offset_plan]") {
    std::mt19937_64 random{37};
    for (int round = 0; round != support::rounds(10'000); ++round) {
        auto const blocks = support::random_lifetimes(random, support::pick(random, 0, 25), 30, 1'000);
        cuota::plan_options options;
        options.alignment = std::size_t{1} << support::pick(random, 0, 9);
        options.time_limit = 2ms;
        auto const copy = blocks;
        offset_plan const plan = plan_offsets(blocks, options);
        REQUIRE(blocks == copy);
        REQUIRE(!check_offsets(blocks, plan));
        REQUIRE(!overlaps(blocks, plan));
        REQUIRE(plan.peak >= plan.lower_bound);
        REQUIRE(plan.peak <= total(blocks) + blocks.size() * options.alignment);
        REQUIRE(plan.peak % options.alignment == 0);
    }
}

TEST_CASE("plan_offsets keeps a training step within 0.4 % of the lower bound", "[pool][offset_plan]") {
    for (std::size_t const count : {1'000U, 5'000U, 20'000U})
        for (std::uint64_t seed = 1; seed <= support::rounds(3U) && count <= support::rounds(20'000U);
             ++seed) {
            auto const blocks = support::training_step(count, seed);
            offset_plan const plan = plan_offsets(blocks, {.alignment = 512, .time_limit = 20s});
            INFO(blocks.size() << " blocks, seed " << seed << ", ratio " << plan.ratio());
            CHECK(!check_offsets(blocks, plan));
            CHECK(plan.ratio() <= 1.004);
        }
}

TEST_CASE("plan_offsets stops at a capacity that fits, and reports one that cannot be reached",
          "[pool][offset_plan]") {
    CHECK(plan_offsets(twelve, {.capacity = 12}).fits(12));
    CHECK(plan_offsets(twelve, {.capacity = 13}).fits(13));
    offset_plan const refused = plan_offsets(twelve, {.capacity = 11, .time_limit = 1h});
    CHECK(!refused.fits(11));
    CHECK(!check_offsets(twelve, refused));
    CHECK(!plan_offsets(twelve, {.capacity = 0, .time_limit = 1h}).fits(0));
}

TEST_CASE("plan_offsets returns at once when its time limit is zero or negative, or when it is stopped",
          "[pool][offset_plan]") {
    auto const blocks = support::training_step(2'000, 4);
    std::stop_source stop;
    stop.request_stop();
    for (cuota::plan_options const& options :
         {cuota::plan_options{.time_limit = 0s}, cuota::plan_options{.time_limit = -1s},
          cuota::plan_options{.time_limit = 1h, .stop = stop.get_token()}}) {
        offset_plan const plan = plan_offsets(blocks, options);
        CHECK(!check_offsets(blocks, plan));
        CHECK(plan.peak >= plan.lower_bound);
    }
}

TEST_CASE("plan_offsets is deterministic, and independent of the origin of time and the unit of size",
          "[pool][offset_plan]") {
    std::mt19937_64 random{41};
    for (int round = 0; round != 200; ++round) {
        auto const blocks = support::random_lifetimes(random, 12, 12, 9);
        auto moved = blocks;
        for (lifetime& b : moved)
            b = {b.from + (std::uint64_t{1} << 63), b.until + (std::uint64_t{1} << 63), b.size << 50};
        offset_plan const plan = plan_offsets(blocks), again = plan_offsets(blocks),
                          far = plan_offsets(moved);
        REQUIRE(plan.offsets == again.offsets);
        auto shuffled = blocks;
        std::shuffle(shuffled.begin(), shuffled.end(), random);
        REQUIRE(plan_offsets(shuffled).peak == plan.peak);
        REQUIRE(far.peak == plan.peak << 50);
        REQUIRE(!check_offsets(moved, far));
    }
}

TEST_CASE("plan_offsets handles equal, nested, staggered and huge blocks", "[pool][offset_plan]") {
    std::vector<lifetime> alike(3'000, {0, 1, 1}), nested, stairs,
        huge{{0, 2, cuota::unlimited / 2}, {1, 3, cuota::unlimited / 2}};
    for (std::uint64_t i = 0; i != 2'000; ++i) {
        nested.push_back({i, 4'000 - i, i % 7 + 1});
        stairs.push_back({i, i + 50, i % 13 + 1});
    }
    for (auto const& blocks : {alike, nested, stairs, huge}) {
        offset_plan const plan = plan_offsets(blocks, {.time_limit = 500ms});
        INFO(blocks.size() << " blocks, ratio " << plan.ratio());
        CHECK(!check_offsets(blocks, plan));
        CHECK(plan.ratio() < 1.2);
    }
    CHECK(plan_offsets(alike).peak == 3'000);
    CHECK(plan_offsets(nested, {.time_limit = 20s}).proven);  // in a small part of that time
}

TEST_CASE("plan_offsets and check_offsets refuse invalid lifetimes, sizes and alignments",
          "[pool][offset_plan]") {
    std::vector<lifetime> const reversed{{4, 3, 1}}, too_much{{0, 1, cuota::unlimited}, {5, 6, 1}};
    CHECK_THROWS_AS(plan_offsets(reversed), cuota::usage_error);
    CHECK_THROWS_AS(plan_offsets(too_much), cuota::usage_error);
    CHECK_THROWS_AS(plan_offsets(twelve, {.alignment = 3}), cuota::usage_error);
    CHECK_THROWS_AS(check_offsets(reversed, {{0}, 1, 1, 1, false}), cuota::usage_error);
    CHECK_THROWS_AS(check_offsets(twelve, {{0}, 12, 12, 1, false}), cuota::usage_error);
}

TEST_CASE("check_offsets returns the rows of a conflict", "[pool][offset_plan]") {
    offset_plan plan = plan_offsets(twelve);
    offset_plan const good = plan;

    plan.peak = 11;  // the highest block ends above it
    REQUIRE(check_offsets(twelve, plan));
    CHECK(check_offsets(twelve, plan)->first == check_offsets(twelve, plan)->second);

    plan = good;
    plan.alignment = 8;
    REQUIRE(check_offsets(twelve, plan));

    plan = good;
    plan.offsets[0] = plan.offsets[2] + 1;
    plan.peak = 20;
    auto const conflict = check_offsets(twelve, plan);
    REQUIRE(conflict);
    CHECK(std::min(conflict->first, conflict->second) == 0);
    CHECK(std::max(conflict->first, conflict->second) == 2);
}

TEST_CASE("check_offsets finds a conflict exactly when blocks overlap", "[pool][offset_plan]") {
    std::mt19937_64 random{43};
    std::size_t conflicts = 0;
    for (int round = 0; round != support::rounds(3'000); ++round) {
        auto const blocks = support::random_lifetimes(random, 20, 30, 50);
        offset_plan plan = plan_offsets(blocks, {.time_limit = 1ms});
        std::size_t& moved = plan.offsets[support::pick(random, 0, blocks.size() - 1)];
        moved = support::pick(random, 0, plan.peak);
        plan.peak += 50;
        auto const found = check_offsets(blocks, plan);
        conflicts += found.has_value();
        REQUIRE(found.has_value() == overlaps(blocks, plan));
        if (!found) continue;
        lifetime const &a = blocks[found->first], &b = blocks[found->second];
        REQUIRE(found->first != found->second);
        REQUIRE(a.from < b.until);
        REQUIRE(b.from < a.until);
    }
    CHECK(conflicts > support::rounds(500U));
}
