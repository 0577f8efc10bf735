// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/graphs.hpp"
#include "simulator/process.hpp"

#include <functional>
#include <random>
#include <string>

// The accesses of a launched graph as the happens-before checker and ThreadSanitizer see them: ordered by the graph and by its launch. Each
// rule has a program that violates it and a corrected twin.

using namespace control;

namespace {

/// ThreadSanitizer would rightly end an incorrect program. There the accesses are declared, not made.
void write(cudaStream_t s, void* p, std::size_t bytes = capture_bench::bytes) {
    if (!under_thread_sanitizer) {
        REQUIRE(cudaMemsetAsync(p, 1, bytes, s) == cudaSuccess);
        return;
    }
    cuota_simulator_declare(s, p, bytes, 1);
    REQUIRE(launch(s, "write", [] {}) == cudaSuccess);
}

void planted(std::function<void(capture_bench&, bool fixed)> const& program) {
    for (bool const fixed : {false, true}) {
        machine m;
        sim::set_race_checks(sim::race_checks::report);
        capture_bench t;
        program(t, fixed);
        INFO((fixed ? "fixed" : "wrong"));
        std::string told;
        for (auto const& line : sim::race_reports()) told += line + '\n';
        INFO(told);
        CHECK(sim::misuse().races == (fixed ? 0 : 1));
        if (!fixed) CHECK(told.find("in a graph") != std::string::npos);
    }
}

}  // namespace

TEST_CASE("a race between two branches of a graph is found", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        t.fork();
        write(t.b, t.device);
        if (fixed) t.join();
        write(t.a, t.device);
        if (!fixed) t.join();
        executable const e{end_capture(t.a)};
        CHECK(sim::misuse().races == 0);  // nothing runs yet
        e.launch(t.a);
    });
}

TEST_CASE("every branch of a graph is ordered after earlier work of its stream", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        t.fork();
        write(t.a, t.pinned);
        write(t.b, t.device);
        t.join();
        executable const e{end_capture(t.a)};
        write(fixed ? t.a : t.b, t.device);
        e.launch(t.a);
    });
}

TEST_CASE("later work of its stream is ordered after every branch of a graph", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        t.fork();
        write(t.b, t.device);
        t.join();
        executable const e{end_capture(t.a)};
        e.launch(t.a);
        write(fixed ? t.a : t.b, t.device);  // the capturing stream, but not the launch stream
    });
}

TEST_CASE("launches of one executable graph are ordered, and those of two are not", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        write(t.a, t.device);
        auto const g = end_capture(t.a);
        cudaGraphExec_t other = nullptr;
        REQUIRE(cudaGraphInstantiate(&other, g, 0) == cudaSuccess);
        executable const e{g};
        e.launch(t.a);
        REQUIRE(cudaGraphLaunch(fixed ? e.get() : other, t.b) == cudaSuccess);
        REQUIRE(cudaGraphExecDestroy(other) == cudaSuccess);
    });
}

TEST_CASE("the host is ordered after a graph when it has waited for its stream", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        t.fork();
        write(t.b, t.device);
        t.join();
        executable const e{end_capture(t.a)};
        e.launch(t.a);
        REQUIRE(cudaStreamSynchronize(fixed ? t.a : t.b) == cudaSuccess);
        write(t.b, t.device);
    });
}

TEST_CASE("an external event orders work that waits for it", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        write(t.a, t.device);
        REQUIRE(cudaEventRecordWithFlags(t.joined, t.a, cudaEventRecordExternal) == cudaSuccess);
        executable const e{end_capture(t.a)};
        e.launch(t.a);
        if (fixed) REQUIRE(cudaStreamWaitEvent(t.b, t.joined, 0) == cudaSuccess);
        write(t.b, t.device);
    });
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        REQUIRE(cudaStreamWaitEvent(t.a, t.joined, cudaEventWaitExternal) == cudaSuccess);
        write(t.a, t.device);
        executable const e{end_capture(t.a)};
        if (!fixed) REQUIRE(cudaEventRecord(t.joined, t.b) == cudaSuccess);
        write(t.b, t.device);
        if (fixed) REQUIRE(cudaEventRecord(t.joined, t.b) == cudaSuccess);
        e.launch(t.a);
    });
}

TEST_CASE("each launch of a captured kernel is checked for its declared memory", "[simulator][races]") {
    planted([](capture_bench& t, bool fixed) {
        begin_capture(t.a);
        cuota_simulator_declare(t.a, t.device, 8, 1);
        REQUIRE(launch(t.a, "k", [] {}) == cudaSuccess);
        executable const e{end_capture(t.a)};
        e.launch(t.a);
        REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
        e.launch(t.a);  // again
        cuota_simulator_declare(t.b, t.device + (fixed ? 8 : 7), 1, 1);
        REQUIRE(launch(t.b, "other", [] {}) == cudaSuccess);
    });
}

namespace {

/// Runs a random program on four streams, from a common fork to a common join, directly or as a launched capture. Returns the conflicts
/// that the checker finds.
std::uint64_t conflicts_of(unsigned seed, bool captured) {
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    constexpr std::size_t streams = 4, places = 3;
    std::mt19937 draw{seed};
    auto const pick = [&draw](std::size_t below) { return draw() % below; };
    std::vector<cudaStream_t> s;
    std::vector<cudaEvent_t> e;
    for (std::size_t i = 0; i < streams; ++i) {
        s.push_back(new_stream(cudaStreamNonBlocking));
        e.push_back(new_event(cudaEventDisableTiming));
    }
    auto* const memory = static_cast<char*>(device_memory(places));
    auto const touch = [&](std::size_t on, std::size_t place, bool writes) {
        cuota_simulator_declare(s[on], memory + place, 1, writes);
        REQUIRE(launch(s[on], "k", [] {}) == cudaSuccess);
    };
    auto const order = [&](std::size_t first, std::size_t then) {
        REQUIRE(cudaEventRecord(e[first], s[first]) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(s[then], e[first], 0) == cudaSuccess);
    };
    if (captured) begin_capture(s[0]);
    for (std::size_t i = 1; i < streams; ++i) order(0, i);
    for (unsigned step = 0; step < 3 + seed % 24; ++step) {
        auto const on = pick(streams), what = pick(5);
        if (what < 3) touch(on, pick(places), what == 0);
        else if (what == 3) order(on, pick(streams));
        else REQUIRE(cudaStreamWaitEvent(s[on], e[0], 0) == cudaSuccess);  // the latest record
    }
    for (std::size_t i = 1; i < streams; ++i) order(i, 0);
    if (captured) executable{end_capture(s[0])}.launch(s[0]);
    auto const found = sim::current_race_check_counts().conflicts;
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaFree(memory) == cudaSuccess);
    for (auto const one : s) CHECK(cudaStreamDestroy(one) == cudaSuccess);
    for (auto const one : e) CHECK(cudaEventDestroy(one) == cudaSuccess);
    return found;
}

}  // namespace

TEST_CASE("a launched graph has exactly the races of the captured program", "[simulator][races]") {
    std::uint64_t racing = 0, clean = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
        auto const direct = conflicts_of(seed, false);
        INFO("seed " << seed);
        CHECK(conflicts_of(seed, true) == direct);
        ++(direct != 0 ? racing : clean);
    }
    CHECK(racing > 20);
    CHECK(clean > 20);
}

TEST_CASE("memory freed in stream order before a graph's launch is reported", "[simulator][races]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    planted([](capture_bench& t, bool fixed) {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, 64, t.a) == cudaSuccess);
        begin_capture(t.a);
        cuota_simulator_declare(t.a, p, 64, 0);
        REQUIRE(launch(t.a, "k", [] {}) == cudaSuccess);
        executable const e{end_capture(t.a)};
        if (!fixed) REQUIRE(cudaFreeAsync(p, t.a) == cudaSuccess);
        e.launch(t.a);
        if (fixed) REQUIRE(cudaFreeAsync(p, t.a) == cudaSuccess);
    });
}

namespace {

/// In the child, runs the program; in the parent, runs both children and compares.
void planted_for_sanitizer(std::string const& test,
                           std::function<void(capture_bench&, bool fixed)> const& program) {
    if (auto const* const fixed = std::getenv("CUOTA_PLANTED")) {
        capture_bench t;
        program(t, *fixed == '1');
        return;
    }
    auto const bug = run_again("CUOTA_PLANTED=0", test), twin = run_again("CUOTA_PLANTED=1", test);
    INFO(twin.text);
    CHECK(bug.status > 0);
    CHECK(bug.text.find("Sanitizer") != std::string::npos);
    CHECK(twin.status == 0);
}

/// Elements are ints: byte by byte, g++ 12's ThreadSanitizer misses races.
void fill(cudaStream_t s, void* p) {
    REQUIRE(launch(s, "fill", [all = static_cast<int*>(p)] {
                for (std::size_t i = 0; i < capture_bench::bytes / sizeof(int); ++i) all[i] = 1;
            }) == cudaSuccess);
}

}  // namespace

TEST_CASE("ThreadSanitizer reports branches of a graph that race", "[simulator][sanitizers]") {
    if (!under_thread_sanitizer) CUOTA_SKIP("this build is not under ThreadSanitizer");
    planted_for_sanitizer("ThreadSanitizer reports branches of a graph that race",
                          [](capture_bench& t, bool fixed) {
                              begin_capture(t.a);
                              t.fork();
                              fill(t.b, t.device);
                              if (fixed) t.join();
                              fill(t.a, t.device);
                              if (!fixed) t.join();
                              executable const e{end_capture(t.a)};
                              for (int i = 0; i < 3; ++i) e.launch(t.a);
                          });
}

TEST_CASE("reading what a graph writes before it has finished is a race", "[simulator][sanitizers]") {
    if (!under_thread_sanitizer) CUOTA_SKIP("this build is not under ThreadSanitizer");
    planted_for_sanitizer("reading what a graph writes before it has finished is a race",
                          [](capture_bench& t, bool fixed) {
                              begin_capture(t.a);
                              t.fork();
                              fill(t.b, t.pinned);
                              t.join();
                              executable const e{end_capture(t.a)};
                              e.launch(t.a);
                              if (fixed) REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
                              else std::this_thread::sleep_for(std::chrono::milliseconds{20});
                              volatile int const seen = *reinterpret_cast<int*>(t.pinned);
                              (void)seen;
                          });
}

TEST_CASE("changing memory that a launched graph has yet to copy is a race", "[simulator][sanitizers]") {
    if (!under_thread_sanitizer) CUOTA_SKIP("this build is not under ThreadSanitizer");
    planted_for_sanitizer(
        "changing memory that a launched graph has yet to copy is a race", [](capture_bench& t, bool fixed) {
            begin_capture(t.a);
            REQUIRE(cudaMemcpyAsync(t.device, t.pinned, t.bytes, cudaMemcpyHostToDevice, t.a) == cudaSuccess);
            executable const e{end_capture(t.a)};
            *reinterpret_cast<int*>(t.pinned) = 1;  // before the launch: no race
            e.launch(t.a);
            if (fixed) REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
            *reinterpret_cast<int*>(t.pinned) = 2;
            e.launch(t.a);
        });
}
