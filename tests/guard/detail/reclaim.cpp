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
using support::asks_of;
using support::cache_owner;
using support::caches_in;
using support::charged;
using support::one_cache;
using support::refusal_of;
using support::requested;

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
    auto const& asked = *refused.info().reclaimers;
    // Two rounds, because the first released something, and the estimates after them.
    REQUIRE(asked.size() == 6);
    REQUIRE(asked[0].name == "pool a");
    REQUIRE(asked[0].requested == 30);
    REQUIRE(asked[0].released == 20);
    REQUIRE(asked[1].name == "pool b");
    REQUIRE(asked[1].requested == 10);
    REQUIRE(asked[1].released == 0);
    REQUIRE(asked[2].released + asked[3].released == 0);
    REQUIRE(asked[4].reclaimable == 50);
    REQUIRE(b.held() == 50);
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

TEST_CASE_METHOD(one_cache, "a cache lives while it is asked", "[guard][pressure]") {
    idle->meanwhile = [this] { idle = {}; };
    charged const most{b, 70};
    REQUIRE(!idle);
    REQUIRE(b.held() == 70);  // the rest was refunded by its destructor
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
