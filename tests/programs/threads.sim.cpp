// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// More threads than a pool or a budget has places for, on two pools under one tight budget: each value is right, no limit is passed,
// nothing is left. For as long as one likes: CUOTA_STRESS=<operations, in all>.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t limit = 24_MiB;

struct add {
    cuota::device_span<word> to;
    word by;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += by; }
};

struct counts {
    std::atomic<std::size_t> looks = 0, refused = 0, wrong = 0, handed_over = 0;
    std::mutex guard;
    std::string other;  // the first error of a type that must not come

    void note(std::string const& text) {
        std::scoped_lock const lock{guard};
        if (other.empty()) other = text;
    }
};

struct buffer {
    cuota::device_buffer<word> words;
    word value;
};

// Buffers that one thread leaves for another.
class exchange {
public:
    void clear() {
        for (auto& place : places_) place.clear();
    }
    void swap(std::size_t place, std::vector<buffer>& mine) {
        std::scoped_lock const lock{guard_};
        if (mine.empty()) return;
        std::swap(places_[place % std::size(places_)], mine);
    }

private:
    std::mutex guard_;
    std::vector<buffer> places_[4];
};

struct scene {
    cuota::budget root{"root", limit};
    cuota::scoped_pool pages{root, {.name = "pages"}};
    cuota::scoped_pool segments{root, {.name = "segments", .growth = cuota::pool_growth::segments}};
    cuota::stream shared{};
    exchange between{};
    counts seen{};
};

class worker {
public:
    worker(scene& in, std::uint64_t seed) : in_{in}, draw_{seed} {}

    void run(std::size_t operations) {
        for (std::size_t i = 0; i != operations; ++i) try {
                act();
            } catch (cuota::out_of_memory const&) {
                ++in_.seen.refused;
                live_.clear();
            } catch (std::exception const& e) { in_.seen.note(e.what()); }
    }

private:
    void act() {
        std::size_t const what = draw(24);
        if (what < 8) return make();
        if (what < 14) return end_one();
        if (what < 17) return change();
        if (what < 19) return look();
        switch (what) {
            case 19: return void(any_pool().trim(draw(2) == 0 ? 0 : 4_MiB));
            case 20: return in_.between.swap(draw_(), live_), void(++in_.seen.handed_over);
            case 21: return in_a_frame();
            case 22: return charge();
            default: return look_at_figures();
        }
    }
    void make() {
        std::size_t const count = draw(8) == 0 ? 1 + draw(700'000) : 1 + draw(4'000);
        auto const value = static_cast<word>(draw_());
        live_.push_back(
            {cuota::device_buffer<word>{count, value, any_stream(), any_pool(), "buffer"}, value});
    }
    void end_one() {
        if (live_.empty()) return;
        std::swap(live_[draw(live_.size())], live_.back());
        live_.pop_back();
    }
    void change() {
        if (live_.empty()) return;
        buffer& b = live_[draw(live_.size())];
        cuota::stream const& s = any_stream();
        cuota::for_each_index(s, b.words.size(), add{b.words.write(s), 3});
        b.value += 3;
    }
    void look() {
        if (live_.empty()) return;
        buffer const& b = live_[draw(live_.size())];
        in_.seen.wrong += !support::all_are(b.words.to_vector(any_stream()), b.value);
        ++in_.seen.looks;
    }
    void in_a_frame() {
        auto frame = any_pool().frame();
        cuota::device_buffer<word> x{1 + draw(3'000), 5u, any_stream(), frame, "in a frame"};
        (void)frame.allocate(any_stream(), 1 + draw(5'000));
        in_.seen.wrong += !support::all_are(x.to_vector(any_stream()), 5u);
    }
    void charge() {
        std::size_t const bytes = 1 + draw(3_MiB);
        in_.root.charge(bytes, "charged");
        in_.root.refund(bytes);
    }
    void look_at_figures() {
        cuota::pool_stats const of = any_pool().stats();
        cuota::budget_info const now = in_.root.info();
        if (of.requested > of.allocated || of.allocated > of.reserved || of.reserved > limit ||
            now.held > limit || now.peak > limit)
            in_.seen.note("the figures are of no one moment");
        (void)any_pool().largest_free();
    }

    [[nodiscard]] std::size_t draw(std::size_t below) { return draw_() % below; }
    [[nodiscard]] cuota::scoped_pool& any_pool() { return draw(2) == 0 ? in_.pages : in_.segments; }
    [[nodiscard]] cuota::stream const& any_stream() {
        std::size_t const i = draw(5);
        return i == 4 ? in_.shared : own_[i / 2];
    }

    scene& in_;
    std::mt19937_64 draw_;
    cuota::stream const own_[2];
    std::vector<buffer> live_;
};

// Takes snapshots and recordings until it is told to end.
void look_on(scene& in, std::atomic<bool> const& ends) {
    do {
        try {
            cuota::recorder const recorder{in.root, {.capacity = 4096}};
            cuota::check_snapshot(cuota::snapshot_of(in.root));
            std::this_thread::yield();
            (void)recorder.read();
        } catch (std::exception const& e) { in.seen.note(e.what()); }
    } while (!ends);
}

std::size_t operations() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return told ? std::strtoull(told, nullptr, 10)
                : std::max<std::size_t>(4'000, support::rounds<std::size_t>(20'000));
}

}  // namespace

TEST_CASE("twenty threads on two pools under one budget read back their values and leak nothing",
          "[programs][threads][stress]") {
    constexpr std::size_t threads = 20;
    constexpr std::size_t generations = 4;  // threads that end, and others that take their places
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    {
        scene in;
        std::atomic<bool> ends = false;
        std::thread usage_observer{[&] { look_on(in, ends); }};
        for (std::size_t generation = 0; generation != generations; ++generation) {
            std::vector<std::thread> all;
            for (std::size_t t = 0; t != threads; ++t)
                all.emplace_back([&, seed = 100 * generation + t] {
                    worker{in, seed}.run(operations() / threads / generations);
                });
            for (std::thread& t : all) t.join();
        }
        ends = true;
        usage_observer.join();
        std::string const text = std::to_string(in.seen.looks) + " looks, " +
                                 std::to_string(in.seen.refused) + " refused, " +
                                 std::to_string(in.seen.handed_over) + " handed over";
        INFO(text << "; met: " << in.seen.other);
        if (std::getenv("CUOTA_STRESS")) WARN(text);
        CHECK(in.seen.other.empty());
        CHECK(in.seen.wrong == 0);
        CHECK(in.seen.looks > 0);
        in.between.clear();
        CHECK(in.pages.stats().live_blocks == 0);
        CHECK(in.segments.stats().live_blocks == 0);
        in.pages.trim();
        in.segments.trim();
        CHECK(in.root.held() == 0);
        CHECK(in.root.peak() <= limit);
    }
    CHECK(simulator::live().device_bytes == 0);
    for (std::string const& told : simulator::race_reports()) UNSCOPED_INFO(told);
    CHECK(simulator::misuse().total() == 0);
    CHECK(machine.errors.take().empty());
}

TEST_CASE("threads allocate memory that was freed on a stream that is captured now and then",
          "[programs][threads]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};
    constexpr std::size_t bytes = 100'000;  // more than a thread's cache has
    cuota::stream const s;
    std::atomic<bool> is_over = false;
    std::atomic<int> wrong = 0;
    auto const counted = [&wrong](auto action) {
        try {
            action();
        } catch (std::exception const& e) {
            if (++wrong == 1) std::fprintf(stderr, "%s\n", e.what());
        }
    };
    std::vector<std::thread> all(3);
    for (std::thread& t : all)
        t = std::thread{[&] {
            cuota::stream const own;
            while (!is_over) {
                counted([&] { cuota::device_buffer<char> const b{bytes, own, pool}; });
                own.synchronize();
            }
        }};
    for (int i = 0; i != 100; ++i)
        counted([&] {
            { cuota::device_buffer<char> const b{bytes, s, pool}; }
            (void)cuota::capture(s, [] {});
        });
    is_over = true;
    for (std::thread& t : all) t.join();
    CHECK(wrong == 0);
}
