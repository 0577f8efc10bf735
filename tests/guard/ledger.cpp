// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/ledger.hpp>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::budget;

namespace {

// Holds bytes that nobody uses, as a pool does.
class cache final : public cuota::detail::stakeholder {
public:
    cache(budget b, std::size_t bytes) : budget_{std::move(b)}, cached_{bytes} {
        budget_.charge(bytes);
        cuota::budget_access::node(budget_).join(*this);
    }
    ~cache() {
        cuota::budget_access::node(budget_).leave(*this);
        budget_.refund(cached_);
    }

    std::size_t reclaim(std::size_t wanted) noexcept override {
        asked.push_back(wanted);
        std::size_t const given = std::min({wanted, cached_, most_at_once});
        cached_ -= given;
        budget_.refund(given);
        if (meanwhile) meanwhile();
        return says_nothing ? 0 : given;
    }
    void holdings(std::vector<cuota::holding>& into) const override {
        into.insert(into.end(), held.begin(), held.end());
    }
    std::size_t largest_free() const noexcept override { return largest; }

    std::vector<std::size_t> asked;
    std::vector<cuota::holding> held;
    std::size_t most_at_once = cuota::unlimited;
    std::size_t largest = 0;
    bool says_nothing = false;
    std::function<void()> meanwhile;

private:
    budget budget_;
    std::size_t cached_;
};
using cache_owner = cuota::shared<cache>;
using asked = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a charge that fits asks nobody", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    b.charge(40);
    REQUIRE(idle->asked.empty());
    REQUIRE(!b.try_charge(1));  // at once, so it does not ask either
    REQUIRE(idle->asked.empty());
    b.refund(40);
}

TEST_CASE("a charge under pressure asks caches for what is missing, and no more", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    b.charge(70);
    REQUIRE(idle->asked == asked{30});
    REQUIRE(b.held() == 100);
    b.refund(70);
}

TEST_CASE("caches are asked in turn, until there is enough", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const first = cache_owner::make(b, 20u);
    cache_owner const second = cache_owner::make(b, 30u);
    cache_owner const third = cache_owner::make(b, 40u);
    b.charge(40);  // 10 are free
    REQUIRE(first->asked == asked{30});
    REQUIRE(second->asked == asked{10});
    REQUIRE(third->asked.empty());
    b.refund(40);
}

TEST_CASE("a cache that gives in pieces is asked again", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    idle->most_at_once = 10;
    b.charge(65);
    REQUIRE(idle->asked == asked{25, 15, 5});
    b.refund(65);
}

TEST_CASE("a refusal says what was given back in vain", "[guard][ledger]") {
    budget b{"b", 100};
    b.charge(50);
    cache_owner const idle = cache_owner::make(b, 20u);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(60); });
    REQUIRE(refused.facts().reclaimed == 20);
    REQUIRE(refused.facts().would_fit == 50);
    REQUIRE(b.held() == 50);
    b.refund(50);
}

TEST_CASE("no cache is dropped for what could never fit", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    REQUIRE_THROWS_AS(b.charge(101), cuota::budget_exceeded);
    REQUIRE(idle->asked.empty());
}

TEST_CASE("what fits by the time of the refusal is not refused", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    idle->says_nothing = true;  // as when somebody else's charge got the credit
    REQUIRE_NOTHROW(b.charge(100));
    b.refund(100);
}

TEST_CASE("a cache that charges while it gives back is not asked again meanwhile", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    b.charge(40);
    int refused = 0;
    idle->meanwhile = [&] {
        for (int i = 0; i != 3; ++i) try {
                b.charge(90);
            } catch (cuota::budget_exceeded const&) { ++refused; }
    };
    b.charge(10);
    REQUIRE(idle->asked == asked{10});
    REQUIRE(refused == 3);
    idle->meanwhile = {};
    b.refund(50);
}

TEST_CASE("those are asked who hold of the budget that refuses", "[guard][ledger]") {
    budget root{"gpu", 100};
    budget left{"left", 60, root};
    budget right{"right", 60, root};
    cache_owner const of_left = cache_owner::make(left, 30u);
    cache_owner const of_right = cache_owner::make(right, 30u);
    left.charge(40);  // left refuses: what right holds would not help
    REQUIRE(of_left->asked == asked{10});
    REQUIRE(of_right->asked.empty());
    root.charge(20);  // root refuses: all of them may
    REQUIRE(of_left->asked == asked{10, 10});
    REQUIRE(of_right->asked.empty());
    root.charge(20);
    REQUIRE(of_right->asked == asked{10});
    left.refund(40);
    root.refund(40);
}

TEST_CASE("what a reservation holds back is not asked for: it would not come back", "[guard][ledger]") {
    budget b{"b", 100};
    cuota::reservation const r = b.reserve(60);
    cache_owner const inside = cache_owner::make(r.as_budget(), 60u);
    REQUIRE_THROWS_AS(b.charge(50), cuota::budget_exceeded);
    REQUIRE(inside->asked.empty());

    r.as_budget().charge(10);  // inside it, it would
    REQUIRE(inside->asked == asked{10});
    r.as_budget().refund(10);
}

TEST_CASE("a reservation that grows asks caches, too", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, 60u);
    cuota::reservation r = b.reserve(30);
    REQUIRE(idle->asked.empty());
    r.grow(30);
    REQUIRE(r.bytes() == 60);
    REQUIRE(idle->asked == asked{20});
}

TEST_CASE("a cache lives while it is asked", "[guard][ledger]") {
    budget b{"b", 100};
    cache_owner idle = cache_owner::make(b, 60u);
    idle->meanwhile = [&idle] { idle = {}; };
    b.charge(70);
    REQUIRE(!idle);
    REQUIRE(b.held() == 70);  // the rest came back with it
    b.refund(70);
}

TEST_CASE("a refusal names who holds what, the largest first", "[guard][ledger]") {
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
    model.charge(70);

    auto const refused = support::thrown<cuota::budget_exceeded>([&] {
        cuota::budget_access::node(model).charge(512, {500, 64, {"activations", {"a.cpp", 9}}, std::nullopt});
    });
    cuota::refusal const& facts = refused.facts();
    REQUIRE(facts.asked == 500);
    REQUIRE(facts.charged == 512);
    REQUIRE(facts.granule == 64);
    REQUIRE(facts.refused_by == 1);
    REQUIRE(facts.would_fit == 384);  // 430 are free, and 384 is the multiple of 64 in that
    REQUIRE(facts.largest_free == 9);
    std::vector<std::pair<std::string, std::size_t>> holders;
    for (cuota::holding const& h : facts.holders) holders.emplace_back(h.name.text(), h.bytes);
    REQUIRE(holders ==
            std::vector<std::pair<std::string, std::size_t>>{
                {"weights", 250}, {"cached", 200}, {"charged without a tag", 70}, {"weights", 50}});
    model.refund(70);
}

TEST_CASE("threads under pressure share what a cache gives back", "[guard][ledger]") {
    // Four threads take turns at 60 of 100; a cache holds what they leave. Nobody may be refused for good.
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
