// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/reclaim/refusal_facts.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/suggestions.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaim.hpp>

#include "support/catch.hpp"
#include "support/idle_cache.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using support::cache_owner;
using support::charged;
using support::refusal_of;

TEST_CASE("a refusal by a reservation has the bytes by which it can grow", "[guard][pressure]") {
    budget root{"gpu", 100};
    budget b{"b", 90, root};
    cuota::reservation r = b.reserve(40, "loader");
    budget slots{"slots", 100, r.as_budget()};
    charged const some{slots, 30};
    cache_owner const idle = cache_owner::make(b, 30u);  // released if the reservation grows
    charged const of_others{root, 25};                   // leaves 5 free in root and 20 in b
    auto const refused = refusal_of(slots, 45);
    cuota::refusal const& facts = refused.info();
    REQUIRE(facts.budgets.size() == 2);
    REQUIRE(!facts.budgets[0].is_reservation);
    REQUIRE(facts.budgets[1].is_reservation);
    REQUIRE(!facts.budgets[1].is_released);
    REQUIRE(facts.refused_by == 1);
    REQUIRE(facts.growth_available == 35);
    REQUIRE(idle->requested.empty());
    cuota::suggestion const grow = cuota::suggestions(facts)[1];  // after the step that requests 10 bytes
    REQUIRE(grow.kind == cuota::suggestion_kind::raise_limit);
    REQUIRE(grow.text == "grow reservation loader by 35 B");
    REQUIRE(grow.suffices);
    REQUIRE_THROWS_AS(r.grow(grow.limits[0].grow_by + 1), cuota::budget_exceeded);
    r.grow(grow.limits[0].grow_by);
    REQUIRE_NOTHROW(charged{slots, 45});
}

TEST_CASE("a refusal marks growth of a reservation that would not suffice", "[guard][pressure]") {
    budget b{"b", 100};
    cuota::reservation outer = b.reserve(80, "epoch");
    std::optional<cuota::reservation> r = outer.as_budget().reserve(50, "loader");
    budget inside = r->as_budget();
    charged const some{inside, 10};
    auto const refused = refusal_of(inside, 71);
    REQUIRE(refused.info().growth_available == 30);  // the bytes that are free in b are not available to it
    REQUIRE(support::has(refused.what(),
                         "won't help grow reservation loader by 31 B: its parent has only 30 B available"));
    r.reset();
    auto const ended = refusal_of(inside, 1);
    REQUIRE(ended.info().budgets.back().is_released);
    REQUIRE(ended.info().growth_available == 0);
    REQUIRE(support::has(ended.what(), "won't help grow reservation loader: it has been released"));
    REQUIRE(!support::has(ended.what(), "held in"));
}

TEST_CASE("only a reservation is suggested to grow", "[guard][pressure]") {
    budget b{"b", 100};
    cuota::reservation r = b.reserve(40);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { r.grow(61); });
    REQUIRE(refused.info().budgets.size() == 1);
    REQUIRE(!refused.info().budgets[0].is_reservation);
    REQUIRE(refused.info().growth_available == 0);
    REQUIRE(support::has(refused.what(), "raise the limit of b to 101 B"));
    REQUIRE(r.as_budget().info().is_reservation);
    REQUIRE(!b.info().is_reservation);
}

TEST_CASE("a refusal lists the holders, largest first", "[guard][pressure]") {
    budget root{"gpu", 1000};
    budget model{"model", 1000, root};
    cache_owner const first = cache_owner::make(model, 300u);
    cache_owner const second = cache_owner::make(root, 200u);
    first->most_at_once = second->most_at_once = 0;
    first->held = {
        {"weights", {"a.cpp", 1}, 100}, {"weights", {"a.cpp", 1}, 150}, {"weights", {"a.cpp", 2}, 50}};
    second->held = {{"cached", {}, 200}};
    first->largest = 7;
    second->largest = 9;
    charged const some{model, 70};

    auto const refused = support::thrown<cuota::budget_exceeded>([&] {
        cuota::detail::charge(cuota::detail::budget_access::node(model), 512,
                              {500, 64, {"activations", {"a.cpp", 9}}, std::nullopt});
    });
    cuota::refusal const& facts = refused.info();
    REQUIRE(facts.requested == 500);
    REQUIRE(facts.charged == 512);
    REQUIRE(facts.granularity == 64);
    REQUIRE(facts.refused_by == 1);
    REQUIRE(facts.max_fit == 384);  // 430 are free; 384 is the largest multiple of 64 in it
    REQUIRE(facts.largest_free == 9);
    std::vector<std::pair<std::string, std::size_t>> holders;
    for (cuota::allocation_group const& h : facts.holders) holders.emplace_back(h.name.text(), h.bytes);
    REQUIRE(holders ==
            std::vector<std::pair<std::string, std::size_t>>{
                {"weights", 250}, {"cached", 200}, {"charged without a tag", 70}, {"weights", 50}});
}
