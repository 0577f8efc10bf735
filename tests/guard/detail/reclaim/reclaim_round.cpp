// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/reclaim/reclaim_round.hpp>

#include <vector>

#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/idle_cache.hpp"

using cuota::budget;
using support::asks_of;
using support::caches_in;
using support::charged;
using support::one_cache;
using support::refusal_of;
using support::requested;

TEST_CASE("equal caches are called in turn until the shortfall is covered", "[guard][pressure]") {
    budget b{"b", 100};
    auto const [first, second, third] = caches_in(b, 30u, 30u, 30u);
    charged const half{b, 50};  // 10 are free
    REQUIRE(asks_of(first, second, third) == std::vector<requested>{{40}, {10}, {}});
}

TEST_CASE_METHOD(one_cache, "a cache that gives in pieces is asked again", "[guard][pressure]") {
    idle->most_at_once = 10;
    idle->expects = 60;
    charged const most{b, 65};
    REQUIRE(idle->requested == requested{25, 15, 5});
}

TEST_CASE("caches are called in the order of priority", "[guard][pressure]") {
    budget b{"b", 100};
    auto const [last, first, second] = caches_in(b, 30u, 30u, 30u);
    last->rank = -1;
    first->rank = 7;
    second->rank = 3;
    charged const most{b, 60};  // 10 are free
    REQUIRE(asks_of(first, second, last) == std::vector<requested>{{50}, {20}, {}});
}

TEST_CASE("of caches with equal priority, the one with the least excess is called", "[guard][pressure]") {
    budget b{"b", 400};
    auto const [coarse, fine, exact] = caches_in(b, 200u, 100u, 20u);
    coarse->piece = 64;
    fine->piece = 32;
    charged const all{b, 80};
    charged const more{b, 30};  // fine releases 32, coarse would release 64, and exact has too little
    REQUIRE(asks_of(coarse, fine, exact) == std::vector<requested>{{}, {30}, {}});
    charged const excess{b, 2};  // charges the excess
    charged const a_few{b, 10};
    REQUIRE(exact->requested == requested{10});
}

TEST_CASE("if no single cache suffices, the one with most bytes is called first", "[guard][pressure]") {
    budget b{"b", 100};
    auto const [little, much, some] = caches_in(b, 10u, 40u, 20u);
    charged const most{b, 85};  // 30 are free
    REQUIRE(asks_of(much, some, little) == std::vector<requested>{{55}, {15}, {}});
}

TEST_CASE("no cache is called if all caches together do not suffice", "[guard][pressure]") {
    budget b{"b", 100};
    charged const half{b, 50};
    auto const [first, second] = caches_in(b, 20u, 10u);
    auto const refused = refusal_of(b, 51);
    REQUIRE(asks_of(first, second) == std::vector<requested>{{}, {}});
    REQUIRE(refused.info().reclaimed == 0);
    charged const other_half{b, 50};
    REQUIRE(asks_of(first, second) == std::vector<requested>{{30}, {10}});
}
