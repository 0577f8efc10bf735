// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/budget_observer.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/sink.hpp"

using namespace cuota::literals;

namespace {

class listener final : public cuota::detail::budget_observer {
public:
    void refused(cuota::detail::ledger_node const& requested,
                 cuota::out_of_memory const& why) noexcept override {
        all.push_back("refused " + requested.name() + ' ' + std::to_string(why.info().charged));
    }
    void reclaimed(cuota::detail::ledger_node const& requested,
                   cuota::reclaimer_info const& who) noexcept override {
        all.push_back("reclaimed " + requested.name() + ' ' + who.name + ' ' + std::to_string(who.released));
    }
    void holds(cuota::detail::ledger_node const& of,
               cuota::detail::held_piece const& what) noexcept override {
        all.push_back("holds " + of.name() + ' ' + what.name.text() + ' ' + std::to_string(what.bytes));
    }
    void joined(cuota::detail::ledger_node const& of,
                cuota::detail::reclaimable_holder& who) noexcept override {
        all.push_back("joined " + of.name() + ' ' + who.title());
    }

    std::vector<std::string> all;
};

using lines = std::vector<std::string>;

cuota::detail::intrusive_ptr<listener> listen_to(cuota::budget const& b) {
    auto const made = cuota::detail::intrusive_ptr<listener>::make();
    cuota::detail::budget_access::node(b).join(
        cuota::detail::intrusive_ptr<cuota::detail::budget_observer>::of(*made));
    return made;
}
void leave(cuota::budget const& b, cuota::detail::intrusive_ptr<listener> const& l) {
    cuota::detail::budget_access::node(b).leave(*l);
}

}  // namespace

TEST_CASE("budget_observer is notified of refusals of its budget and of those below",
          "[guard][budget_observer]") {
    cuota::budget root{"root", 100};
    cuota::budget left{"left", 50, root};
    cuota::budget right{"right", 80, root};
    auto const of_root = listen_to(root);
    auto const of_left = listen_to(left);
    REQUIRE_THROWS_AS(left.charge(60), cuota::budget_exceeded);
    REQUIRE_THROWS_AS(right.charge(90), cuota::budget_exceeded);
    right.charge(80);
    REQUIRE_THROWS_AS(left.charge(30), cuota::budget_exceeded);  // refused by root
    right.refund(80);
    REQUIRE(of_root->all == lines{"refused left 60", "refused right 90", "refused left 30"});
    REQUIRE(of_left->all == lines{"refused left 60", "refused left 30"});

    leave(left, of_left);
    leave(right, of_root);  // it was not joined there
    REQUIRE_THROWS_AS(left.charge(60), cuota::budget_exceeded);
    REQUIRE(of_left->all.size() == 2);
    REQUIRE(of_root->all.size() == 4);
    leave(root, of_root);
    REQUIRE_THROWS_AS(left.charge(60), cuota::budget_exceeded);
    REQUIRE(of_root->all.size() == 4);
    REQUIRE(of_root->ref_count() == 1);
}

TEST_CASE("budget_observer is notified of reclaimers and of the bytes that they release",
          "[guard][budget_observer]") {
    cuota::budget root{"root", 100};
    auto const told = listen_to(root);
    std::size_t cached = 70;
    cuota::reclaimer const cache{root, "cache", [&](std::size_t) { return cached; },
                                 [&](std::size_t wanted) {
                                     std::size_t const given = std::min(wanted, cached);
                                     cached -= given;
                                     root.refund(given);
                                     return given;
                                 }};
    root.charge(70);
    root.charge(60);
    REQUIRE(told->all.size() == 2);
    REQUIRE(told->all[0].starts_with("joined root "));
    REQUIRE(told->all[1] == "reclaimed root cache 30");
    leave(root, told);
    root.refund(60);
    root.refund(40);
}

TEST_CASE("budget_observer is notified of new pools and of refusals by upstream",
          "[guard][budget_observer]") {
    cuota::budget root{"root", 100_MiB};
    auto const told = listen_to(root);
    cuota::stream stream;
    {
        // The budget grants the request, and the pool's upstream refuses it.
        cuota::budget const small{"small", 1_MiB};
        cuota::scoped_pool source{small};
        cuota::scoped_pool pool{root, source.resource(), {.name = "p"}};
        REQUIRE(told->all == lines{"joined root pool p"});
        REQUIRE_THROWS_AS(pool.allocate(stream, 50_MiB), cuota::out_of_memory);
        REQUIRE(told->all.back() == "refused root 52428800");
    }
    leave(root, told);
}

TEST_CASE("look_down visits all live budgets below a node, parents first", "[guard][budget_observer]") {
    cuota::budget root{"root", 100};
    cuota::budget left{"left", 50, root};
    auto const names = [](cuota::budget const& b) {
        std::string all;
        cuota::detail::budget_access::node(b).look_down(
            [&](cuota::detail::ledger_node const& node, cuota::budget_info facts) {
                all += facts.name + ':' + std::to_string(facts.held) + ' ';
                REQUIRE(node.name() == facts.name);
            });
        return all;
    };
    left.charge(7);
    {
        cuota::budget const leaf{"leaf", 10, left};
        auto const reserved = root.reserve(20, "r");
        REQUIRE(names(root) == "root:27 left:7 leaf:0 r:0 ");
        REQUIRE(names(left) == "left:7 leaf:0 ");
    }
    REQUIRE(names(root) == "root:7 left:7 ");
    left.refund(7);
    cuota::budget const other{"other", 1};
    REQUIRE(cuota::detail::budget_access::node(other).id() != cuota::detail::budget_access::node(root).id());
}
