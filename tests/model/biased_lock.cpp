// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Explores every order of the atomic steps by which a biased_lock passes from thread to thread, in the text of the header: critical
// sections do not overlap, and each sees all earlier ones.

#include <cuota/core/detail/threads/biased_lock.hpp>

#include <array>
#include <cstddef>
#include <random>
#include <vector>

#include "model/tally.hpp"
#include "support/catch.hpp"

using cuota::detail::thread_slot;
using model::tally;

namespace {

enum class act { run, run_alone };
using program = std::vector<std::vector<act>>;

// Threads that count in several steps, which only the lock makes atomic. Some may have run before, one after the other, so that the lock is
// biased to the last of them.
struct several_threads : model::scenario {
    several_threads(program const& all, program const& before) : run{all} {
        for (std::size_t t = 0; t != before.size(); ++t) {
            cuota::detail::this_thread_slot() = &records[t];
            for (act const what : before[t]) carry_out(what);
        }
        cuota::detail::this_thread_slot() = &records.back();
    }
    void thread(int number) override {
        auto const t = static_cast<std::size_t>(number);
        cuota::detail::this_thread_slot() = &records[t];
        for (act const what : run[t]) carry_out(what);
    }
    void at_end() override {
        int const last = lock.run_alone([&] { return count.load(std::memory_order_relaxed); });
        model::check(last == calls.load(), "each that ran saw all that ran before it");
    }

private:
    void carry_out(act what) {
        auto const add_one = [&] {
            model::check(inside.exchange(1) == 0, "nobody is inside when one begins");
            count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            inside.store(0, std::memory_order_relaxed);
        };
        if (what == act::run) lock.run(add_one);
        else lock.run_alone(add_one);
        calls.fetch_add(1);
    }

    program run;
    std::array<thread_slot, 4> records;
    cuota::detail::biased_lock lock;
    cuota::detail::atomic<int> inside = 0, count = 0, calls = 0;
};

void holds(model::options const& how, program const& run, program const& before, tally& sum) {
    sum.explore<several_threads>(how, run, before);
}

program const by_the_first{{act::run}};
program const by_one_who_is_gone{{}, {}, {act::run}};
program const by_two{{act::run}, {act::run, act::run}};

// Both ways in which stores become visible late, with asymmetric fences and without.
model::options any_machine() {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    return how;
}

}  // namespace

TEST_CASE("a biased_lock can be revoked while its holder runs or begins a section", "[model][biased_lock]") {
    tally sum;
    model::options const how = any_machine();
    for (program const& before : {by_the_first, by_one_who_is_gone, by_two, program{}}) {
        holds(how, {{act::run}, {act::run}}, before, sum);
        holds(how, {{act::run, act::run}, {act::run_alone}}, before, sum);
        holds(how, {{act::run_alone, act::run}, {act::run, act::run}}, before, sum);
    }
    tell(sum);
}

TEST_CASE("a biased_lock changes its holder repeatedly", "[model][biased_lock]") {
    tally sum;
    model::options const how = any_machine();
    std::mt19937 random{1};
    std::array<program, 4> const starts{program{}, by_the_first, by_one_who_is_gone, by_two};
    for (std::size_t i = 0; i != 16; ++i) {
        program run(2 + i % 2);
        for (auto& of_thread : run)
            for (std::size_t j = 0; j != 5 - run.size(); ++j)
                of_thread.push_back(random() % 4 == 0 ? act::run_alone : act::run);
        INFO("program " << i);
        holds(how, run, starts[i / 2 % starts.size()], sum);
    }
    tell(sum);
}
