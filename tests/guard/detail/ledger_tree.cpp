// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/ledger_tree.hpp>

#include "support/catch.hpp"

using cuota::detail::figure;
using cuota::detail::intrusive_ptr;
using cuota::detail::ledger_change;
using cuota::detail::ledger_tree;

namespace {

struct looker final : cuota::detail::usage_observer {
    explicit looker(intrusive_ptr<ledger_tree> of) : tree{std::move(of)} {}
    bool note(cuota::detail::usage_sample const&) noexcept override { return true; }
    void deliver() noexcept override {
        version = tree->version.now();
        was_free = tree->guard.try_lock();
        if (was_free) tree->guard.unlock();
        tree = {};
    }

    intrusive_ptr<ledger_tree> tree;
    std::size_t version = 0;
    bool was_free = false;
};

}  // namespace

TEST_CASE("a figure behaves as an integer", "[guard][ledger_tree]") {
    figure f{7};
    f += 5;
    f -= 2;
    REQUIRE(f == 10u);
    f = 3;
    REQUIRE(f + 1 == 4u);
}

TEST_CASE("the version of a tree is odd during a change, and greater afterwards", "[guard][ledger_tree]") {
    auto const tree = intrusive_ptr<ledger_tree>::make();
    std::size_t const before = tree->version.now();
    REQUIRE(before % 2 == 0);
    {
        ledger_change const change{*tree};
        REQUIRE(tree->version.now() % 2 == 1);
    }
    REQUIRE(tree->version.now() > before);
    REQUIRE(tree->version.now() % 2 == 0);
}

TEST_CASE("observers are called after the change, even if the tree is destroyed by them",
          "[guard][ledger_tree]") {
    auto tree = intrusive_ptr<ledger_tree>::make();
    ledger_tree& shared_by_nodes = *tree;
    looker o{std::move(tree)};  // the last owner of the tree
    {
        ledger_change const change{shared_by_nodes};
        shared_by_nodes.due = &o;
    }
    REQUIRE(o.was_free);
    REQUIRE(o.version % 2 == 0);
}
