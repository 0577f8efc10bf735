// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budget_alert.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/detail/ledger.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/look_until.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace std::chrono_literals;
using cuota::alert_event;
using cuota::alert_options;
using cuota::alert_signal;
using cuota::alert_threshold;
using cuota::budget;
using cuota::budget_alert;
using cuota::unlimited;
using support::thrown;

namespace {

using levels = std::vector<alert_threshold>;

// "+1@60" means that threshold 1 was reached with 60 bytes held; "-" means that it was left again, "T" stands for the time to the limit.
std::string text_of(alert_event const& e) {
    return (e.rising ? "+" : "-") +
           (e.signal == alert_signal::threshold ? std::to_string(e.index) : std::string{"T"}) + '@' +
           std::to_string(e.held);
}

// Events of an alert; read by one thread.
struct notes {
    std::vector<alert_event> events{};

    [[nodiscard]] auto callback() {
        return [this](alert_event const& e) { events.push_back(e); };
    }
    [[nodiscard]] std::string take() {
        std::string all;
        for (alert_event const& e : events) all += (all.empty() ? "" : " ") + text_of(e);
        events.clear();
        return all;
    }
};

constexpr alert_options with_falling() {
    alert_options options;
    options.falling = true;
    return options;
}

std::atomic<std::chrono::nanoseconds::rep> fake_now = 0;
std::chrono::steady_clock::time_point fake_clock() noexcept {
    return std::chrono::steady_clock::time_point{std::chrono::nanoseconds{fake_now.load()}};
}
void pass(std::chrono::nanoseconds time) { fake_now += time.count(); }

template <class Action>
void on_another_thread(Action action) {
    std::thread{action}.join();
}

void nothing(alert_event const&) {}

}  // namespace

TEST_CASE("a charge that reaches a threshold calls once, with all figures of that instant",
          "[guard][budget_alert]") {
    fake_now = 5'000'000'000;
    budget b{"b", 100};
    notes seen;
    alert_options options;
    options.clock = fake_clock;
    budget_alert const w{b, {60, 80}, 10, seen.callback(), options};
    b.charge(50);
    b.refund(20);
    REQUIRE(seen.events.empty());
    b.charge(31, "weights", {"train.cpp", 17});
    b.charge(1);
    REQUIRE(seen.events.size() == 1);
    alert_event const& e = seen.events[0];
    REQUIRE(e.budget == "b");
    REQUIRE(e.signal == alert_signal::threshold);
    REQUIRE(e.rising);
    REQUIRE(e.index == 0);
    REQUIRE(e.threshold == 60);
    REQUIRE(e.held == 61);
    REQUIRE(e.limit == 100);
    REQUIRE(e.peak == 61);
    REQUIRE(e.free() == 39);
    REQUIRE(e.number == 1);
    REQUIRE(e.missed == 0);
    REQUIRE(e.time == fake_clock());
    REQUIRE(e.growth == 0);
    REQUIRE(!e.time_to_limit);
    REQUIRE(e.charge_tag == cuota::tag{"weights"});
    REQUIRE(std::string{e.charge_site.file} == "train.cpp");
    REQUIRE(e.charge_site.line == 17);
    b.refund(62);
}

TEST_CASE("a threshold is reached at its byte, and re-armed after a decrease by the hysteresis",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    budget_alert const w{b, {60}, 10, seen.callback(), with_falling()};
    b.charge(59);
    REQUIRE(seen.take().empty());
    b.charge(1);
    REQUIRE(seen.take() == "+0@60");
    b.refund(9);
    b.charge(30);
    REQUIRE(seen.take().empty());
    b.refund(31);
    REQUIRE(seen.take() == "-0@50");
    b.charge(10);
    REQUIRE(seen.take() == "+0@60");
    b.refund(60);
    REQUIRE(seen.take() == "-0@0");
}

TEST_CASE("falling below a threshold is reported only if the option falling is set",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    budget_alert const w{b, {60}, 10, seen.callback()};
    for (int i = 0; i != 3; ++i) {
        b.charge(60);
        b.refund(60);
    }
    REQUIRE(seen.take() == "+0@60 +0@60 +0@60");
}

TEST_CASE("one charge that crosses three thresholds makes three calls, from the lowest",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    budget_alert const w{b, {1, 50, 100}, 1, seen.callback(), with_falling()};
    b.charge(100);
    REQUIRE(seen.take() == "+0@100 +1@100 +2@100");
    b.refund(100);
    REQUIRE(seen.take() == "-2@0 -1@0 -0@0");
}

TEST_CASE("thresholds that were crossed earlier are reported when the alert is constructed",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    b.charge(70);
    notes seen;
    budget_alert const w{b, {50, 70, 90}, 10, seen.callback()};
    REQUIRE(seen.take() == "+0@70 +1@70");
    b.refund(70);
}

TEST_CASE("a refused charge crosses no threshold", "[guard][budget_alert]") {
    budget root{"root", 100};
    budget b{"b", 1000, root};
    notes seen;
    budget_alert const w{b, {1}, 1, seen.callback(), with_falling()};
    REQUIRE(!b.try_charge(101));
    REQUIRE_THROWS_AS(b.charge(101), cuota::budget_exceeded);
    REQUIRE(seen.take().empty());
}

TEST_CASE("shares are relative to the current limit", "[guard][budget_alert]") {
    budget b{"b", 1000};
    cuota::reservation r = b.reserve(100);
    budget inside = r.as_budget();
    notes seen;
    budget_alert const w{inside, {0.5, 1.0}, 0.07, seen.callback(), with_falling()};
    inside.charge(50);
    REQUIRE(seen.events.at(0).threshold == 50);
    REQUIRE(seen.take() == "+0@50");
    r.grow(8);
    REQUIRE(seen.take().empty());  // it would be re-armed at 46 bytes
    r.grow(16);
    REQUIRE(seen.take() == "-0@50");  // re-armed at 62 - 9
    r.shrink(74);
    REQUIRE(seen.take() == "+0@50 +1@50");
    inside.refund(50);
    REQUIRE(seen.take() == "-1@0 -0@0");
}

TEST_CASE("a share of a limit of 0 is never reached", "[guard][budget_alert]") {
    budget b{"b", 0};
    notes seen;
    budget_alert const w{b, {0.001, 1.0}, 0.001, seen.callback()};
    REQUIRE(b.try_charge(0));
    REQUIRE(!b.try_charge(1));
    REQUIRE(seen.take().empty());
}

TEST_CASE("a changed limit can cross a threshold", "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    budget_alert const w{b, {0.8}, 0.1, seen.callback(), with_falling()};
    b.charge(50);
    cuota::detail::budget_access::node(b).set_limit(60);
    REQUIRE(seen.take() == "+0@50");
    cuota::detail::budget_access::node(b).set_limit(100);
    REQUIRE(seen.take() == "-0@50");
    cuota::detail::budget_access::node(b).set_limit(0);
    REQUIRE(seen.take() == "+0@50");
    b.refund(50);
    REQUIRE(seen.take() == "-0@0");
}

TEST_CASE("the largest sizes can be thresholds", "[guard][budget_alert]") {
    budget b{"b", unlimited};
    notes seen;
    budget_alert const w{b, {unlimited - 1, unlimited}, unlimited - 1, seen.callback(), with_falling()};
    b.charge(unlimited);
    REQUIRE(seen.events.size() == 2);
    REQUIRE(seen.events[1].threshold == unlimited);
    b.refund(unlimited - 1);
    REQUIRE(seen.events.size() == 3);
    REQUIRE(!seen.events[2].rising);
    REQUIRE(seen.events[2].index == 1);
    b.refund(1);
    REQUIRE(seen.events.size() == 4);

    budget huge{"huge", unlimited - 1};
    notes shares;
    budget_alert const s{huge, {1.0}, 0.5, shares.callback()};
    huge.charge(unlimited - 2);
    REQUIRE(shares.events.empty());
    huge.charge(1);
    REQUIRE(shares.events.size() == 1);
    huge.refund(unlimited - 1);
}

TEST_CASE("invalid thresholds are misuse, and the error names them", "[guard][budget_alert]") {
    budget const b{"b", 100};
    auto const refused = [&](levels thresholds, alert_threshold hysteresis,
                             alert_options const& options = {}) {
        return std::string{thrown<cuota::usage_error>([&] {
                               (void)budget_alert{b, std::move(thresholds), hysteresis, nothing, options};
                           }).what()};
    };
    double const nan = std::numeric_limits<double>::quiet_NaN();
    REQUIRE(refused({}, 1) ==
            "cuota::usage_error: alert of budget b: no threshold; pass one, or set time_to_limit");
    REQUIRE(refused({0}, 1) ==
            "cuota::usage_error: alert of budget b: threshold 0 bytes: must be at least 1");
    REQUIRE(refused({0.0}, 0.1) ==
            "cuota::usage_error: alert of budget b: threshold 0 is out of range (0, 1]");
    REQUIRE(support::has(refused({nan}, 0.1), "threshold nan is out of range"));
    REQUIRE(support::has(refused({0.5, nan}, 0.1), "threshold nan is out of range"));
    REQUIRE(support::has(refused({0.5, 1.5}, 0.1), "threshold 1.5 is out of range"));
    REQUIRE(support::has(refused({-0.5}, 0.1), "threshold -0.5 is out of range"));
    REQUIRE(support::has(refused({50, 40}, 1), "40 bytes after 50 bytes: thresholds must ascend"));
    REQUIRE(support::has(refused({50, 50}, 1), "50 bytes after 50 bytes: thresholds must ascend"));
    REQUIRE(support::has(refused({0.5, 0.5}, 0.1), "thresholds must ascend"));
    REQUIRE(support::has(refused({0.5, 80}, 0.1), "80 bytes beside 0.5"));
    REQUIRE(support::has(refused({50}, 0.1), "hysteresis 0.1 beside 50 bytes"));
    REQUIRE(support::has(refused({50}, 0), "hysteresis 0 bytes: must be"));
    REQUIRE(support::has(refused({0.5}, nan), "hysteresis nan is out of range"));
    REQUIRE(support::has(refused({50, 60}, 51), "hysteresis 51 bytes exceeds threshold 50"));
    REQUIRE(support::has(thrown<cuota::usage_error>([] { (void)alert_threshold{-5}; }).what(), "-5"));

    alert_options options;
    options.half_life = 0s;
    REQUIRE(support::has(refused({50}, 1, options), "half_life must be positive"));
    options = {};
    options.clock = nullptr;
    REQUIRE(support::has(refused({50}, 1, options), "clock is empty"));
    options = {};
    options.time_to_limit = 0s;
    REQUIRE(support::has(refused({}, 1, options), "time_to_limit must be positive"));
    REQUIRE(support::has(thrown<cuota::usage_error>([&] {
                             (void)budget_alert{b, {50}, 1, nullptr};
                         }).what(),
                         "callback is empty"));

    REQUIRE_NOTHROW(budget_alert{b, {50}, 50, nothing});
    REQUIRE_NOTHROW(budget_alert{b, {1.0}, 1.0, nothing});
}

TEST_CASE("shares of a budget without limit are misuse", "[guard][budget_alert]") {
    budget const b{"b", unlimited};
    REQUIRE(support::has(thrown<cuota::usage_error>([&] {
                             (void)budget_alert{b, {0.5}, 0.1, nothing};
                         }).what(),
                         "threshold 0.5 is relative, but the budget has no limit"));
    alert_options options;
    options.time_to_limit = 1s;
    REQUIRE(support::has(thrown<cuota::usage_error>([&] {
                             (void)budget_alert{b, {50}, 1, nothing, options};
                         }).what(),
                         "time_to_limit requires a budget with a limit"));
}

TEST_CASE("an alert observes charges at every level below, and reservations when they are made",
          "[guard][budget_alert]") {
    budget root{"root", 1000};
    budget middle{"middle", unlimited, root};
    budget leaf{"leaf", unlimited, middle};
    budget aside{"aside", unlimited, root};
    notes at_root;
    notes at_middle;
    budget_alert const w{root, {100}, 50, at_root.callback(), with_falling()};
    budget_alert const v{middle, {100}, 50, at_middle.callback(), with_falling()};
    leaf.charge(100);
    REQUIRE(at_middle.take() == "+0@100");
    REQUIRE(at_root.take() == "+0@100");
    leaf.refund(100);
    aside.charge(100);
    REQUIRE(at_middle.take() == "-0@0");
    REQUIRE(at_root.take() == "-0@0 +0@100");
    aside.refund(100);
    REQUIRE(at_root.take() == "-0@0");
    {
        cuota::reservation const r = leaf.reserve(100, "ahead", {"train.cpp", 3});
        REQUIRE(at_root.events.at(0).charge_tag == cuota::tag{"ahead"});
        REQUIRE(at_root.take() == "+0@100");
        r.as_budget().charge(100);
        r.as_budget().refund(100);
        REQUIRE(at_root.take().empty());
    }
    REQUIRE(at_root.take() == "-0@0");
    REQUIRE(at_middle.take() == "+0@100 -0@0");
}

TEST_CASE("spent bytes of a destroyed reservation count until they are refunded", "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    budget_alert const w{b, {10, 90}, 10, seen.callback(), with_falling()};
    std::optional<cuota::reservation> r = b.reserve(90);
    budget inside = r->as_budget();
    inside.charge(30);
    REQUIRE(seen.take() == "+0@90 +1@90");
    r.reset();
    REQUIRE(seen.take() == "-1@30");
    inside.refund(20);
    REQUIRE(seen.take().empty());
    inside.refund(10);
    REQUIRE(seen.take() == "-0@0");
}

TEST_CASE("an alert revokes the stocks of threads, which may have stocks again after its destruction",
          "[guard][budget_alert]") {
    budget root{"root", 100};
    budget b{"b", unlimited, root};
    cuota::detail::ledger& node = cuota::detail::budget_access::node(b);
    on_another_thread([&] {
        b.charge(90);
        b.refund(90);
    });
    b.charge(5);
    b.refund(5);
    REQUIRE(node.try_charge_alone(5));
    notes seen;
    {
        budget_alert const w{root, {6}, 1, seen.callback()};
        REQUIRE(seen.events.empty());
        REQUIRE(!node.try_charge_alone(0));
        on_another_thread([&] {
            b.charge(1);
            b.refund(1);
        });
        REQUIRE(seen.take() == "+0@6");
        REQUIRE(!node.try_charge_alone(0));
    }
    for (int i = 0; i != 2000 && !node.try_charge_alone(0); ++i) {
        b.charge(1);
        b.refund(1);
    }
    REQUIRE(node.try_charge_alone(0));
    b.refund(5);
    REQUIRE(root.held() == 0);
}

TEST_CASE("charges and refunds do not allocate host memory for an alert", "[guard][budget_alert]") {
    budget b{"b", 100};
    std::size_t calls = 0;
    budget_alert const w{b, {50}, 10, [&](alert_event const&) { ++calls; }, with_falling()};
    b.charge(1);
    std::size_t refused = 0;
    {
        support::failing_heap const none{0};
        for (int i = 0; i != 100; ++i) {
            (void)b.try_charge(80);
            b.refund(80);
        }
        refused = none.refused();
    }
    REQUIRE(calls == 200);
    REQUIRE(refused == 0);
    b.refund(1);
}

TEST_CASE("an exception of a callback is reported to the error sink, and the next crossing calls again",
          "[guard][budget_alert]") {
    support::captured_errors errors;
    budget b{"b", 100};
    int calls = 0;
    budget_alert const w{b,
                         {50},
                         10,
                         [&](alert_event const& e) {
                             if (++calls == 1) throw std::runtime_error{"no"};
                             if (e.rising) throw 7;
                         },
                         with_falling()};
    REQUIRE(b.try_charge(50));
    REQUIRE(errors.take() == std::vector<std::string>{"no"});
    b.refund(50);
    REQUIRE(errors.take().empty());
    b.charge(50);
    REQUIRE(errors.count() == 1);
    b.refund(50);
    REQUIRE(calls == 4);
}

TEST_CASE("a callback may use budgets and alerts", "[guard][budget_alert]") {
    budget root{"root", 1000};
    budget b{"b", 100, root};
    std::string log;
    budget_alert const w{b, {50}, 10, [&](alert_event const& e) {
                             log += text_of(e) + ' ' + std::to_string(b.held()) + '/' +
                                    std::to_string(root.held()) + ' ';
                             budget inner{"inner", 10, b};
                             notes seen;
                             {
                                 budget_alert const v{inner, {5}, 5, seen.callback()};
                                 inner.charge(5);
                                 inner.refund(5);
                                 cuota::reservation r = b.reserve(5);
                                 r.grow(1);
                                 r.shrink(2);
                                 REQUIRE(!b.try_charge(100));
                                 REQUIRE_THROWS_AS(b.charge(100), cuota::budget_exceeded);
                                 b.reset_peak();
                             }
                             REQUIRE(seen.events.empty());  // it was destroyed before its turn
                         }};
    b.charge(60);
    REQUIRE(log == "+0@60 60/60 ");
    b.refund(60);
    REQUIRE(root.held() == 0);
}

TEST_CASE("crossings made by a callback are delivered after it has returned", "[guard][budget_alert]") {
    budget root{"root", 1000};
    budget b{"b", 100, root};
    std::string log;
    int depth = 0;
    auto const within = [&](std::string const& what, auto action) {
        ++depth;
        log += what;
        if (log.size() < 40) action();
        --depth;
        log += depth == 0 ? ". " : "!";
    };
    budget_alert const w{b, {50}, 10, [&](alert_event const& e) {
                             within(text_of(e), [&] {
                                 b.refund(60);
                                 root.charge(100);
                                 b.charge(60);
                             });
                         }};
    budget_alert const v{
        root, {100}, 10, [&](alert_event const& e) { within('r' + text_of(e), [&] { root.refund(100); }); }};
    b.charge(60);
    REQUIRE(log == "+0@60. +0@60. +0@60. +0@60. +0@60. +0@60. r+0@100. ");
    b.refund(60);
    root.refund(root.held());
}

TEST_CASE("one thread calls the alerts of several budgets one after the other", "[guard][budget_alert]") {
    // Each callback crosses the other's threshold. The calls alternate and are never nested.
    budget a{"a", unlimited};
    budget b{"b", unlimited};
    std::string log;
    bool is_in = false;
    bool was_nested = false;
    auto const plays = [&](char name, budget& mine, budget& other) {
        return [&, name](alert_event const&) {
            was_nested |= std::exchange(is_in, true);
            log += name;
            mine.refund(10);
            if (log.size() < 1000) other.charge(10);
            is_in = false;
        };
    };
    budget_alert const w{a, {10}, 10, plays('a', a, b)};
    budget_alert const v{b, {10}, 10, plays('b', b, a)};
    a.charge(10);
    std::string turns;
    for (int i = 0; i != 500; ++i) turns += "ab";
    REQUIRE(log == turns);
    REQUIRE(!was_nested);
}

TEST_CASE("the number of undelivered events is bounded, and the next call has the number of missed ones",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    std::vector<alert_event> seen;
    budget_alert const w{b, {50}, 10, [&](alert_event const& e) {
                             seen.push_back(e);
                             for (int i = 0; e.number == 1 && i != 100; ++i) {
                                 b.refund(50);
                                 b.charge(50);
                             }
                         }};
    b.charge(50);
    REQUIRE(seen.size() == 65);
    REQUIRE(seen[1].missed == 36);
    REQUIRE(seen[1].number == 38);
    for (std::size_t i = 2; i != seen.size(); ++i) {
        REQUIRE(seen[i].missed == 0);
        REQUIRE(seen[i].number == seen[i - 1].number + 1);
    }
    b.refund(50);
    b.charge(50);
    REQUIRE(seen.size() == 66);
    REQUIRE(seen.back().missed == 0);
    REQUIRE(seen.back().number == 102);
    b.refund(50);
}

TEST_CASE("an alert is not called after its destruction", "[guard][budget_alert]") {
    budget b{"b", 100};
    notes seen;
    {
        budget_alert const w{b, {50}, 10, seen.callback(), with_falling()};
        b.charge(50);
        REQUIRE(seen.take() == "+0@50");
    }
    b.refund(50);
    b.charge(50);
    REQUIRE(seen.take().empty());
    b.refund(50);
}

TEST_CASE("alerts of one budget may be destroyed in any order", "[guard][budget_alert]") {
    budget b{"b", 100};
    std::vector<notes> seen(3);
    for (std::size_t const last : {0U, 1U, 2U}) {
        std::vector<std::unique_ptr<budget_alert>> all;
        for (notes& n : seen) all.push_back(std::make_unique<budget_alert>(b, levels{50}, 10, n.callback()));
        all[(last + 1) % 3].reset();
        b.charge(50);
        REQUIRE(seen[last].take() == "+0@50");
        REQUIRE(seen[(last + 1) % 3].take().empty());
        REQUIRE(seen[(last + 2) % 3].take() == "+0@50");
        b.refund(50);
        all[(last + 2) % 3].reset();
        b.charge(50);
        REQUIRE(seen[last].take() == "+0@50");
        REQUIRE(seen[(last + 2) % 3].take().empty());
        b.refund(50);
    }
}

TEST_CASE("an alert that was moved continues, and assignment destroys the previous one",
          "[guard][budget_alert]") {
    static_assert(!std::is_copy_constructible_v<budget_alert> &&
                  std::is_nothrow_move_constructible_v<budget_alert>);
    budget b{"b", 100};
    notes first;
    notes second;
    budget_alert w{b, {50}, 10, first.callback()};
    budget_alert moved{std::move(w)};
    b.charge(50);
    b.refund(50);
    REQUIRE(first.take() == "+0@50");
    budget_alert other{b, {50}, 10, second.callback()};
    moved = std::move(other);
    b.charge(50);
    b.refund(50);
    REQUIRE(first.take().empty());
    REQUIRE(second.take() == "+0@50");
}

TEST_CASE("an alert keeps its budget alive", "[guard][budget_alert]") {
    notes seen;
    std::optional<budget> b{std::in_place, "b", 100};
    budget_alert const w{*b, {50}, 10, seen.callback()};
    b->charge(50);
    b.reset();
    REQUIRE(seen.events.at(0).budget == "b");
}

TEST_CASE("a callback may destroy its own alert, and is destroyed after it has returned",
          "[guard][budget_alert]") {
    budget b{"b", 100};
    std::optional<budget_alert> w;
    auto captured = std::make_shared<int>(0);
    std::weak_ptr<int> const alive = captured;
    int calls = 0;
    bool was_alive = false;
    w.emplace(b, levels{10, 20}, 10, [&, mine = std::move(captured)](alert_event const&) {
        ++calls;
        w.reset();
        b.refund(50);
        b.charge(50);
        was_alive = !alive.expired();
    });
    REQUIRE(!alive.expired());
    b.charge(50);
    REQUIRE(!w);
    REQUIRE(calls == 1);
    REQUIRE(was_alive);
    REQUIRE(alive.expired());
    b.refund(50);
}

TEST_CASE("a callback may destroy another alert before that one is called", "[guard][budget_alert]") {
    budget root{"root", 100};
    budget b{"b", 100, root};
    notes seen;
    std::optional<budget_alert> v;
    budget_alert const w{b, {50}, 10, [&](alert_event const&) { v.reset(); }};
    v.emplace(root, levels{50}, 10, seen.callback());
    b.charge(50);
    REQUIRE(seen.events.empty());
    b.refund(50);
}

TEST_CASE("the destructor of an alert waits for a call in another thread", "[guard][budget_alert]") {
    budget b{"b", 100};
    cuota::detail::ledger& node = cuota::detail::budget_access::node(b);
    std::atomic<bool> is_in = false;
    std::atomic<bool> has_returned = false;
    std::optional<budget_alert> w;
    w.emplace(b, levels{50}, 10, [&](alert_event const&) {
        is_in = true;
        is_in.notify_all();
        // Threads get stocks again once no watch is attached, which shows that the destructor has begun.
        while (!node.try_charge_alone(0)) {
            (void)node.try_charge(1);
            (void)node.try_refund(1);
        }
        for (int i = 0; i != 1000; ++i) std::this_thread::yield();
        has_returned = true;
    });
    std::thread crosses{[&] { b.charge(50); }};
    is_in.wait(false);
    w.reset();
    bool const waited = has_returned;
    crosses.join();
    REQUIRE(waited);
    b.refund(50);
}

TEST_CASE("the time to the limit is a separate signal, re-armed at twice the time", "[guard][budget_alert]") {
    fake_now = 0;
    budget b{"b", 10'000};
    notes seen;
    alert_options options = with_falling();
    options.clock = fake_clock;
    options.half_life = 1s;
    options.time_to_limit = 30s;
    budget_alert const w{b, {}, 1, seen.callback(), options};
    auto const grows = [&](std::size_t by, int seconds) {
        for (int i = 0; i != seconds; ++i) {
            b.charge(by);
            pass(1s);
        }
    };
    grows(50, 60);  // the limit would be reached in 200 to 140 seconds
    REQUIRE(seen.take().empty());
    grows(200, 10);  // at most 25 seconds
    REQUIRE(seen.events.size() == 1);
    REQUIRE(seen.events[0].signal == alert_signal::time_to_limit);
    REQUIRE(seen.events[0].rising);
    REQUIRE(seen.events[0].threshold == 10'000);
    REQUIRE(seen.events[0].growth > 100);
    REQUIRE(seen.events[0].time_to_limit->count() < 30);
    REQUIRE(seen.events[0].time_to_limit->count() ==
            static_cast<double>(seen.events[0].free()) / seen.events[0].growth);
    seen.events.clear();
    grows(110, 10);  // 3900 left at 110 per second: 35 seconds and more
    REQUIRE(seen.take().empty());
    grows(1, 20);
    REQUIRE(seen.events.size() == 1);
    REQUIRE(!seen.events[0].rising);
    seen.events.clear();
    pass(100s);
    grows(400, 6);
    REQUIRE(seen.events.size() == 1);
    REQUIRE(seen.events[0].rising);
    b.refund(b.held());
}

TEST_CASE("an alert may have both signals, and thresholds are delivered first", "[guard][budget_alert]") {
    fake_now = 0;
    budget b{"b", 1000};
    notes seen;
    alert_options options;
    options.clock = fake_clock;
    options.half_life = 1s;
    options.time_to_limit = 100s;
    budget_alert const w{b, {0.2}, 0.1, seen.callback(), options};
    b.charge(100);
    pass(1s);
    b.charge(100);
    REQUIRE(seen.take() == "+0@200 +T@200");
    b.refund(200);
}

TEST_CASE("alerts agree with a naive model over random trees, threads and reservations",
          "[guard][budget_alert]") {
    // Reference model of a tree of budgets and its watches.
    struct naive {
        std::size_t limit;
        naive* parent;  // charged as well
        naive* source;  // for a reservation: the budget that was charged for it
        std::size_t held = 0;
        std::size_t own = 0;
        bool is_over = false;  // an ended reservation, which passes refunds on to its source

        struct teller {
            std::vector<std::size_t> thresholds;
            std::size_t hysteresis;
            std::vector<bool> reached;
            std::string said;
        };
        std::vector<std::shared_ptr<teller>> watches{};

        void tell() {
            for (auto const& w : watches) {
                for (std::size_t i = 0; i != w->thresholds.size(); ++i)
                    if (!w->reached[i] && held >= w->thresholds[i]) {
                        w->reached[i] = true;
                        w->said += '+' + std::to_string(i) + '@' + std::to_string(held) + ' ';
                    }
                for (std::size_t i = w->thresholds.size(); i-- != 0;)
                    if (w->reached[i] && held + w->hysteresis <= w->thresholds[i]) {
                        w->reached[i] = false;
                        w->said += '-' + std::to_string(i) + '@' + std::to_string(held) + ' ';
                    }
            }
        }
        bool fits(std::size_t bytes) const {
            for (naive const* n = this; n; n = n->parent)
                if (bytes > n->limit - n->held) return false;
            return true;
        }
        void add(std::size_t bytes) {
            for (naive* n = this; n; n = n->parent) {
                n->held += bytes;
                n->tell();
            }
        }
        void remove(std::size_t bytes) {
            naive* top = this;
            for (naive* n = this; n; n = n->parent) {
                n->held -= bytes;
                n->tell();
                top = n;
            }
            if (top->is_over) top->give_back(bytes);
        }
        bool charge(std::size_t bytes) {
            if (!fits(bytes)) return false;
            own += bytes;
            add(bytes);
            return true;
        }
        bool refund(std::size_t bytes) {
            if (bytes > own) return false;
            own -= bytes;
            remove(bytes);
            return true;
        }
        void give_back(std::size_t bytes) {
            limit -= bytes;
            source->remove(bytes);
        }
        bool fund(std::size_t bytes) {
            if (!source->fits(bytes)) return false;
            limit += bytes;
            source->add(bytes);
            return true;
        }
    };
    struct pair {
        budget real;
        std::unique_ptr<naive> model;
    };
    struct watched {
        std::shared_ptr<naive::teller> model;
        naive* at;
        std::unique_ptr<std::string> said;
        std::unique_ptr<budget_alert> real;
    };
    struct ahead {
        cuota::reservation real;
        std::size_t at;
    };

    bool agrees = true;
    std::size_t compared = 0;
    for (unsigned seed = 0; seed != support::rounds(20U); ++seed) {
        support::captured_errors refused;
        std::mt19937_64 random(seed);
        auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        std::vector<pair> nodes;
        std::vector<ahead> reserved;
        std::vector<watched> watches;
        nodes.push_back({budget{"root", 1000}, std::make_unique<naive>(naive{1000, nullptr, nullptr})});
        std::size_t const made = 1 + below(4);
        for (std::size_t i = 0; i != made; ++i) {
            pair const& parent = nodes[below(nodes.size())];
            std::size_t const limit = below(3) == 0 ? unlimited : 100 + below(1000);
            budget real{"child", limit, parent.real};
            auto model = std::make_unique<naive>(naive{limit, parent.model.get(), nullptr});
            nodes.push_back({std::move(real), std::move(model)});
        }

        auto const begin_watch = [&] {
            pair const& on = nodes[below(nodes.size())];
            naive::teller model{{}, 1 + below(50), {}, {}};
            std::vector<alert_threshold> thresholds;
            for (std::size_t at = model.hysteresis + below(100); at < 1000; at += 1 + below(150)) {
                model.thresholds.push_back(at);
                thresholds.emplace_back(at);
            }
            if (thresholds.empty()) return;
            model.reached.resize(thresholds.size());
            watched w{std::make_shared<naive::teller>(std::move(model)), on.model.get(),
                      std::make_unique<std::string>(), nullptr};
            w.real = std::make_unique<budget_alert>(
                on.real, std::move(thresholds), w.model->hysteresis,
                [to = w.said.get()](alert_event const& e) { *to += text_of(e) + ' '; }, with_falling());
            on.model->watches.push_back(w.model);
            naive::teller& first = *w.model;
            for (std::size_t i = 0; i != first.thresholds.size(); ++i)
                if (on.model->held >= first.thresholds[i]) {
                    first.reached[i] = true;
                    first.said += '+' + std::to_string(i) + '@' + std::to_string(on.model->held) + ' ';
                }
            watches.push_back(std::move(w));
        };
        auto const end_watch = [&](std::size_t which) {
            watched& w = watches[which];
            w.real.reset();
            agrees &= *w.said == w.model->said;
            compared += w.said->size();
            std::erase(w.at->watches, w.model);
            watches.erase(watches.begin() + static_cast<std::ptrdiff_t>(which));
        };
        auto const reserve = [&] {
            std::size_t const from = below(nodes.size());
            std::size_t const bytes = below(200);
            naive& source = *nodes[from].model;
            if (!source.fits(bytes)) return;
            cuota::reservation r = nodes[from].real.reserve(bytes);
            nodes.push_back({r.as_budget(), std::make_unique<naive>(naive{0, nullptr, &source})});
            agrees &= nodes.back().model->fund(bytes);
            reserved.push_back({std::move(r), nodes.size() - 1});
        };
        auto const end_reservation = [&](std::size_t which) {
            naive& n = *nodes[reserved[which].at].model;
            reserved.erase(reserved.begin() + static_cast<std::ptrdiff_t>(which));
            n.is_over = true;
            n.give_back(n.limit - n.held);
        };
        auto const change_reservation = [&](ahead& r) {
            naive& n = *nodes[r.at].model;
            std::size_t const bytes = below(100);
            if (below(2) == 0 && n.source->fits(bytes)) {
                r.real.grow(bytes);
                (void)n.fund(bytes);
            } else if (bytes <= n.limit - n.held) {
                r.real.shrink(bytes);
                n.give_back(bytes);
            }
        };
        auto const step = [&] {
            std::size_t const what = below(1000);
            if (what < 9 && watches.size() < 8) return begin_watch();
            if (what < 14 && !watches.empty()) return end_watch(below(watches.size()));
            if (what < 20 && nodes.size() < 12) return reserve();
            if (what < 25 && !reserved.empty()) return end_reservation(below(reserved.size()));
            if (what < 60 && !reserved.empty()) return change_reservation(reserved[below(reserved.size())]);
            pair& at = nodes[below(nodes.size())];
            std::size_t const bytes = below(4) == 0 ? below(600) : below(60);
            if (below(2) == 0) {
                agrees &= at.real.try_charge(bytes) == at.model->charge(bytes);
            } else {
                std::size_t const some = below(20) == 0 ? bytes : std::min(bytes, at.model->own);
                bool const has_as_much = at.model->refund(some);
                at.real.refund(some);
                agrees &= refused.take().empty() == has_as_much;
            }
        };
        for (int chunk = 0; chunk != 100; ++chunk) {
            auto const some = [&] {
                for (int i = 0; i != 100; ++i) step();
            };
            if (chunk % 2 == 0) some();
            else on_another_thread(some);
            for (pair const& p : nodes) agrees &= p.real.held() == p.model->held;
            for (watched const& w : watches) agrees &= *w.said == w.model->said;
            REQUIRE(agrees);
        }
        while (!reserved.empty()) end_reservation(0);
        for (pair& p : nodes) {
            p.real.refund(p.model->own);
            p.model->refund(p.model->own);
        }
        while (!watches.empty()) end_watch(0);
        REQUIRE(agrees);
        REQUIRE(refused.count() == 0);
        REQUIRE(nodes[0].real.held() == 0);
    }
    REQUIRE(compared > support::rounds(100'000U));
}

TEST_CASE("each crossing by several threads is delivered once and in order, or counted as missed",
          "[guard][budget_alert]") {
    budget root{"root", unlimited};
    std::vector<budget> children;
    for (int t = 0; t != 4; ++t) children.emplace_back("child", unlimited, root);
    auto const rounds = support::rounds<std::uint64_t>(20'000);
    std::uint64_t calls = 0;  // written by the delivering thread; deliveries do not overlap
    std::uint64_t missed = 0;
    std::uint64_t last = 0;
    bool is_in_order = true;
    std::atomic<int> inside = 0;
    {
        budget_alert const w{root,
                             {15},
                             5,
                             [&](alert_event const& e) {
                                 is_in_order &= inside.fetch_add(1) == 0;
                                 ++calls;
                                 missed += e.missed;
                                 is_in_order &= e.number == last + 1 + e.missed;
                                 is_in_order &= e.rising == (e.number % 2 == 1);
                                 is_in_order &= e.rising ? e.held >= 15 : e.held <= 10;
                                 last = e.number;
                                 inside.fetch_sub(1);
                             },
                             with_falling()};
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t != 4; ++t)
            threads.emplace_back([&, t] {
                for (std::uint64_t i = 0; i != rounds; ++i) {
                    (void)children[t].try_charge(10);
                    children[t].refund(10);
                }
            });
        for (std::thread& t : threads) t.join();
        root.charge(15);
        root.refund(15);
    }
    REQUIRE(is_in_order);
    REQUIRE(calls + missed == last);
    REQUIRE(last % 2 == 0);
    REQUIRE(last >= 2);
    REQUIRE(root.held() == 0);
}

TEST_CASE("every crossing by two alternating threads is delivered", "[guard][budget_alert]") {
    int const all = support::rounds(5000);
    // The threads alternate. Each turn charges all 20 bytes and refunds them, which crosses the threshold twice.
    budget b{"b", 20};
    std::atomic<int> turn = 0;
    std::atomic<std::uint64_t> crossings = 0;
    std::uint64_t calls = 0;
    std::uint64_t missed = 0;
    {
        budget_alert const w{b,
                             {20},
                             20,
                             [&](alert_event const& e) {
                                 ++calls;
                                 missed += e.missed;
                             },
                             with_falling()};
        auto const turns = [&](int mine) {
            for (int i = 0; i != all; ++i) {
                support::look_until([&] { return turn.load() == mine; });
                b.charge(20);
                b.refund(20);
                crossings += 2;
                turn.store(1 - mine);
            }
        };
        std::thread other{[&] { turns(1); }};
        turns(0);
        other.join();
    }
    REQUIRE(calls + missed == crossings);
    REQUIRE(missed == 0);
}

TEST_CASE("alerts may be created and destroyed while other threads cross their thresholds",
          "[guard][budget_alert]") {
    budget root{"root", unlimited};
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int t = 0; t != 3; ++t)
        threads.emplace_back([&] {
            budget mine{"mine", unlimited, root};
            while (!stop) {
                (void)mine.try_charge(10);
                mine.refund(10);
                std::this_thread::yield();  // otherwise each watch would wait for time slices to expire
            }
        });
    bool was_called_after = false;
    std::uint64_t calls = 0;
    std::uint64_t const alerts = support::rounds<std::uint64_t>(20'000);
    for (std::uint64_t i = 0; i != alerts; ++i) {
        std::atomic<bool> is_over = false;
        std::atomic<std::uint64_t> count = 0;
        std::uint64_t const wanted = i % 3;
        {
            budget_alert const w{root,
                                 {10},
                                 10,
                                 [&](alert_event const&) {
                                     was_called_after |= is_over.load();
                                     ++count;
                                 },
                                 with_falling()};
            support::look_until([&] { return count >= wanted; });
        }
        is_over = true;
        calls += count;
    }
    stop = true;
    for (std::thread& t : threads) t.join();
    REQUIRE(!was_called_after);
    REQUIRE(calls + 2 >= alerts);
    REQUIRE(root.held() == 0);
}
