// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/offsets/packing_search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <cuota/pool/detail/offsets/greedy_offsets.hpp>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"

namespace {

namespace detail = cuota::detail;
using detail::search_result;

/// Returns the smallest peak: some order of layer_partition every block at its lowest offset yields it.
std::size_t least_peak(detail::lifetime_part const& part) {
    detail::block_order order(part.blocks.size());
    std::iota(order.begin(), order.end(), 0U);
    std::size_t least = detail::place_in_order(part, order).peak;
    while (least != part.most_alive && std::next_permutation(order.begin(), order.end()))
        least = std::min(least, detail::place_in_order(part, order).peak);
    return least;
}

bool is_sound(detail::lifetime_part const& part, std::vector<std::size_t> const& offsets,
              std::size_t capacity) {
    for (std::size_t i = 0; i != part.blocks.size(); ++i) {
        auto const& a = part.blocks[i];
        if (offsets[i] + a.size > capacity) return false;
        for (std::size_t j = 0; j != i; ++j) {
            auto const& b = part.blocks[j];
            if (a.first < b.last && b.first < a.last && offsets[i] < offsets[j] + b.size &&
                offsets[j] < offsets[i] + a.size)
                return false;
        }
    }
    return true;
}

auto const never = [] { return false; };

/// Returns blocks that tile [0, width) x [0, height), cut at random.
std::vector<cuota::lifetime> cut_to_pieces(std::mt19937_64& random, std::size_t width, std::size_t height,
                                           std::size_t cuts) {
    struct rectangle {
        std::size_t from, until, low, high;
    };
    std::vector<rectangle> all{{0, width, 0, height}};
    for (std::size_t cut = 0; cut != cuts; ++cut) {
        rectangle& r = all[support::pick(random, 0, all.size() - 1)];
        rectangle rest = r;
        if (random() % 2 == 0 && r.until - r.from > 1)
            rest.from = r.until = support::pick(random, r.from + 1, r.until - 1);
        else if (r.high - r.low > 1) rest.low = r.high = support::pick(random, r.low + 1, r.high - 1);
        else continue;
        all.push_back(rest);
    }
    std::shuffle(all.begin(), all.end(), random);
    std::vector<cuota::lifetime> blocks;
    for (rectangle const& r : all) blocks.push_back({r.from, r.until, r.high - r.low});
    return blocks;
}

}  // namespace

TEST_CASE("luby returns 1 1 2 1 1 2 4", "[pool][packing_search]") {
    std::vector<std::uint64_t> found;
    for (std::uint64_t n = 1; n <= 16; ++n) found.push_back(detail::luby(n));
    CHECK(found == std::vector<std::uint64_t>{1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8, 1});
}

TEST_CASE("packing_search finds the least peak, and proves that no lower one exists",
          "[pool][packing_search]") {
    std::mt19937_64 random{17};
    for (int round = 0; round != 3'000; ++round)
        for (detail::lifetime_part const& part :
             support::parts_of(support::random_lifetimes(random, support::pick(random, 3, 7), 6, 6))) {
            std::size_t const least = least_peak(part);
            detail::packing_search search{part};
            for (std::size_t capacity = part.most_alive; capacity <= least + 1; ++capacity) {
                REQUIRE(search.run(capacity, never) ==
                        (capacity < least ? search_result::none : search_result::found));
                if (capacity >= least) REQUIRE(is_sound(part, search.offsets(), capacity));
            }
        }
}

TEST_CASE("packing_search proves that a capacity is infeasible although no section exceeds it",
          "[pool][packing_search]") {
    for (auto const& blocks : support::above_their_bound()) {
        std::size_t found = 0;
        for (detail::lifetime_part const& part : support::parts_of(blocks)) {
            std::size_t const bound = part.most_alive;
            detail::packing_search search{part};
            if (search.run(bound, never) == search_result::none) ++found;
            REQUIRE(search.run(bound + 1, never) == search_result::found);
            CHECK(is_sound(part, search.offsets(), bound + 1));
        }
        CHECK(found == 1);
    }
}

TEST_CASE("packing_search packs the pieces of a rectangle without gaps", "[pool][packing_search]") {
    std::mt19937_64 random{19};
    for (int round = 0; round != 30; ++round)
        for (detail::lifetime_part const& part : support::parts_of(cut_to_pieces(random, 30, 64, 40))) {
            detail::packing_search search{part};
            REQUIRE(search.run(64, never) == search_result::found);
            REQUIRE(is_sound(part, search.offsets(), 64));
        }
}

TEST_CASE("packing_search gives up when it is stopped, and can run again", "[pool][packing_search]") {
    std::mt19937_64 random{23};
    auto const parts = support::parts_of(cut_to_pieces(random, 200, 4'096, 400));
    detail::packing_search search{parts.front()};
    CHECK(search.run(4'096, [] { return true; }) == search_result::gave_up);
    CHECK(search.run(8 * 4'096, never) == search_result::found);
    CHECK(is_sound(parts.front(), search.offsets(), 8 * 4'096));
}

TEST_CASE("packing_search is deterministic", "[pool][packing_search]") {
    std::mt19937_64 random{29};
    auto const parts = support::parts_of(cut_to_pieces(random, 30, 64, 50));
    detail::packing_search first{parts.front()}, second{parts.front()};
    REQUIRE(first.run(64, never) == search_result::found);
    REQUIRE(second.run(64, never) == search_result::found);
    CHECK(first.offsets() == second.offsets());
}
