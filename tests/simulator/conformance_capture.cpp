// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/graphs.hpp"

#include <algorithm>
#include <string>
#include <utility>

// Stream capture: CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture", and the comments of the functions and error codes in
// cuda_runtime_api.h and driver_types.h. If these name no specific error, none is required here.

using namespace conformance;

TEST_CASE("captured work does not run until its graph is launched", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    t.set(7, t.a);
    auto const g = end_capture(t.a);
    CHECK(all_are(contents(t.device, t.bytes), 0));
    executable const e{g};
    CHECK(all_are(contents(t.device, t.bytes), 0));
    e.launch(t.a);
    CHECK(all_are(contents(t.device, t.bytes), 7));
}

TEST_CASE("a stream's capture status can be queried", "[simulator][capture]") {
    capture_bench t;
    CHECK(status_of(t.a) == cudaStreamCaptureStatusNone);
    begin_capture(t.a);
    CHECK(status_of(t.a) == cudaStreamCaptureStatusActive);
    CHECK(status_of(t.b) == cudaStreamCaptureStatusNone);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(status_of(t.a) == cudaStreamCaptureStatusNone);
}

#if CUDART_VERSION >= 13000
TEST_CASE("a capture has a unique id, a graph and the dependencies of its next node",
          "[simulator][capture]") {
    capture_bench t;
    auto status = cudaStreamCaptureStatusNone;
    unsigned long long first = 0, second = 0;
    cudaGraph_t into = nullptr;
    cudaGraphNode_t const* tips = nullptr;
    std::size_t count = 9;
    begin_capture(t.a);
    REQUIRE(cudaStreamGetCaptureInfo(t.a, &status, &first, &into, &tips, nullptr, &count) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK(count == 0);
    t.set(1, t.a);
    REQUIRE(cudaStreamGetCaptureInfo(t.a, &status, nullptr, &into, &tips, nullptr, &count) == cudaSuccess);
    REQUIRE(count == 1);
    auto type = cudaGraphNodeTypeEmpty;
    CHECK(cudaGraphNodeGetType(tips[0], &type) == cudaSuccess);
    CHECK(type == cudaGraphNodeTypeMemset);
    auto const g = end_capture(t.a);
    CHECK(g == into);
    begin_capture(t.a);
    REQUIRE(cudaStreamGetCaptureInfo(t.a, &status, &second) == cudaSuccess);
    CHECK(first != second);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    REQUIRE(cudaStreamGetCaptureInfo(t.a, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
}

TEST_CASE("the dependencies of a capture's next node can be changed", "[simulator][capture]") {
    capture_bench t;
    CHECK(cudaStreamUpdateCaptureDependencies(t.a, nullptr, nullptr, 0, 0) == cudaErrorIllegalState);
    begin_capture(t.a);
    t.set(1, t.a);
    CHECK(cudaStreamUpdateCaptureDependencies(t.a, nullptr, nullptr, 0, cudaStreamSetCaptureDependencies) ==
          cudaSuccess);
    t.set(2, t.a);
    auto const g = end_capture(t.a);  // a fork whose dependency was removed need not be joined
    std::size_t edges = 9, roots = 0;
    CHECK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges) == cudaSuccess);
    CHECK(edges == 0);
    CHECK(cudaGraphGetRootNodes(g, nullptr, &roots) == cudaSuccess);
    CHECK(roots == 2);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
}
#endif

TEST_CASE("a capture cannot begin on the legacy stream or on a stream that already captures",
          "[simulator][capture]") {
    capture_bench t;
    CHECK(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal) != cudaSuccess);
    CHECK(cudaStreamBeginCapture(t.a, static_cast<cudaStreamCaptureMode>(3)) == cudaErrorInvalidValue);
    cudaGraph_t g = nullptr;
    CHECK(cudaStreamEndCapture(t.a, &g) != cudaSuccess);
    begin_capture(t.a);
    CHECK(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeThreadLocal) != cudaSuccess);
    (void)cudaStreamEndCapture(t.a, &g);
    if (g) CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("a capturing stream cannot be waited for or queried, and the attempt ends the capture",
          "[simulator][capture]") {
    capture_bench t;
    for (auto* const ask : {cudaStreamSynchronize, cudaStreamQuery}) {
        begin_capture(t.a);
        t.set(1, t.a);
        CHECK(ask(t.a) == cudaErrorStreamCaptureUnsupported);
        CHECK(status_of(t.a) == cudaStreamCaptureStatusInvalidated);
        CHECK(cudaMemsetAsync(t.device, 2, 1, t.a) == cudaErrorStreamCaptureInvalidated);
        CHECK(end_broken_capture(t.a) == cudaErrorStreamCaptureInvalidated);
        CHECK(status_of(t.a) == cudaStreamCaptureStatusNone);
        t.set(3, t.a);
        CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
        CHECK(all_are(contents(t.device, t.bytes), 3));
    }
}

TEST_CASE("an event recorded in a capture cannot be queried or waited for", "[simulator][capture]") {
    capture_bench t;
    for (auto* const ask : {cudaEventSynchronize, cudaEventQuery}) {
        begin_capture(t.a, cudaStreamCaptureModeRelaxed);
        REQUIRE(cudaEventRecord(t.forked, t.a) == cudaSuccess);
        CHECK(ask(t.forked) == cudaErrorCapturedEvent);
        end_broken_capture(t.a);
    }
    auto const timed = new_event(), other = new_event();
    for (auto const e : {timed, other}) REQUIRE(cudaEventRecord(e, t.a) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
    begin_capture(t.a);
    REQUIRE(cudaEventRecord(timed, t.a) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(cudaEventQuery(timed) != cudaSuccess);  // it keeps this state
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, timed, other) != cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, other, timed) != cudaSuccess);
    REQUIRE(cudaEventRecord(timed, t.a) == cudaSuccess);  // until it is recorded outside of a capture
    CHECK(cudaEventSynchronize(timed) == cudaSuccess);
    for (auto const e : {timed, other}) CHECK(cudaEventDestroy(e) == cudaSuccess);
}

TEST_CASE("a device cannot be waited for while one of its streams captures", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a, cudaStreamCaptureModeRelaxed);
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    CHECK(end_broken_capture(t.a) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

namespace {

/// Returns the result of cudaMalloc during a capture, in this thread or another, with the given mode of the thread.
cudaError_t malloc_during(cudaStreamCaptureMode capture, bool elsewhere, cudaStreamCaptureMode mode) {
    auto const s = new_stream(cudaStreamNonBlocking);
    void* memory = nullptr;
    begin_capture(s, capture);
    auto call = [&memory, mode]() mutable {
        if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) return cudaErrorUnknown;
        auto const error = cudaMalloc(&memory, 16);
        cudaThreadExchangeStreamCaptureMode(&mode);
        return error;
    };
    auto const result = elsewhere ? std::async(std::launch::async, call).get() : call();
    cudaGraph_t g = nullptr;
    auto const ended = cudaStreamEndCapture(s, &g);
    CHECK((ended == cudaSuccess) == (result == cudaSuccess));
    if (g) CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(cudaFree(memory) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    (void)cudaGetLastError();
    return result;
}

constexpr auto global = cudaStreamCaptureModeGlobal, thread_local_mode = cudaStreamCaptureModeThreadLocal,
               relaxed = cudaStreamCaptureModeRelaxed;

}  // namespace

TEST_CASE("a thread cannot allocate during its capture unless the capture or the thread is relaxed",
          "[simulator][capture]") {
    auto const no = cudaErrorStreamCaptureUnsupported;
    CHECK(malloc_during(global, false, global) == no);
    CHECK(malloc_during(global, false, thread_local_mode) == no);
    CHECK(malloc_during(global, false, relaxed) == cudaSuccess);
    CHECK(malloc_during(thread_local_mode, false, global) == no);
    CHECK(malloc_during(thread_local_mode, false, relaxed) == cudaSuccess);
    CHECK(malloc_during(relaxed, false, global) == cudaSuccess);
}

TEST_CASE("a global capture restricts all threads in global mode", "[simulator][capture]") {
    CHECK(malloc_during(global, true, global) == cudaErrorStreamCaptureUnsupported);
    CHECK(malloc_during(global, true, thread_local_mode) == cudaSuccess);
    CHECK(malloc_during(global, true, relaxed) == cudaSuccess);
    CHECK(malloc_during(thread_local_mode, true, global) == cudaSuccess);
    CHECK(malloc_during(relaxed, true, global) == cudaSuccess);
}

TEST_CASE("exchanging a thread's capture mode returns the previous mode", "[simulator][capture]") {
    auto mode = relaxed;
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == global);  // the initial mode of every thread
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == relaxed);
}

TEST_CASE("an event that was not captured cannot be queried during a capture unless it is relaxed",
          "[simulator][capture]") {
    capture_bench t;
    REQUIRE(cudaEventRecord(t.joined, t.b) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(t.joined) == cudaSuccess);
    begin_capture(t.a, relaxed);
    CHECK(cudaEventQuery(t.joined) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    begin_capture(t.a, global);
    CHECK(cudaEventQuery(t.joined) == cudaErrorStreamCaptureUnsupported);
    end_broken_capture(t.a);
}

TEST_CASE("the legacy stream is unusable while a blocking stream captures", "[simulator][capture]") {
    capture_bench t;
    unsigned char byte = 0;
    SECTION("enqueuing work") {
        begin_capture(t.blocking, relaxed);
        CHECK(cudaMemsetAsync(t.device, 1, 1, cudaStreamLegacy) == cudaErrorStreamCaptureImplicit);
    }
    SECTION("waiting") {
        begin_capture(t.blocking, relaxed);
        CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaErrorStreamCaptureImplicit);
    }
    SECTION("a synchronous copy") {
        begin_capture(t.blocking, relaxed);
        CHECK(cudaMemcpy(&byte, t.device, 1, cudaMemcpyDeviceToHost) == cudaErrorStreamCaptureImplicit);
    }
    CHECK(end_broken_capture(t.blocking) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaMemcpy(&byte, t.device, 1, cudaMemcpyDeviceToHost) == cudaSuccess);
}

TEST_CASE("querying the legacy stream's capture status does not end the capture of a blocking stream",
          "[simulator][capture]") {
    capture_bench t;
    auto status = cudaStreamCaptureStatusNone;
    begin_capture(t.blocking);
    CHECK(cudaStreamIsCapturing(cudaStreamLegacy, &status) == cudaErrorStreamCaptureImplicit);
    CHECK(cudaGraphDestroy(end_capture(t.blocking)) == cudaSuccess);
    CHECK(status_of(cudaStreamLegacy) == cudaStreamCaptureStatusNone);
}

TEST_CASE("the legacy stream can run work while a non-blocking stream captures", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a, relaxed);
    CHECK(status_of(cudaStreamLegacy) == cudaStreamCaptureStatusNone);
    CHECK(cudaMemsetAsync(t.device, 9, t.bytes, cudaStreamLegacy) == cudaSuccess);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(all_are(contents(t.device, t.bytes), 9));
}

TEST_CASE("other streams can run work while one captures", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a, relaxed);
    t.set(5, t.b);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(all_are(contents(t.device, t.bytes), 5));
}

TEST_CASE("a stream that waits for a captured event joins the capture", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    t.set(1, t.a);
    t.fork();
    CHECK(status_of(t.b) == cudaStreamCaptureStatusActive);
    t.set(2, t.b);
    t.join();
    auto const g = end_capture(t.a);
    CHECK(status_of(t.b) == cudaStreamCaptureStatusNone);  // all streams leave the capture when it ends
    std::size_t nodes = 0;
    CHECK(cudaGraphGetNodes(g, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 2);
    CHECK(all_are(contents(t.device, t.bytes), 0));
    executable const e{g};
    e.launch(t.a);
    CHECK(all_are(contents(t.device, t.bytes), 2));
}

TEST_CASE("a stream that has joined a capture must be joined back before its end", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    t.set(1, t.a);
    t.fork();
    t.set(2, t.b);
    CHECK(end_broken_capture(t.a) == cudaErrorStreamCaptureUnjoined);
    CHECK(status_of(t.b) == cudaStreamCaptureStatusNone);
}

TEST_CASE("a capture ends on the stream where it began", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    t.fork();
    cudaGraph_t g = nullptr;
    CHECK(cudaStreamEndCapture(t.b, &g) == cudaErrorStreamCaptureUnmatched);
    CHECK(g == nullptr);
    (void)cudaStreamEndCapture(t.a, &g);
    if (g) CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("a capture ends on the thread where it began, unless it is relaxed", "[simulator][capture]") {
    capture_bench t;
    cudaGraph_t g = nullptr;
    auto const end_elsewhere = [&] {
        return std::async(std::launch::async, [&] { return cudaStreamEndCapture(t.a, &g); }).get();
    };
    for (auto const mode : {global, thread_local_mode}) {
        begin_capture(t.a, mode);
        CHECK(end_elsewhere() == cudaErrorStreamCaptureWrongThread);
        CHECK(g == nullptr);
        (void)cudaStreamEndCapture(t.a, &g);
        if (g) CHECK(cudaGraphDestroy(std::exchange(g, nullptr)) == cudaSuccess);
    }
    begin_capture(t.a, relaxed);
    CHECK(end_elsewhere() == cudaSuccess);
    REQUIRE(g != nullptr);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("two captures cannot be merged", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    begin_capture(t.b);
    REQUIRE(cudaEventRecord(t.forked, t.a) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(t.b, t.forked, 0) == cudaErrorStreamCaptureMerge);
    end_broken_capture(t.a);
    end_broken_capture(t.b);
}

TEST_CASE("captured work cannot wait for work outside of the capture", "[simulator][capture]") {
    capture_bench t;
    REQUIRE(cudaEventRecord(t.forked, t.b) == cudaSuccess);
    begin_capture(t.a);
    CHECK(cudaStreamWaitEvent(t.a, t.forked, 0) == cudaErrorStreamCaptureIsolation);
    CHECK(end_broken_capture(t.a) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("work outside of a capture cannot wait for captured work", "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    REQUIRE(cudaEventRecord(t.forked, t.a) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(t.b, t.forked, 0) != cudaSuccess);
}

TEST_CASE("work before a capture does not order the graph, nor does the graph order later work",
          "[simulator][capture]") {
    capture_bench t;
    gate closed{t.a};
    begin_capture(t.a);
    t.set(1, t.a);
    executable const e{end_capture(t.a)};
    e.launch(t.b);  // does not wait for the work that preceded the capture
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    CHECK(cudaStreamQuery(t.a) == cudaErrorNotReady);  // work of the stream after the capture still waits
}

TEST_CASE("a callback of cudaStreamAddCallback or an attachment of memory cannot be captured",
          "[simulator][capture]") {
    capture_bench t;
    begin_capture(t.a);
    CHECK(cudaStreamAddCallback(
              t.a, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0) == cudaErrorStreamCaptureUnsupported);
    end_broken_capture(t.a);
    void* managed = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 16) == cudaSuccess);
    begin_capture(t.a);
    CHECK(cudaStreamAttachMemAsync(t.a, managed, 0, cudaMemAttachSingle) != cudaSuccess);
    end_broken_capture(t.a);
    CHECK(cudaFree(managed) == cudaSuccess);
}

TEST_CASE("pageable memory is read and written when the graph runs", "[simulator][capture]") {
    capture_bench t;
    std::vector<unsigned char> from(t.bytes, 1), to(t.bytes, 0);
    begin_capture(t.a);
    REQUIRE(cudaMemcpyAsync(t.device, from.data(), t.bytes, cudaMemcpyHostToDevice, t.a) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(to.data(), t.device, t.bytes, cudaMemcpyDeviceToHost, t.a) == cudaSuccess);
    executable const e{end_capture(t.a)};
    CHECK(all_are(to, 0));
    for (int i = 4; i < 6; ++i) {
        auto const value = static_cast<unsigned char>(i);
        std::fill(from.begin(), from.end(), value);
        e.launch(t.a);
        REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
        CHECK(all_are(to, value));
    }
}

TEST_CASE("external events are refused outside of a capture", "[simulator][capture]") {
    capture_bench t;
    CHECK(cudaEventRecordWithFlags(t.forked, t.a, cudaEventRecordExternal) != cudaSuccess);
    CHECK(cudaStreamWaitEvent(t.a, t.forked, cudaEventWaitExternal) != cudaSuccess);
    CHECK(cudaEventRecordWithFlags(t.forked, t.a, 2) == cudaErrorInvalidValue);
    CHECK(cudaStreamWaitEvent(t.a, t.forked, 2) == cudaErrorInvalidValue);
}

TEST_CASE("each launch records its external events and waits for those of the graph",
          "[simulator][capture]") {
    capture_bench t;
    auto const ready = new_event(cudaEventDisableTiming);
    begin_capture(t.a);
    REQUIRE(cudaStreamWaitEvent(t.a, ready, cudaEventWaitExternal) == cudaSuccess);
    t.set(6, t.a);
    REQUIRE(cudaEventRecordWithFlags(t.joined, t.a, cudaEventRecordExternal) == cudaSuccess);
    executable const e{end_capture(t.a)};
    CHECK(cudaEventQuery(t.joined) == cudaSuccess);  // not recorded yet
    {
        gate closed{t.b};
        REQUIRE(cudaEventRecord(ready, t.b) == cudaSuccess);
        e.launch(t.a);
        CHECK(returns_after(closed, [&] { return cudaStreamSynchronize(t.a); }));
    }
    CHECK(cudaEventQuery(t.joined) == cudaSuccess);
    CHECK(all_are(contents(t.device, t.bytes), 6));
    gate closed{t.b};
    REQUIRE(cudaEventRecord(t.joined, t.b) == cudaSuccess);
    CHECK(cudaEventQuery(t.joined) == cudaErrorNotReady);
    e.launch(t.a);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(cudaEventQuery(t.joined) == cudaSuccess);  // of the newer record, made by the launch
    CHECK_FALSE(closed.passed());
    CHECK(cudaEventDestroy(ready) == cudaSuccess);
}

TEST_CASE("the thread's own default stream can capture", "[simulator][capture]") {
    capture_bench t;
    begin_capture(cudaStreamPerThread);
    t.set(8, cudaStreamPerThread);
    executable const e{end_capture(cudaStreamPerThread)};
    e.launch(cudaStreamPerThread);
    CHECK(all_are(contents(t.device, t.bytes), 8));
}

TEST_CASE("the errors of captures have names and texts", "[simulator][capture]") {
    CHECK(cudaGetErrorName(cudaErrorStreamCaptureUnjoined) == std::string{"cudaErrorStreamCaptureUnjoined"});
    CHECK(cudaGetErrorString(cudaErrorStreamCaptureUnjoined) ==
          std::string{"capturing stream has unjoined work"});
    for (int code = cudaErrorStreamCaptureUnsupported; code <= cudaErrorStreamCaptureWrongThread; ++code) {
        auto const error = static_cast<cudaError_t>(code);
        CHECK(cudaGetErrorName(error) != std::string{"unrecognized error code"});
        CHECK(cudaGetErrorString(error) != std::string{"unrecognized error code"});
    }
}
