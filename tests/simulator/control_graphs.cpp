// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/graphs.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <unistd.h>

// Lifetimes of graphs in the simulator, its counts of them, and its refusals.

using namespace control;

namespace {

/// A machine with the streams and memory of `capture_bench`, which are destroyed first.
struct bench {
    machine m;
    capture_bench t;
};

struct counted {
    std::shared_ptr<int> alive;
    void operator()() const {}
};

}  // namespace

TEST_CASE("a kernel in a graph runs at each launch and is destroyed with its last owner",
          "[simulator][graphs]") {
    bench w;
    auto const runs = std::make_shared<std::atomic<int>>(0);
    begin_capture(w.t.a);
    REQUIRE(launch(w.t.a, "k", [runs] { ++*runs; }) == cudaSuccess);
    auto const g = end_capture(w.t.a);
    CHECK(runs.use_count() == 2);
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(runs.use_count() == 2);
    for (int i = 0; i < 5; ++i) REQUIRE(cudaGraphLaunch(e, w.t.a) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(e) == cudaSuccess);  // while it may still run
    CHECK(cudaStreamSynchronize(w.t.a) == cudaSuccess);
    CHECK(*runs == 5);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    while (runs.use_count() != 1) std::this_thread::yield();  // a worker drops it after its work
}

TEST_CASE("a capture that fails destroys its kernels", "[simulator][capture]") {
    bench w;
    auto const token = std::make_shared<int>(0);
    begin_capture(w.t.a);
    REQUIRE(launch(w.t.a, "k", counted{token}) == cudaSuccess);
    CHECK(token.use_count() == 2);
    CHECK(cudaStreamQuery(w.t.a) == cudaErrorStreamCaptureUnsupported);
    end_broken_capture(w.t.a);
    CHECK(token.use_count() == 1);
}

TEST_CASE("a kernel's destructor may query the simulator", "[simulator][graphs]") {
    bench w;
    struct curious {
        std::shared_ptr<std::size_t> seen;
        void operator()() const {}
        ~curious() {
            if (seen) *seen = sim::live().streams;
        }
        curious(std::shared_ptr<std::size_t> s) : seen{std::move(s)} {}
        curious(curious&&) = default;
    };
    auto const seen = std::make_shared<std::size_t>(0);
    begin_capture(w.t.a);
    REQUIRE(launch(w.t.a, "k", curious{seen}) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(w.t.a)) == cudaSuccess);
    CHECK(*seen == 3);
}

TEST_CASE("branches of a graph run independently", "[simulator][graphs]") {
    bench w;
    auto const done = new_event(cudaEventDisableTiming);
    begin_capture(w.t.a);
    w.t.fork();
    w.t.set(1, w.t.b);
    REQUIRE(cudaEventRecordWithFlags(done, w.t.b, cudaEventRecordExternal) == cudaSuccess);
    gate closed{w.t.a};
    w.t.join();
    executable const e{end_capture(w.t.a)};
    e.launch(w.t.a);
    CHECK(cudaEventSynchronize(done) == cudaSuccess);
    CHECK(cudaStreamQuery(w.t.a) == cudaErrorNotReady);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamSynchronize(w.t.a) == cudaSuccess);
    CHECK(cudaEventDestroy(done) == cudaSuccess);
}

TEST_CASE("graphs and executable graphs are live until they are destroyed, which is possible once",
          "[simulator][counts]") {
    bench w;
    auto const before = sim::live().total();
    cudaGraph_t g = nullptr;
    cudaGraphExec_t e = nullptr;
    begin_capture(w.t.a);
    CHECK(sim::live().graphs == 0);  // not owned yet
    w.t.set(1, w.t.a);
    g = end_capture(w.t.a);
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    CHECK(sim::live().graphs == 1);
    CHECK(sim::live().graph_execs == 1);
    CHECK(sim::live().total() == before + 2);
    CHECK(sim::report().find("graphs 1  executable graphs 1") != std::string::npos);
    CHECK_THROWS_AS(sim::reset({.devices = 2}), std::logic_error);
    auto const leaks = sim::leaks();
    auto const has_line = [&leaks](std::string const& start) {
        return std::any_of(leaks.begin(), leaks.end(),
                           [&](auto const& line) { return line.find(start) == 0; });
    };
    CHECK(has_line("graph of 1 node, from cudaStreamBeginCapture at "));
    CHECK(has_line("executable graph of 1 node, from cudaGraphInstantiate at "));
    cudaGraphNode_t node = nullptr;
    std::size_t one = 1;
    REQUIRE(cudaGraphGetNodes(g, &node, &one) == cudaSuccess);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(e) == cudaSuccess);
    CHECK(sim::live().total() == before);

    auto const bad = cudaErrorInvalidValue;
    auto type = cudaGraphNodeTypeEmpty;
    CHECK(cudaGraphDestroy(g) == bad);
    CHECK(cudaGraphExecDestroy(e) == bad);
    CHECK(cudaGraphLaunch(e, w.t.a) == bad);
    CHECK(cudaGraphInstantiate(&e, g, 0) == bad);
    CHECK(cudaGraphGetNodes(g, nullptr, &one) == bad);
    CHECK(cudaGraphNodeGetType(node, &type) == bad);
    CHECK(sim::misuse().bad_handles == 6);
}

TEST_CASE("calls that are forbidden in a capture are counted", "[simulator][counts]") {
    bench w;
    begin_capture(w.t.a);
    CHECK(cudaStreamQuery(w.t.a) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaMemsetAsync(w.t.device, 0, 1, w.t.a) == cudaErrorStreamCaptureInvalidated);  // a consequence
    end_broken_capture(w.t.a);
    CHECK(sim::misuse().bad_captures == 1);
    begin_capture(w.t.a);
    w.t.fork();
    w.t.set(1, w.t.b);
    CHECK(end_broken_capture(w.t.a) == cudaErrorStreamCaptureUnjoined);
    CHECK(sim::misuse().bad_captures == 2);
    CHECK(sim::misuse().total() == 2);
    CHECK(sim::report().find("in captures 2") != std::string::npos);
    sim::reset();
    CHECK(sim::misuse().bad_captures == 0);
}

TEST_CASE("a failed call does not change a capture", "[simulator][capture]") {
    bench w;
    begin_capture(w.t.a);
    sim::fail_call("cudaMemsetAsync", 1, cudaErrorUnknown);
    CHECK(cudaMemsetAsync(w.t.device, 1, 4, w.t.a) == cudaErrorUnknown);
    w.t.set(2, w.t.a);
    sim::fail_call("cudaStreamEndCapture", 1, cudaErrorUnknown);
    cudaGraph_t g = nullptr;
    CHECK(cudaStreamEndCapture(w.t.a, &g) == cudaErrorUnknown);
    CHECK(status_of(w.t.a) == cudaStreamCaptureStatusActive);
    executable const e{end_capture(w.t.a)};
    sim::fail_call("cudaGraphLaunch", 1, cudaErrorUnknown);
    CHECK(cudaGraphLaunch(e.get(), w.t.a) == cudaErrorUnknown);
    CHECK(all_are(contents(w.t.device, w.t.bytes), 0));
    e.launch(w.t.a);
    CHECK(all_are(contents(w.t.device, w.t.bytes), 2));
    CHECK(sim::calls("cudaGraphLaunch") == 2);
    CHECK(sim::calls("cudaStreamBeginCapture") == 1);
}

TEST_CASE("an invalid call does not change a capture", "[simulator][capture]") {
    bench w;
    begin_capture(w.t.a);
    CHECK(cudaMemsetAsync(w.t.device, 1, w.t.bytes + 1, w.t.a) == cudaErrorInvalidValue);
    w.t.set(2, w.t.a);
    CHECK(cudaGraphDestroy(end_capture(w.t.a)) == cudaSuccess);
    CHECK(sim::misuse().bad_ranges == 1);
}

TEST_CASE("memory that is freed before a graph accesses it is an illegal address", "[simulator][graphs]") {
    machine m;
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const brief = device_memory(64);
    begin_capture(s);
    REQUIRE(cudaMemsetAsync(brief, 1, 64, s) == cudaSuccess);
    cudaGraphExec_t e = nullptr;
    auto const g = end_capture(s);
    REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
    CHECK(cudaFree(brief) == cudaSuccess);
    CHECK(cudaGraphLaunch(e, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
    CHECK(std::string{cuota_simulator_fault()}.find(" ran after its memory was freed: #") !=
          std::string::npos);
    CHECK(cudaGraphExecDestroy(e) == cudaErrorIllegalAddress);  // the error persists, and it is destroyed
    CHECK(cudaGraphDestroy(g) == cudaErrorIllegalAddress);
    CHECK(cudaStreamDestroy(s) == cudaErrorIllegalAddress);
    (void)cudaGetLastError();
}

TEST_CASE("a device that fails during a capture ends the capture", "[simulator][capture]") {
    machine m;
    auto const s = new_stream(cudaStreamNonBlocking);
    begin_capture(s);
    REQUIRE(launch(cudaStreamLegacy, "bad", [] { throw std::runtime_error{"no"}; }) == cudaSuccess);
    while (*cuota_simulator_fault() == '\0') std::this_thread::yield();
    cudaGraph_t g = nullptr;
    CHECK(cudaStreamEndCapture(s, &g) == cudaErrorLaunchFailure);
    CHECK(g == nullptr);
    CHECK(sim::live().graphs == 0);
    CHECK(cudaStreamDestroy(s) == cudaErrorLaunchFailure);
    (void)cudaGetLastError();
}

TEST_CASE("memory of pools is allocated and freed beside a capture, and not by it", "[simulator][capture]") {
    bench w;
    void *p = nullptr, *old = nullptr;
    REQUIRE(cudaMallocAsync(&old, 64, w.t.b) == cudaSuccess);
    begin_capture(w.t.a, cudaStreamCaptureModeRelaxed);
    CHECK(cudaFreeAsync(old, w.t.a) == cudaErrorInvalidValue);
    CHECK(cudaMallocAsync(&p, 64, w.t.b) == cudaSuccess);  // in a stream that does not capture
    CHECK(cudaFreeAsync(p, w.t.b) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(w.t.a)) == cudaSuccess);
    CHECK(cudaFreeAsync(old, w.t.b) == cudaSuccess);
    CHECK(sim::misuse().foreign_frees == 1);
}

TEST_CASE("destroying a stream ends its capture", "[simulator][capture]") {
    bench w;
    auto const token = std::make_shared<int>(0);
    auto const brief = new_stream(cudaStreamNonBlocking);
    begin_capture(brief);
    REQUIRE(launch(brief, "k", counted{token}) == cudaSuccess);
    REQUIRE(cudaEventRecord(w.t.forked, brief) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(w.t.b, w.t.forked, 0) == cudaSuccess);
    CHECK(cudaStreamDestroy(brief) == cudaSuccess);
    CHECK(token.use_count() == 1);
    CHECK(status_of(w.t.b) == cudaStreamCaptureStatusNone);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);

    auto const drawn_in = new_stream(cudaStreamNonBlocking);
    begin_capture(w.t.a);
    REQUIRE(cudaEventRecord(w.t.forked, w.t.a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(drawn_in, w.t.forked, 0) == cudaSuccess);
    CHECK(cudaStreamDestroy(drawn_in) == cudaSuccess);
    CHECK(end_broken_capture(w.t.a) == cudaErrorStreamCaptureInvalidated);
    CHECK(sim::misuse().bad_captures == 2);
}

TEST_CASE("the end of a thread ends the capture of its default stream", "[simulator][capture]") {
    bench w;
    std::thread{[] { begin_capture(cudaStreamPerThread, cudaStreamCaptureModeGlobal); }}.join();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaFree(device_memory(16)) == cudaSuccess);
    CHECK(sim::misuse().bad_captures == 1);
}

TEST_CASE("a graph may have nodes on several devices", "[simulator][graphs]") {
    machine m{{.devices = 2}};
    auto const a = new_stream(cudaStreamNonBlocking);
    auto* const here = device_memory(64);
    auto const forked = new_event(cudaEventDisableTiming);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    auto const b = new_stream(cudaStreamNonBlocking);
    auto* const there = device_memory(64);
    auto const joined = new_event(cudaEventDisableTiming);
    begin_capture(a);
    REQUIRE(cudaMemsetAsync(here, 5, 64, a) == cudaSuccess);
    REQUIRE(cudaEventRecord(forked, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, forked, 0) == cudaSuccess);
    REQUIRE(cudaMemcpyPeerAsync(there, 1, here, 0, 64, b) == cudaSuccess);
    REQUIRE(cudaEventRecord(joined, b) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(a, joined, 0) == cudaSuccess);
    {
        executable const e{end_capture(a)};
        e.launch(b);  // on another device than its first node
        CHECK(all_are(contents(there, 64), 5));
        e.launch(a);
        CHECK(cudaStreamSynchronize(a) == cudaSuccess);
        CHECK(sim::misuse().races == 0);
    }
    CHECK(cudaFree(there) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
    CHECK(cudaEventDestroy(joined) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaFree(here) == cudaSuccess);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaEventDestroy(forked) == cudaSuccess);
}

TEST_CASE("synchronising a device waits for its nodes of a graph that was launched on another device",
          "[simulator][graphs]") {
    machine m{{.devices = 2}};
    auto const a = new_stream(cudaStreamNonBlocking);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    auto const b = new_stream(cudaStreamNonBlocking);
    {
        begin_capture(a);
        gate closed{a};
        executable const e{end_capture(a)};
        e.launch(b);
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        CHECK(returns_after(closed, [] { return cudaDeviceSynchronize(); }));
    }
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("a graph is printed in the DOT format", "[simulator][graphs]") {
    bench w;
    begin_capture(w.t.a);
    w.t.set(1, w.t.a);
    REQUIRE(launch(w.t.a, "k", [] {}) == cudaSuccess);
    auto const g = end_capture(w.t.a);
    std::string const path = "/tmp/cuota-graph-" + std::to_string(getpid()) + ".dot";
    CHECK(cudaGraphDebugDotPrint(g, "/nowhere/at/all", 0) == cudaErrorOperatingSystem);
    REQUIRE(cudaGraphDebugDotPrint(g, path.c_str(), 0) == cudaSuccess);
    std::stringstream text;
    text << std::ifstream{path}.rdbuf();
    std::remove(path.c_str());
    CHECK(text.str().find("memset") != std::string::npos);
    CHECK(text.str().find("kernel") != std::string::npos);
    CHECK(text.str().find("node_0 -> node_1") != std::string::npos);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    (void)cudaGetLastError();
}

TEST_CASE("a wide graph runs all of its branches", "[simulator][graphs]") {
    bench w;
    constexpr int width = 200;
    std::atomic<int> runs{0};
    std::vector<cudaStream_t> all;
    begin_capture(w.t.a);
    REQUIRE(cudaEventRecord(w.t.forked, w.t.a) == cudaSuccess);
    for (int i = 0; i < width; ++i) {
        all.push_back(new_stream(cudaStreamNonBlocking));
        REQUIRE(cudaStreamWaitEvent(all.back(), w.t.forked, 0) == cudaSuccess);
        REQUIRE(launch(all.back(), "k", [&runs] { ++runs; }) == cudaSuccess);
        REQUIRE(cudaEventRecord(w.t.joined, all.back()) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(w.t.a, w.t.joined, 0) == cudaSuccess);
    }
    executable const e{end_capture(w.t.a)};
    for (auto const s : all) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    for (int i = 0; i < 3; ++i) e.launch(w.t.a);
    CHECK(cudaStreamSynchronize(w.t.a) == cudaSuccess);
    CHECK(runs == 3 * width);
}

TEST_CASE("a hold delays launched graphs", "[simulator][graphs]") {
    bench w;
    begin_capture(w.t.a);
    w.t.fork();
    w.t.set(1, w.t.b);
    w.t.join();
    executable const e{end_capture(w.t.a)};
    {
        sim::hold const still;
        e.launch(w.t.a);
        CHECK(cudaStreamQuery(w.t.a) == cudaErrorNotReady);
    }
    CHECK(cudaStreamSynchronize(w.t.a) == cudaSuccess);
    CHECK(all_are(contents(w.t.device, w.t.bytes), 1));
}
