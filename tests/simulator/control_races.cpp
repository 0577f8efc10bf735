// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <functional>
#include <string>

// The happens-before checker. Each rule has a program that violates it, which must be reported under any timing, and a corrected twin,
// which must never be.

using namespace control;

namespace {

constexpr std::size_t size = 1024;

/// A machine that counts races and whose frees wait for the device, independent of the environment.
struct bench {
    bench() {
        sim::set_race_checks(sim::race_checks::report);
        sim::set_unkindness({});
    }
    ~bench() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(device) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
        for (auto const s : {a, b, blocking}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
        for (auto const e : {event, other_event}) CHECK(cudaEventDestroy(e) == cudaSuccess);
    }
    bench(bench const&) = delete;
    bench& operator=(bench const&) = delete;

    machine m;
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    cudaStream_t blocking = new_stream();
    cudaEvent_t event = new_event(cudaEventDisableTiming), other_event = new_event(cudaEventDisableTiming);
    char* device = static_cast<char*>(device_memory(size));
    unsigned char* pinned = pinned_memory(size);
};

/// ThreadSanitizer would rightly end an incorrect program. There the accesses are declared, not made.
void declared(cudaStream_t s, void const* p, std::size_t bytes, bool writes) {
    cuota_simulator_declare(s, p, bytes, writes);
    REQUIRE(launch(s, writes ? "write" : "read", [] {}) == cudaSuccess);
}

void write(cudaStream_t s, void* p, std::size_t bytes = size) {
    if (under_thread_sanitizer) return declared(s, p, bytes, true);
    REQUIRE(cudaMemsetAsync(p, 1, bytes, s) == cudaSuccess);
}

void copy(cudaStream_t s, void* to, void const* from, std::size_t bytes = size) {
    if (!under_thread_sanitizer) {
        REQUIRE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s) == cudaSuccess);
        return;
    }
    cuota_simulator_declare(s, from, bytes, 0);
    declared(s, to, bytes, true);
}

void record(cudaEvent_t e, cudaStream_t s) { REQUIRE(cudaEventRecord(e, s) == cudaSuccess); }
void wait(cudaStream_t s, cudaEvent_t e) { REQUIRE(cudaStreamWaitEvent(s, e, 0) == cudaSuccess); }
void order(bench& w, cudaStream_t first, cudaStream_t then) {
    record(w.event, first);
    wait(then, w.event);
}

std::uint64_t races() { return sim::misuse().races; }

/// Checks for one race with the bug, and none without it.
void planted(std::function<void(bench&, bool fixed)> const& program) {
    for (bool const fixed : {false, true}) {
        bench w;
        program(w, fixed);
        INFO((fixed ? "fixed" : "wrong"));
        std::string told;
        for (auto const& line : sim::race_reports()) told += line + '\n';
        INFO(told);
        CHECK(races() == (fixed ? 0 : 1));
        CHECK(sim::race_reports().size() == races());
    }
}

}  // namespace

TEST_CASE("a missing event between two streams is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        if (fixed) order(w, w.a, w.b);
        write(w.b, w.device);
    });
}

TEST_CASE("an event recorded on the wrong stream is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        record(w.event, fixed ? w.a : w.b);
        wait(w.b, w.event);
        copy(w.b, w.pinned, w.device);
    });
}

TEST_CASE("an event recorded too early is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        if (!fixed) record(w.event, w.a);
        write(w.a, w.device);
        if (fixed) record(w.event, w.a);
        wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("an event that was never recorded orders no work", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        if (fixed) record(w.event, w.a);
        wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("a wait applies to the event's last record before the wait", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        record(w.event, w.a);
        if (!fixed) wait(w.b, w.event);
        write(w.a, w.device);
        record(w.event, w.a);
        if (fixed) wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("recording an event again replaces its earlier record", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        record(w.event, w.a);
        record(fixed ? w.other_event : w.event, w.blocking);
        wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("order is transitive through a third stream", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        order(w, w.a, w.blocking);
        if (fixed) record(w.event, w.blocking);
        else record(w.event, w.b);
        wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("a wait for an event that has completed still orders", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        record(w.event, w.a);
        // The work has finished, but the program learns it from a kernel and not from the runtime.
        std::promise<void> over;
        REQUIRE(launch(w.a, "k", [&] { over.set_value(); }) == cudaSuccess);
        over.get_future().wait();
        if (fixed) wait(w.b, w.event);
        write(w.b, w.device);
    });
}

TEST_CASE("use on another stream before cudaMallocAsync is reached is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, size, w.a) == cudaSuccess);
        REQUIRE(cudaStreamQuery(w.blocking) == cudaSuccess);  // another stream: it proves nothing about w.a
        if (fixed) order(w, w.a, w.b);
        cuota_simulator_declare(w.b, p, size, 1);
        REQUIRE(launch(w.b, "fill", [] {}) == cudaSuccess);
        order(w, w.b, w.a);
        REQUIRE(cudaFreeAsync(p, w.a) == cudaSuccess);
    });
}

TEST_CASE("a free that is not ordered after a use on another stream is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, size, w.a) == cudaSuccess);
        order(w, w.a, w.b);
        cuota_simulator_declare(w.b, p, size, 0);
        REQUIRE(launch(w.b, "sum", [] {}) == cudaSuccess);
        if (fixed) order(w, w.b, w.a);
        REQUIRE(cudaFreeAsync(p, w.a) == cudaSuccess);
    });
}

TEST_CASE("a use that follows cudaFreeAsync on any stream is found", "[simulator][races]") {
    bool const also_ordered = GENERATE(false, true);
    planted([=](bench& w, bool fixed) {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, size, w.a) == cudaSuccess);
        order(w, w.a, w.b);
        if (!fixed) REQUIRE(cudaFreeAsync(p, w.a) == cudaSuccess);
        if (also_ordered) order(w, w.a, w.b);
        cuota_simulator_declare(w.b, p, size, 0);
        REQUIRE(launch(w.b, "sum", [] {}) == cudaSuccess);
        if (!fixed) {
            REQUIRE(sim::race_reports().size() == 1);
            auto const wanted =
                also_ordered ? "freed before by cudaFreeAsync" : "nothing orders it after cudaFreeAsync";
            CHECK(sim::race_reports()[0].find(wanted) != std::string::npos);
        }
        if (fixed) {
            order(w, w.b, w.a);
            REQUIRE(cudaFreeAsync(p, w.a) == cudaSuccess);
        }
    });
}

TEST_CASE("refilling a pinned slot during its upload is found", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        copy(w.a, w.device, w.pinned);
        auto* const other = static_cast<char*>(device_memory(size));
        if (fixed) order(w, w.a, w.b);
        copy(w.b, w.pinned, other);
        REQUIRE(cudaFree(other) == cudaSuccess);
    });
}

TEST_CASE("the default stream orders blocking streams in both directions, and no others",
          "[simulator][races]") {
    SECTION("it waits for them") {
        planted([](bench& w, bool fixed) {
            auto const s = fixed ? w.blocking : w.a;
            write(s, w.device);
            write(nullptr, w.device);
        });
    }
    SECTION("they wait for it") {
        planted([](bench& w, bool fixed) {
            write(nullptr, w.device);
            write(fixed ? w.blocking : w.a, w.device);
        });
    }
    SECTION("two of them are ordered through it") {
        planted([](bench& w, bool fixed) {
            auto const second = new_stream();
            write(w.blocking, w.device);
            if (fixed) REQUIRE(launch(nullptr, "k", [] {}) == cudaSuccess);
            write(second, w.device);
            REQUIRE(cudaStreamDestroy(second) == cudaSuccess);
        });
    }
    SECTION("a wait on it is ordered like other work") {
        planted([](bench& w, bool fixed) {
            auto const second = new_stream();
            record(w.event, w.a);
            write(w.blocking, w.device);
            wait(fixed ? nullptr : w.a, w.event);
            write(second, w.device);
            REQUIRE(cudaStreamDestroy(second) == cudaSuccess);
        });
    }
    SECTION("also for destroyed streams") {
        planted([](bench& w, bool fixed) {
            auto const gone = new_stream(fixed ? cudaStreamDefault : cudaStreamNonBlocking);
            write(gone, w.device);
            REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
            write(nullptr, w.device);
        });
    }
}

TEST_CASE("work that the host has waited for is ordered before all later work", "[simulator][races]") {
    auto const how = GENERATE(0, 1, 2, 3, 4, 5);
    INFO(how);
    planted([=](bench& w, bool fixed) {
        write(w.a, w.device);
        record(w.event, w.a);
        if (fixed) switch (how) {
                case 0: REQUIRE(cudaDeviceSynchronize() == cudaSuccess); break;
                case 1: REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess); break;
                case 2: REQUIRE(cudaEventSynchronize(w.event) == cudaSuccess); break;
                case 3: REQUIRE(cudaFree(device_memory(1)) == cudaSuccess); break;
                case 4:
                    while (cudaEventQuery(w.event) != cudaSuccess) std::this_thread::yield();
                    break;
                case 5:
                    while (cudaStreamQuery(w.a) != cudaSuccess) std::this_thread::yield();
                    break;
            }
        else REQUIRE(cudaStreamSynchronize(w.b) == cudaSuccess);
        write(w.b, w.device);
    });
}

TEST_CASE("synchronising a stream orders all work for which the stream has waited", "[simulator][races]") {
    planted([](bench& w, bool fixed) {
        write(w.a, w.device);
        if (fixed) order(w, w.a, w.b);
        REQUIRE(cudaStreamSynchronize(w.b) == cudaSuccess);  // may have had no work of its own
        write(w.blocking, w.device);
    });
}

TEST_CASE("a copy to pageable memory waits and orders later work", "[simulator][races]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    planted([](bench& w, bool fixed) {
        std::vector<char> pageable(size);
        void* const to = fixed ? static_cast<void*>(pageable.data()) : w.pinned;
        REQUIRE(cudaMemcpyAsync(to, w.device, size, cudaMemcpyDeviceToHost, w.a) == cudaSuccess);
        write(w.b, w.device);
    });
}

TEST_CASE("reads do not race with reads, nor accesses to disjoint bytes", "[simulator][races]") {
    bench w;
    write(w.a, w.device);
    order(w, w.a, w.b);
    copy(w.a, w.pinned, w.device, 512);
    copy(w.b, w.pinned + 512, w.device, 512);
    write(w.a, w.device + 512, 100);
    write(w.b, w.device + 612, 100);
    CHECK(races() == 0);
    write(w.b, w.device + 611, 1);  // one byte of the other range
    CHECK(races() == 1);
}

TEST_CASE("a kernel is checked for its declared memory, and only at that launch", "[simulator][races]") {
    bench w;
    auto const run = [](cudaStream_t s) { REQUIRE(launch(s, "k", [] {}) == cudaSuccess); };
    cuota_simulator_declare(w.a, w.device, 100, 1);
    cuota_simulator_declare(w.a, w.pinned, 100, 0);
    run(w.b);  // another stream
    run(w.a);
    run(w.a);  // undeclared
    CHECK(sim::current_race_check_counts().accesses == 2);
    cuota_simulator_declare(w.b, w.pinned, 100, 0);
    run(w.b);
    CHECK(races() == 0);
    cuota_simulator_declare(w.b, w.device + 99, 1, 0);
    run(w.b);
    REQUIRE(races() == 1);
    CHECK(sim::race_reports()[0].find("kernel k at ") == 0);
    int local = 0;
    cuota_simulator_declare(w.b, &local, sizeof local, 1);  // unknown to the runtime
    run(w.b);
    CHECK(races() == 1);
}

TEST_CASE("a race is reported in one line that names both operations", "[simulator][races]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    bench w;
    unsigned long long a = 0, b = 0;
    REQUIRE(cudaStreamGetId(w.a, &a) == cudaSuccess);
    REQUIRE(cudaStreamGetId(w.b, &b) == cudaSuccess);
    write(w.a, w.device + 64, 128);
    copy(w.b, w.pinned, w.device);
    REQUIRE(sim::race_reports().size() == 1);
    auto const line = sim::race_reports()[0];
    INFO(line);
    CHECK(line.find("cudaMemcpyAsync at control_races.cpp:") == 0);
    CHECK(line.find(" on stream #" + std::to_string(b) + " reads bytes [0, 1024) of #") != std::string::npos);
    CHECK(line.find("device memory, 1024 bytes at ") != std::string::npos);
    CHECK(line.find("nothing orders it after cudaMemsetAsync at control_races.cpp:") != std::string::npos);
    CHECK(line.find(" on stream #" + std::to_string(a) + ", which writes bytes [64, 192)") !=
          std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(sim::report().find("race    " + line) != std::string::npos);
    for (int i = 0; i < 10; ++i) copy(w.b, w.pinned, w.device);
    CHECK(races() == 1);  // the same locations again
    CHECK(sim::current_race_check_counts().conflicts == 11);
}

TEST_CASE("race checks can be turned off, and a reset clears the races", "[simulator][races]") {
    bench w;
    sim::set_race_checks(sim::race_checks::off);
    write(w.a, w.device);
    write(w.b, w.device);
    CHECK(sim::current_race_check_counts().accesses == 0);
    sim::set_race_checks(sim::race_checks::report);
    write(w.a, w.device);
    write(w.b, w.device);
    CHECK(races() == 1);
    sim::reset();
    CHECK(races() == 0);
    CHECK(sim::race_reports().empty());
}

TEST_CASE("creating and destroying streams keeps the order correct", "[simulator][races]") {
    bench w;
    for (int i = 0; i < 200; ++i) {
        auto const s = new_stream(cudaStreamNonBlocking);
        write(s, w.device);
        if (i % 2 == 0) REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        else {
            record(w.event, s);
            wait(w.a, w.event);
            REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
        }
        REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
    }
    CHECK(races() == 0);
    auto const s = new_stream(cudaStreamNonBlocking), t = new_stream(cudaStreamNonBlocking);
    write(s, w.device);
    REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
    write(t, w.device);
    CHECK(races() == 1);
    REQUIRE(cudaStreamDestroy(t) == cudaSuccess);
}

TEST_CASE("the environment can make races fatal or turn their checks off", "[simulator][races][process]") {
    auto const name = "the environment can make races fatal or turn their checks off";
    if (std::getenv("CUOTA_PLANTED")) {
        auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
        auto* const d = device_memory(16);
        REQUIRE(cudaMemsetAsync(d, 0, 16, a) == cudaSuccess);
        REQUIRE(cudaMemsetAsync(d, 0, 16, b) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(d) == cudaSuccess);
        CHECK(cudaStreamDestroy(a) == cudaSuccess);
        CHECK(cudaStreamDestroy(b) == cudaSuccess);
        return;
    }
    // ThreadSanitizer would end the program for the race itself.
    std::string const child =
        "TSAN_OPTIONS=report_bugs=0 CUOTA_PLANTED=1 CUOTA_SIM_REPORT=stderr CUOTA_SIM_RACES=";
    auto const fatal = run_again(child + "fatal", name);
    CHECK(fatal.status != 0);
    CHECK(fatal.text.find("cuota simulator: race: cudaMemsetAsync at control_races.cpp:") !=
          std::string::npos);
    auto const report = run_again(child + "report", name);
    INFO(report.text);
    CHECK(report.status == 0);
    CHECK(report.report.at("races") == 1);
    CHECK(report.report.at("misuse") == 1);
    auto const off = run_again(child + "off", name);
    CHECK(off.status == 0);
    CHECK(off.report.at("races") == 0);
    auto const wrong = run_again(child + "loud", name);
    CHECK(wrong.status == 2);
    CHECK(wrong.text.find("CUOTA_SIM_RACES=\"loud\" is not off, report or fatal") != std::string::npos);
}
