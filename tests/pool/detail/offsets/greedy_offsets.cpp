// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/offsets/greedy_offsets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"

namespace {

namespace detail = cuota::detail;

bool overlap(detail::sectioned_block const& a, std::size_t at, detail::sectioned_block const& b,
             std::size_t bt) {
    return a.first < b.last && b.first < a.last && at < bt + b.size && bt < at + a.size;
}

bool is_sound(detail::lifetime_part const& part, detail::part_offsets const& plan) {
    std::size_t peak = 0;
    for (std::size_t i = 0; i != part.blocks.size(); ++i) {
        peak = std::max(peak, plan.offsets[i] + part.blocks[i].size);
        for (std::size_t j = 0; j != i; ++j)
            if (overlap(part.blocks[i], plan.offsets[i], part.blocks[j], plan.offsets[j])) return false;
    }
    return peak == plan.peak;
}

/// Finds the lowest offset by trying every one.
std::size_t lowest_free(detail::lifetime_part const& part, detail::part_offsets const& plan,
                        std::vector<std::uint32_t> const& placed, std::uint32_t mine) {
    for (std::size_t at = 0;; ++at)
        if (std::none_of(placed.begin(), placed.end(), [&](std::uint32_t other) {
                return overlap(part.blocks[mine], at, part.blocks[other], plan.offsets[other]);
            }))
            return at;
}

std::vector<detail::lifetime_part> some_parts(std::mt19937_64& random) {
    auto const blocks = support::random_lifetimes(random, support::pick(random, 1, 30), 20, 9);
    return detail::independent_parts(blocks, detail::checked_sizes(blocks, 1, {}));
}

}  // namespace

TEST_CASE("place_in_order places each block in turn at the lowest free offset", "[pool][greedy_offsets]") {
    std::mt19937_64 random{3};
    for (int round = 0; round != 500; ++round)
        for (detail::lifetime_part const& part : some_parts(random)) {
            detail::block_order order(part.blocks.size());
            std::iota(order.begin(), order.end(), 0U);
            std::shuffle(order.begin(), order.end(), random);
            auto const plan = detail::place_in_order(part, order);
            REQUIRE(is_sound(part, plan));
            std::vector<std::uint32_t> placed;
            for (std::uint32_t const i : order) {
                REQUIRE(plan.offsets[i] == lowest_free(part, plan, placed, i));
                placed.push_back(i);
            }
        }
}

TEST_CASE("first_orders and highest_first keep all blocks", "[pool][greedy_offsets]") {
    std::mt19937_64 random{4};
    for (detail::lifetime_part const& part : some_parts(random)) {
        detail::block_order all(part.blocks.size());
        std::iota(all.begin(), all.end(), 0U);
        auto const plan = detail::place_in_order(part, all);
        for (detail::block_order order : detail::first_orders(part)) {
            order = detail::highest_first(part, plan, plan.peak - 1, std::move(order));
            CHECK(plan.offsets[order.front()] + part.blocks[order.front()].size == plan.peak);
            std::sort(order.begin(), order.end());
            CHECK(order == all);
        }
    }
}

TEST_CASE("greedy_offsets returns a sound plan when it is stopped or its target is reached",
          "[pool][greedy_offsets]") {
    std::mt19937_64 random{5};
    for (int round = 0; round != 500; ++round)
        for (detail::lifetime_part const& part : some_parts(random)) {
            int requested = 0;
            auto const best = detail::greedy_offsets(part, part.most_alive, 12, [] { return false; });
            auto const first =
                detail::greedy_offsets(part, part.most_alive, 12, [&] { return ++requested > 0; });
            REQUIRE(is_sound(part, best));
            REQUIRE(is_sound(part, first));
            REQUIRE(best.peak >= part.most_alive);
            REQUIRE(best.peak <= first.peak);
            REQUIRE(requested <= 2);
            auto const enough = detail::greedy_offsets(part, first.peak, 12, [] { return false; });
            REQUIRE(enough.offsets == first.offsets);
        }
}
