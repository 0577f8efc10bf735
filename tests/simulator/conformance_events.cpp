// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

using namespace conformance;

namespace {

/// Two independent streams, an event, and memory that shows the order of the work.
struct two_streams {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event();
    void* memory = device_memory(64);

    ~two_streams() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(memory) == cudaSuccess);
        CHECK(cudaEventDestroy(event) == cudaSuccess);
        CHECK(cudaStreamDestroy(a) == cudaSuccess);
        CHECK(cudaStreamDestroy(b) == cudaSuccess);
        (void)cudaGetLastError();
    }

    void set(int value, cudaStream_t s) { REQUIRE(cudaMemsetAsync(memory, value, 64, s) == cudaSuccess); }
    void b_waits() { REQUIRE(cudaStreamWaitEvent(b, event, 0) == cudaSuccess); }
    void record(cudaStream_t s) { REQUIRE(cudaEventRecord(event, s) == cudaSuccess); }
};

}  // namespace

TEST_CASE("an event that was never recorded is complete", "[simulator][events]") {
    two_streams t;
    CHECK(cudaEventQuery(t.event) == cudaSuccess);
    CHECK(cudaEventSynchronize(t.event) == cudaSuccess);
    t.b_waits();
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
}

TEST_CASE("waiting for an event before it is recorded has no effect", "[simulator][events]") {
    two_streams t;
    gate closed{t.a};
    t.b_waits();
    t.record(t.a);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    CHECK_FALSE(closed.passed());
}

TEST_CASE("an event completes when the work before it has completed", "[simulator][events]") {
    two_streams t;
    gate closed{t.a};
    t.record(t.a);
    CHECK(cudaEventQuery(t.event) == cudaErrorNotReady);
    CHECK(returns_after(closed, [&] { return cudaEventSynchronize(t.event); }));
    CHECK(cudaEventQuery(t.event) == cudaSuccess);
}

TEST_CASE("an event does not wait for work that was enqueued after it", "[simulator][events]") {
    two_streams t;
    t.record(t.a);
    gate closed{t.a};
    CHECK(cudaEventSynchronize(t.event) == cudaSuccess);
    CHECK_FALSE(closed.passed());
}

TEST_CASE("a stream waits for an event of another stream", "[simulator][events]") {
    two_streams t;
    gate closed{t.a};
    t.set(1, t.a);
    t.record(t.a);
    t.b_waits();
    t.set(2, t.b);
    std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
    CHECK(cudaStreamQuery(t.b) == cudaErrorNotReady);
    closed.open();
    CHECK(all_are(contents(t.memory, 64), 2));
}

TEST_CASE("synchronising a stream waits for a pending wait without later work", "[simulator][events]") {
    two_streams t;
    gate closed{t.a};
    t.record(t.a);
    t.b_waits();
    CHECK(returns_after(closed, [&] { return cudaStreamSynchronize(t.b); }));
}

TEST_CASE("recording an event again does not change earlier waits", "[simulator][events]") {
    SECTION("an earlier wait remains") {
        two_streams t;
        gate closed{t.a};
        t.record(t.a);
        t.b_waits();
        auto const idle = new_stream(cudaStreamNonBlocking);
        t.record(idle);
        CHECK(cudaEventSynchronize(t.event) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
        CHECK(cudaStreamQuery(t.b) == cudaErrorNotReady);
        CHECK(cudaStreamDestroy(idle) == cudaSuccess);
    }
    SECTION("an earlier wait does not wait for the new record") {
        two_streams t;
        t.record(t.a);
        t.b_waits();
        gate closed{t.a};
        t.record(t.a);
        CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
        CHECK_FALSE(closed.passed());
    }
}

TEST_CASE("destroying an event does not cancel waits for it", "[simulator][events]") {
    two_streams t;
    gate closed{t.a};
    auto const brief = new_event();
    REQUIRE(cudaEventRecord(brief, t.a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(t.b, brief, 0) == cudaSuccess);
    CHECK(cudaEventDestroy(brief) == cudaSuccess);
    CHECK(cudaStreamQuery(t.b) == cudaErrorNotReady);
    CHECK_FALSE(closed.passed());
}

TEST_CASE("an event recorded on a destroyed stream completes", "[simulator][events]") {
    two_streams t;
    auto const brief = new_stream(cudaStreamNonBlocking);
    gate closed{brief};
    t.record(brief);
    CHECK(cudaStreamDestroy(brief) == cudaSuccess);
    CHECK(cudaEventQuery(t.event) == cudaErrorNotReady);
    closed.open();
    CHECK(cudaEventSynchronize(t.event) == cudaSuccess);
}

TEST_CASE("many streams can wait for one event", "[simulator][events]") {
    two_streams t;
    std::vector<cudaStream_t> all;
    for (int i = 0; i < 20; ++i) all.push_back(new_stream(cudaStreamNonBlocking));
    gate closed{t.a};
    t.record(t.a);
    for (auto const s : all) REQUIRE(cudaStreamWaitEvent(s, t.event, 0) == cudaSuccess);
    for (auto const s : all) CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    closed.open();
    for (auto const s : all) {
        CHECK(cudaStreamSynchronize(s) == cudaSuccess);
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
}

TEST_CASE("the elapsed time between two events is that between their completions", "[simulator][events]") {
    two_streams t;
    auto const end = new_event();
    float ms = -1;
    t.record(t.a);
    REQUIRE(cudaEventSynchronize(t.event) == cudaSuccess);
    {
        gate closed{t.a};
        REQUIRE(cudaEventRecord(end, t.a) == cudaSuccess);
        CHECK(cudaEventElapsedTime(&ms, t.event, end) == cudaErrorNotReady);
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, t.event, end) == cudaSuccess);
    CHECK(ms >= 1);
    CHECK(cudaEventElapsedTime(&ms, end, t.event) == cudaSuccess);
    CHECK(ms <= -1);
    CHECK(cudaEventDestroy(end) == cudaSuccess);
}

TEST_CASE("events without timing have no elapsed time", "[simulator][events]") {
    two_streams t;
    t.record(t.a);
    REQUIRE(cudaEventSynchronize(t.event) == cudaSuccess);
    auto const untimed = new_event(cudaEventDisableTiming), unrecorded = new_event();
    REQUIRE(cudaEventRecord(untimed, t.a) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(untimed) == cudaSuccess);
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, t.event, untimed) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventElapsedTime(&ms, unrecorded, t.event) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(untimed) == cudaSuccess);
    CHECK(cudaEventDestroy(unrecorded) == cudaSuccess);
}

TEST_CASE("creating an event with unknown or contradicting flags is refused", "[simulator][events]") {
    cudaEvent_t e = nullptr;
    CHECK(cudaEventCreateWithFlags(&e, 0x40) == cudaErrorInvalidValue);
    CHECK(cudaEventCreateWithFlags(&e, cudaEventInterprocess) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}
