// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/ledger.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/worker.hpp"

using cuota::unlimited;
using cuota::detail::ledger;
using node = cuota::detail::intrusive_ptr<ledger>;
using support::worker;

namespace {

node root_of(std::size_t limit) { return node::make("root", limit, node{}); }
node child_of(node const& parent, std::size_t limit = unlimited) {
    return node::make("child", limit, parent);
}

// Reference model of a ledger.
struct naive {
    std::size_t limit;
    naive* parent;
    std::size_t held = 0;
    std::size_t own = 0;
    std::size_t peak = 0;

    bool charge(std::size_t bytes) {
        for (naive const* n = this; n; n = n->parent)
            if (bytes > n->limit - n->held) return false;
        own += bytes;
        for (naive* n = this; n; n = n->parent) n->peak = std::max(n->peak, n->held += bytes);
        return true;
    }
    bool refund(std::size_t bytes) {
        if (bytes > own) return false;
        own -= bytes;
        for (naive* n = this; n; n = n->parent) n->held -= bytes;
        return true;
    }
    std::size_t available() const {
        std::size_t available = unlimited;
        for (naive const* n = this; n; n = n->parent) available = std::min(available, n->limit - n->held);
        return available;
    }
};

}  // namespace

TEST_CASE("a thread that has refunded charges again without a lock", "[guard][ledger]") {
    node const n = root_of(100);
    REQUIRE(!n->try_charge_alone(10));
    REQUIRE(n->try_charge(60));
    REQUIRE(!n->try_charge_alone(1));
    REQUIRE(n->try_refund(50));
    REQUIRE(n->try_charge_alone(30));
    REQUIRE(n->try_charge_alone(20));
    REQUIRE(!n->try_charge_alone(1));
    REQUIRE(n->info().held == 60);
    REQUIRE(n->info().peak == 60);
    REQUIRE(n->try_refund(60));
}

TEST_CASE("memory that was allocated without a charge is charged above the limits", "[guard][ledger]") {
    node const root = root_of(100);
    node const n = child_of(root, 50);
    REQUIRE(n->try_charge(40));
    n->charge_allocated(70);
    CHECK(n->info().held == 110);
    CHECK(root->info().held == 110);
    CHECK(!root->try_charge(1));
    CHECK(n->try_refund(60));
    CHECK(!n->try_charge(1));
    CHECK(root->try_charge(50));
    CHECK(root->try_refund(50));
    CHECK(n->try_refund(50));
}

TEST_CASE("bytes in one thread's stock can be charged by another thread", "[guard][ledger]") {
    node const n = root_of(100);
    worker first;
    first.run([&] {
        REQUIRE(n->try_charge(100));
        REQUIRE(n->try_refund(100));
        REQUIRE(n->try_charge(1));
    });
    REQUIRE(n->try_charge(99));
    REQUIRE(!n->try_charge(1));
    REQUIRE(n->info().held == 100);
    REQUIRE(n->info().peak == 100);
    REQUIRE(n->try_refund(99));
    REQUIRE(n->try_refund(1));
    REQUIRE(n->info().held == 0);
}

TEST_CASE("bytes in one thread's stock at a child can be charged by another thread at the root",
          "[guard][ledger]") {
    node const root = root_of(100);
    node const left = child_of(root);
    node const right = child_of(root, 80);
    worker first;
    worker second;
    first.run([&] {
        REQUIRE(left->try_charge(90));
        REQUIRE(left->try_refund(90));
    });
    second.run([&] {
        REQUIRE(right->try_charge(70));
        REQUIRE(right->try_refund(40));
    });
    REQUIRE(root->info().peak == 90);
    REQUIRE(root->try_charge(70));
    REQUIRE(!root->try_charge(1));
    REQUIRE(!left->try_charge(1));
    REQUIRE(root->try_refund(20));
    REQUIRE(!right->try_charge(51));
    REQUIRE(right->try_charge(20));
    REQUIRE(root->info().held == 100);
    REQUIRE(root->try_refund(50));
    REQUIRE(!right->try_charge(31));  // refused by its own limit
    REQUIRE(right->try_charge(30));
    REQUIRE(right->try_refund(80));
    REQUIRE(root->info().held == 0);
}

TEST_CASE("the peak does not include bytes in stocks", "[guard][ledger]") {
    node const n = root_of(unlimited);
    std::vector<worker> others(19);  // more than the number of stocks
    for (std::size_t i = 1; i != 20; ++i) {
        others[i - 1].run([&] {
            REQUIRE(n->try_charge(10 * i));
            REQUIRE(n->try_refund(10 * i));
        });
        REQUIRE(n->info().held == 0);
        REQUIRE(n->info().peak == 10 * i);
    }
    n->reset_peak();
    REQUIRE(n->info().peak == 0);
    REQUIRE(n->try_charge(7));
    REQUIRE(n->info().peak == 7);
    REQUIRE(n->try_refund(7));
}

TEST_CASE("memory that a stock pays for counts for peaks only once it is allocated", "[guard][ledger]") {
    node const root = root_of(100);
    node const n = child_of(root);
    worker other;
    bool const has_arrived = GENERATE(false, true);
    bool const other_revokes = GENERATE(false, true);
    CAPTURE(has_arrived, other_revokes);
    REQUIRE(n->try_charge(50));
    REQUIRE(n->try_refund(50));
    REQUIRE(!n->try_charge_coming_alone(51));
    REQUIRE(n->try_charge_coming_alone(40));
    REQUIRE(n->info().held == 40);
    REQUIRE(n->info().coming == 40);
    REQUIRE(root->info().coming == 40);
    REQUIRE(n->charged_here() == 40);
    if (other_revokes) {
        other.run([&] { REQUIRE(n->try_charge(51)); });
        REQUIRE(!n->try_charge(10));
    }
    std::size_t const others = other_revokes ? 51 : 0;
    REQUIRE(n->info().peak == std::max<std::size_t>(50, others));
    n->end_coming_alone(40, has_arrived);
    for (node const& at : {n, root}) {
        REQUIRE(at->info().held == others + (has_arrived ? 40 : 0));
        REQUIRE(at->info().coming == 0);
        REQUIRE(at->info().peak == std::max<std::size_t>(50, at->info().held));
    }
    REQUIRE(n->try_refund(n->charged_here()));
}

TEST_CASE("a charge while a stock pays for memory not allocated yet sets a peak without it",
          "[guard][ledger]") {
    node const n = root_of(1000);
    REQUIRE(n->try_charge(50));
    REQUIRE(n->try_refund(50));
    REQUIRE(n->try_charge_coming_alone(30));
    REQUIRE(n->try_charge(60));
    REQUIRE(n->info().peak == 60);
    // The upstream may call a reclaimer, which may allocate.
    REQUIRE(n->try_refund(60));
    REQUIRE(n->try_charge(60));
    REQUIRE(n->try_refund(60));
    REQUIRE(n->try_charge_coming_alone(20));
    REQUIRE(n->info().coming == 50);
    n->end_coming_alone(20, true);
    n->end_coming_alone(30, false);
    REQUIRE(n->info().held == 20);
    REQUIRE(n->info().coming == 0);
    REQUIRE(n->info().peak == 60);
    REQUIRE(n->try_refund(20));
    REQUIRE(n->info().held == 0);
}

TEST_CASE("refunds of bytes that were never charged leave coming memory's end valid", "[guard][ledger]") {
    node const n = root_of(100);
    REQUIRE(n->try_charge(50));
    REQUIRE(n->try_refund(50));
    bool const has_arrived = GENERATE(false, true);
    REQUIRE(n->try_charge_coming_alone(40));
    REQUIRE(n->try_refund(40));
    n->end_coming_alone(40, has_arrived);
    REQUIRE(n->info().held == 0);
    REQUIRE(n->info().coming == 0);
    REQUIRE(n->info().peak == 50);
}

TEST_CASE("bytes charged by one thread can be refunded by another", "[guard][ledger]") {
    node const root = root_of(100);
    node const n = child_of(root);
    worker charges;
    worker refunds;
    for (int round = 0; round != 50; ++round) {
        charges.run([&] { REQUIRE(n->try_charge(100)); });
        refunds.run([&] { REQUIRE(n->try_refund(50)); });
        REQUIRE(!n->try_refund(51));
        REQUIRE(n->info().held == 50);
        REQUIRE(n->try_refund(50));
        REQUIRE(root->info().held == 0);
        REQUIRE(!n->try_refund(1));
    }
}

TEST_CASE("a node that is destroyed refunds the stocks of its threads", "[guard][ledger]") {
    node const root = root_of(100);
    worker other;
    other.run([&] {
        node const n = child_of(root);
        REQUIRE(n->try_charge(100));
        REQUIRE(n->try_refund(100));
    });
    REQUIRE(root->info().held == 0);
    REQUIRE(root->try_charge(100));
    REQUIRE(root->try_refund(100));
}

TEST_CASE("a ledger agrees with a naive model over random trees", "[guard][ledger]") {
    // Several threads take turns, so that the stocks of each are in the way of the others.
    int const trees = support::rounds(100);
    constexpr int steps = 10'000;
    std::vector<worker> workers(3);
    for (int seed = 0; seed != trees; ++seed) {
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        std::vector<node> real{root_of(1000)};
        std::vector<std::unique_ptr<naive>> model;
        model.push_back(std::make_unique<naive>(naive{1000, nullptr}));
        std::size_t const nodes = 2 + below(7);
        for (std::size_t i = 1; i != nodes; ++i) {
            std::size_t const parent = below(i);
            std::size_t const limit = below(4) == 0 ? unlimited : 100 + below(1000);
            real.push_back(child_of(real[parent], limit));
            model.push_back(std::make_unique<naive>(naive{limit, model[parent].get()}));
        }

        bool agrees = true;
        auto const step = [&](int number) {
            std::size_t const at = below(real.size());
            std::size_t const bytes = below(3) == 0 ? below(1100) : below(60);
            if (below(100) == 0) {
                real[at]->reset_peak();
                model[at]->peak = model[at]->held;
            } else if (below(2) == 0) {
                agrees &= real[at]->try_charge(bytes) == model[at]->charge(bytes);
            } else {
                agrees &= real[at]->try_refund(bytes) == model[at]->refund(bytes);
            }
            for (std::size_t i = 0; i != real.size() && number % 7 == 0; ++i) {
                cuota::budget_info const now = real[i]->info();
                agrees &= now.held == model[i]->held && now.peak == model[i]->peak &&
                          real[i]->available() == model[i]->available() &&
                          real[i]->charged_here() == model[i]->own;
            }
        };
        for (int done = 0; done < steps;) {
            int const turn = 1 + static_cast<int>(below(60));
            workers[below(workers.size())].run([&] {
                for (int i = 0; i != turn; ++i) step(done + i);
            });
            done += turn;
        }
        REQUIRE(agrees);
        for (std::size_t i = 0; i != real.size(); ++i) {
            REQUIRE(real[i]->info().held == model[i]->held);
            REQUIRE(real[i]->info().peak == model[i]->peak);
            while (model[i]->own != 0) {
                std::size_t const some = 1 + below(model[i]->own);
                REQUIRE(real[i]->try_refund(some));
                REQUIRE(model[i]->refund(some));
            }
        }
        REQUIRE(real[0]->info().held == 0);
    }
}

TEST_CASE("charges that always fit are never refused beside charges that never fit", "[guard][ledger]") {
    // Two threads charge up to 400 bytes each at two children of a budget of 1000; two more request charges that never fit.
    node const root = root_of(1000);
    std::vector<node> const children{child_of(root), child_of(root, 400), child_of(root)};
    constexpr int rounds = 100'000;
    std::atomic<int> falsely = 0;
    std::atomic<int> wrongly = 0;
    std::atomic<bool> over = false;
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            std::size_t held = 0;
            ledger& mine = *children[static_cast<std::size_t>(t)];
            for (int i = 0; i != rounds; ++i) {
                std::size_t const bytes = random() % 200;
                if (held + bytes <= 400) {
                    if (mine.try_charge(bytes)) held += bytes;
                    else ++falsely;
                } else {
                    if (!mine.try_refund(held)) ++wrongly;
                    held = 0;
                }
                if (root->info().peak > 800) over = true;
            }
            if (!mine.try_refund(held)) ++wrongly;
        });
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i != rounds; ++i) {
                if (root->try_charge(1001)) ++wrongly;
                if (children[2]->try_charge(unlimited)) ++wrongly;
            }
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(falsely == 0);
    REQUIRE(wrongly == 0);
    REQUIRE(!over);
    REQUIRE(root->info().held == 0);
}

TEST_CASE("threads that fill a budget to the last byte never exceed its limit", "[guard][ledger]") {
    // The threads count the held bytes themselves, before a refund and after a charge. So counted <= held, and held must not exceed the
    // limit.
    node const root = root_of(100);
    node const n = child_of(root, 90);
    std::atomic<std::size_t> counted = 0;
    std::atomic<bool> over = false;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            ledger& at = t % 2 == 0 ? *root : *n;
            std::vector<std::size_t> mine;
            // Only successful charges count, because a thread that holds all bytes may be descheduled for long.
            for (int charged = 0; charged != 10'000;) {
                std::size_t const bytes = 1 + random() % 40;
                if (mine.size() < 4 && at.try_charge(bytes)) {
                    mine.push_back(bytes);
                    ++charged;
                    if ((counted += bytes) > 100) over = true;
                } else if (!mine.empty()) {
                    counted -= mine.back();
                    if (!at.try_refund(mine.back())) over = true;
                    mine.pop_back();
                }
            }
            for (std::size_t const bytes : mine) {
                counted -= bytes;
                if (!at.try_refund(bytes)) over = true;
            }
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(!over);
    REQUIRE(root->info().peak <= 100);
    REQUIRE(n->info().peak <= 90);
    REQUIRE(root->info().held == 0);
    REQUIRE(n->info().held == 0);
}
