// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/tracker.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::usage_error;
using cuota::detail::live_record;
using cuota::detail::tracker;

namespace {

void track(tracker& in, char* at, std::size_t bytes, cuota::tag name = {}) {
    auto available = in.reserve({});
    live_record r{at, bytes, 0, live_record::no_stream, name, {"a.cpp", 1}, nullptr};
    available.enter(r);
}
std::size_t count_of(tracker const& t) {
    return t.survivors_of([](live_record const&) { return true; }).count();
}

}  // namespace

TEST_CASE("any thread can remove a block from a tracker", "[guard][tracker]") {
    tracker t{"memory", "x"};
    char heap[4096];
    track(t, heap, 100, "here");
    std::thread{[&] { track(t, heap + 256, 200, "there"); }}.join();
    CHECK(count_of(t) == 2);
    live_record const there = t.take_out(heap + 256, 200);
    CHECK(there.name == cuota::tag{"there"});
    live_record here;
    std::thread{[&] { here = t.take_out(heap, 100); }}.join();
    CHECK(here.name == cuota::tag{"here"});
    CHECK(count_of(t) == 0);
}

TEST_CASE("after at_rest, numbers of all threads are not less than the next number", "[guard][tracker]") {
    tracker t{"memory", {}};
    char heap[256];
    for (std::size_t i = 0; i != 5; ++i) track(t, heap + i, 1);
    std::uint64_t next = 0;
    t.at_rest([&] { next = t.next_number(); });
    CHECK(next == 6);
    std::thread{[&] { track(t, heap + 100, 1); }}.join();
    track(t, heap + 101, 1);
    CHECK(t.take_out(heap + 100, 1).number >= next);
    CHECK(t.take_out(heap + 101, 1).number >= next);
    for (std::size_t i = 0; i != 5; ++i) CHECK(t.take_out(heap + i, 1).number < next);
}

TEST_CASE("the error of a tracker names the block", "[guard][tracker]") {
    tracker t{"memory", "x"};
    char heap[4096];
    track(t, heap, 1000, "weights");
    auto const what = [&](void* p, std::size_t bytes) {
        return std::string{support::thrown<usage_error>([&] { (void)t.take_out(p, bytes); }).what()};
    };
    CHECK(what(heap, 1001) ==
          "cuota::usage_error: memory x: deallocate with the wrong size: 1'001 bytes, allocated 1'000: "
          "weights 1000 B (a.cpp:1)");
    CHECK(what(heap + 16, 1000) ==
          "cuota::usage_error: memory x: deallocate of an interior pointer, 16 bytes inside "
          "weights 1000 B (a.cpp:1)");
    CHECK(support::has(what(heap + 1000, 1), "deallocate of an unknown pointer, 1 byte"));
    CHECK(count_of(t) == 1);
    (void)t.take_out(heap, 1000);
    CHECK(what(heap, 1000) == "cuota::usage_error: memory x: double free: weights 1000 B (a.cpp:1)");
}

TEST_CASE("a tracker without host memory keeps its records and can remove them", "[guard][tracker]") {
    tracker t{"memory", {}};
    char heap[4096];
    for (std::size_t i = 0; i != 48; ++i) track(t, heap + 64 * i, 64);
    bool refused = false;
    {
        support::failing_heap const none{0};
        try {
            track(t, heap + 3500, 64);
        } catch (std::bad_alloc const&) { refused = true; }
        for (std::size_t i = 0; i != 48; ++i) (void)t.take_out(heap + 64 * i, 64);
    }
    CHECK(refused);
    CHECK(count_of(t) == 0);
}

TEST_CASE("reservations of records that are not used are cancelled", "[guard][tracker]") {
    tracker t{"memory", {}};
    char heap[64];
    for (int i = 0; i != 1000; ++i) auto const available = t.reserve({});
    std::size_t refused = 0;
    {
        support::failing_heap const none{0};
        track(t, heap, 64);
        (void)t.take_out(heap, 64);
        refused = none.refused();
    }
    CHECK(refused == 0);
}

TEST_CASE("a tracker refuses to close while blocks are live, and to add blocks after it",
          "[guard][tracker]") {
    tracker t{"memory", "x"};
    char heap[64];
    track(t, heap, 64, "weights");
    auto const alive = support::thrown<usage_error>([&] { t.close({"b.cpp", 2}); });
    CHECK(std::string{alive.what()} ==
          "cuota::usage_error: memory x: cannot close while 1 allocation is still alive: "
          "weights 64 B (a.cpp:1) (b.cpp:2)");
    track(t, heap + 1, 1);
    (void)t.take_out(heap + 1, 1);
    (void)t.take_out(heap, 64);
    t.close({});
    CHECK_THROWS_AS(t.reserve({}), usage_error);
    std::thread{[&] { CHECK_THROWS_AS(t.reserve({}), usage_error); }}.join();
}

TEST_CASE("the destructor of a tracker reports live blocks", "[guard][tracker]") {
    support::captured_errors errors;
    std::optional<tracker> t;
    t.emplace("memory", cuota::tag{"x"});
    char heap[64];
    track(*t, heap, 64, "weights");
    t.reset();
    CHECK(errors.take() ==
          std::vector<std::string>{"cuota::usage_error: memory x destroyed while 1 allocation is still "
                                   "alive: weights 64 B (a.cpp:1)"});
}

TEST_CASE("threads may add blocks, remove each other's blocks and query the tracker", "[guard][tracker]") {
    tracker t{"memory", {}};
    constexpr std::size_t threads = 4;
    constexpr int rounds = 400;
    std::vector<char> heap(threads * 64 * 16);
    std::array<std::atomic<char*>, threads> handed{};
    std::atomic<bool> is_right = true;
    std::vector<std::thread> all;
    for (std::size_t i = 0; i != threads; ++i)
        all.emplace_back([&, i] {
            for (int n = 0; n != rounds; ++n) {
                char* const mine = heap.data() + (i * 16 + static_cast<std::size_t>(n) % 8) * 64;
                char* const given = mine + std::size_t{8} * 64;
                track(t, mine, 64);
                if (n % 16 == 0) is_right = is_right && count_of(t) > 0;
                (void)t.take_out(mine, 64);
                if (handed[i].load() == nullptr) {  // freed by the next thread
                    track(t, given, 32);
                    handed[i].store(given);
                }
                std::atomic<char*>& others = handed[(i + 1) % threads];
                if (char* const p = others.load()) {
                    is_right = is_right && t.take_out(p, 32).bytes == 32;
                    others.store(nullptr);
                }
            }
        });
    for (std::thread& one : all) one.join();
    for (auto& left : handed)
        if (left.load()) (void)t.take_out(left.load(), 32);
    CHECK(is_right);
    CHECK(count_of(t) == 0);
}
