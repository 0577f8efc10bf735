// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random walks through a pool, with a shadow that knows what must be where, on a device that knows what must come before
// what: no two live blocks overlap, no memory is used again before its time, every figure is right.
// For as long as one likes: CUOTA_STRESS=<operations, in all>.
#include <cuota/pool/scoped_pool.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/event.hpp>

#include "pool/shadow.hpp"
#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using pool_tests::shadow;
using pool_tests::shadowed_memory;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t cap = 4_MiB;

// Operations of a walk, of so many walks that share what there is.
std::uint64_t share_of(std::uint64_t parts, std::uint64_t in_the_suite) {
    char const* const told = std::getenv("CUOTA_STRESS");
    return told ? std::strtoull(told, nullptr, 10) / parts : in_the_suite;
}

void tell(char const* what, std::size_t streams, std::string const& figures) {
    if (std::getenv("CUOTA_STRESS")) std::printf("%s, %zu streams: %s\n", what, streams, figures.c_str());
}

struct held {
    void* p;
    std::size_t bytes;
    std::size_t stream;  // in whose order it may be used
};

// Streams that a walk uses; one of them nobody's whom the library knows.
class streams {
public:
    explicit streams(std::size_t count) : owned_(count) {
        if (count > 2) cuota::rt::check(cudaStreamCreate(&foreign_), "cudaStreamCreate");
    }
    streams(streams const&) = delete;
    streams& operator=(streams const&) = delete;
    ~streams() {
        if (foreign_) cudaStreamDestroy(foreign_);
    }
    [[nodiscard]] std::size_t size() const { return owned_.size(); }
    [[nodiscard]] cuota::stream_ref operator[](std::size_t i) const {
        if (i == 0 && foreign_) return foreign_;
        return owned_[i];
    }
    void renew(std::size_t i) { owned_[i] = cuota::stream{}; }

private:
    std::vector<cuota::stream> owned_;
    cudaStream_t foreign_ = nullptr;
};

// A request: mostly of a few small sizes that come again, some of any size.
std::size_t some_bytes(std::mt19937_64& random) {
    switch (random() % 8) {
        case 0: return 1 + random() % (std::size_t{256} << random() % 11);
        case 1: return 1 + random() % 16_KiB;
        case 2:
        case 3: return 1 + random() % 4_KiB;
        default: return 256 * (1 + random() % 6) - random() % 2;
    }
}

// What one thread does to a pool.
class walker {
public:
    walker(cuota::scoped_pool& pool, shadow& beside, streams& on, std::uint64_t seed)
        : pool_{pool}, shadow_{beside}, streams_{on}, random_{seed} {}

    std::mt19937_64& random() { return random_; }
    std::vector<held>& live() { return live_; }
    [[nodiscard]] std::size_t any_stream() { return random_() % streams_.size(); }
    [[nodiscard]] std::size_t any_live() { return random_() % live_.size(); }

    // The bytes change on that stream: the device's checker sees who was not ordered with it.
    void touch(held const& h) { cuota::rt::fill_bytes(h.p, 1, h.bytes, streams_[h.stream]); }

    void keep(held const& h) {
        shadow_.took(h.p, h.bytes);
        touch(h);
        live_.push_back(h);
    }
    held drop(std::size_t i) {
        held const h = std::exchange(live_[i], live_.back());
        live_.pop_back();
        return h;
    }
    // Hands it to another stream, in order.
    void move_to(held& h, std::size_t stream) {
        if (h.stream == stream) return;
        streams_[stream].wait(cuota::event{streams_[h.stream]});
        h.stream = stream;
    }

    void allocate(std::size_t stream, std::size_t bytes) {
        keep({pool_.allocate(streams_[stream], bytes), bytes, stream});
    }
    void allocate_sync(std::size_t bytes) {
        void* const p = pool_.resource().allocate_sync(bytes);
        keep({p, bytes, any_stream()});
    }
    void give(held const& h) {
        shadow_.gives(h.p, h.bytes);
        pool_.deallocate(streams_[h.stream], h.p, h.bytes);
    }
    void give_any() {
        if (live_.empty()) return;
        held h = drop(any_live());
        if (random_() % 4 == 0) move_to(h, any_stream());
        if (random_() % 2 == 0) touch(h);
        if (random_() % 32 != 0) return give(h);
        streams_[h.stream].synchronize();
        shadow_.gives(h.p, h.bytes);
        pool_.resource().deallocate_sync(h.p, h.bytes);
    }
    void give_all() {
        while (!live_.empty()) give(drop(live_.size() - 1));
    }
    // As a program's inner loop does: the same again, and again.
    void pairs() {
        std::size_t const stream = any_stream();
        std::size_t const bytes = some_bytes(random_);
        for (int i = 0; i != 3; ++i) {
            allocate(stream, bytes);
            give(drop(live_.size() - 1));
        }
    }
    // Releases that cannot be right. Returns how many there were.
    std::size_t give_wrongly() {
        if (live_.empty()) return 0;
        held const h = live_[any_live()];
        cuota::stream_ref const s = streams_[any_stream()];
        auto* const bytes = static_cast<std::byte*>(h.p);
        pool_.deallocate(s, h.p, h.bytes + 1);
        pool_.deallocate(s, bytes + 1, h.bytes);
        pool_.deallocate(s, &pool_, h.bytes);
        if (h.bytes <= 256) return 3;
        pool_.deallocate(s, bytes + 256, h.bytes - 256);
        return 4;
    }
    // Once more what this thread gave back just now, which nobody else can have.
    std::size_t give_twice() {
        if (live_.empty()) return 0;
        held const h = drop(any_live());
        give(h);
        pool_.deallocate(streams_[any_stream()], h.p, h.bytes);
        return 1;
    }

protected:
    cuota::scoped_pool& pool_;
    shadow& shadow_;
    streams& streams_;

private:
    std::mt19937_64 random_;
    std::vector<held> live_;
};

bool is_same(cuota::pool_stats const& a, cuota::pool_stats const& b) {
    return a.requested == b.requested && a.allocated == b.allocated && a.reserved == b.reserved &&
           a.peak_requested == b.peak_requested && a.peak_allocated == b.peak_allocated &&
           a.peak_reserved == b.peak_reserved && a.live_blocks == b.live_blocks &&
           a.free_blocks == b.free_blocks && a.largest_free == b.largest_free && a.segments == b.segments;
}
std::string text_of(cuota::pool_stats const& s) {
    std::string text;
    for (std::size_t const n : {s.requested, s.allocated, s.reserved, s.peak_requested, s.peak_allocated,
                                s.peak_reserved, s.live_blocks, s.free_blocks, s.largest_free, s.segments})
        text += std::to_string(n) + ' ';
    return text;
}

// Throws, so that a walk ends where it went wrong.
void agree(cuota::scoped_pool const& pool, shadow const& beside, std::size_t held_by_budget) {
    cuota::pool_stats const is = pool.stats();
    cuota::pool_stats const expected = beside.expected();
    if (!is_same(is, expected))
        throw std::logic_error{"the pool says " + text_of(is) + "but it is " + text_of(expected)};
    if (held_by_budget != expected.reserved) throw std::logic_error{"the budget holds what the pool has not"};
    if (pool.largest_free() != expected.largest_free) throw std::logic_error{"largest_free() is another"};
    if (std::string const wrong = beside.wrong(); !wrong.empty()) throw std::logic_error{"not so: " + wrong};
}

void no_race() {
    auto const& reports = simulator::order_reports();
    INFO((reports.empty() ? std::string{} : reports.front()));
    REQUIRE(simulator::misuse().total() == 0);
}

// One thread: everything is known at every moment.
class walk {
public:
    walk(support::machine& on, std::size_t streams_count, std::uint64_t seed)
        : machine_{on}, streams_{streams_count}, me_{pool_, shadow_, streams_, seed} {}

    void run(std::uint64_t operations) {
        std::uint64_t until_check = 1;
        for (std::uint64_t i = 0; i != operations; ++i) {
            act();
            if (--until_check != 0) continue;
            check();
            until_check = 1 + me_.random()() % 256;
        }
        end();
    }
    // As run, with calls to the driver failing on the way.
    void run_with_faults(std::uint64_t operations) {
        for (std::uint64_t i = 0; i != operations; ++i) {
            if (me_.random()() % 2 == 0) act();
            else act_with_faults();
            if (i % 64 == 0) check();
        }
        end();
    }

    [[nodiscard]] std::string figures() const {
        cuota::pool_stats const s = pool_.stats();
        return std::to_string(allocations_) + " allocations, " + std::to_string(refusals_) + " refused, " +
               std::to_string(s.taken_again) + " taken again, " + std::to_string(s.stream_waits) +
               " waits, " + std::to_string(wrong_releases_) + " wrong releases, " + std::to_string(failed_) +
               " failed";
    }
    [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
    [[nodiscard]] std::uint64_t failed() const { return failed_; }
    [[nodiscard]] cuota::pool_stats stats() const { return pool_.stats(); }

private:
    void act() {
        std::size_t const dice = me_.random()() % 1024;
        if (dice < 930) allocate_or_release();
        else if (dice < 970) pairs();
        else if (dice < 985) wrongly(me_.give_wrongly());
        else if (dice < 995) wrongly(me_.give_twice());
        else if (dice < 1005) trim();
        else if (dice < 1012) take_the_largest();
        else if (dice < 1018) streams_[me_.any_stream()].synchronize();
        else if (dice < 1022) ask_for_nonsense();
        else renew_a_stream();
    }
    // About as much is live as is aimed at, which changes: sometimes next to nothing, sometimes more than there is.
    void allocate_or_release() {
        if (me_.random()() % 1024 == 0) aim_ = me_.random()() % 10;
        bool const more = shadow_.allocated() < cap / 8 * aim_;
        if (me_.random()() % 8 < (more ? 5 : 3)) allocate();
        else me_.give_any();
    }
    void allocate() {
        std::size_t const bytes = some_bytes(me_.random());
        bool const sync = me_.random()() % 64 == 0;
        ask(bytes, [&] {
            if (sync) me_.allocate_sync(bytes);
            else me_.allocate(me_.any_stream(), bytes);
        });
    }
    void pairs() {
        shadow_.wants(0);
        try {
            me_.pairs();
            allocations_ += 3;
        } catch (cuota::out_of_memory const&) { ++refusals_; }
    }
    template <class Ask>
    void ask(std::size_t bytes, Ask take) {
        shadow_.wants(bytes);
        try {
            take();
            ++allocations_;
        } catch (cuota::out_of_memory const&) {
            ++refusals_;
            shadow_.refused(bytes, cap);
        }
        shadow_.wants(0);
    }
    void wrongly(std::size_t releases) {
        wrong_releases_ += releases;
        if (machine_.errors.take().size() != releases)
            throw std::logic_error{"a wrong release is reported, once"};
    }
    void trim() {
        std::size_t const keep = me_.random()() % 2 == 0 ? 0 : me_.random()() % cap;
        std::size_t const before = shadow_.expected().reserved;
        std::size_t const given = pool_.trim(keep);
        if (before - shadow_.expected().reserved != given) throw std::logic_error{"a trim says what it gave"};
        shadow_.trimmed(keep);
    }
    void take_the_largest() {
        std::size_t const bytes = pool_.largest_free();
        if (bytes == 0) return;
        std::size_t const before = shadow_.expected().reserved;
        me_.allocate(me_.any_stream(), bytes);
        ++allocations_;
        if (before != shadow_.expected().reserved)
            throw std::logic_error{"the largest free block needs no more from the source"};
        me_.give(me_.drop(me_.live().size() - 1));
    }
    void ask_for_nonsense() {
        cuota::stream_ref const s = streams_[me_.any_stream()];
        auto const is_refused = [&](std::size_t bytes, std::size_t alignment) {
            try {
                return pool_.allocate(s, bytes, alignment) == nullptr;
            } catch (cuota::out_of_memory const&) { return true; } catch (cuota::misuse const&) {
                return true;
            }
        };
        if (!is_refused(0, 256) || !is_refused(cap + 1, 256) || !is_refused(SIZE_MAX, 256) ||
            !is_refused(256, 4_MiB) || !is_refused(256, 3))
            throw std::logic_error{"what makes no sense is refused"};
    }
    void renew_a_stream() {
        std::size_t const s = me_.any_stream();
        for (std::size_t i = me_.live().size(); i-- != 0;)
            if (me_.live()[i].stream == s) me_.give(me_.drop(i));
        streams_.renew(s);
    }

    // An operation in which a call to the driver fails: one, or each by chance. It throws or reports, or there was
    // another way; whatever is said to have failed has changed nothing.
    void act_with_faults() {
        // All but those that destroy: what the driver does not destroy then is nobody's.
        constexpr std::array calls{"cudaMalloc",           "cudaFree",
                                   "cudaEventRecord",      "cudaEventQuery",
                                   "cudaEventSynchronize", "cudaEventCreateWithFlags",
                                   "cudaStreamWaitEvent",  "cudaStreamSynchronize",
                                   "cudaStreamGetId",      "cudaStreamGetDevice",
                                   "cudaGetDevice",        "cudaSetDevice"};
        constexpr std::array codes{cudaErrorMemoryAllocation, cudaErrorUnknown};
        auto& random = me_.random();
        char const* const call = calls[random() % calls.size()];
        cudaError_t const code = codes[random() % codes.size()];
        bool const grows = random() % 2 == 0;
        std::size_t const bytes = grows ? pool_.largest_free() + 1 : some_bytes(random);
        std::size_t const stream = me_.any_stream();
        bool const gives = random() % 4 == 0;
        std::optional<held> given;
        if (gives && !me_.live().empty()) given = me_.drop(me_.any_live());
        auto const injected = simulator::faults_injected();
        // Of a release one call fails: where even waiting fails, there is nothing left to go by.
        if (given || random() % 2 == 0) simulator::fail_call(call, 1 + random() % 3, code);
        else simulator::fail_randomly(call, 0.3, random(), code);
        void* p = nullptr;
        bool threw = false;
        try {
            if (given) me_.give(*given);
            else if (random() % 8 == 0) pool_.trim(random() % cap);
            else if (random() % 8 == 0) p = pool_.resource().allocate_sync(bytes);
            else p = pool_.allocate(streams_[stream], bytes);
        } catch (cuota::out_of_memory const&) { threw = true; } catch (cuota::cuda_error const&) {
            threw = true;
        }
        simulator::clear_faults();
        bool const was_used = simulator::faults_injected() != injected;
        bool const was_reported = !machine_.errors.take().empty();
        if (p) me_.keep({p, bytes, stream});
        failed_ += was_used && (threw || was_reported);
        if (!was_used && was_reported) throw std::logic_error{"nothing failed, and something was reported"};
        for (void* const lost : shadow_.take_lost()) cudaFree(lost);
        if (threw) check();
    }

    void check() {
        agree(pool_, shadow_, budget_.held());
        if (simulator::live().device_bytes != shadow_.expected().reserved)
            throw std::logic_error{"the device holds what the pool has not"};
    }
    void end() {
        check();
        me_.give_all();
        check();
        pool_.trim();
        check();
        if (shadow_.expected().reserved != 0) throw std::logic_error{"a trim of an idle pool leaves nothing"};
        cuota::device::current().synchronize();
    }

    support::machine& machine_;
    shadow shadow_;
    cuota::budget budget_{"walk", cap};
    streams streams_;
    cuota::scoped_pool pool_{budget_, shadowed_memory{shadow_}};
    walker me_;
    std::size_t aim_ = 6;  // eighths of the cap
    std::uint64_t allocations_ = 0;
    std::uint64_t refusals_ = 0;
    std::uint64_t wrong_releases_ = 0;
    std::uint64_t failed_ = 0;
};

// What threads hand to each other.
class exchange {
public:
    // Leaves what it has, takes what is there.
    [[nodiscard]] std::optional<held> swap(std::size_t place, std::optional<held> mine) {
        std::scoped_lock const lock{guard_};
        return std::exchange(places_[place % places_.size()], mine);
    }

private:
    std::mutex guard_;
    std::array<std::optional<held>, 8> places_;
};

// One of several threads on one pool, with streams that are everybody's.
void run_beside_others(walker& me, cuota::scoped_pool& pool, exchange& between, std::uint64_t operations,
                       std::atomic<std::uint64_t>& wrong_releases) {
    auto const allocate = [&] {
        try {
            me.allocate(me.any_stream(), some_bytes(me.random()));
        } catch (cuota::out_of_memory const&) { me.give_any(); }
    };
    auto const hand_over = [&] {
        std::optional<held> mine;
        if (!me.live().empty()) mine = me.drop(me.any_live());
        if (auto const got = between.swap(me.random()(), mine)) me.live().push_back(*got);
    };
    for (std::uint64_t i = 0; i != operations; ++i) {
        std::size_t const dice = me.random()() % 1024;
        bool const more = me.live().size() < 100;
        if (dice < 800 && me.random()() % 8 < (more ? 5 : 3)) allocate();
        else if (dice < 800) me.give_any();
        else if (dice < 900) hand_over();
        else if (dice < 1000) try {
                me.pairs();
            } catch (cuota::out_of_memory const&) { me.give_any(); }
        else if (dice < 1008) wrong_releases += me.give_wrongly();
        else if (dice < 1012) pool.trim(me.random()() % cap);
        else if (dice < 1016) (void)pool.largest_free();
        else if (cuota::pool_stats const s = pool.stats();
                 s.requested > s.allocated || s.allocated > s.reserved || s.reserved > cap)
            throw std::logic_error{"the figures are of no one moment"};
    }
}

}  // namespace

TEST_CASE("a pool agrees with its shadow, and every stream's work is in order, over a random walk",
          "[pool][scoped_pool][stress]") {
    support::machine machine;
    simulator::set_order_checks(simulator::order_checks::report);
    std::size_t const streams = GENERATE(1U, 2U, 4U, 8U, 16U);
    bool const late = GENERATE(false, true);
    simulator::set_schedule(late ? simulator::schedule::late : simulator::schedule::workers, streams);
    walk w{machine, streams, 100 * streams + late};
    w.run(share_of(20, 2'000));

    no_race();
    CHECK(simulator::order_checked().accesses >= w.allocations());
    CHECK(w.allocations() > 500);
    CHECK(w.stats().taken_again > 0);
    if (streams > 1) CHECK(w.stats().stream_waits > 0);
    tell(late ? "late" : "at once", streams, w.figures());
}

TEST_CASE("a pool agrees with its shadow, and loses nothing, when calls to the driver fail at random",
          "[pool][scoped_pool][stress]") {
    support::machine machine;
    simulator::set_order_checks(simulator::order_checks::report);
    std::size_t const streams = GENERATE(1U, 3U, 16U);
    walk w{machine, streams, 7 * streams};
    w.run_with_faults(share_of(12, 4'000));

    no_race();
    CHECK(w.failed() > 0);
    CHECK(w.allocations() > 500);
    tell("with faults", streams, w.figures());
}

TEST_CASE(
    "a pool agrees with its shadow after threads have walked through it at once, on streams that they share",
    "[pool][scoped_pool][threads][stress]") {
    constexpr std::size_t threads = 4;
    support::machine machine;
    simulator::set_order_checks(simulator::order_checks::report);
    std::size_t const count = GENERATE(1U, 4U, 16U);
    std::uint64_t const operations = share_of(8, 2'000);
    shadow beside;
    cuota::budget budget{"walk", cap};
    streams on{count};
    cuota::scoped_pool pool{budget, shadowed_memory{beside}};
    exchange between;
    std::vector<walker> walkers;
    for (std::size_t t = 0; t != threads; ++t) walkers.emplace_back(pool, beside, on, 10 * count + t);
    std::atomic<std::uint64_t> wrong_releases = 0;
    std::mutex guard;
    std::string failure;

    for (int round = 0; round != 4; ++round) {
        std::vector<std::thread> all;
        for (walker& me : walkers)
            all.emplace_back([&] {
                try {
                    run_beside_others(me, pool, between, operations / threads / 4, wrong_releases);
                } catch (std::exception const& e) {
                    std::scoped_lock const lock{guard};
                    failure = e.what();
                }
            });
        for (std::thread& t : all) t.join();
        REQUIRE(failure.empty());
        REQUIRE(beside.wrong().empty());
        auto const is = pool.stats();
        auto expected = beside.expected();
        CHECK(is.peak_requested >= expected.peak_requested);
        CHECK(is.peak_allocated >= expected.peak_allocated);
        CHECK(is.peak_reserved <= cap);
        expected.peak_requested = is.peak_requested;  // who tells the shadow of it does so a little later
        expected.peak_allocated = is.peak_allocated;
        expected.peak_reserved = is.peak_reserved;
        INFO(text_of(is) << "is not " << text_of(expected));
        REQUIRE(is_same(is, expected));
        CHECK(budget.held() == is.reserved);
        CHECK(simulator::live().device_bytes == is.reserved);
    }
    for (std::size_t place = 0; place != 8; ++place)
        if (auto const left = between.swap(place, std::nullopt)) walkers[0].give(*left);
    for (walker& me : walkers) me.give_all();
    pool.trim();
    CHECK(simulator::live().device_bytes == 0);
    CHECK(machine.errors.take().size() == wrong_releases);
    no_race();
    CHECK(pool.stats().taken_again > 0);
    tell("threads", count,
         std::to_string(pool.stats().taken_again) + " taken again, " +
             std::to_string(pool.stats().stream_waits) + " waits");
}
