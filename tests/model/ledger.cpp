// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Explores every order of the ledger's atomic steps, in the text of the header: no overshoot, no false refusal, no lost refund.

#include <cuota/guard/detail/ledger.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/linear.hpp"
#include "model/tally.hpp"
#include "support/catch.hpp"

using cuota::detail::ledger;
using node = cuota::detail::intrusive_ptr<ledger>;
using model::tally;

namespace {

constexpr std::size_t most_operations = 4;

// A step of a thread at the root (0) or at the child (1): charges `bytes`, or refunds -bytes, which another thread may have charged. Or it
// charges bytes that are to come, from its stock if that has enough, and then reports that they have arrived, or that they did not come.
// Until then they count for no peak. Or it sets the limit of the node to `bytes`, at once or unless it is lower and more are held.
enum class kind { at_once, arrives, does_not_come, is_to_come, sets_limit, lowers_limit };
struct operation {
    int level = 0;
    int bytes = 0;  // negative for a refund
    kind how = kind::at_once;
};
using program = std::vector<std::vector<operation>>;

bool is_of_limit(kind how) { return how == kind::sets_limit || how == kind::lowers_limit; }

// Specification of the ledger, one operation at a time.
struct account {
    std::array<int, 2> limit{};
    std::array<int, 2> own{};
    std::array<int, 2> coming{};  // the part of own that has not arrived
    std::array<int, 2> peak{};

    [[nodiscard]] int held(int level) const { return level == 1 ? own[1] : own[0] + own[1]; }
    [[nodiscard]] int arrived(int level) const {
        return held(level) - (level == 1 ? coming[1] : coming[0] + coming[1]);
    }
    long apply(operation what) {
        auto const at = static_cast<std::size_t>(what.level);
        if (is_of_limit(what.how)) {
            if (what.how == kind::lowers_limit && held(what.level) > what.bytes && what.bytes < limit[at])
                return 0;
            limit[at] = what.bytes;
            return 1;
        }
        if (what.how == kind::arrives || what.how == kind::does_not_come) {
            coming[at] -= what.bytes;
            if (what.how == kind::does_not_come) own[at] -= std::min(own[at], what.bytes);
        } else {
            if (what.bytes < 0 && -what.bytes > own[at]) return 0;
            for (int level = what.level; level >= 0 && what.bytes > 0; --level)
                if (held(level) + what.bytes > limit[static_cast<std::size_t>(level)]) return 0;
            own[at] += what.bytes;
            if (what.how == kind::is_to_come) coming[at] += what.bytes;
        }
        for (int level = 0; level != 2; ++level) {
            int& peak_here = peak[static_cast<std::size_t>(level)];
            peak_here = std::max(peak_here, arrived(level));
        }
        return 1;
    }
    friend auto operator<=>(account const&, account const&) = default;
};

// A root with limit `most`, a child with limit `less`, and threads that run a program. Each thread may have held bytes before, so that its
// stock is open and idle, or in use, at the start.
struct two_levels : model::scenario {
    two_levels(program const& all, int most, int less, program const& before)
        : run{all}, history{account{{most, less}}}, state{{most, less}} {
        root = node::make("root", static_cast<std::size_t>(most), node{});
        child = node::make("child", static_cast<std::size_t>(less), root);
        for (std::size_t t = 0; t != records.size(); ++t) records[t].index = static_cast<unsigned>(t);
        for (std::size_t t = 0; t != before.size(); ++t)
            for (operation const& o : before[t]) {
                cuota::detail::this_thread_slot() = &records[t];
                operation const first = first_of(o);
                bool const done = carry_out(first);
                model::check(done == (state.apply(first) != 0), "one thing at a time, it does as it should");
                if (first.how == o.how || !done) continue;
                (void)carry_out(o);
                state.apply(o);
            }
        cuota::detail::this_thread_slot() = &records.back();
        history = model::linear<account, operation>{state};
    }

    void thread(int me) override {
        cuota::detail::this_thread_slot() = &records[static_cast<std::size_t>(me)];
        for (operation const& o : run[static_cast<std::size_t>(me)]) {
            operation const first = first_of(o);
            history.call(me, first);
            bool const done = carry_out(first);
            history.returned(me, done ? 1 : 0);
            if (first.how == o.how || !done) continue;
            history.call(me, o);
            (void)carry_out(o);
            history.returned(me, 1);
        }
    }
    void at_end() override {
        cuota::budget_info const at_root = root->info();
        cuota::budget_info const at_child = child->info();
        auto const is = [&](account const& a) {
            return at_root.held == static_cast<std::size_t>(a.held(0)) &&
                   at_child.held == static_cast<std::size_t>(a.held(1)) &&
                   at_root.limit == static_cast<std::size_t>(a.limit[0]) &&
                   at_child.limit == static_cast<std::size_t>(a.limit[1]) &&
                   at_root.peak == static_cast<std::size_t>(a.peak[0]) &&
                   at_child.peak == static_cast<std::size_t>(a.peak[1]) &&
                   root->charged_here() == static_cast<std::size_t>(a.own[0]) &&
                   child->charged_here() == static_cast<std::size_t>(a.own[1]);
        };
        model::check(history.any(is), "held, peak and limit are what one order of the answers makes them");
        // The rest can be refunded, and nothing remains.
        model::check(child->try_refund(child->charged_here()) && root->try_refund(root->charged_here()) &&
                         root->info().held == 0 && child->info().held == 0,
                     "no refund is lost");
    }

private:
    // Before bytes arrive, or fail to come, they are charged.
    [[nodiscard]] static operation first_of(operation const& o) {
        return {o.level, o.bytes, o.how == kind::at_once || is_of_limit(o.how) ? o.how : kind::is_to_come};
    }
    bool carry_out(operation const& o) {
        ledger& at = o.level == 0 ? *root : *child;
        auto const bytes = static_cast<std::size_t>(o.bytes);
        if (is_of_limit(o.how)) return at.change_limit(bytes, o.how == kind::sets_limit) == 0;
        bool& by_stock = paid_by_stock[cuota::detail::this_thread_slot()->index];
        if (o.how == kind::is_to_come) {
            by_stock = at.try_charge_coming_alone(bytes);
            return by_stock || at.try_charge_coming(bytes);
        }
        if (o.how != kind::at_once) {
            if (by_stock) at.end_coming_alone(bytes, o.how == kind::arrives);
            else if (o.how == kind::arrives) at.arrived(bytes);
            else at.did_not_come(bytes);
            return true;
        }
        return o.bytes < 0 ? at.try_refund(static_cast<std::size_t>(-o.bytes))
                           : at.try_charge(static_cast<std::size_t>(o.bytes));
    }

    program run;
    std::array<cuota::detail::thread_slot, 4> records;
    std::array<bool, 4> paid_by_stock{};
    node root;
    node child;
    model::linear<account, operation> history;
    account state;
};

void holds(model::options const& how, program const& run, int most, int less, program const& before,
           tally& sum) {
    sum.explore<two_levels>(how, run, most, less, before);
}

// The stocks of all threads are open and idle at the start, which is the state with the most conflicts.
program const idle_stocks{{{1, 2}, {1, -2}}, {{1, 1}, {1, -1}}, {{0, 2}, {0, -2}}};

std::vector<operation> random_operations(std::mt19937& random, std::size_t count) {
    std::vector<operation> all;
    for (std::size_t i = 0; i != count; ++i) {
        int const bytes = 1 + static_cast<int>(random() % 3);
        bool const is_charge = random() % 5 < 3;
        kind const how = is_charge && random() % 3 == 0
                             ? (random() % 2 == 0 ? kind::arrives : kind::does_not_come)
                             : kind::at_once;
        all.push_back({static_cast<int>(random() % 2), is_charge ? bytes : -bytes, how});
    }
    return all;
}
program random_program(std::mt19937& random, std::size_t threads, std::size_t count) {
    program all;
    for (std::size_t t = 0; t != threads; ++t) all.push_back(random_operations(random, count));
    return all;
}

struct in_steps {
    in_steps() { cuota::detail::publishes_in_steps = true; }
    ~in_steps() { cuota::detail::publishes_in_steps = false; }
};

// Explores random programs of `threads` threads with `count` operations each.
tally explore_random(model::options const& how, std::size_t programs, std::size_t threads, std::size_t count,
                     unsigned seed) {
    tally sum;
    std::mt19937 random{seed};
    while (sum.programs != programs) {
        program const run = random_program(random, threads, count);
        program const before = random() % 2 == 0 ? idle_stocks : random_program(random, 3, 2);
        INFO("program " << sum.programs);
        holds(how, run, 2 + static_cast<int>(random() % 4), 2 + static_cast<int>(random() % 3), before, sum);
    }
    return sum;
}

}  // namespace

TEST_CASE("concurrent charges and refunds at two levels are linearizable", "[model][ledger]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    tell(explore_random(how, 20, 2, 2, 1));
    if (how.visible == model::stores::in_order) tell(explore_random(how, 3, 3, 2, 2));
}

TEST_CASE("concurrent charges and refunds at two levels are linearizable in more programs",
          "[.][long][more][ledger]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    tell(explore_random(how, 40, 2, 2, 1));
    if (how.visible == model::stores::in_order) tell(explore_random(how, 5, 3, 2, 2));
}

TEST_CASE("limits that change among charges and refunds are linearizable", "[model][ledger]") {
    model::options how;
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    std::size_t const threads = how.visible == model::stores::in_order ? GENERATE(2, 3) : 2;
    tally sum;
    std::mt19937 random{5};
    while (sum.programs != (threads == 2 ? 40 : 5)) {
        program run = random_program(random, threads, 2);
        for (std::size_t t = 0; t != 2; ++t)
            run[t][random() % 2] = {static_cast<int>(random() % 2), static_cast<int>(random() % 5),
                                    random() % 2 == 0 ? kind::sets_limit : kind::lowers_limit};
        program const before = random() % 2 == 0 ? idle_stocks : random_program(random, 3, 2);
        INFO("program " << sum.programs);
        holds(how, run, 2 + static_cast<int>(random() % 4), 2 + static_cast<int>(random() % 3), before, sum);
    }
    tell(sum);
}

TEST_CASE("bytes that arrive after the limit was lowered are not lent again", "[model][ledger]") {
    // The first thread gets bytes that are to come and refunds them after they arrived, while the limit falls below. It has had no stock.
    int const level = GENERATE(0, 1);
    tally sum;
    program const run{{{1, 3, kind::arrives}, {1, -3}, {1, 2}}, {{level, 1, kind::sets_limit}}};
    holds({}, run, 4, 4, {}, sum);
    tell(sum);
}

namespace {

void three_threads_of_three_operations(std::initializer_list<unsigned> seeds) {
    tally sum;
    for (unsigned const seed : seeds) {
        std::mt19937 random{seed};
        program const run = random_program(random, 3, 3);
        int const most = 2 + static_cast<int>(random() % 4);
        int const less = 2 + static_cast<int>(random() % 3);
        INFO("seed " << seed);
        holds({}, run, most, less, idle_stocks, sum);
    }
    tell(sum);
}

}  // namespace

// The seeds are those of the first forty random programs with fewer than about three million states: here two with few states, below the
// others, which `make model` runs.
TEST_CASE("three threads of three operations each at two levels", "[model][ledger]") {
    three_threads_of_three_operations({0, 12});
}

TEST_CASE("three threads of three operations each at two levels, in more programs",
          "[.][long][more][ledger]") {
    three_threads_of_three_operations({5, 9, 14, 19, 22, 23, 24, 26, 27, 30, 32, 35});
}

TEST_CASE("reads of published figures without the lock are linearizable", "[model][ledger]") {
    in_steps const as_they_are;
    tell(explore_random({.visible = GENERATE(model::stores::in_order, model::stores::loosely)}, 20, 2, 2, 3));
}

TEST_CASE("a request that fits at both of two instants is not refused", "[model][ledger]") {
    in_steps const as_they_are;
    int const level = GENERATE(0, 1);  // 1: the node that would refuse is not read first
    tally sum;
    // All bytes of the root are idle in the stock of a thread that does nothing. Another thread revokes them and takes fewer: the old
    // `taken`, without the bytes that are idle afterwards, would leave no room.
    program const one_idle{{}, {}, {{0, 2}, {0, -2}}};
    holds({}, {{{level, 1}}, {{0, 1}, {0, -1}}}, 2, 4, one_idle, sum);
    // Nothing is idle. One thread gets idle bytes, and another takes the same number: the old idle bytes must not be combined with the new
    // `taken`.
    program const none_idle{{{0, 2}, {0, -2}}, {{0, -1}}};
    holds({}, {{{level, 1}}, {{0, 1}, {0, -1}}, {{0, 1}}}, 2, 4, none_idle, sum);
    tell(sum);
}

TEST_CASE("three threads of three operations each at two levels, with many states", "[.][long][ledger]") {
    tally sum;
    program const run{{{1, 2}, {1, -2}, {0, 1}}, {{1, 1}, {1, -1}, {1, 2}}, {{0, 2}, {0, -2}, {1, 1}}};
    holds({}, run, 3, 2, idle_stocks, sum);
    tell(sum);
    tell(explore_random({}, 3, 3, 3, 4));
}
