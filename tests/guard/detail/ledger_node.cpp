// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Relations of the nodes of a tree. Charges by many threads are tested in ledger.cpp.
#include <cuota/guard/detail/ledger_node.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/detail/ledger.hpp>

#include "support/catch.hpp"
#include "support/worker.hpp"

using cuota::unlimited;
using cuota::detail::ledger;
using cuota::detail::ledger_node;
using node = cuota::detail::intrusive_ptr<ledger>;
using support::worker;

namespace {

node root_of(std::size_t limit) { return node::make("root", limit, node{}); }
node child_of(node const& parent, std::size_t limit = unlimited) {
    return node::make("child", limit, parent);
}

// Records all notifications.
class notebook final : public cuota::detail::usage_observer {
public:
    [[nodiscard]] bool note(cuota::detail::usage_sample const& now) noexcept override {
        held.push_back(now.held);
        limits.push_back(now.limit);
        return false;
    }
    void deliver() noexcept override {}

    std::vector<std::size_t> held;
    std::vector<std::size_t> limits;
};

}  // namespace

TEST_CASE("a parent cannot refund bytes that a child holds", "[guard][ledger_node]") {
    node const root = root_of(100);
    node const n = child_of(root);
    REQUIRE(n->try_charge(60));
    REQUIRE(root->try_charge(10));
    REQUIRE(root->charged_here() == 10);
    REQUIRE(!root->try_refund(11));
    REQUIRE(root->info().held == 70);
    REQUIRE(root->try_refund(10));
    REQUIRE(n->try_refund(60));
}

TEST_CASE("a parent cannot refund bytes of a prepaid node", "[guard][ledger_node]") {
    node const root = root_of(100);
    REQUIRE(root->try_charge(10));
    node const prepaid = ledger::prepaid("reservation", root);
    REQUIRE(!prepaid->fund(50).refuser);
    REQUIRE(!root->try_refund(11));
    auto const refused = prepaid->fund(41);
    REQUIRE(refused.refuser == root.get());
    REQUIRE(refused.missing == 1);
    REQUIRE(prepaid->info().limit == 50);
    worker first;
    worker second;
    first.run([&] { REQUIRE(prepaid->try_charge(30)); });
    second.run([&] { REQUIRE(prepaid->try_charge(20)); });
    first.run([&] { REQUIRE(prepaid->try_refund(40)); });
    REQUIRE(!prepaid->try_unfund(41));
    REQUIRE(prepaid->try_unfund(40));
    REQUIRE(root->info().held == 20);
    prepaid->settle();
    REQUIRE(prepaid->try_refund(5));
    REQUIRE(root->info().held == 15);
    REQUIRE(!prepaid->try_charge(1));
    REQUIRE(prepaid->try_refund(5));
    REQUIRE(root->try_refund(10));
    REQUIRE(root->info().held == 0);
}

TEST_CASE("a refusal of the largest sizes does not overflow", "[guard][ledger_node]") {
    node const root = root_of(unlimited);
    node const n = child_of(root, unlimited - 1);
    REQUIRE(n->try_charge(unlimited - 1));
    REQUIRE(n->try_refund(10));
    worker other;
    other.run([&] {
        REQUIRE(!n->try_charge(unlimited));
        REQUIRE(!n->try_charge(unlimited - 1));
        REQUIRE(!n->try_charge(11));
        REQUIRE(root->try_charge(11));
        REQUIRE(!root->try_charge(1));
        REQUIRE(!root->try_refund(12));
        REQUIRE(!root->try_refund(unlimited));
        REQUIRE(root->try_refund(11));
    });
    REQUIRE(n->try_charge(10));
    REQUIRE(!n->try_charge(1));
    REQUIRE(n->try_refund(unlimited - 1));
    REQUIRE(root->info().held == 0);
}

TEST_CASE("each level refuses until enough bytes are refunded", "[guard][ledger_node]") {
    node const root = root_of(100);
    node const middle = child_of(root, 80);
    node const leaf = child_of(middle, 60);
    REQUIRE(root->try_charge(90));
    for (int i = 0; i != 3; ++i) REQUIRE(!leaf->try_charge(11));  // refused by root
    REQUIRE(leaf->try_charge(10));
    REQUIRE(root->try_refund(90));
    for (int i = 0; i != 3; ++i) REQUIRE(!leaf->try_charge(51));  // refused by leaf
    REQUIRE(leaf->try_charge(40));
    REQUIRE(middle->try_charge(20));
    for (int i = 0; i != 3; ++i) REQUIRE(!leaf->try_charge(11));  // refused by middle
    REQUIRE(middle->try_refund(20));
    REQUIRE(leaf->try_charge(10));
    REQUIRE(leaf->try_refund(60));
    REQUIRE(root->info().held == 0);
}

TEST_CASE("refunds stop at a prepaid node, and pass it once it was settled", "[guard][ledger_node]") {
    node const root = root_of(100);
    node const prepaid = ledger::prepaid("reservation", root);
    node const leaf = child_of(prepaid);
    REQUIRE(!prepaid->fund(50).refuser);

    CHECK(leaf->is_under(*root));
    CHECK(leaf->refunds_to(*prepaid));
    CHECK_FALSE(leaf->refunds_to(*root));
    CHECK(leaf->refunds_in(*prepaid));
    CHECK_FALSE(leaf->refunds_in(*root));
    CHECK_FALSE(root->is_under(*leaf));

    prepaid->settle();
    CHECK_FALSE(leaf->refunds_in(*prepaid));
    CHECK(leaf->refunds_in(*root));
}

TEST_CASE("look_up visits all levels at one instant, and returns the node that would refuse",
          "[guard][ledger_node]") {
    node const root = root_of(100);
    node const middle = child_of(root, 80);
    node const leaf = child_of(middle, 90);
    worker other;
    other.run([&] {
        REQUIRE(leaf->try_charge(50));
        REQUIRE(leaf->try_refund(30));  // cached in that thread's stock
    });
    std::vector<std::pair<ledger_node const*, std::size_t>> seen;
    auto const see = [&](ledger_node const& at, cuota::budget_info const& now) {
        seen.emplace_back(&at, now.held);
    };

    CHECK(leaf->look_up(60, see) == nullptr);
    CHECK(seen == std::vector<std::pair<ledger_node const*, std::size_t>>{
                      {leaf.get(), 20}, {middle.get(), 20}, {root.get(), 20}});
    CHECK(leaf->look_up(61, see) == middle.get());
    CHECK(leaf->look_up(81, see) == leaf.get());  // the first refusing node on the way up
    CHECK(leaf->available() == 60);
    CHECK(middle->shortfall_for(70) == 10);
    other.run([&] { REQUIRE(leaf->try_refund(20)); });
}

TEST_CASE("an observer is notified of the current figures, and of each change of the node and below",
          "[guard][ledger_node]") {
    node const root = root_of(100);
    node const leaf = child_of(root);
    REQUIRE(leaf->try_charge(30));
    REQUIRE(leaf->try_refund(10));  // kept in this thread's stock, but not while a usage_observer is joined
    notebook notes;
    root->join(notes);
    REQUIRE(leaf->try_charge(5));
    REQUIRE(leaf->try_refund(25));
    CHECK(root->set_limit(200));
    CHECK_FALSE(root->set_limit(90));
    root->leave(notes);
    REQUIRE(leaf->try_charge(1));
    REQUIRE(leaf->try_refund(1));

    CHECK(notes.held == std::vector<std::size_t>{20, 25, 0, 0, 0});
    CHECK(notes.limits == std::vector<std::size_t>{100, 100, 100, 200, 90});
}

TEST_CASE("a limit below the held bytes refuses all charges and keeps the held bytes",
          "[guard][ledger_node]") {
    node const root = root_of(100);
    REQUIRE(root->try_charge(60));
    CHECK_FALSE(root->set_limit(50));
    CHECK(root->info().held == 60);
    CHECK(root->available() == 0);
    CHECK(root->shortfall_for(5) == 15);
    CHECK_FALSE(root->try_charge(1));
    REQUIRE(root->try_refund(11));
    CHECK(root->try_charge(1));
    REQUIRE(root->try_refund(50));
}

TEST_CASE("charged_here is the sum of what all threads have charged at the node", "[guard][ledger_node]") {
    node const root = root_of(100);
    node const left = child_of(root);
    std::vector<worker> threads(3);
    for (worker& w : threads)
        w.run([&] {
            REQUIRE(left->try_charge(20));
            REQUIRE(left->try_refund(10));
            REQUIRE(left->try_charge(5));
        });
    CHECK(left->charged_here() == 45);
    CHECK(root->charged_here() == 0);
    CHECK(root->info().held == 45);
    REQUIRE(left->try_refund(45));
    CHECK(left->charged_here() == 0);
}
