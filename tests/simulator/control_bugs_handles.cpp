// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/bugs.hpp"

// Programs that use an invalid handle or one of another device, or do not destroy a handle; and calls that CUDA does not allow in their
// context. The report must name the call and the location where the object was created, destroyed or enqueued.

using namespace control;

namespace {

constexpr auto handles = &sim::misuse_counts::bad_handles;
constexpr auto inside = &sim::misuse_counts::calls_in_callbacks;
constexpr std::uint64_t sim::misuse_counts::*leak = nullptr;

cudaMemPool_t new_pool() {
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
    return pool;
}

constexpr bug stale[] = {
    {"work for a stream that is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         if (t.wrong) t.place(cudaStreamDestroy(s));
         t.place(cudaMemsetAsync(t.device, 0, size, s));
         if (t.fixed) CHECK(cudaStreamDestroy(s) == cudaSuccess);
     }},
    {"a launch on a stream that is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         if (t.wrong) t.place(cudaStreamDestroy(s));
         t.place(cuota_simulator_launch(s, "k", nothing, nullptr, nullptr));
         if (t.fixed) CHECK(cudaStreamDestroy(s) == cudaSuccess);
     }},
    {"a stream destroyed twice", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         t.place(cudaStreamDestroy(s));
         if (t.wrong) t.place(cudaStreamDestroy(s));
     }},
    {"a stream synchronised after it is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         if (t.wrong) t.place(cudaStreamDestroy(s));
         t.place(cudaStreamSynchronize(s));
         if (t.fixed) CHECK(cudaStreamDestroy(s) == cudaSuccess);
     }},
    {"memory freed on a stream that is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, s) == cudaSuccess);
         REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
         t.place(cudaStreamDestroy(s));
         t.place(cudaFreeAsync(p, t.fixed ? t.a : s));
         if (t.wrong) CHECK(cudaFree(p) == cudaSuccess);
     }},
    {"the handle of a stream whose place another one has taken", handles, "which was destroyed at",
     [](trial& t) {
         auto const s = new_stream();
         t.place(cudaStreamDestroy(s));
         auto const next = new_stream();
         t.place(cudaMemsetAsync(t.device, 0, size, t.fixed ? next : s));
         CHECK(cudaStreamDestroy(next) == cudaSuccess);
     }},
    {"an event recorded after it is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const e = new_event();
         if (t.wrong) t.place(cudaEventDestroy(e));
         t.place(cudaEventRecord(e, t.a));
         if (t.fixed) CHECK(cudaEventDestroy(e) == cudaSuccess);
     }},
    {"an event waited for after it is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const e = new_event();
         REQUIRE(cudaEventRecord(e, t.a) == cudaSuccess);
         if (t.wrong) t.place(cudaEventDestroy(e));
         t.place(cudaStreamWaitEvent(t.b, e, 0));
         if (t.fixed) CHECK(cudaEventDestroy(e) == cudaSuccess);
     }},
    {"an event destroyed twice", handles, "which was destroyed at",
     [](trial& t) {
         auto const e = new_event();
         t.place(cudaEventDestroy(e));
         if (t.wrong) t.place(cudaEventDestroy(e));
     }},
    {"memory from a pool that is destroyed", handles, "which was destroyed at",
     [](trial& t) {
         auto const pool = new_pool();
         void* p = nullptr;
         if (t.wrong) t.place(cudaMemPoolDestroy(pool));
         t.place(cudaMallocFromPoolAsync(&p, size, pool, t.a));
         if (t.wrong) return;
         CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
         CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
     }},
    {"an event taken for a stream", handles, "was called with an invalid handle",
     [](trial& t) {
         auto* const s = t.fixed ? t.a : reinterpret_cast<cudaStream_t>(t.event);
         t.place(cudaMemsetAsync(t.device, 0, size, s));
     }},
};

constexpr bug devices[] = {
    {"an event recorded on another device's stream", handles, "mixes devices",
     [](trial& t) {
         cudaEvent_t e = nullptr;
         cudaStream_t s = nullptr;
         t.place(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
         if (t.wrong) REQUIRE(cudaSetDevice(1) == cudaSuccess);
         t.place(cudaStreamCreate(&s));
         t.place(cudaEventRecord(e, s));
         CHECK(cudaStreamDestroy(s) == cudaSuccess);
         CHECK(cudaEventDestroy(e) == cudaSuccess);
     }},
    {"the time between events of two devices", handles, "mixes devices",
     [](trial& t) {
         cudaEvent_t first = nullptr, second = nullptr;
         t.place(cudaEventCreate(&first));
         REQUIRE(cudaEventRecord(first, nullptr) == cudaSuccess);
         if (t.wrong) REQUIRE(cudaSetDevice(1) == cudaSuccess);
         t.place(cudaEventCreate(&second));
         REQUIRE(cudaEventRecord(second, nullptr) == cudaSuccess);
         REQUIRE(cudaEventSynchronize(second) == cudaSuccess);
         float ms = 0;
         t.place(cudaEventElapsedTime(&ms, first, second));
         CHECK(cudaEventDestroy(first) == cudaSuccess);
         CHECK(cudaEventDestroy(second) == cudaSuccess);
     }},
};

constexpr bug forgotten[] = {
    {"a stream that nobody destroys", leak, "from cudaStreamCreateWithPriority at",
     [](trial& t) {
         cudaStream_t s = nullptr;
         t.place(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0));
         if (t.fixed) CHECK(cudaStreamDestroy(s) == cudaSuccess);
         else t.finally([s] { (void)cudaStreamDestroy(s); });
     }},
    {"an event that nobody destroys", leak, "from cudaEventCreate at",
     [](trial& t) {
         cudaEvent_t e = nullptr;
         t.place(cudaEventCreate(&e));
         if (t.fixed) CHECK(cudaEventDestroy(e) == cudaSuccess);
         else t.finally([e] { (void)cudaEventDestroy(e); });
     }},
    {"a pool that nobody destroys", leak, "from cudaMemPoolCreate at",
     [](trial& t) {
         cudaMemPoolProps wanted{};
         wanted.allocType = cudaMemAllocationTypePinned;
         wanted.location = {cudaMemLocationTypeDevice, 0};
         cudaMemPool_t pool = nullptr;
         t.place(cudaMemPoolCreate(&pool, &wanted));
         if (t.fixed) CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
         else t.finally([pool] { (void)cudaMemPoolDestroy(pool); });
     }},
};

constexpr int line_of_ask = __LINE__ + 1;
void ask(void*) { (void)cudaStreamQuery(nullptr); }

constexpr bug calls[] = {
    {"a CUDA call inside of a host function", inside, "was called inside a host function",
     [](trial& t) {
         t.place(cudaSuccess, line_of_ask);
         t.place(cudaLaunchHostFunc(t.a, t.fixed ? nothing : ask, nullptr));
         REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
     }},
    {"a CUDA call inside of a kernel", inside, "was called inside a kernel",
     [](trial& t) {
         t.place(cudaSuccess, line_of_ask);
         t.place(cuota_simulator_launch(t.a, "ask", t.fixed ? nothing : ask, nullptr, nullptr));
         REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
     }},
    {"a kernel that exists for a device only", &sim::misuse_counts::device_kernels,
     "which has no body for the host",
     [](trial& t) {
         static int const kernel = 0;  // its address stands for the kernel, as nvcc's stub does
         if (t.wrong) t.place(cudaLaunchKernel(&kernel, {1, 1, 1}, {1, 1, 1}, nullptr, 0, t.a));
     }},
};

constexpr auto capture = &sim::misuse_counts::bad_captures;

/// Ends a capture in any state.
void end_capture(cudaStream_t s) {
    cudaGraph_t g = nullptr;
    (void)cudaStreamEndCapture(s, &g);
    if (g) (void)cudaGraphDestroy(g);
    (void)cudaGetLastError();
}

constexpr bug captures[] = {
    {"a stream that is synchronised while it is captured", capture, "breaks the rules of stream capture",
     [](trial& t) {
         t.place(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal));
         if (t.fixed) end_capture(t.a);
         t.place(cudaStreamSynchronize(t.a));
         if (t.wrong) end_capture(t.a);
     }},
    {"memory allocated during a capture", capture, "breaks the rules of stream capture",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal));
         if (t.fixed) end_capture(t.a);
         t.place(cudaMalloc(&p, size));
         if (t.wrong) end_capture(t.a);
         CHECK(cudaFree(p) == cudaSuccess);
     }},
    {"a capture that is ended on another stream", capture, "breaks the rules of stream capture",
     [](trial& t) {
         t.place(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         cudaGraph_t g = nullptr;
         if (t.wrong) t.place(cudaStreamEndCapture(t.b, &g));
         end_capture(t.a);
     }},
    {"a stream that joins a capture and is left in it", capture, "breaks the rules of stream capture",
     [](trial& t) {
         t.place(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         REQUIRE(cudaMemsetAsync(t.device, 0, size, t.b) == cudaSuccess);
         if (t.fixed) t.order(t.b, t.a);
         cudaGraph_t g = nullptr;
         t.place(cudaStreamEndCapture(t.a, &g));
         if (g) CHECK(cudaGraphDestroy(g) == cudaSuccess);
     }},
    {"a graph launched after its memory was freed", &sim::misuse_counts::illegal_accesses,
     "ran after its memory was freed",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         cudaGraph_t g = nullptr;
         cudaGraphExec_t e = nullptr;
         REQUIRE(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal) == cudaSuccess);
         t.place(cudaMemsetAsync(p, 0, size, t.a));
         REQUIRE(cudaStreamEndCapture(t.a, &g) == cudaSuccess);
         REQUIRE(cudaGraphInstantiate(&e, g, 0) == cudaSuccess);
         if (t.wrong) t.place(cudaFree(p));
         REQUIRE(cudaGraphLaunch(e, t.a) == cudaSuccess);
         (void)cudaStreamSynchronize(t.a);
         if (t.fixed) CHECK(cudaFree(p) == cudaSuccess);
         (void)cudaGraphExecDestroy(e);
         (void)cudaGraphDestroy(g);
     }},
};

}  // namespace

TEST_CASE("seeded bugs: handles of destroyed objects", "[simulator][bugs]") { check_all(stale); }

TEST_CASE("seeded bugs: handles of another device", "[simulator][bugs]") { check_all(devices); }

TEST_CASE("seeded bugs: streams, events and pools that leak", "[simulator][bugs]") { check_all(forgotten); }

TEST_CASE("seeded bugs: calls where CUDA permits none", "[simulator][bugs]") { check_all(calls); }

TEST_CASE("seeded bugs: captures and graphs", "[simulator][bugs]") { check_all(captures); }
