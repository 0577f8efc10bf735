// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// budget::set_limit, reservation::split and reservation::merge.
#include <cuota/guard/budget.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/idle_cache.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include <cuota/core/suggestions.hpp>

using cuota::budget;
using cuota::unlimited;
using cuota::when_held;
using support::cache_owner;
using support::requested;

TEST_CASE("a limit can be raised and lowered", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(60);
    CHECK(!b.try_charge(41));
    b.set_limit(101);
    CHECK(b.limit() == 101);
    CHECK(b.try_charge(41));
    b.refund(41);
    b.set_limit(60);
    CHECK(b.available() == 0);
    CHECK(!b.try_charge(1));
    b.set_limit(unlimited);
    CHECK(b.try_charge(1'000));
    b.refund(1'060);
    b.set_limit(0);
    CHECK(b.try_charge(0));
    CHECK(!b.try_charge(1));
}

TEST_CASE("the limit of a nested budget changes by itself, and its parent's still applies",
          "[guard][budget]") {
    budget root{"root", 100};
    budget inside{"inside", 50, root};
    inside.charge(50);
    inside.set_limit(200);
    CHECK(inside.try_charge(50));
    CHECK(!inside.try_charge(1));
    CHECK(root.limit() == 100);
    CHECK_THROWS_AS(root.set_limit(99), cuota::budget_exceeded);
    inside.refund(100);
}

TEST_CASE("a limit below the held bytes is refused, and everything is as before", "[guard][budget]") {
    budget root{"root", 1'000};
    budget b{"model", 100, root};
    b.charge(30, "weights");
    b.charge(40, "state");
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.set_limit(60); });
    CHECK(b.limit() == 100);
    CHECK(b.held() == 70);
    CHECK(b.try_charge(30));
    b.refund(30);
    CHECK(b.last_refusal());

    cuota::refusal const& facts = refused.info();
    CHECK(facts.new_limit == 60);
    CHECK(facts.requested == 0);
    CHECK(facts.shortfall() == 10);
    CHECK(facts.request.where.line == line);
    REQUIRE(facts.budgets.size() == 1);  // the parent's bytes do not matter
    CHECK(facts.budgets[0].name == "model");
    CHECK(facts.budgets[0].limit == 100);

    std::vector<cuota::suggestion> const steps = cuota::suggestions(facts);
    REQUIRE(steps.size() == 2);
    CHECK(steps[0].kind == cuota::suggestion_kind::raise_limit);
    REQUIRE(steps[0].limits.size() == 1);
    CHECK(steps[0].limits[0].limit == 70);
    CHECK(steps[1].kind == cuota::suggestion_kind::free_memory);
    CHECK(steps[1].bytes == 70);  // which has no tag
    for (cuota::suggestion const& s : steps) CHECK(s.suffices);
    std::string const text = refused.what();
    CHECK(text.starts_with("cuota::budget_exceeded: cannot lower the limit of model to 60 B at "
                           "budget_limit.cpp:"));
    CHECK(text.find(": 70 B held\n") != std::string::npos);
    CHECK(text.find("set it to at least 70 B, or lower it now with when_held::keep") != std::string::npos);

    // Both suggestions suffice, each by itself.
    b.set_limit(70);
    b.refund(10);
    b.set_limit(60);
    b.refund(60);
}

TEST_CASE("a lower limit asks caches for the excess", "[guard][budget]") {
    budget b{"b", 100};
    cache_owner const idle = cache_owner::make(b, std::size_t{50});
    b.charge(40);
    SECTION("which they can release") {
        b.set_limit(60);
        CHECK(idle->requested == requested{30});
        CHECK(b.held() == 60);
        CHECK(b.limit() == 60);
    }
    SECTION("which exceeds what they have, so that they keep it") {
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.set_limit(39); });
        CHECK(idle->requested.empty());
        CHECK(b.limit() == 100);
        CHECK(refused.info().reclaimable == 50);
        std::vector<cuota::suggestion> const steps = cuota::suggestions(refused.info());
        REQUIRE(steps.size() == 2);
        CHECK(steps[0].limits.at(0).limit == 40);
        CHECK(steps[1].kind == cuota::suggestion_kind::free_memory);
        b.set_limit(40);
        CHECK(b.held() == 40);
    }
    SECTION("or for what they have, if the limit is lowered at once") {
        b.set_limit(30, when_held::keep);
        CHECK(idle->requested == requested{50});
        CHECK(b.held() == 40);
        CHECK(b.limit() == 30);
    }
    SECTION("but not if nothing is over") {
        b.set_limit(90);
        CHECK(idle->requested.empty());
    }
    b.refund(40);
}

TEST_CASE("a limit lowered at once refuses charges until it is met", "[guard][budget]") {
    budget root{"root", 1'000};
    budget b{"b", 100, root};
    b.charge(80);
    b.set_limit(50, when_held::keep);
    CHECK(b.limit() == 50);
    CHECK(b.held() == 80);
    CHECK(b.available() == 0);
    CHECK(b.try_charge(0));
    CHECK(!b.try_charge(1));
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(5); });
    CHECK(refused.info().shortfall() == 35);
    CHECK(refused.info().max_fit == 0);
    b.refund(30);
    CHECK(!b.try_charge(1));
    b.refund(1);
    CHECK(b.try_charge(1));
    CHECK(root.try_charge(900));  // the parent has a limit of its own
    root.refund(900);
    b.refund(50);
}

TEST_CASE("a limit below the held bytes can always be raised", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(80);
    b.set_limit(10, when_held::keep);
    b.set_limit(10);
    b.set_limit(50);
    CHECK(b.limit() == 50);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.set_limit(49); });
    CHECK(refused.info().shortfall() == 31);
    CHECK(b.limit() == 50);
    b.refund(80);
}

TEST_CASE("what caches release first makes up for a limit that was lowered at once", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(80);
    b.set_limit(50, when_held::keep);
    b.refund(60);
    cache_owner const idle = cache_owner::make(b, std::size_t{30});
    b.set_limit(30, when_held::keep);  // 50 are held, 30 of them idle
    CHECK(b.held() == 30);
    b.set_limit(20, when_held::keep);
    CHECK(b.held() == 20);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(1); });
    CHECK(refused.info().max_fit == 0);
    b.refund(20);
}

TEST_CASE("a refusal over a lowered limit counts what caches must release for the limit itself",
          "[guard][budget]") {
    budget root{"root", 100};
    budget b{"b", 100, root};
    root.charge(40);
    cache_owner const idle = cache_owner::make(b, std::size_t{50});
    // The cache is asked by b alone, so its bytes stay while the root's limit falls: a reclaimer of another budget.
    cuota::detail::budget_access::node(root).set_limit(60);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { root.charge(25); });
    CHECK(refused.info().max_fit == 20);  // 30 of the 50 are above the limit
    CHECK(root.held() == 90);
    CHECK_NOTHROW(root.charge(20));
    CHECK(idle->requested == requested{50});
    root.refund(60);
}

TEST_CASE("a change of the limit does not reach into reservations", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation r = b.reserve(60);
    CHECK_THROWS_AS(b.set_limit(59), cuota::budget_exceeded);
    b.set_limit(10, when_held::keep);
    budget inside = r.as_budget();
    CHECK(inside.try_charge(60));  // charged to b when it was reserved
    CHECK_THROWS_AS(r.grow(1), cuota::budget_exceeded);
    CHECK_THROWS_AS(inside.set_limit(100), cuota::usage_error);
    CHECK(inside.limit() == 60);
    inside.refund(60);
}

TEST_CASE("a limit falls to what is held, though threads have idle stocks", "[guard][budget]") {
    budget b{"b", 1'000};
    for (int i = 0; i != 3'000; ++i) {
        b.charge(100);
        b.refund(100);
    }
    b.charge(10);
    b.set_limit(10);
    CHECK(!b.try_charge(1));
    b.refund(10);
    CHECK(b.try_charge(10));
    b.refund(10);
}

TEST_CASE("no thread has more than a limit that was lowered", "[guard][budget]") {
    budget root{"root", 4'000};
    budget b{"b", 1'000, root};
    std::atomic<std::size_t> held = 0;
    std::atomic<bool> ends = false;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 3; ++t)
        threads.emplace_back([&, t] {
            unsigned state = t + 1;
            while (!ends) {
                state = state * 1664525u + 1013904223u;
                std::size_t const bytes = 1 + (state >> 8) % 400;
                if (!b.try_charge(bytes)) continue;
                held += bytes;
                held -= bytes;
                b.refund(bytes);
            }
        });
    int over = 0;
    int lowered = 0;
    for (int turn = 0; turn != 3'000; ++turn) {
        std::size_t const limit = 100 + static_cast<std::size_t>(turn) % 700;
        try {
            b.set_limit(limit);
            ++lowered;
            for (int i = 0; i != 20; ++i) over += held > limit || b.held() > limit;
        } catch (cuota::budget_exceeded const&) {}
        b.set_limit(1'000);
    }
    ends = true;
    for (std::thread& t : threads) t.join();
    CHECK(over == 0);
    CHECK(lowered != 0);
    CHECK(b.held() == 0);
    CHECK(root.held() == 0);
}

TEST_CASE("a reservation is split without charging anything", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation whole = b.reserve(100, "whole");
    budget first = whole.as_budget();
    first.charge(30);
    cuota::reservation part = whole.split(50, "part");
    CHECK(whole.bytes() == 50);
    CHECK(part.bytes() == 50);
    CHECK(b.held() == 100);
    CHECK(part.as_budget().name() == "part");
    CHECK(part.as_budget().parent() == b);
    budget second = part.as_budget();
    CHECK(second.try_charge(50));
    CHECK(first.try_charge(20));
    CHECK(!first.try_charge(1));
    CHECK_THROWS_AS(whole.split(1), cuota::usage_error);
    CHECK(whole.split(0).bytes() == 0);
    first.refund(50);
    second.refund(50);
    { cuota::reservation const ends = std::move(part); }
    CHECK(b.held() == 50);
}

TEST_CASE("the message of a split that does not fit has its figures", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation r = b.reserve(60, "steps");
    budget inside = r.as_budget();
    inside.charge(20);
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)r.split(50); });
    CHECK(std::string{refused.what()}.find(
              "reservation steps: cannot split off 50 B: 20 B of 60 B are in use") != std::string::npos);
    CHECK(r.bytes() == 60);
    CHECK(b.held() == 60);
    inside.refund(20);
}

TEST_CASE("merged reservations have the unspent bytes of both", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation a = b.reserve(40);
    cuota::reservation other = b.reserve(30);
    budget spent = other.as_budget();
    spent.charge(10);
    a.merge(std::move(other));
    CHECK(a.bytes() == 60);
    CHECK(b.held() == 70);
    CHECK(!spent.try_charge(1));
    CHECK_THROWS_AS(other.bytes(), cuota::usage_error);
    spent.refund(10);
    CHECK(b.held() == 60);  // as at the end of any reservation
}

TEST_CASE("reservations that cannot be merged are unchanged", "[guard][budget]") {
    budget b{"b", 100};
    budget c{"c", 100};
    cuota::reservation a = b.reserve(40);
    cuota::reservation other = c.reserve(30);
    CHECK_THROWS_AS(a.merge(std::move(other)), cuota::usage_error);
    CHECK(a.bytes() == 40);
    CHECK(other.bytes() == 30);
    cuota::reservation& same = a;
    CHECK_THROWS_AS(a.merge(std::move(same)), cuota::usage_error);
    CHECK(a.bytes() == 40);
    cuota::reservation const gone{std::move(other)};
    CHECK_THROWS_AS(a.merge(std::move(other)), cuota::usage_error);
    CHECK_THROWS_AS(other.merge(std::move(a)), cuota::usage_error);
    CHECK(a.bytes() == 40);
}
