// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Every order of the atomic steps by which threads keep a pool's blocks ready for themselves, over the headers' own text:
// no block is had twice, none is lost, a second release is always caught, and every count is of one instant.

#include <cuota/pool/front.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "model/linear.hpp"
#include "support/catch.hpp"

using cuota::detail::block;
using cuota::detail::front;
using cuota::detail::fronts;
using cuota::detail::thread_record;

namespace {

constexpr std::size_t blocks = 2;

enum class act { take, give, count, recut };

// A step of a thread, with the one block that fits.
struct operation {
    act what = act::take;
    std::size_t which = 0;
    int who = -1;
};
using program = std::vector<std::vector<operation>>;

// What a pool of blocks of different sizes is to be: one thing at a time.
struct books {
    static constexpr int nobody = -1;
    std::array<int, blocks> holder{nobody, nobody};

    [[nodiscard]] bool is_live(std::size_t i) const { return holder[i] != nobody; }
    long apply(operation const& o) {
        switch (o.what) {
            case act::take:
                if (is_live(o.which)) return 0;
                holder[o.which] = o.who;
                return 1;
            case act::give: return std::exchange(holder[o.which], nobody) != nobody;
            case act::count: return is_live(0) + is_live(1);
            case act::recut: return !is_live(0) && !is_live(1);
        }
        return -1;
    }
    // Who gives back what another is just taking may be told that it is not alive.
    [[nodiscard]] std::optional<long> otherwise(operation const& o) const {
        if (o.what == act::give && is_live(o.which) && holder[o.which] != o.who) return 0;
        return std::nullopt;
    }
    friend auto operator<=>(books const&, books const&) = default;
};

// As block_pool goes by it: the fronts first, then a lock over all there is.
class small_pool {
public:
    small_pool() {
        for (std::size_t i = 0; i != blocks; ++i) {
            block& b = records_[i];
            b.at = static_cast<std::byte*>(address_of(i));
            b.size = size_of(i);
            b.become(block::state::free);
            at_[i] = &b;
            free_[i] = true;
        }
    }

    bool take(thread_record& me, std::size_t i) {
        if (block* const ready = fronts_.of(me).try_take(me, stream, size_of(i))) {
            ready->requested = size_of(i);
            ready->become(block::state::live);
            return true;
        }
        std::scoped_lock const lock{guard_};
        if (!free_[i]) collect();
        if (!free_[i]) return false;
        free_[i] = false;
        block& b = *at_[i];
        b.requested = size_of(i);
        b.stream = stream;
        b.become(block::state::live);
        if (fronts_.of(me).is_of(me)) fronts_.of(me).remember(b);
        return true;
    }
    bool give(thread_record& me, std::size_t i) {
        if (fronts_.of(me).try_put(me, address_of(i), stream, size_of(i))) return true;
        std::scoped_lock const lock{guard_};
        if (free_[i]) return false;
        block& b = *at_[i];
        if (!b.claim(address_of(i))) return false;
        front* const mine = fronts_.open_for(me);
        if (!mine || !mine->put(b, [this](block& other) { put_away(other); })) put_away(b);
        return true;
    }
    long count() {
        std::scoped_lock const lock{guard_};
        collect();
        return std::count(free_.begin(), free_.end(), false);
    }
    // Merged and cut anew: each record is of the other's bytes then.
    bool recut() {
        std::scoped_lock const lock{guard_};
        collect();
        if (!free_[0] || !free_[1]) return false;
        std::swap(at_[0], at_[1]);
        for (std::size_t i = 0; i != blocks; ++i) {
            at_[i]->at = static_cast<std::byte*>(address_of(i));
            at_[i]->size = size_of(i);
            at_[i]->become(block::state::free);
        }
        return true;
    }
    [[nodiscard]] bool is_free(std::size_t i) const { return free_[i]; }

private:
    static constexpr std::uint64_t stream = 1;

    [[nodiscard]] static std::size_t size_of(std::size_t i) { return (i + 1) * block::granule; }
    [[nodiscard]] static void* address_of(std::size_t i) { return reinterpret_cast<void*>((i + 1) << 20); }
    void put_away(block& b) {
        b.become(block::state::free);
        free_[static_cast<std::size_t>(std::find(at_.begin(), at_.end(), &b) - at_.begin())] = true;
    }
    void collect() {
        fronts_.collect([this](block& b) { put_away(b); });
    }

    cuota::detail::mutex guard_;
    fronts fronts_;
    std::array<block, blocks> records_;
    std::array<block*, blocks> at_{};
    std::array<bool, blocks> free_{};
};

// Threads that run a program. Each may have run something before, so that its front is open.
struct several_threads : model::scenario {
    several_threads(program const& all, program const& before) : run{all}, history{books{}} {
        books state;
        for (std::size_t t = 0; t != records.size(); ++t) records[t].index = static_cast<unsigned>(t);
        for (std::size_t t = 0; t != before.size(); ++t)
            for (operation o : before[t]) {
                o.who = static_cast<int>(t);
                long const answer = carry_out(enter(t), o);
                model::check(answer == state.apply(o), "one thing at a time, it does as it should");
            }
        cuota::detail::this_thread_record() = &records.back();
        history = model::linear<books, operation>{state};
    }

    void thread(int number) override {
        thread_record& me = enter(static_cast<std::size_t>(number));
        for (operation o : run[static_cast<std::size_t>(number)]) {
            o.who = number;
            history.call(number, o);
            long const answer = carry_out(me, o);
            // Others can know of a block only by something that comes after its word was written.
            if (o.what == act::take) (void)told[static_cast<std::size_t>(number)].exchange(1);
            history.returned(number, answer);
        }
    }
    void at_end() override {
        (void)pool.count();
        model::check(history.any([&](books const& b) {
            for (std::size_t i = 0; i != blocks; ++i)
                if (b.is_live(i) == pool.is_free(i)) return false;
            return true;
        }),
                     "no block is lost");
    }

private:
    thread_record& enter(std::size_t t) {
        cuota::detail::this_thread_record() = &records[t];
        return records[t];
    }
    long carry_out(thread_record& me, operation const& o) {
        switch (o.what) {
            case act::take: return pool.take(me, o.which);
            case act::give: return pool.give(me, o.which);
            case act::count: return pool.count();
            case act::recut: return pool.recut();
        }
        return -1;
    }

    program run;
    std::array<thread_record, 4> records;
    std::array<cuota::detail::atomic<int>, 4> told{};
    small_pool pool;
    model::linear<books, operation> history;
};

struct tally {
    std::size_t programs = 0;
    std::size_t states = 0;
    double executions = 0;
};

// Explores a program, and requires that all of it was explored and held.
void holds(model::options const& how, program const& run, program const& before, tally& sum) {
    auto const found = model::explore<several_threads>(how, static_cast<int>(run.size()), run, before);
    INFO(found.failure);
    REQUIRE(found.failure.empty());
    REQUIRE(found.complete);
    REQUIRE(found.cycles == 0);
    ++sum.programs;
    sum.states += found.states;
    sum.executions += found.executions;
}
void tell(tally const& sum) {
    std::printf("explored %zu programs, %zu states, %.3g executions\n", sum.programs, sum.states,
                sum.executions);
}

// The first has all blocks ready, in a front that has served it; or each has one.
program const all_with_the_first{{{act::take, 0}, {act::take, 1}, {act::give, 0}, {act::give, 1}}};
program const one_each{{{act::take, 0}, {act::give, 0}}, {{act::take, 1}, {act::give, 1}}};
// The first has one live, which its front knows.
program const one_live{{{act::take, 0}, {act::give, 0}, {act::take, 0}}};

program random_program(std::mt19937& random, std::size_t threads, std::size_t count) {
    program all(threads);
    for (auto& of_thread : all)
        for (std::size_t i = 0; i != count; ++i) {
            unsigned const dice = random() % 16;
            std::size_t const which = random() % 4 == 0 ? 1 : 0;
            of_thread.push_back({dice < 7    ? act::take
                                 : dice < 13 ? act::give
                                 : dice < 15 ? act::count
                                             : act::recut,
                                 which});
        }
    return all;
}

tally explore_random(model::options const& how, std::size_t programs, std::size_t threads, std::size_t count,
                     unsigned seed) {
    tally sum;
    std::mt19937 random{seed};
    std::array<program, 4> const starts{program{}, all_with_the_first, one_each, one_live};
    while (sum.programs != programs) {
        program const run = random_program(random, threads, count);
        INFO("program " << sum.programs);
        holds(how, run, starts[sum.programs % starts.size()], sum);
    }
    return sum;
}

}  // namespace

TEST_CASE("two threads release one block at once: one of them is told that it is not alive",
          "[model][front]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    for (program const& before : {one_live, program{{{act::take, 0}}}})
        holds(how, {{{act::give, 0}}, {{act::give, 0}}}, before, sum);
    holds(how, {{{act::give, 0}, {act::take, 0}}, {{act::give, 0}, {act::take, 0}}}, one_live, sum);
    tell(sum);
}

TEST_CASE(
    "a block that one thread keeps ready goes to another that needs it, or back to the first, not to both",
    "[model][front]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    holds(how, {{{act::take, 0}, {act::give, 0}}, {{act::take, 0}, {act::give, 0}}}, all_with_the_first, sum);
    holds(how, {{{act::take, 0}, {act::give, 0}, {act::take, 0}}, {{act::count, 0}, {act::count, 0}}},
          all_with_the_first, sum);
    tell(sum);
}

TEST_CASE("a front knows a block no longer once its record is of other bytes", "[model][front]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    // The second cuts anew between what the first does.
    holds(
        how,
        {{{act::take, 0}, {act::give, 0}, {act::take, 1}, {act::give, 1}}, {{act::recut, 0}, {act::take, 1}}},
        one_each, sum);
    tell(sum);
}

TEST_CASE("threads that take, release and count are answered as if one at a time", "[model][front]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    tell(explore_random(how, 40, 2, 3, 1));
    tell(explore_random(how, 8, 3, 2, 2));
}

TEST_CASE("three threads that take, release and count three times each", "[.][long][front]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    tell(explore_random(how, 12, 3, 3, 3));
}
