// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/reclaim.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/core/suggestions.hpp>
#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/idle_cache.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/worker.hpp"

using cuota::budget;

namespace {

using cache = support::idle_cache;
using cache_owner = cuota::detail::intrusive_ptr<cache>;
using requested = std::vector<std::size_t>;

template <class... Bytes>
std::array<cache_owner, sizeof...(Bytes)> caches_in(budget const& b, Bytes... bytes) {
    return {cache_owner::make(b, std::size_t{bytes})...};
}
template <class... Owners>
std::vector<requested> asks_of(Owners const&... caches) {
    return {caches->requested...};
}

// A charge that is refunded by the destructor.
class charged {
public:
    charged(budget b, std::size_t bytes) : budget_{std::move(b)}, bytes_{bytes} { budget_.charge(bytes); }
    charged(charged const&) = delete;
    charged& operator=(charged const&) = delete;
    ~charged() { budget_.refund(bytes_); }

private:
    budget budget_;
    std::size_t bytes_;
};

cuota::budget_exceeded refusal_of(budget b, std::size_t bytes) {
    return support::thrown<cuota::budget_exceeded>([&] { b.charge(bytes); });
}

struct one_cache {
    budget b{"b", 100};
    cache_owner idle = cache_owner::make(b, 60u);
};

}  // namespace

TEST_CASE_METHOD(one_cache, "a charge that fits asks nobody", "[guard][pressure]") {
    charged const rest{b, 40};
    REQUIRE(idle->requested.empty());
    REQUIRE(!b.try_charge(1));  // try_charge does not reclaim
    REQUIRE(idle->requested.empty());
}

TEST_CASE_METHOD(one_cache, "a charge under pressure asks caches for what is missing, and no more",
                 "[guard][pressure]") {
    charged const most{b, 70};
    REQUIRE(idle->requested == requested{30});
    REQUIRE(b.held() == 100);
}

TEST_CASE_METHOD(one_cache, "what another thread holds ready is not asked of a cache", "[guard][pressure]") {
    support::worker other;
    other.run([&] {
        b.charge(40);
        b.refund(30);  // 30 remain in that thread's stock
    });
    charged const most{b, 80};
    REQUIRE(idle->requested == requested{50});
    REQUIRE(b.held() == 100);
    other.run([&] { b.refund(10); });
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

TEST_CASE("a refusal lists the bytes that were reclaimed without success, and by whom", "[guard][pressure]") {
    budget b{"b", 100};
    charged const half{b, 50};
    auto const [idle, other] = caches_in(b, 20u, 0u);
    idle->name = "pool a";
    other->name = "pool b";
    idle->expects = other->expects = 50;  // more than they have
    auto const refused = refusal_of(b, 60);
    REQUIRE(refused.info().reclaimed == 20);
    REQUIRE(refused.info().max_fit == 100);  // includes their estimates
    REQUIRE(refused.info().reclaimers);
    auto const& requested = *refused.info().reclaimers;
    // Two rounds, because the first released something, and the estimates after them.
    REQUIRE(requested.size() == 6);
    REQUIRE(requested[0].name == "pool a");
    REQUIRE(requested[0].requested == 30);
    REQUIRE(requested[0].released == 20);
    REQUIRE(requested[1].name == "pool b");
    REQUIRE(requested[1].requested == 10);
    REQUIRE(requested[1].released == 0);
    REQUIRE(requested[2].released + requested[3].released == 0);
    REQUIRE(requested[4].reclaimable == 50);
    REQUIRE(b.held() == 50);
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

TEST_CASE("a budget and its ancestors keep the last refusal", "[guard][pressure]") {
    budget root{"gpu", 100};
    budget left{"left", 50, root};
    budget right{"right", 50, root};
    REQUIRE(!root.last_refusal());
    REQUIRE_THROWS_AS(left.charge(51, "weights"), cuota::budget_exceeded);
    for (budget const& b : {left, root}) {
        REQUIRE(b.last_refusal());
        REQUIRE(b.last_refusal()->info().requested == 51);
        REQUIRE(b.last_refusal()->info().request.name == cuota::tag{"weights"});
    }
    REQUIRE(!right.last_refusal());
    REQUIRE(!right.try_charge(51));  // reports by its result
    REQUIRE(!right.last_refusal());
    REQUIRE_THROWS_AS(right.reserve(60), cuota::budget_exceeded);
    REQUIRE(root.last_refusal()->info().requested == 60);
    REQUIRE(left.last_refusal()->info().requested == 51);
}

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

TEST_CASE_METHOD(one_cache, "no cache is dropped for what could never fit", "[guard][pressure]") {
    REQUIRE_THROWS_AS(b.charge(101), cuota::budget_exceeded);
    REQUIRE(idle->requested.empty());
}

TEST_CASE_METHOD(one_cache, "what fits by the time of the refusal is not refused", "[guard][pressure]") {
    idle->says_nothing = true;  // as if the refund had been credited to another charge
    REQUIRE_NOTHROW(charged{b, 100});
}

TEST_CASE_METHOD(one_cache, "a cache that charges while it gives back is not asked again meanwhile",
                 "[guard][pressure]") {
    charged const some{b, 40};
    int refused = 0;
    idle->meanwhile = [&] {
        for (int i = 0; i != 3; ++i) try {
                b.charge(90);
            } catch (cuota::budget_exceeded const&) { ++refused; }
    };
    charged const more{b, 10};
    REQUIRE(idle->requested == requested{10});
    REQUIRE(refused == 3);
    idle->meanwhile = {};
}

TEST_CASE("only caches that hold bytes of the refusing budget are called", "[guard][pressure]") {
    budget root{"gpu", 100};
    budget left{"left", 60, root};
    budget right{"right", 60, root};
    cache_owner const of_left = cache_owner::make(left, 30u);
    cache_owner const of_right = cache_owner::make(right, 30u);
    charged const some{left, 40};  // left refuses: right's caches would not help
    REQUIRE(asks_of(of_left, of_right) == std::vector<requested>{{10}, {}});
    charged const more{root, 20};  // root refuses: all caches may be asked
    REQUIRE(asks_of(of_left, of_right) == std::vector<requested>{{10, 10}, {}});
    charged const yet_more{root, 20};
    REQUIRE(of_right->requested == requested{20});  // left has only 10 more
}

TEST_CASE("caches inside a reservation are not called for charges outside of it", "[guard][pressure]") {
    budget b{"b", 100};
    cuota::reservation const r = b.reserve(60);
    cache_owner const inside = cache_owner::make(r.as_budget(), 60u);
    REQUIRE_THROWS_AS(b.charge(50), cuota::budget_exceeded);
    REQUIRE(inside->requested.empty());

    charged const some{r.as_budget(), 10};  // inside the reservation it would help
    REQUIRE(inside->requested == requested{10});
}

TEST_CASE_METHOD(one_cache, "a reservation that grows asks caches, too", "[guard][pressure]") {
    cuota::reservation r = b.reserve(30);
    REQUIRE(idle->requested.empty());
    r.grow(30);
    REQUIRE(r.bytes() == 60);
    REQUIRE(idle->requested == requested{20});
}

TEST_CASE_METHOD(one_cache, "a cache lives while it is asked", "[guard][pressure]") {
    idle->meanwhile = [this] { idle = {}; };
    charged const most{b, 70};
    REQUIRE(!idle);
    REQUIRE(b.held() == 70);  // the rest was refunded by its destructor
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

TEST_CASE("charges that fit are not refused while caches are created and destroyed", "[guard][pressure]") {
    // Each thread charges its quarter, while empty caches are made and destroyed. No charge may be refused.
    budget b{"b", 400};
    std::vector<std::thread> threads;
    std::atomic<int> refused = 0;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([b, &refused]() mutable {
            for (int i = 0; i != 2000; ++i) {
                cache_owner const idle = cache_owner::make(b, 0u);
                try {
                    b.charge(100);  // 4 x 100 always fit
                } catch (cuota::budget_exceeded const&) {
                    ++refused;
                    continue;
                }
                b.refund(100);
            }
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(refused == 0);
    REQUIRE(b.held() == 0);
}
