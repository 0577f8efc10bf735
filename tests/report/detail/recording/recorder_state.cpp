// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/recorder_state.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/thrown.hpp"

using cuota::event_kind;
using cuota::event_source;
using cuota::memory_event;
using cuota::recording;
using cuota::source_kind;
using cuota::source_location;
using cuota::tag;
using cuota::detail::recorder_state;

namespace {

event_source some_source(std::string name) {
    event_source s;
    s.kind = source_kind::pool;
    s.name = std::move(name);
    s.pool = 3;
    return s;
}
void put_at(recorder_state& to, std::uint16_t source, std::uint64_t address, tag name = {},
            source_location where = {}) {
    to.put(event_kind::allocated, source, name, where, address, 10, 16, 7);
}
std::vector<std::uint64_t> addresses_in(recording const& r) {
    std::vector<std::uint64_t> all;
    for (memory_event const& e : r.events) all.push_back(e.address);
    return all;
}
using numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a new recorder has the program as source 0 and an unnamed call site as site 0",
          "[report][recorder_state]") {
    recorder_state const state{16, 16, source_location::current()};
    recording const r = state.read();
    REQUIRE(r.sources.size() == 1);
    CHECK(r.sources[0].kind == source_kind::program);
    CHECK(r.sources[0].name == "program");
    REQUIRE(r.sites.size() == 1);
    CHECK(r.sites[0].name.is_empty());
    CHECK(r.events.empty());
    CHECK(r.dropped == 0);
    CHECK(r.final_snapshot.pools.empty());
}

TEST_CASE("sources are numbered, and a source that has ended remains, without its pool",
          "[report][recorder_state]") {
    recorder_state state{16, 16, source_location::current()};
    std::uint16_t const a = state.add_source(some_source("a"));
    std::uint16_t const b = state.add_source(some_source("b"));
    CHECK(a == 1);
    CHECK(b == 2);
    put_at(state, a, 100);
    state.end_source(a);
    CHECK(state.has_ended(a));
    CHECK_FALSE(state.has_ended(b));
    CHECK(state.add_source(some_source("c")) == 3);
    recording const r = state.read();
    REQUIRE(r.sources.size() == 4);
    CHECK(r.sources[a].name == "a");
    CHECK(r.sources[a].kind == source_kind::pool);
    CHECK_FALSE(r.sources[a].pool);
    CHECK(r.sources[b].pool == 3u);
    REQUIRE(r.events.size() == 1);
    CHECK(r.events[0].source == a);
}

TEST_CASE("adding more sources than an event can name is refused", "[report][recorder_state]") {
    recorder_state state{1, 0, source_location::current()};
    for (std::size_t i = 1; i != recorder_state::max_sources; ++i) REQUIRE(state.add_source({}) == i);
    auto const refused = support::thrown<cuota::usage_error>([&] {
        (void)state.add_source(some_source("pinned"), {"train.cpp", 8});
    });
    CHECK(std::string{refused.what()} == "cuota::usage_error: recorder: the maximum of 65'535 sources is "
                                         "reached; cannot add pinned (train.cpp:8)");
    CHECK(state.read().sources.size() == recorder_state::max_sources);
}

TEST_CASE("an event is read with all of its values and its site", "[report][recorder_state]") {
    recorder_state state{16, 16, source_location::current()};
    std::uint16_t const source = state.add_source(some_source("a"));
    state.put(event_kind::refused, source, "weights", {"train.cpp", 17}, 1, 2, 3, 4);
    recording const r = state.read();
    REQUIRE(r.events.size() == 1);
    memory_event e = r.events[0];
    CHECK(r.sites[e.site].name == tag{"weights"});
    CHECK(r.sites[e.site].where.line == 17);
    e.at = 0;
    e.site = 0;
    CHECK(e == memory_event{event_kind::refused, source, 0, 0, 1, 2, 3, 4});
}

TEST_CASE("equal sites with different pointers are one site in a recording", "[report][recorder_state]") {
    static char const here[] = "train.cpp";
    static char const there[] = "train.cpp";
    recorder_state state{16, 16, source_location::current()};
    put_at(state, 0, 1, "weights", {here, 5});
    put_at(state, 0, 2, "weights", {there, 5});
    put_at(state, 0, 3, "weights", {there, 6});
    recording const r = state.read();
    REQUIRE(r.events.size() == 3);
    CHECK(r.sites.size() == 3);
    CHECK(r.events[0].site == 1);
    CHECK(r.events[1].site == 1);
    CHECK(r.events[2].site == 2);
}

TEST_CASE("sites beyond the capacity are recorded as unnamed", "[report][recorder_state]") {
    recorder_state state{16, 1, source_location::current()};
    put_at(state, 0, 1, "weights");
    put_at(state, 0, 2, "gradients");
    recording const r = state.read();
    CHECK(r.events[0].site == 1);
    CHECK(r.events[1].site == 0);
    CHECK(state.sites_without_room() == 1);
}

TEST_CASE("a recording ends for each source at its cut", "[report][recorder_state]") {
    recorder_state state{16, 16, source_location::current()};
    std::uint16_t const a = state.add_source(some_source("a"));
    std::uint16_t const b = state.add_source(some_source("b"));
    put_at(state, a, 1);
    put_at(state, b, 2);
    std::uint64_t const end_of_a = state.next();
    CHECK(end_of_a == 2);
    put_at(state, a, 3);
    put_at(state, b, 4);
    std::uint64_t const end_of_b = state.next();
    put_at(state, b, 5);
    put_at(state, 0, 6);
    put_at(state, a, 7);
    constexpr std::uint64_t all = ~std::uint64_t{0};
    auto const read = [&](numbers const& cuts) { return addresses_in(state.read(cuts)); };
    CHECK(read({}) == numbers{1, 2, 3, 4, 5, 6, 7});
    CHECK(read({all, end_of_a, end_of_b}) == numbers{1, 2, 4, 6});
    CHECK(read({all, end_of_a}) == numbers{1, 2, 4, 5, 6});  // b has no limit
    CHECK(read({0, 0, 0}) == numbers{});
    CHECK(state.read(numbers{0, 0, 0}).dropped == 0);
}

TEST_CASE("events before the last clear are neither read nor counted as dropped",
          "[report][recorder_state]") {
    recorder_state state{4, 16, source_location::current()};
    for (std::uint64_t i = 0; i != 6; ++i) put_at(state, 0, i);
    CHECK(state.read().dropped == 2);
    state.clear();
    CHECK(state.read().events.empty());
    CHECK(state.read().dropped == 0);
    put_at(state, 0, 6);
    CHECK(addresses_in(state.read()) == numbers{6});
    for (std::uint64_t i = 7; i != 12; ++i) put_at(state, 0, i);
    CHECK(addresses_in(state.read()) == numbers{8, 9, 10, 11});
    CHECK(state.read().dropped == 2);  // 6 and 7
}

TEST_CASE("a paused recorder stores no events", "[report][recorder_state]") {
    recorder_state state{4, 16, source_location::current()};
    CHECK(state.is_recording());
    put_at(state, 0, 1);
    state.set_recording(false);
    CHECK_FALSE(state.is_recording());
    put_at(state, 0, 2, "unseen");
    state.set_recording(true);
    put_at(state, 0, 3);
    recording const r = state.read();
    CHECK(addresses_in(r) == numbers{1, 3});
    CHECK(r.sites.size() == 1);
    CHECK(r.dropped == 0);
}

TEST_CASE("times of events count from the recorder's start and are not in the future",
          "[report][recorder_state]") {
    auto const before = std::chrono::steady_clock::now();
    auto const began = std::chrono::system_clock::now();
    recorder_state state{16, 16, source_location::current()};
    put_at(state, 0, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    put_at(state, 0, 2);
    recording const r = state.read();
    auto const took = std::chrono::steady_clock::now() - before;
    REQUIRE(r.events.size() == 2);
    CHECK(r.start_time >= began);
    CHECK(r.events[1].at - r.events[0].at >= 15'000'000);
    CHECK(std::chrono::nanoseconds{r.events[1].at} <= took + std::chrono::milliseconds{10});
}

TEST_CASE("an event is never earlier than one with a lower ticket", "[report][recorder_state]") {
    std::vector<cuota::detail::numbered_event> events(5);
    std::array<std::uint64_t, 5> const ticks{110, 105, 130, 120, 131};
    for (std::size_t i = 0; i != 5; ++i) events[i].what.at = ticks[i];
    recorder_state::set_times(events, {100, 10, 20});
    numbers shown;
    for (auto const& e : events) shown.push_back(e.what.at);
    CHECK(shown == numbers{20, 20, 60, 60, 62});
}

TEST_CASE("recording an event allocates no heap memory, even for a new site", "[report][recorder_state]") {
    recorder_state state{8, 2, source_location::current()};
    support::failing_heap const heap{0};  // a throw would end the program: put is noexcept
    for (unsigned line = 1; line != 100; ++line) put_at(state, 0, line, "weights", {"train.cpp", line});
    CHECK(heap.refused() == 0);
    CHECK(state.next() == 99);
}

TEST_CASE("threads record while others read, clear, pause, add and end sources", "[report][recorder_state]") {
    constexpr std::uint64_t threads = 3;
    constexpr std::uint64_t each = 30'000;
    recorder_state state{256, 8, source_location::current()};
    std::atomic<std::uint64_t> at_work = threads;
    std::vector<std::thread> writers;
    for (std::uint64_t t = 0; t != threads; ++t)
        writers.emplace_back([&state, &at_work, t] {
            std::uint16_t const mine = state.add_source(some_source(std::to_string(t)));
            for (std::uint64_t i = 0; i != each; ++i)
                state.put(event_kind::allocated, mine, "weights",
                          {"train.cpp", static_cast<unsigned>(i % 12)}, i, i % 12, mine, 0);
            state.end_source(mine);
            --at_work;
        });
    std::uint64_t wrong = 0, disordered = 0, back_in_time = 0;
    for (int round = 0; at_work != 0; ++round) {
        recording const r = state.read();
        std::array<std::uint64_t, threads + 1> next{};
        std::uint64_t last = 0;
        for (memory_event const& e : r.events) {
            wrong += e.source >= r.sources.size() || e.size != e.source || e.site >= r.sites.size();
            wrong += e.site != 0 && r.sites[e.site].where.line != e.bytes;
            disordered += e.address < next.at(e.source);
            next.at(e.source) = e.address + 1;
            back_in_time += e.at < last;
            last = e.at;
        }
        if (round % 16 == 0) state.clear();
        state.set_recording(round % 8 != 1);
    }
    for (std::thread& w : writers) w.join();
    CHECK(wrong == 0);
    CHECK(disordered == 0);
    CHECK(back_in_time == 0);
    CHECK(state.read().sources.size() == threads + 1);
}
