// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/prepayment.hpp>

#include <optional>
#include <vector>

#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/idle_cache.hpp"

using cuota::budget;
using support::cache_owner;
using support::charged;
using support::one_cache;
using support::refusal_of;
using support::requested;

TEST_CASE("unspent bytes of a reservation are named in refusals", "[guard][pressure]") {
    budget b{"b", 100};
    unsigned const line = __LINE__ + 1;
    cuota::reservation const r = b.reserve(60, "loader");
    charged const some{r.as_budget(), 20};
    auto const refused = refusal_of(b, 50);
    auto const& holders = refused.info().holders;
    REQUIRE(holders.size() == 2);
    REQUIRE(holders[0].name == cuota::tag::named("reserved for loader"));
    REQUIRE(holders[0].where.line == line);
    REQUIRE(holders[0].bytes == 40);
    REQUIRE(holders[1].name == cuota::tag{"charged without a tag"});
    REQUIRE(holders[1].bytes == 20);
    cuota::reservation const nameless = b.reserve(30);
    auto const again = refusal_of(b, 50);
    REQUIRE(again.info().holders[1].name == cuota::tag{"reserved"});

    // In a refusal inside the reservation, its unspent bytes have no holder.
    auto const inside = refusal_of(r.as_budget(), 41);
    REQUIRE(inside.info().holders.size() == 1);
    REQUIRE(inside.info().holders[0].bytes == 20);
}

TEST_CASE("a charge in a destroyed reservation reclaims nothing", "[guard][pressure]") {
    budget b{"b", 100};
    std::optional<cuota::reservation> r = b.reserve(50);
    budget inside = r->as_budget();
    cache_owner const idle = cache_owner::make(inside, 30u);
    charged const some{inside, 10};
    r.reset();
    auto const refused = refusal_of(inside, 5);
    REQUIRE(idle->requested.empty());
    REQUIRE(refused.info().max_fit == 0);
    REQUIRE(refused.info().reclaimable == 0);
    REQUIRE(refused.info().reclaimers->empty());
    charged const most{b, 80};  // a charge of the parent reclaims it, because the refund goes there
    REQUIRE(idle->requested == requested{20});
}

TEST_CASE_METHOD(one_cache, "a reservation that grows asks caches, too", "[guard][pressure]") {
    cuota::reservation r = b.reserve(30);
    REQUIRE(idle->requested.empty());
    r.grow(30);
    REQUIRE(r.bytes() == 60);
    REQUIRE(idle->requested == requested{20});
}
