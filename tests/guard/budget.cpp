// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budget.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using cuota::unlimited;

static_assert(sizeof(budget) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<budget> && std::is_nothrow_move_constructible_v<budget>);
static_assert(!std::is_default_constructible_v<budget>);
static_assert(!std::is_copy_constructible_v<cuota::reservation> &&
              !std::is_copy_assignable_v<cuota::reservation>);
static_assert(std::is_nothrow_move_constructible_v<cuota::reservation> &&
              std::is_nothrow_move_assignable_v<cuota::reservation>);
static_assert(noexcept(std::declval<budget&>().try_charge(1)) && noexcept(std::declval<budget&>().refund(1)));

TEST_CASE("a limit is inclusive", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(60);
    b.charge(40);
    REQUIRE(b.held() == 100);
    REQUIRE(b.available() == 0);
    REQUIRE(!b.try_charge(1));
    REQUIRE_THROWS_AS(b.charge(1), cuota::budget_exceeded);
    REQUIRE(b.held() == 100);
    b.refund(100);
    REQUIRE(b.held() == 0);
}

TEST_CASE("a charge of 0 bytes fits in every budget", "[guard][budget]") {
    budget b{"b", 0};
    b.charge(0);
    REQUIRE(b.try_charge(0));
    REQUIRE(!b.try_charge(1));
    b.refund(0);
}

TEST_CASE("the largest size is refused without overflow", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(60);
    REQUIRE(!b.try_charge(unlimited));
    REQUIRE(!b.try_charge(unlimited - 59));
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(unlimited); });
    REQUIRE(refused.info().requested == unlimited);
    REQUIRE(refused.info().max_fit == 40);
    REQUIRE(b.held() == 60);
    b.refund(60);
}

TEST_CASE("an unlimited budget is exact up to the largest size", "[guard][budget]") {
    budget b{"b", unlimited};
    b.charge(unlimited - 1);
    REQUIRE(b.try_charge(1));
    REQUIRE(!b.try_charge(1));
    b.refund(unlimited);
    REQUIRE(b.held() == 0);
}

TEST_CASE("copies denote the same budget", "[guard][budget]") {
    budget a{"a", 100};
    budget b = a;
    b.charge(30);
    REQUIRE(a.held() == 30);
    REQUIRE(a == b);
    REQUIRE(!(a == budget{"a", 100}));
    a.refund(30);
}

TEST_CASE("a charge is made at every level", "[guard][budget]") {
    budget root{"gpu", 100};
    budget middle{"model", 80, root};
    budget leaf{"layer", unlimited, middle};
    leaf.charge(50);
    REQUIRE(leaf.held() == 50);
    REQUIRE(middle.held() == 50);
    REQUIRE(root.held() == 50);
    REQUIRE(leaf.available() == 30);
    REQUIRE(leaf.parent() == middle);
    REQUIRE(!root.parent());
    leaf.refund(50);
    REQUIRE(root.held() == 0);
    REQUIRE(root.peak() == 50);
}

TEST_CASE("a charge that one level refuses is made at no level, and the refusal names the level",
          "[guard][budget]") {
    budget root{"gpu", 100};
    budget model{"model", 80, root};
    budget other{"other", 90, root};
    budget layer{"layer", 70, model};
    other.charge(30);
    layer.charge(20);

    auto const refused_by = [&](std::size_t bytes) {
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { layer.charge(bytes); });
        REQUIRE(layer.held() == 20);
        REQUIRE(model.held() == 20);
        REQUIRE(root.held() == 50);
        cuota::refusal const& facts = refused.info();
        REQUIRE(facts.budgets.size() == 3);
        REQUIRE(facts.max_fit == 50);
        return facts.budgets[facts.refused_by].name;
    };
    REQUIRE(refused_by(51) == "layer");
    REQUIRE(refused_by(90) == "layer");
    other.charge(30);  // 80 of root
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { layer.charge(21); });
    REQUIRE(refused.info().refused_by == 2);
    REQUIRE(refused.info().max_fit == 20);
    REQUIRE(refused.info().shortfall() == 1);
    layer.charge(20);
    REQUIRE(root.available() == 0);
    layer.refund(40);
    other.refund(60);
}

TEST_CASE("a budget keeps its parent alive", "[guard][budget]") {
    auto root = std::make_unique<budget>("gpu", 100);
    budget leaf{"layer", 80, *root};
    root.reset();
    leaf.charge(80);
    REQUIRE(leaf.parent()->held() == 80);
    leaf.refund(80);
}

TEST_CASE("destroying a budget with charged bytes is reported, and its parent keeps the charge",
          "[guard][budget]") {
    support::captured_errors errors;
    budget root{"gpu", 100};
    {
        budget layer{"layer", 80, root};
        layer.charge(30);
        layer.charge(20);
        layer.refund(30);
    }
    REQUIRE(errors.take() ==
            std::vector<std::string>{
                "cuota::usage_error: budget layer destroyed with 20 B still charged; they remain "
                "charged to its parent gpu"});
    REQUIRE(root.held() == 20);
    {
        cuota::reservation const r = root.reserve(60, "loader");
        r.as_budget().charge(10);
    }
    REQUIRE(errors.count() == 1);
    REQUIRE(root.held() == 30);
    (void)errors.take();
    { budget const all{"alone", 10}; }
    REQUIRE(errors.count() == 0);
}

TEST_CASE("refunding more than is held is reported and changes nothing", "[guard][budget]") {
    support::captured_errors errors;
    budget root{"gpu", 100};
    budget b{"model", 100, root};
    b.charge(30);
    unsigned const line = __LINE__ + 1;
    b.refund(31);
    auto const told = errors.take();
    REQUIRE(told.size() == 1);
    REQUIRE(told[0] ==
            "cuota::usage_error: budget model: cannot refund 31 B: only 30 B are charged (budget.cpp:" +
                std::to_string(line) + ")");
    REQUIRE(b.held() == 30);
    REQUIRE(root.held() == 30);
    b.refund(unlimited);
    REQUIRE(errors.take().size() == 1);
    REQUIRE(b.held() == 30);
    b.refund(30);
    REQUIRE(errors.count() == 0);
}

TEST_CASE("the peak is the largest number of bytes held since the last reset", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(70);
    b.refund(50);
    b.charge(10);
    REQUIRE(b.peak() == 70);
    REQUIRE(!b.try_charge(1000));
    REQUIRE(b.peak() == 70);
    b.reset_peak();
    REQUIRE(b.peak() == 30);
    cuota::budget_info const now = b.info();
    REQUIRE(now.name == "b");
    REQUIRE(now.limit == 100);
    REQUIRE(now.held == 30);
    REQUIRE(now.free() == 70);
    b.refund(30);
}

TEST_CASE("a refused charge has the tag and the call site of the request", "[guard][budget]") {
    budget b{"trainer", 100};
    b.charge(60);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(41, "weights"); });
    cuota::refusal const& facts = refused.info();
    REQUIRE(facts.requested == 41);
    REQUIRE(facts.charged == 41);
    REQUIRE(facts.request.name == cuota::tag{"weights"});
    REQUIRE(facts.request.where.line == line);
    REQUIRE(facts.holders.size() == 1);
    REQUIRE(facts.holders[0].name == cuota::tag{"charged without a tag"});
    REQUIRE(facts.holders[0].bytes == 60);
    REQUIRE(!facts.device);
    REQUIRE(std::string{refused.what()} ==
            "cuota::budget_exceeded: cannot allocate 41 B for weights at budget.cpp:" + std::to_string(line) +
                ": 40 B free in budget trainer\n"
                "  budget trainer        limit 100 B       held 60 B        free 40 B        peak 60 B\n"
                "  held by    charged without a tag 60 B\n"
                "  reclaimed  nothing: no pool or cache has cached memory\n"
                "  help       raise the limit of trainer to 101 B\n"
                "  or         request at most 40 B\n"
                "  or         free 60 B: charged without a tag");
    b.refund(60);
}

TEST_CASE("the limit in the text of a refusal suffices when it is used as a literal", "[guard][budget]") {
    using namespace cuota::literals;
    budget b{"trainer", 2_MiB};
    b.charge(2_MiB);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(102'400, "slots"); });
    REQUIRE(support::has(refused.what(), "raise the limit of trainer to 2.1 MiB\n"));
    b.refund(2_MiB);
    budget raised{"trainer", 2.1_MiB};
    REQUIRE(raised.try_charge(2_MiB + 102'400));
    raised.refund(2_MiB + 102'400);
}

TEST_CASE("a reservation is charged at once, and its unspent bytes are refunded when it is destroyed",
          "[guard][budget]") {
    budget b{"b", 100};
    {
        cuota::reservation r = b.reserve(60, "loader");
        REQUIRE(b.held() == 60);
        REQUIRE(r.bytes() == 60);
        budget prepaid = r.as_budget();
        REQUIRE(prepaid.name() == "loader");
        REQUIRE(prepaid.parent() == b);
        prepaid.charge(40);
        REQUIRE(b.held() == 60);  // charged when reserved
        REQUIRE(!prepaid.try_charge(21));
        REQUIRE(prepaid.available() == 20);
        prepaid.refund(40);
        REQUIRE(b.held() == 60);
    }
    REQUIRE(b.held() == 0);
    REQUIRE(b.peak() == 60);
}

TEST_CASE("a reservation can be spent when its budget is full", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation const r = b.reserve(60);
    b.charge(40);
    budget prepaid = r.as_budget();
    REQUIRE(prepaid.try_charge(60));
    prepaid.refund(60);
    b.refund(40);
}

TEST_CASE("spent bytes of a destroyed reservation stay charged until they are refunded", "[guard][budget]") {
    budget root{"gpu", 200};
    budget b{"b", 100, root};
    budget prepaid = [&] {
        cuota::reservation const r = b.reserve(60);
        budget inside = r.as_budget();
        inside.charge(40);
        return inside;
    }();
    REQUIRE(b.held() == 40);
    REQUIRE(root.held() == 40);
    REQUIRE(!prepaid.try_charge(1));
    prepaid.refund(15);
    REQUIRE(b.held() == 25);
    REQUIRE(!prepaid.try_charge(1));  // nothing more can be charged, not even refunded bytes
    REQUIRE(prepaid.available() == 0);
    REQUIRE_THROWS_AS(prepaid.charge(1), cuota::budget_exceeded);
    prepaid.refund(25);
    REQUIRE(b.held() == 0);
    REQUIRE(root.held() == 0);
}

TEST_CASE("a reservation that is refused charges nothing", "[guard][budget]") {
    budget b{"b", 100};
    b.charge(50);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)b.reserve(51, "loader"); });
    REQUIRE(refused.info().max_fit == 50);
    REQUIRE(refused.info().request.name == cuota::tag{"loader"});
    REQUIRE(b.held() == 50);
    b.refund(50);
}

TEST_CASE("a reservation grows by available bytes of its budget and shrinks by unspent bytes",
          "[guard][budget]") {
    budget b{"b", 100};
    {
        cuota::reservation r = b.reserve(60);
        budget prepaid = r.as_budget();
        prepaid.charge(50);
        r.grow(40);
        REQUIRE(r.bytes() == 100);
        REQUIRE(b.held() == 100);

        unsigned const line = __LINE__ + 1;
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { r.grow(1); });
        REQUIRE(refused.info().budgets[0].name == "b");
        REQUIRE(refused.info().shortfall() == 1);
        REQUIRE(refused.info().request.where.line == line);
        REQUIRE_THROWS_AS(r.grow(unlimited), cuota::budget_exceeded);
        REQUIRE(r.bytes() == 100);

        r.shrink(50);
        REQUIRE(b.held() == 50);
        REQUIRE_THROWS_AS(r.shrink(1), cuota::usage_error);
        REQUIRE_THROWS_AS(r.shrink(unlimited), cuota::usage_error);
        REQUIRE(r.bytes() == 50);
        REQUIRE(b.held() == 50);
        prepaid.refund(50);
        r.shrink(50);
        REQUIRE(b.held() == 0);
    }
    REQUIRE(b.held() == 0);
}

TEST_CASE("a reservation that was moved is charged once", "[guard][budget]") {
    budget b{"b", 100};
    cuota::reservation a = b.reserve(30);
    cuota::reservation c{std::move(a)};
    REQUIRE(b.held() == 30);
    REQUIRE(c.bytes() == 30);
    REQUIRE_THROWS_AS(a.as_budget(), cuota::usage_error);
    REQUIRE_THROWS_AS(a.bytes(), cuota::usage_error);
    cuota::reservation d = b.reserve(50);
    d = std::move(c);  // refunds 50
    REQUIRE(b.held() == 30);
    cuota::reservation& same = d;
    d = std::move(same);
    REQUIRE(b.held() == 30);
    a = b.reserve(10);
    REQUIRE(a.bytes() == 10);
}

TEST_CASE("reservations nest and may be destroyed in any order", "[guard][budget]") {
    budget b{"b", 100};
    auto outer = std::make_unique<cuota::reservation>(b.reserve(80));
    auto inner = std::make_unique<cuota::reservation>(outer->as_budget().reserve(50));
    budget spent = inner->as_budget();
    spent.charge(20);
    REQUIRE(b.held() == 80);
    SECTION("the inner one first") {
        inner.reset();
        REQUIRE(b.held() == 80);
        outer.reset();
    }
    SECTION("the outer one first") {
        outer.reset();
        REQUIRE(b.held() == 50);
        inner.reset();
    }
    REQUIRE(b.held() == 20);
    spent.refund(20);
    REQUIRE(b.held() == 0);
}

TEST_CASE("a budget inside a reservation works as in any budget", "[guard][budget]") {
    budget b{"b", 100};
    {
        cuota::reservation const r = b.reserve(50);
        budget sub{"sub", 100, r.as_budget()};
        sub.charge(50);
        REQUIRE(b.held() == 50);
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { sub.charge(1); });
        REQUIRE(refused.info().budgets.size() == 2);
        REQUIRE(refused.info().refused_by == 1);
        sub.refund(50);
    }
    REQUIRE(b.held() == 0);
}

TEST_CASE("threads never exceed a limit, are never refused what fits, and refund everything",
          "[guard][budget]") {
    // Each thread holds at most 200 bytes, and two threads charge each of two budgets of 450 under one of 850, so their charges always fit.
    // In between they request charges that never fit, which must not disturb the others.
    budget root{"gpu", 850};
    budget const halves[] = {budget{"left", 450, root}, budget{"right", 450, root}};
    std::atomic<int> refused_though_it_fits = 0;
    std::atomic<int> granted_though_it_does_not = 0;
    std::atomic<int> over = 0;
    auto const work = [&](unsigned seed) {
        budget mine = halves[seed % 2];
        std::vector<std::size_t> held;
        std::size_t sum = 0;
        unsigned state = seed * 2654435761u + 1;
        auto const next = [&state] { return state = state * 1664525u + 1013904223u, state >> 8; };
        for (int i = 0; i != 50'000; ++i) {
            std::size_t const bytes = 1 + next() % 100;
            if (sum + bytes <= 200) {
                if (mine.try_charge(bytes)) held.push_back(bytes), sum += bytes;
                else ++refused_though_it_fits;
            } else {
                sum -= held.back();
                mine.refund(held.back());
                held.pop_back();
            }
            if (i % 4 == 0 && mine.try_charge(451)) ++granted_though_it_does_not;
            if (i % 64 == 0) {
                cuota::budget_info const now = root.info();
                if (now.held > now.limit || now.peak > now.limit) ++over;
                try {
                    mine.charge(851);
                    ++granted_though_it_does_not;
                } catch (cuota::budget_exceeded const& refused) {
                    if (refused.info().shortfall() == 0) ++granted_though_it_does_not;
                }
            }
        }
        for (std::size_t const bytes : held) mine.refund(bytes);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t) threads.emplace_back(work, t);
    for (std::thread& t : threads) t.join();

    REQUIRE(refused_though_it_fits == 0);
    REQUIRE(granted_though_it_does_not == 0);
    REQUIRE(over == 0);
    REQUIRE(root.held() == 0);
    REQUIRE(halves[0].held() == 0);
    REQUIRE(halves[1].held() == 0);
    REQUIRE(root.peak() <= 800);
}
