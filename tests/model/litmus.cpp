// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Failures that the model must and must not find, in programs with known answers, and numbers of states and executions that were counted by
// hand, so that the claim "everything was explored" is itself tested.

#include <array>
#include <mutex>
#include <random>

#include <cuota/core/detail/threads/asymmetric_fence.hpp>

#include "model/linear.hpp"
#include "support/catch.hpp"

namespace stepping = cuota::detail;
using model::explore;
using model::options;
using model::stores;

namespace {
constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

options exhaustive(stores visible) { return {.visible = visible, .reduce = false}; }

/// Store buffering: each thread stores to its own place and loads the other's.
enum class fence { none, full, asymmetric, light_only, heavy_only };
struct store_buffering : model::scenario {
    explicit store_buffering(fence f) : between{f} {}
    void thread(int me) override {
        if (between == fence::full) place[me].exchange(1);
        else place[me].store(1, relaxed);
        if (between == fence::asymmetric || between == fence::light_only)
            me == 0 ? stepping::asymmetric_fence_light() : heavy();
        if (between == fence::heavy_only && me == 1) stepping::asymmetric_fence_heavy();
        saw[me] = place[1 - me].load(relaxed);
    }
    void heavy() const {
        between == fence::asymmetric ? stepping::asymmetric_fence_heavy()
                                     : stepping::asymmetric_fence_light();
    }
    void at_end() override { model::check(saw[0] != 0 || saw[1] != 0, "one of two sees the other's store"); }

    fence between;
    stepping::atomic<int> place[2] = {};
    int saw[2] = {};
};

/// Dekker's critical section: one thread's store is followed by a light fence, the other's by a heavy one.
struct dekker : model::scenario {
    explicit dekker(fence f) : between{f} {}
    void thread(int me) override {
        wants[me].store(true, relaxed);
        if (between == fence::asymmetric)
            me == 0 ? stepping::asymmetric_fence_light() : stepping::asymmetric_fence_heavy();
        if (between == fence::light_only) stepping::asymmetric_fence_light();
        if (between == fence::heavy_only && me == 1) stepping::asymmetric_fence_heavy();
        if (!wants[1 - me].load(acquire)) {
            model::step([&] { ++inside; });
            model::step([&] { --inside; });
        }
        wants[me].store(false, release);
    }
    void always() override { model::check(inside <= 1, "at most one is inside"); }

    fence between;
    stepping::atomic<bool> wants[2] = {};
    int inside = 0;
};

/// Peterson's lock, which waits, with seq_cst or release stores.
struct peterson : model::scenario {
    explicit peterson(std::memory_order of_stores) : order{of_stores} {}
    void thread(int me) override {
        wants[me].store(true, order);
        turn.store(1 - me, order);
        while (wants[1 - me].load() && turn.load() == 1 - me) {}
        model::step([&] { ++inside; });
        model::step([&] { --inside; });
        wants[me].store(false, release);
    }
    void always() override { model::check(inside <= 1, "at most one is inside"); }

    std::memory_order order;
    stepping::atomic<bool> wants[2] = {};
    stepping::atomic<int> turn{0};
    int inside = 0;
};

struct increments : model::scenario {
    explicit increments(bool at_once) : atomically{at_once} {}
    void thread(int) override {
        for (int i = 0; i < 2; ++i) {
            if (atomically) count.fetch_add(1);
            else count.store(count.load(acquire) + 1, release);
        }
    }
    void at_end() override { model::check(count.load() == 4, "no increment is lost"); }

    bool atomically;
    stepping::atomic<int> count{0};
};

struct two_locks : model::scenario {
    explicit two_locks(bool same) : same_order{same} {}
    void thread(int me) override {
        bool const first = me == 0 || same_order;
        std::scoped_lock const one{first ? a : b};
        std::scoped_lock const two{first ? b : a};
        ++both;
    }
    void at_end() override { model::check(both == 2, "both held both"); }

    bool same_order;
    stepping::mutex a, b;
    int both = 0;
};

/// A limiter of 3. The charge of 1 always fits, and the charges of 4 never do.
struct limiter : model::scenario {
    explicit limiter(bool add_first) : adds_first{add_first} {}
    bool try_charge(int amount) {
        if (adds_first) {
            if (held.fetch_add(amount) + amount <= 3) return true;
            held.fetch_sub(amount);
            return false;
        }
        int now = held.load();
        do
            if (amount > 3 - now) return false;
        while (!held.compare_exchange_weak(now, now + amount));
        return true;
    }
    void thread(int me) override {
        if (me == 0) {
            model::check(try_charge(1), "what always fits is not refused");
            held.fetch_sub(1);
        } else if (try_charge(4)) model::check(false, "what never fits is refused");
    }
    void at_end() override { model::check(held.load() == 0, "all came back"); }

    bool adds_first;
    stepping::atomic<int> held{0};
};

/// A stack of free blocks that compares the head only, although the block below it may have changed (ABA problem).
struct free_list : model::scenario {
    explicit free_list(bool counted) : step{counted ? 16 : 0} {}
    static constexpr int none = 15;
    int pop() {
        int now = head.load();
        for (;;) {
            if (now % 16 == none) return none;
            int const below = next[static_cast<std::size_t>(now % 16)].load();
            if (head.compare_exchange_strong(now, below + now / 16 * 16 + step)) return now % 16;
        }
    }
    void push(int block) {
        int now = head.load();
        do next[static_cast<std::size_t>(block)].store(now % 16);
        while (!head.compare_exchange_strong(now, block + now / 16 * 16 + step));
    }
    void take(int block) {
        model::step([&] {
            if (block != none) ++owners[static_cast<std::size_t>(block)];
        });
    }
    void thread(int me) override {
        if (me == 0) return take(pop());
        int const first = pop();
        take(pop());
        if (first != none) push(first);
    }
    void always() override {
        for (int const o : owners) model::check(o <= 1, "a block has one owner");
    }
    void at_end() override {
        for (int b = head.load() % 16; b != none; b = next[static_cast<std::size_t>(b)].load())
            model::check(owners[static_cast<std::size_t>(b)] == 0, "a free block has no owner");
    }

    int step;  // increment of the counter beside the head
    stepping::atomic<int> head{0};
    std::array<stepping::atomic<int>, 3> next{1, 2, none};
    std::array<int, 3> owners{};
};

/// Message passing: one thread stores data, then a flag; the other waits for the flag.
struct message : model::scenario {
    explicit message(std::memory_order of_flag) : order{of_flag} {}
    void thread(int me) override {
        if (me == 0) {
            data.store(7, relaxed);
            flag.store(1, order);
        } else {
            stepping::wait_until(flag, 1);
            model::check(data.load(relaxed) == 7, "the data came before the flag");
        }
    }
    std::memory_order order;
    stepping::atomic<int> data{0}, flag{0};
};

/// Each thread stores `count` times to a place of its own.
struct apart : model::scenario {
    explicit apart(int n) : count{n} {}
    void thread(int me) override {
        for (int i = 0; i < count; ++i) place[me].store(i + 1, relaxed);
    }
    int count;
    stepping::atomic<int> place[3] = {};
};

struct never : model::scenario {
    void thread(int me) override {
        if (me == 0) stepping::wait_until(flag, 1);
        else flag.store(2);
    }
    stepping::atomic<int> flag{0};
};

struct counting : model::scenario {
    void thread(int me) override {
        while (me == 0 && count.load() >= 0) count.fetch_add(1);
        if (me == 1) count.fetch_add(1);
    }
    stepping::atomic<int> count{0};
};

struct throwing : model::scenario {
    void thread(int me) override {
        try {
            count.fetch_add(1);
            if (me == 0) throw std::string(100, 'a');
            throw 1;
        } catch (...) {
            count.fetch_add(1);
            again(me);
        }
    }
    static void again(int me) {
        try {
            throw;
        } catch (int) { model::check(me == 1, "each catches its own"); } catch (std::string const& text) {
            model::check(me == 0 && text == std::string(100, 'a'), "each catches its own");
        }
    }
    void at_end() override {
        model::check(count.load() == 4 && std::uncaught_exceptions() == 0, "all is over");
    }
    stepping::atomic<int> count{0};
};

/// Explores with and without reduction, which must agree.
template <class S, class... Args>
bool fails(options how, int threads, Args... args) {
    how.reduce = true;
    auto const few = explore<S>(how, threads, args...);
    how.reduce = false;
    auto const all = explore<S>(how, threads, args...);
    INFO(few.numbers() << " / " << all.numbers() << "\n" << few.failure);
    CHECK(few.failure.substr(0, few.failure.find('\n')) == all.failure.substr(0, all.failure.find('\n')));
    CHECK(few.complete == few.failure.empty());
    CHECK(all.complete == all.failure.empty());
    if (all.complete) CHECK(few.states <= all.states);
    return !few.failure.empty();
}

options const by_tso{}, by_sc{.visible = stores::at_once}, loosely{.visible = stores::loosely};
}  // namespace

TEST_CASE("of two threads that store and then load, both may miss the other only if stores are buffered",
          "[model]") {
    CHECK(fails<store_buffering>(by_tso, 2, fence::none));
    CHECK_FALSE(fails<store_buffering>(by_sc, 2, fence::none));
    CHECK_FALSE(fails<store_buffering>(by_tso, 2, fence::full));
}

TEST_CASE("a light fence is effective only together with a heavy fence", "[model]") {
    CHECK_FALSE(fails<store_buffering>(by_tso, 2, fence::asymmetric));
    CHECK(fails<store_buffering>(by_tso, 2, fence::light_only));
    CHECK(fails<store_buffering>(by_tso, 2, fence::heavy_only));
}

TEST_CASE("mutual exclusion by flags requires a pair of fences", "[model]") {
    CHECK(fails<dekker>(by_tso, 2, fence::none));
    CHECK(fails<dekker>(by_tso, 2, fence::light_only));
    CHECK(fails<dekker>(by_tso, 2, fence::heavy_only));
    CHECK_FALSE(fails<dekker>(by_tso, 2, fence::asymmetric));
    CHECK_FALSE(fails<dekker>(loosely, 2, fence::asymmetric));
    CHECK_FALSE(fails<dekker>({.asymmetric = false}, 2, fence::asymmetric));
    CHECK_FALSE(fails<dekker>({.asymmetric = false}, 2, fence::light_only));
    CHECK_FALSE(fails<dekker>(by_sc, 2, fence::none));
}

TEST_CASE("Peterson's lock requires that its stores are visible before its loads", "[model]") {
    CHECK_FALSE(fails<peterson>(by_tso, 2, std::memory_order_seq_cst));
    CHECK(fails<peterson>(by_tso, 2, release));
    CHECK_FALSE(fails<peterson>(by_sc, 2, release));
    CHECK(explore<peterson>(by_tso, 2, std::memory_order_seq_cst).cycles > 0);
}

TEST_CASE("a load and a store are not an atomic increment", "[model]") {
    CHECK(fails<increments>(by_sc, 2, false));
    CHECK(fails<increments>(by_tso, 2, false));
    CHECK_FALSE(fails<increments>(by_tso, 2, true));
    CHECK(explore<increments>(by_tso, 2, true).cycles == 0);
}

TEST_CASE("locking in different orders is a deadlock", "[model]") {
    CHECK(fails<two_locks>(by_tso, 2, false));
    CHECK_FALSE(fails<two_locks>(by_tso, 2, true));
    auto const found = explore<two_locks>(by_tso, 2, false);
    CHECK(found.failure.rfind("deadlock", 0) == 0);
}

TEST_CASE("a limiter that adds before it checks refuses requests that would fit", "[model]") {
    CHECK(fails<limiter>(by_tso, 2, true));
    CHECK_FALSE(fails<limiter>(by_tso, 2, false));
    CHECK_FALSE(fails<limiter>(by_tso, 3, false));
}

namespace {
/// Specification of the limiter: charges have positive amounts, refunds negative ones.
struct exact {
    int held = 0;
    long apply(int amount) {
        if (amount > 3 - held) return 0;
        held += amount;
        return 1;
    }
    friend auto operator<=>(exact const&, exact const&) = default;
};

struct held_to_account : limiter {
    using limiter::limiter;
    void thread(int me) override {
        std::array<int, 3> const sizes{2, 2, 1};
        for (int i = 0; i < 2; ++i) {
            int const amount = sizes[static_cast<std::size_t>(me + i) % 3];
            history.call(me, amount);
            bool const fits = try_charge(amount);
            history.returned(me, fits);
            if (!fits) continue;
            history.call(me, -amount);
            held.fetch_sub(amount);
            history.returned(me, 1);
        }
    }
    void at_end() override {
        model::check(held.load() == history.one().held && history.possibilities() == 1,
                     "all agree what is held");
    }
    model::linear<exact, int> history{exact{}};
};
}  // namespace

namespace {
struct last_written {
    int value = 0;
    long apply(int write) {
        if (write != 0) value = write;
        return value;
    }
    friend auto operator<=>(last_written const&, last_written const&) = default;
};

/// Readers can see the store before the writer's next step, so the operation must count as begun when the store arrives.
struct writer : model::scenario {
    explicit writer(bool waits) : fenced{waits} {}
    void thread(int me) override {
        history.call(me, me == 0 ? 1 : 0);
        if (me == 0) place.store(1, relaxed);
        if (me == 0 && fenced) own.exchange(1);
        history.returned(me, me == 0 ? 1 : place.load(relaxed));
    }
    bool fenced;
    stepping::atomic<int> place{0}, own{0};
    model::linear<last_written, int> history{last_written{}};
};
}  // namespace

TEST_CASE("an operation begins when its first store becomes visible", "[model]") {
    CHECK_FALSE(fails<writer>(by_tso, 2, true));
    CHECK_FALSE(fails<writer>(by_tso, 3, true));
    CHECK(fails<writer>(by_tso, 2, false));
}

namespace {
/// The same under a lock: the writer begins when it has locked, and the reader ends when it unlocks.
struct locking_writer : model::scenario {
    void thread(int me) override {
        guard.lock();
        history.call(me, me == 0 ? 1 : 0);
        if (me == 0) value = 1;
        int const saw = value;
        guard.unlock();
        history.returned(me, saw);
    }
    stepping::mutex guard;
    int value = 0;
    model::linear<last_written, int> history{last_written{}};
};
}  // namespace

TEST_CASE("an operation begins when its lock is released", "[model]") {
    CHECK_FALSE(fails<locking_writer>(by_tso, 2));
    CHECK_FALSE(fails<locking_writer>(by_tso, 3));
}

TEST_CASE("results are compared with those of a sequential limiter", "[model]") {
    CHECK(fails<held_to_account>(by_tso, 2, true));
    CHECK(fails<held_to_account>(by_tso, 3, true));
    CHECK_FALSE(fails<held_to_account>(by_tso, 2, false));
    CHECK_FALSE(fails<held_to_account>(by_tso, 3, false));
    auto const found = explore<held_to_account>(by_tso, 2, true);
    CHECK(found.failure.rfind("an answer is right at some instant", 0) == 0);
}

TEST_CASE("compare-exchange on a reused head fails without a counter", "[model]") {
    CHECK(fails<free_list>(by_tso, 2, false));
    CHECK_FALSE(fails<free_list>(by_tso, 2, true));
}

TEST_CASE("stores to two addresses keep their order, unless the model has a weaker order", "[model]") {
    CHECK_FALSE(fails<message>(by_tso, 2, relaxed));
    CHECK(fails<message>(loosely, 2, relaxed));
    CHECK_FALSE(fails<message>(loosely, 2, release));
}

TEST_CASE("exceptions of concurrent threads are independent", "[model]") {
    CHECK_FALSE(fails<throwing>(by_tso, 2));
}

TEST_CASE("endless waiting and endless counting are failures", "[model]") {
    CHECK(fails<never>(by_tso, 2));
    CHECK(fails<counting>({.longest = 60}, 2));
}

// n threads of k independent steps each: (k + 1)^n states, (nk)! / (k!)^n executions.
TEST_CASE("independent steps are explored in every order", "[model]") {
    auto const found = explore<apart>(exhaustive(stores::at_once), 3, 2);
    CHECK(found.complete);
    CHECK(found.states == 27);
    CHECK(found.steps == 54);  // from each state, one for each unfinished thread
    CHECK(found.ends == 1);
    CHECK(found.deepest == 6);
    CHECK(found.executions == 90);
    CHECK(found.cycles == 0);
    CHECK(explore<apart>(exhaustive(stores::at_once), 2, 5).executions == 252);
    CHECK(explore<apart>(exhaustive(stores::at_once), 1, 5).executions == 1);
}

// One thread's two stores and two arrivals: 0 <= arrived <= stored <= 2 are 6 states; 2 orders (SASA, SSAA). Two threads: 36 states; orders
// of 8 steps, 4 of each thread: 70 * 2 * 2.
TEST_CASE("a buffered store and its becoming visible are two steps", "[model]") {
    auto const one = explore<apart>(exhaustive(stores::in_order), 1, 2);
    CHECK(one.states == 6);
    CHECK(one.executions == 2);
    auto const two = explore<apart>(exhaustive(stores::in_order), 2, 2);
    CHECK(two.states == 36);
    CHECK(two.executions == 280);
}

TEST_CASE("steps that are invisible to other threads are not explored in several orders", "[model]") {
    auto const found = explore<apart>(by_tso, 3, 5);
    CHECK(found.complete);
    CHECK(found.executions == 1);
    CHECK(found.states == 1);
}

// Two steps each: 6 orders without a bound, 2 without a switch from a thread that can continue, and with at most one such switch AABB,
// BBAA, ABBA, BAAB.
TEST_CASE("bounded preemptions exclude executions with more switches", "[model]") {
    auto how = exhaustive(stores::at_once);
    how.preemptions = 0;
    CHECK(explore<apart>(how, 2, 2).executions == 2);
    how.preemptions = 1;
    CHECK(explore<apart>(how, 2, 2).executions == 4);
    how.preemptions = 2;
    CHECK(explore<apart>(how, 2, 2).executions == 6);
    // Three steps each, two switches: AAABBB, ABBBAA and AABBBA, and four such as ABAABB; equally many begin with B.
    CHECK(explore<apart>(how, 2, 3).executions == 14);
    how.preemptions = 1;
    CHECK(explore<apart>(how, 2, 3).executions == 6);
}

TEST_CASE("a failure has its steps and can be replayed", "[model]") {
    auto const found = explore<store_buffering>(by_tso, 2, fence::none);
    INFO(found.failure);
    CHECK(found.failure.rfind("one of two sees the other's store\n", 0) == 0);
    CHECK(found.failure.find("arrives") != std::string::npos);
    CHECK(found.failure.find("(litmus.cpp:") != std::string::npos);
    CHECK_FALSE(found.complete);
    options again;
    again.schedule = found.schedule;
    CHECK(explore<store_buffering>(again, 2, fence::none).failure == found.failure);
    CHECK(explore<store_buffering>(again, 2, fence::asymmetric).failure.empty());
}

namespace {
int a_global = 0;
struct with_global : model::scenario {
    void thread(int) override {
        for (int i = 0; i < 2; ++i) model::step([] { ++a_global; });
    }
    void at_end() override { model::check(a_global == 4, "the global was put back"); }
};
}  // namespace

TEST_CASE("named globals are part of the state and are restored", "[model]") {
    options how;
    how.also.push_back(std::as_writable_bytes(std::span{&a_global, 1}));
    auto const found = explore<with_global>(how, 2);
    CHECK(found.failure.empty());
    CHECK(found.states == 9);
    CHECK(found.executions == 6);
    CHECK(a_global == 0);
}

namespace {
/// Threads of random steps on three places. Outcomes are the values that they read and leave or, if watched, those visible meanwhile.
struct random_program : model::scenario {
    random_program(unsigned seed, bool at_all_times, bool in_blocks)
        : watched{at_all_times}, blocks{in_blocks} {
        std::minstd_rand random{seed + 1};
        for (auto& thread : steps)
            for (auto& s : thread)
                s = {static_cast<int>(random() % 11), random() % 3, static_cast<int>(random() % 3)};
    }
    void thread(int me) override {
        auto const self = static_cast<std::size_t>(me);
        for (auto const& s : steps[self]) {
            auto& place = places[s.place];
            switch (s.what) {
                case 0:
                case 1: place.store(s.value, relaxed); break;
                case 2: place.store(s.value, release); break;
                case 3:
                case 4:
                case 5: saw[self] = saw[self] * 4 + static_cast<unsigned>(place.load(relaxed)); break;
                case 6: saw[self] = saw[self] * 4 + static_cast<unsigned>(place.exchange(s.value)); break;
                case 7: stepping::asymmetric_fence_light(); break;
                case 8: stepping::asymmetric_fence_heavy(); break;
                case 9: model::step([&] { counter = counter * 4 + static_cast<unsigned>(me); }); break;
                default: locked(self, place, s.value); break;
            }
        }
    }
    void locked(std::size_t self, stepping::atomic<int>& place, int value) {
        if (blocks && value == 0) return stepping::wait_until(place, 0);
        std::unique_lock<stepping::mutex> lock{guard, std::defer_lock};
        if (value == 1) saw[self] = saw[self] * 4 + static_cast<unsigned>(lock.try_lock());
        else lock.lock();
        place.store(value, relaxed);
    }
    void always() override {
        if (watched)
            model::outcome(static_cast<unsigned>(places[0].load() * 4 + places[1].load()) + 16 * counter);
    }
    void at_end() override {
        std::uint64_t all = counter;
        for (auto const s : saw) all = all * 1024 + s;
        for (auto const& p : places) all = all * 4 + static_cast<unsigned>(p.load());
        model::outcome(~all);
    }

    struct one {
        int what;
        std::size_t place;
        int value;
    };
    bool watched;
    unsigned from;
    bool blocks;
    std::array<std::array<one, 4>, 3> steps{};
    std::array<stepping::atomic<int>, 3> places{};
    stepping::mutex guard;
    std::array<unsigned, 3> saw{};
    unsigned counter = 0;
};
}  // namespace

namespace {
void compare_random_programs(unsigned first, unsigned last) {
    auto const visible = GENERATE(stores::at_once, stores::in_order, stores::loosely);
    auto const watched = GENERATE(false, true);
    auto const asymmetric = GENERATE(false, true);
    std::size_t all_states = 0, few_states = 0, open = 0;
    for (unsigned seed = first; seed < last; ++seed) {
        int const threads = 2 + static_cast<int>(seed % 2);
        options how{.visible = visible, .asymmetric = asymmetric, .walks = seed % 4 < 2 ? 0U : 200U};
        auto const few = explore<random_program>(how, threads, seed, watched, false);
        how.reduce = false;
        auto const all = explore<random_program>(how, threads, seed, watched, false);
        INFO("program " << seed << ": " << few.numbers() << " / " << all.numbers());
        REQUIRE(all.complete);
        REQUIRE(few.complete);
        REQUIRE(few.outcomes == all.outcomes);
        few_states += few.states;
        all_states += all.states;
        open += all.outcomes.size() > 1;
    }
    CHECK(open > (last - first) * 3 / 4);
    CHECK(few_states < all_states);
}
}  // namespace

TEST_CASE("the reduction of executions changes no outcome", "[model]") {
    auto const first = GENERATE(0U, 600U, 1780U);  // the later ones have found mistakes
    compare_random_programs(first, first + 30);
}

TEST_CASE("the reduction of executions changes no outcome of many programs", "[.][long]") {
    compare_random_programs(60, 3000);
}

TEST_CASE("the reduction of executions hides no deadlock", "[model]") {
    int stuck = 0;
    for (unsigned seed = 0; seed < 100; ++seed) {
        stuck += fails<random_program>(by_tso, 2, seed, false, true);
    }
    CHECK(stuck > 5);
    CHECK(stuck < 95);
}
