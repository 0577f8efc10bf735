// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/recording/recorder.hpp>

#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/thrown.hpp"

using cuota::event_kind;
using cuota::memory_event;
using cuota::recorder;
using cuota::recording;

static_assert(std::is_nothrow_copy_constructible_v<recorder> &&
              std::is_nothrow_move_constructible_v<recorder>);
static_assert(sizeof(recorder) == sizeof(void*));

namespace {

// Returns the notes: "epoch 1, evaluation".
std::string notes_in(recording const& r) {
    std::string all;
    for (memory_event const& e : r.events)
        all += (all.empty() ? "" : ", ") + std::string{r.sites[e.site].name.text()};
    return all;
}

}  // namespace

TEST_CASE("a recorder stores 65,536 events by default or the chosen number", "[report][recorder]") {
    CHECK(recorder{}.capacity() == 65'536);
    CHECK(recorder{{.capacity = 1000}}.capacity() == 1024);
    auto const refused = support::thrown<cuota::usage_error>([] {
        recorder{{.capacity = 0}, {"train.cpp", 4}};
    });
    CHECK(refused.where().line == 4);
    CHECK_THROWS_AS((recorder{{.sites = cuota::unlimited}}), cuota::usage_error);
}

TEST_CASE("a note is an event of the program", "[report][recorder]") {
    recorder r{{.capacity = 8}};
    unsigned const line = __LINE__ + 1;
    r.mark("epoch 1");
    r.mark(std::string{"epoch "} + "1", {"train.cpp", 30});
    recording const seen = r.read();
    REQUIRE(seen.events.size() == 2);
    CHECK(notes_in(seen) == "epoch 1, epoch 1");
    memory_event const& e = seen.events[0];
    CHECK(e.kind == event_kind::marker);
    CHECK(seen.sources.at(e.source).kind == cuota::source_kind::program);
    CHECK(seen.sites[e.site].where.line == line);
    CHECK(seen.sites[seen.events[1].site].where.line == 30);
    CHECK(e.stream == memory_event::no_stream);
    CHECK(e.bytes + e.size + e.address == 0);
}

TEST_CASE("a recorder drops the oldest notes first", "[report][recorder]") {
    recorder r{{.capacity = 2}};
    for (char const* text : {"a", "b", "c"}) r.mark(text);
    CHECK(notes_in(r.read()) == "b, c");
    CHECK(r.read().dropped == 1);
}

TEST_CASE("a recorder can be paused and resumed", "[report][recorder]") {
    recorder r{{.capacity = 8}};
    CHECK(r.is_recording());
    r.mark("before");
    r.pause();
    CHECK_FALSE(r.is_recording());
    r.mark("meanwhile");
    r.resume();
    CHECK(r.is_recording());
    r.mark("after");
    CHECK(notes_in(r.read()) == "before, after");
    CHECK(r.read().sites.size() == 3);  // notes that were not recorded use no site
}

TEST_CASE("a note during a pause allocates no memory", "[report][recorder]") {
    recorder r{{.capacity = 8}};
    r.pause();
    support::failing_heap const heap{0};
    r.mark("said by nobody else, and longer than a string has room for");
    CHECK(heap.refused() == 0);
}

TEST_CASE("clearing a recorder keeps its clock", "[report][recorder]") {
    recorder r{{.capacity = 8}};
    r.mark("before");
    recording const before = r.read();
    r.clear();
    r.mark("after");
    recording const after = r.read();
    CHECK(notes_in(after) == "after");
    CHECK(after.dropped == 0);
    CHECK(after.start_time == before.start_time);
}

TEST_CASE("copies of a recorder share one state, two recorders with equal options do not",
          "[report][recorder]") {
    recorder const a{{.capacity = 8}};
    recorder b = a;
    b.mark("through the copy");
    b.pause();
    CHECK(notes_in(a.read()) == "through the copy");
    CHECK_FALSE(a.is_recording());
    CHECK(a == b);
    CHECK_FALSE(a == recorder{{.capacity = 8}});
}

TEST_CASE("threads may share a recorder", "[report][recorder]") {
    recorder const r{{.capacity = 1024}};
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([mine = r]() mutable {
            for (int i = 0; i != 100; ++i) mine.mark("step");
        });
    for (std::thread& t : threads) t.join();
    recording const seen = r.read();
    CHECK(seen.events.size() == 400);
    CHECK(seen.sites.size() == 2);
}
