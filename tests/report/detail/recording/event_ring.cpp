// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/event_ring.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::memory_event;
using cuota::detail::event_ring;
using cuota::detail::numbered_event;
using cuota::detail::ring_reading;

namespace {

// All fields are functions of one number, so that a torn event is detected.
memory_event ring_event(std::uint64_t n) {
    std::uint64_t const mixed = (n + 1) * 0x9e3779b97f4a7c15u;
    return {static_cast<cuota::event_kind>(mixed % 10),
            static_cast<std::uint16_t>(mixed >> 20),
            static_cast<std::uint32_t>(mixed >> 30),
            mixed + 1,
            n,
            ~mixed,
            mixed * 3,
            mixed ^ 0x5555};
}
bool is_whole(memory_event const& e) { return e == ring_event(e.address); }

// "3 4 5 | 2": the numbers of the events that are present, and the number of dropped ones.
std::string ring_text(ring_reading const& r) {
    std::string text;
    for (numbered_event const& e : r.events) text += std::to_string(e.what.address) + ' ';
    return text + "| " + std::to_string(r.dropped);
}

}  // namespace

TEST_CASE("a new event ring is empty", "[report][event_ring]") {
    event_ring const ring{8};
    CHECK(ring.next() == 0);
    CHECK(ring_text(ring.read()) == "| 0");
}

TEST_CASE("the capacity of an event ring is rounded up to a power of two", "[report][event_ring]") {
    CHECK(event_ring{1}.capacity() == 1);
    CHECK(event_ring{5}.capacity() == 8);
    CHECK(event_ring{4096}.capacity() == 4096);
    auto const none = support::thrown<cuota::usage_error>([] { event_ring{0, {"train.cpp", 5}}; });
    CHECK(std::string{none.what()} == "cuota::usage_error: recorder: the number of events must be from 1 to "
                                      "4'294'967'296, got 0 (train.cpp:5)");
    CHECK_THROWS_AS(event_ring{event_ring::most + 1}, cuota::usage_error);
}

TEST_CASE("events are read completely and in the order of their tickets", "[report][event_ring]") {
    event_ring ring{64};
    for (std::uint64_t n = 0; n != 64; ++n) ring.put(ring_event(n));
    memory_event const widest{
        cuota::event_kind::marker, 0xffff, 0xffffffff, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
    ring.put(widest);
    ring_reading const r = ring.read();
    REQUIRE(r.events.size() == 64);
    CHECK(r.dropped == 1);
    for (std::uint64_t n = 1; n != 64; ++n) {
        CHECK(r.events[n - 1].ticket == n);
        CHECK(r.events[n - 1].what == ring_event(n));
    }
    CHECK(r.events[63].ticket == 64);
    CHECK(r.events[63].what == widest);
}

TEST_CASE("the oldest events are overwritten and counted", "[report][event_ring]") {
    for (std::size_t const capacity : {1u, 2u, 8u}) {
        event_ring ring{capacity};
        for (std::uint64_t put = 1; put != 4 * capacity; ++put) {
            ring.put(ring_event(put - 1));
            ring_reading const r = ring.read();
            std::uint64_t const kept = std::min<std::uint64_t>(put, capacity);
            REQUIRE(r.events.size() == kept);
            REQUIRE(r.dropped == put - kept);
            REQUIRE(r.events.front().what == ring_event(put - kept));
            REQUIRE(r.events.back().what == ring_event(put - 1));
            REQUIRE(ring.next() == put);
        }
    }
}

TEST_CASE("a range of tickets of an event ring can be read", "[report][event_ring]") {
    event_ring ring{4};
    for (std::uint64_t n = 0; n != 6; ++n) ring.put(ring_event(n));  // 2 to 5 are present
    CHECK(ring_text(ring.read()) == "2 3 4 5 | 2");
    CHECK(ring_text(ring.read(3)) == "3 4 5 | 0");
    CHECK(ring_text(ring.read(1)) == "2 3 4 5 | 1");
    CHECK(ring_text(ring.read(0, 5)) == "2 3 4 | 2");
    CHECK(ring_text(ring.read(3, 4)) == "3 | 0");
    CHECK(ring_text(ring.read(0, 1)) == "| 1");
    CHECK(ring_text(ring.read(6)) == "| 0");
    CHECK(ring_text(ring.read(9)) == "| 0");
    CHECK(ring_text(ring.read(4, 4)) == "| 0");
}

TEST_CASE("an event is not read before it is completely written", "[report][event_ring]") {
    event_ring ring{4};
    ring.put(ring_event(0));
    std::uint64_t const drawn = ring.draw();
    ring.put(ring_event(2));
    CHECK(ring_text(ring.read()) == "0 2 | 0");
    REQUIRE(ring.claim(drawn));
    CHECK(ring_text(ring.read()) == "0 2 | 0");
    ring.fill(drawn, ring_event(1));
    CHECK(ring_text(ring.read()) == "0 1 2 | 0");
}

TEST_CASE("an event that is being overwritten is not read", "[report][event_ring]") {
    event_ring ring{2};
    for (std::uint64_t n = 0; n != 3; ++n) ring.put(ring_event(n));
    std::uint64_t const drawn = ring.draw();
    CHECK(ring_text(ring.read()) == "2 | 2");  // 1 is about to be overwritten
    REQUIRE(ring.claim(drawn));
    CHECK(ring_text(ring.read()) == "2 | 2");
    ring.fill(drawn, ring_event(3));
    CHECK(ring_text(ring.read()) == "2 3 | 2");
}

TEST_CASE("a writer does not wait for another one that is a whole ring behind", "[report][event_ring]") {
    event_ring ring{4};
    std::uint64_t const slow = ring.draw();
    REQUIRE(ring.claim(slow));
    for (std::uint64_t n = 1; n != 4; ++n) ring.put(ring_event(n));
    CHECK(ring_text(ring.read()) == "1 2 3 | 0");
    ring.put(ring_event(4));                 // needs the slow writer's slot, and is lost
    CHECK(ring_text(ring.read()) == "| 5");  // readings have no gaps
    ring.put(ring_event(5));
    CHECK(ring_text(ring.read()) == "5 | 5");
    ring.fill(slow, ring_event(0));  // too late to be seen
    CHECK(ring_text(ring.read()) == "5 | 5");
    for (std::uint64_t n = 6; n != 9; ++n) ring.put(ring_event(n));
    CHECK(ring_text(ring.read()) == "5 6 7 8 | 5");  // the slot is usable again
}

TEST_CASE("a writer that is a whole ring late does not overwrite the newer event", "[report][event_ring]") {
    event_ring ring{2};
    std::uint64_t const late = ring.draw();
    for (std::uint64_t n = 1; n != 4; ++n) ring.put(ring_event(n));
    CHECK_FALSE(ring.claim(late));
    CHECK(ring_text(ring.read()) == "2 3 | 2");
    std::uint64_t const first = ring.draw();  // 4
    ring.put(ring_event(5));
    std::uint64_t const second = ring.draw();  // 6, of the same slot
    REQUIRE(ring.claim(second));
    CHECK_FALSE(ring.claim(first));
    ring.fill(second, ring_event(6));
    CHECK(ring_text(ring.read()) == "5 6 | 5");
}

TEST_CASE("no event is lost when threads write to a ring that is large enough", "[report][event_ring]") {
    constexpr std::uint64_t threads = 4;
    constexpr std::uint64_t each = 20'000;
    event_ring ring{threads * each};
    std::vector<std::thread> writers;
    for (std::uint64_t t = 0; t != threads; ++t)
        writers.emplace_back([&ring, t] {
            for (std::uint64_t i = 0; i != each; ++i) ring.put(ring_event(t << 32 | i));
        });
    for (std::thread& w : writers) w.join();
    ring_reading const r = ring.read();
    REQUIRE(r.events.size() == threads * each);
    CHECK(r.dropped == 0);
    std::array<std::uint64_t, threads> next{};
    for (std::uint64_t t = 0; t != r.events.size(); ++t) {
        memory_event const& e = r.events[t].what;
        REQUIRE(is_whole(e));
        REQUIRE(r.events[t].ticket == t);
        REQUIRE((e.address & 0xffffffff) == next[e.address >> 32]++);
    }
}

TEST_CASE("a reader beside writers reads whole events in order, and all events are accounted for",
          "[report][event_ring]") {
    constexpr std::uint64_t threads = 3;
    constexpr std::uint64_t each = 100'000;
    for (std::size_t const capacity : {1u, 2u, 16u, 1024u}) {
        event_ring ring{capacity};
        std::atomic<std::uint64_t> at_work = threads;
        std::vector<std::thread> writers;
        for (std::uint64_t t = 0; t != threads; ++t)
            writers.emplace_back([&ring, &at_work, t] {
                for (std::uint64_t i = 0; i != each; ++i) ring.put(ring_event(t << 32 | i));
                --at_work;
            });
        std::uint64_t torn = 0, disordered = 0, unaccounted = 0, full_of_holes = 0;
        while (at_work != 0) {
            ring_reading const r = ring.read();
            unaccounted += r.dropped + r.events.size() > ring.next();
            std::array<std::uint64_t, threads> next{};
            std::uint64_t next_ticket = r.dropped;
            if (!r.events.empty()) {  // each thread may have an unfinished event
                std::uint64_t const span = r.events.back().ticket + 1 - r.dropped;
                full_of_holes += span > r.events.size() + threads;
            }
            for (numbered_event const& e : r.events) {
                if (!is_whole(e.what)) {
                    ++torn;
                    continue;
                }
                disordered += e.ticket < next_ticket;
                next_ticket = e.ticket + 1;
                std::uint64_t& of_thread = next[e.what.address >> 32];
                disordered += (e.what.address & 0xffffffff) < of_thread;
                of_thread = (e.what.address & 0xffffffff) + 1;
            }
        }
        for (std::thread& w : writers) w.join();
        INFO("a ring of " << capacity);
        CHECK(torn == 0);
        CHECK(disordered == 0);
        CHECK(unaccounted == 0);
        CHECK(full_of_holes == 0);
        ring_reading const last = ring.read();
        CHECK(ring.next() == threads * each);
        CHECK(last.dropped + last.events.size() == threads * each);
        for (std::size_t i = 0; i != last.events.size(); ++i) {
            CHECK(last.events[i].ticket == last.dropped + i);
            CHECK(is_whole(last.events[i].what));
        }
    }
}
