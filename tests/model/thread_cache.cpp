// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Explores every order of the atomic steps by which threads cache a pool's blocks, in the text of the headers: no block is allocated twice
// or lost, a double free is always detected, and every count is that of one instant.

#include <cuota/pool/detail/blocks/thread_cache.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "model/linear.hpp"
#include "model/tally.hpp"
#include "support/catch.hpp"

using cuota::detail::block;
using cuota::detail::thread_cache;
using cuota::detail::thread_caches;
using cuota::detail::thread_slot;
using model::tally;

namespace {

constexpr std::size_t blocks = 2;

enum class act { take, give, count, recut };

// A step of a thread. A take allocates that block or, where blocks are alike, any.
struct operation {
    act what = act::take;
    std::size_t which = 0;
    int who = -1;
};
using program = std::vector<std::vector<operation>>;

// Specification of a pool, one operation at a time. A take returns the number of the block, from 1 up.
struct books {
    bool alike = false;
    static constexpr int no_holder = -1;
    std::array<int, blocks> holder{no_holder, no_holder};

    [[nodiscard]] bool is_live(std::size_t i) const { return holder[i] != no_holder; }
    long apply(operation const& o) {
        switch (o.what) {
            case act::take:
                for (std::size_t const i : {o.which, 1 - o.which}) {
                    if (is_live(i) || (i != o.which && !alike)) continue;
                    holder[i] = o.who;
                    return static_cast<long>(i) + 1;
                }
                return 0;
            case act::give: return std::exchange(holder[o.which], no_holder) != no_holder;
            case act::count: return is_live(0) + is_live(1);
            case act::recut: return !is_live(0) && !is_live(1);
        }
        return -1;
    }
    // Freeing a block that another thread is just allocating may report that it is not live. Where blocks are alike, a take may return
    // either.
    [[nodiscard]] std::optional<std::pair<books, long>> otherwise(operation const& o) const {
        if (o.what == act::give && is_live(o.which) && holder[o.which] != o.who) return std::pair{*this, 0L};
        if (o.what != act::take || !alike || is_live(0) || is_live(1)) return std::nullopt;
        books other = *this;
        other.holder[1 - o.which] = o.who;
        return std::pair{other, static_cast<long>(2 - o.which)};
    }
    friend auto operator<=>(books const&, books const&) = default;
};

// Works like block_pool: the thread_caches first, then a lock over everything.
class small_pool {
public:
    explicit small_pool(bool alike) : alike_{alike} {
        for (std::size_t i = 0; i != blocks; ++i) {
            block& b = records_[i];
            b.size = size_of(i);
            b.note = &notes_[i];
            b.stand_at(address_of(i), block::state::free);
            at_[i] = &b;
            free_[i] = true;
        }
    }

    // Returns the number of the block, from 1 up, or 0.
    long take(thread_slot& me, std::size_t wanted) {
        std::size_t const size = size_of(wanted);
        long ready = 0;
        auto const write = [&](block& b) {
            model::check(!is_emptied_, "nothing is taken out of a front while it is emptied");
            b.requested = size;
            ready = static_cast<long>(number_of(b));
            b.stand_at(address_of(number_of(b) - 1), block::state::live);
        };
        if (thread_caches_.of(me).try_take(me, stream, size, size, write)) return ready;
        std::scoped_lock const lock{guard_};
        block* b = find(wanted);
        if (!b) {
            collect();
            b = find(wanted);
        }
        if (!b) return 0;
        std::size_t const number = number_of(*b);
        free_[number - 1] = false;
        requested_ += b->requested = size;
        b->note->stream = stream;
        b->stand_at(address_of(number - 1), block::state::live);
        if (thread_caches_.of(me).is_of(me)) thread_caches_.of(me).remember(*b);
        return static_cast<long>(number);
    }
    bool give(thread_slot& me, std::size_t i) {
        if (thread_caches_.of(me).try_put(me, address_of(i), stream, size_of(i), size_of(i))) return true;
        std::scoped_lock const lock{guard_};
        if (free_[i]) return false;
        block& b = *at_[i];
        if (!b.claim(address_of(i))) return false;
        thread_cache* const mine = thread_caches_.open_for(me);
        if (!mine || !mine->put(b, [this](block& other) { flush_block(other); })) flush_block(b);
        return true;
    }
    long count() {
        std::scoped_lock const lock{guard_};
        collect();
        std::size_t live = 0;
        for (std::size_t i = 0; i != blocks; ++i) live += free_[i] ? 0 : at_[i]->size;
        model::check(requested_ == live, "what is requested is what is live");
        return std::count(free_.begin(), free_.end(), false);
    }
    // Simulates blocks that are merged and split again: each record then has the other's bytes.
    bool recut() {
        std::scoped_lock const lock{guard_};
        collect();
        if (!free_[0] || !free_[1]) return false;
        std::swap(at_[0], at_[1]);
        for (std::size_t i = 0; i != blocks; ++i) {
            at_[i]->size = size_of(i);
            at_[i]->stand_at(address_of(i), block::state::free);
        }
        return true;
    }
    [[nodiscard]] bool is_free(std::size_t i) const { return free_[i]; }

private:
    static constexpr std::uint64_t stream = 1;

    [[nodiscard]] std::size_t size_of(std::size_t i) const {
        return alike_ ? block::granularity : (i + 1) * block::granularity;
    }
    // Does not read the block's atomic word, which would add a step.
    [[nodiscard]] std::size_t number_of(block const& b) const { return &b == at_[0] ? 1 : 2; }
    [[nodiscard]] block* find(std::size_t wanted) const {
        for (std::size_t const i : {wanted, 1 - wanted})
            if (free_[i] && (alike_ || i == wanted)) return at_[i];
        return nullptr;
    }
    [[nodiscard]] static void* address_of(std::size_t i) { return reinterpret_cast<void*>((i + 1) << 20); }
    void flush_block(block& b) {
        requested_ -= std::exchange(b.requested, 0);
        b.stand_at(address_of(number_of(b) - 1), block::state::free);
        free_[number_of(b) - 1] = true;
    }
    void collect() {
        requested_ -= thread_caches_.collect([this](block& b) {
            is_emptied_ = true;
            flush_block(b);
        });
        is_emptied_ = false;
    }

    bool const alike_;
    bool is_emptied_ = false;
    cuota::detail::mutex guard_;
    thread_caches thread_caches_;
    std::array<block, blocks> records_;
    std::array<cuota::detail::block_metadata, blocks> notes_;
    std::array<block*, blocks> at_{};
    std::array<bool, blocks> free_{};
    std::size_t requested_ = 0;
};

// Threads that run a program. Each may have run another one before, so that its front is open.
struct several_threads : model::scenario {
    several_threads(program const& all, program const& before, bool alike)
        : run{all}, pool{alike}, history{books{alike}} {
        books state{alike};
        for (std::size_t t = 0; t != records.size(); ++t) records[t].index = static_cast<unsigned>(t);
        for (std::size_t t = 0; t != before.size(); ++t)
            for (operation o : before[t]) {
                o.who = static_cast<int>(t);
                long const answer = carry_out(enter(t), o);
                model::check(answer == state.apply(o), "one thing at a time, it does as it should");
            }
        cuota::detail::this_thread_slot() = &records.back();
        history = model::linear<books, operation>{state};
    }

    void thread(int number) override {
        thread_slot& me = enter(static_cast<std::size_t>(number));
        for (operation o : run[static_cast<std::size_t>(number)]) {
            o.who = number;
            history.call(number, o);
            long const answer = carry_out(me, o);
            // Other threads can learn of a block only by a step after its word was written.
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
    thread_slot& enter(std::size_t t) {
        cuota::detail::this_thread_slot() = &records[t];
        return records[t];
    }
    long carry_out(thread_slot& me, operation const& o) {
        switch (o.what) {
            case act::take: return pool.take(me, o.which);
            case act::give: return pool.give(me, o.which);
            case act::count: return pool.count();
            case act::recut: return pool.recut();
        }
        return -1;
    }

    program run;
    std::array<thread_slot, 4> records;
    std::array<cuota::detail::atomic<int>, 4> told{};
    small_pool pool;
    model::linear<books, operation> history;
};

void holds(model::options const& how, program const& run, program const& before, tally& sum,
           bool alike = false) {
    sum.explore<several_threads>(how, run, before, alike);
}

// The first thread has cached all blocks in a front that it has used before; or each thread has cached one.
program const all_with_the_first{{{act::take, 0}, {act::take, 1}, {act::give, 0}, {act::give, 1}}};
program const one_each{{{act::take, 0}, {act::give, 0}}, {{act::take, 1}, {act::give, 1}}};
// The first thread has one live block that its front remembers.
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
        holds(how, run, starts[sum.programs % starts.size()], sum, random() % 2 == 0);
    }
    return sum;
}

}  // namespace

TEST_CASE("of two concurrent releases of one block, exactly one is refused", "[model][thread_cache]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    for (program const& before : {one_live, program{{{act::take, 0}}}})
        holds(how, {{{act::give, 0}}, {{act::give, 0}}}, before, sum);
    holds(how, {{{act::give, 0}, {act::take, 0}}, {{act::give, 0}, {act::take, 0}}}, one_live, sum);
    tell(sum);
}

TEST_CASE("an idle block in one thread's cache is allocated by that thread or another, never by both",
          "[model][thread_cache]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    holds(how, {{{act::take, 0}, {act::give, 0}}, {{act::take, 0}, {act::give, 0}}}, all_with_the_first, sum);
    holds(how, {{{act::take, 0}, {act::give, 0}, {act::take, 0}}, {{act::count, 0}, {act::count, 0}}},
          all_with_the_first, sum);
    tell(sum);
}

TEST_CASE("a thread cache does not accept a block if its record has been reused for other bytes",
          "[model][thread_cache]") {
    tally sum;
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    // The second thread swaps the records between steps of the first.
    holds(
        how,
        {{{act::take, 0}, {act::give, 0}, {act::take, 1}, {act::give, 1}}, {{act::recut, 0}, {act::take, 1}}},
        one_each, sum);
    // When the first block is freed a second time, the remembered record is that of the other block, which is alike and live.
    holds(how,
          {{{act::take, 0},
            {act::give, 0},
            {act::recut, 0},
            {act::take, 1},
            {act::give, 1},
            {act::take, 1},
            {act::give, 0}},
           {{act::count, 0}}},
          {}, sum, true);
    tell(sum);
}

TEST_CASE("concurrent allocations, releases and counts are linearizable", "[model][thread_cache]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    how.visible = GENERATE(model::stores::in_order, model::stores::loosely);
    tell(explore_random(how, 40, 2, 3, 1));
    if (how.visible == model::stores::in_order) tell(explore_random(how, 8, 3, 2, 2));
}

TEST_CASE("three threads that allocate, release and count three times each", "[.][long][thread_cache]") {
    model::options how;
    how.asymmetric = GENERATE(true, false);
    tell(explore_random(how, 12, 3, 3, 3));
}
