// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/bugs.hpp"
#include "simulator/process.hpp"

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>

// Programs that lack an ordering. The report must name the two unordered operations.

using namespace control;

namespace {

constexpr auto races = &sim::misuse_counts::races;
constexpr auto unordered = "nothing orders it after";
constexpr auto down = cudaMemcpyDeviceToHost, up = cudaMemcpyHostToDevice, across = cudaMemcpyDeviceToDevice;

void will_read(cudaStream_t s, void const* p) { cuota_simulator_declare(s, p, size, 0); }
void will_write(cudaStream_t s, void const* p) { cuota_simulator_declare(s, p, size, 1); }

constexpr bug missing[] = {
    {"no event between two memsets", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         if (t.fixed) t.order(t.a, t.b);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"no event between a kernel and the download of its result", races, unordered,
     [](trial& t) {
         will_write(t.a, t.device);
         t.place(cuota_simulator_launch(t.a, "solve", nothing, nullptr, nullptr));
         if (t.fixed) t.order(t.a, t.b);
         t.place(cudaMemcpyAsync(t.pinned, t.device, size, down, t.b));
     }},
    {"a kernel on another stream before the upload is done", races, unordered,
     [](trial& t) {
         t.place(cudaMemcpyAsync(t.device, t.pinned, size, up, t.a));
         if (t.fixed) t.order(t.a, t.b);
         will_read(t.b, t.device);
         t.place(cuota_simulator_launch(t.b, "sum", nothing, nullptr, nullptr));
     }},
    {"a copy on the device from memory that is still being set", races, unordered,
     [](trial& t) {
         auto const half = size / 2;
         t.place(cudaMemsetAsync(t.device, 1, half, t.a));
         if (t.fixed) t.order(t.a, t.b);
         t.place(cudaMemcpyAsync(t.device + half, t.device, half, across, t.b));
     }},
    {"two kernels that write one byte in common", races, unordered,
     [](trial& t) {
         cuota_simulator_declare(t.a, t.device, 501, 1);
         t.place(cuota_simulator_launch(t.a, "left", nothing, nullptr, nullptr));
         cuota_simulator_declare(t.b, t.device + (t.fixed ? 501 : 500), 400, 1);
         t.place(cuota_simulator_launch(t.b, "right", nothing, nullptr, nullptr));
     }},
    {"rows of a rectangle written by two streams", races, unordered,
     [](trial& t) {
         t.place(cudaMemset2DAsync(t.device, 100, 1, 50, 10, t.a));
         t.place(cudaMemset2DAsync(t.device + (t.fixed ? 50 : 49), 100, 2, 50, 10, t.b));
     }},
    {"a kernel on one device before its input has come from another", races, unordered,
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaSetDevice(1) == cudaSuccess);
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         auto const there = new_stream(cudaStreamNonBlocking);
         t.place(cudaMemcpyPeerAsync(p, 1, t.device, 0, size, t.a));
         if (t.fixed) t.order(t.a, there);
         will_read(there, p);
         t.place(cuota_simulator_launch(there, "sum", nothing, nullptr, nullptr));
         CHECK(free_when_done(p) == cudaSuccess);
         CHECK(cudaStreamDestroy(there) == cudaSuccess);
     }},
};

constexpr bug events[] = {
    {"an event recorded on the wrong stream", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaEventRecord(t.event, t.fixed ? t.a : t.b) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemcpyAsync(t.pinned, t.device, size, down, t.b));
     }},
    {"an event recorded too early", races, unordered,
     [](trial& t) {
         if (t.wrong) REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         if (t.fixed) REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"an event that nobody records", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         if (t.fixed) REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"a wait made before its event is recorded again", races, unordered,
     [](trial& t) {
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         if (t.wrong) REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         if (t.fixed) REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"an event recorded again before anybody has waited for it", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaEventRecord(t.fixed ? t.other : t.event, t.blocking) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.event, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"the wrong event waited for", races, unordered,
     [](trial& t) {
         REQUIRE(cudaEventRecord(t.other, t.a) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(t.b, t.fixed ? t.event : t.other, 0) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"the wrong stream told to wait", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         t.order(t.a, t.fixed ? t.b : t.blocking);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"a chain of three streams that lacks its middle", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         if (t.fixed) t.order(t.a, t.blocking);
         t.order(t.blocking, t.b);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"the wrong stream synchronised", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaStreamSynchronize(t.fixed ? t.a : t.b) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"an event that is not ready taken for one that is", races, unordered,
     [](trial& t) {
         gate g{t.a};
         t.place(cudaMemsetAsync(t.device, 1, size, t.a));
         REQUIRE(cudaEventRecord(t.event, t.a) == cudaSuccess);
         CHECK(cudaEventQuery(t.event) == cudaErrorNotReady);
         g.open();
         if (t.fixed) REQUIRE(cudaEventSynchronize(t.event) == cudaSuccess);
         t.place(cudaMemsetAsync(t.device, 2, size, t.b));
     }},
    {"the default stream taken to come before a non-blocking one", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, nullptr));
         t.place(cudaMemsetAsync(t.device, 2, size, t.fixed ? t.blocking : t.b));
     }},
    {"the default stream taken to come after a non-blocking one", races, unordered,
     [](trial& t) {
         t.place(cudaMemsetAsync(t.device, 1, size, t.fixed ? t.blocking : t.b));
         t.place(cudaMemcpyAsync(t.pinned, t.device, size, down, nullptr));
     }},
};

constexpr bug slots[] = {
    {"a pinned slot filled again while it is uploaded", races, unordered,
     [](trial& t) {
         auto const half = size / 2;
         t.place(cudaMemcpyAsync(t.device, t.pinned, half, up, t.a));
         if (t.fixed) t.order(t.a, t.b);
         t.place(cudaMemcpyAsync(t.pinned, t.device + half, half, down, t.b));
     }},
    {"a pinned slot that two streams download to", races, unordered,
     [](trial& t) {
         auto const half = size / 2;
         t.place(cudaMemcpyAsync(t.pinned, t.device, half, down, t.a));
         t.place(cudaMemcpyAsync(t.pinned + (t.fixed ? half : 0), t.device + half, half, down, t.b));
     }},
    {"a ring of slots that waits for its neighbour's event", races, unordered,
     [](trial& t) {
         auto const half = size / 2;
         cudaEvent_t const done[] = {t.event, t.other};
         cudaStream_t const users[] = {t.b, t.blocking};
         for (int i = 0; i < 3; ++i) {
             auto const mine = i % 2, waits_for = t.fixed ? mine : 1 - mine;
             auto* const slot = t.device + static_cast<std::size_t>(mine) * half;
             if (i >= 2) REQUIRE(cudaStreamWaitEvent(t.a, done[waits_for], 0) == cudaSuccess);
             t.place(cudaMemsetAsync(slot, i, half, t.a));
             REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
             cuota_simulator_declare(users[mine], slot, half, 0);
             t.place(cuota_simulator_launch(users[mine], "use", nothing, nullptr, nullptr));
             REQUIRE(cudaEventRecord(done[mine], users[mine]) == cudaSuccess);
         }
     }},
};

constexpr bug lifetimes[] = {
    {"a use on another stream before cudaMallocAsync is reached", races, unordered,
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocAsync(&p, size, t.a));
         if (t.fixed) t.order(t.a, t.b);
         will_write(t.b, p);
         t.place(cuota_simulator_launch(t.b, "fill", nothing, nullptr, nullptr));
         t.order(t.b, t.a);
         CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"a cudaFreeAsync that does not wait for the use on another stream", races, unordered,
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         t.order(t.a, t.b);
         will_read(t.b, p);
         t.place(cuota_simulator_launch(t.b, "sum", nothing, nullptr, nullptr));
         if (t.fixed) t.order(t.b, t.a);
         t.place(cudaFreeAsync(p, t.a));
     }},
    {"a kernel queued behind the cudaFreeAsync of what it uses", races, "freed before by cudaFreeAsync",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         if (t.wrong) t.place(cudaFreeAsync(p, t.a));
         will_read(t.a, p);
         t.place(cuota_simulator_launch(t.a, "sum", nothing, nullptr, nullptr));
         if (t.fixed) CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"a memset whose memory is freed before it runs", &sim::misuse_counts::illegal_accesses,
     "ran after its memory was freed",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         t.order(t.a, t.b);
         gate g{t.b};
         t.place(cudaMemsetAsync(p, 1, size, t.b));
         if (t.fixed) g.open();
         if (t.fixed) t.order(t.b, t.a);
         t.place(cudaFreeAsync(p, t.a));
         (void)cudaStreamSynchronize(t.a);
         g.open();
     }},
    {"a block that a sub-allocator hands on to another stream", races, unordered,
     [](trial& t) {
         std::vector<char*> free_blocks{t.device};
         auto* const first = free_blocks.back();
         free_blocks.pop_back();
         t.place(cudaMemsetAsync(first, 1, size, t.a));
         free_blocks.push_back(first);
         if (t.fixed) t.order(t.a, t.b);
         t.place(cudaMemsetAsync(free_blocks.back(), 2, size, t.b));
     }},
    {"a block given back to a pool while another stream still uses it", races, unordered,
     [](trial& t) {
         cuota::scoped_pool pool{cuota::device_memory{}};
         auto r = pool.resource();
         cuota::stream_ref const a{t.a};
         auto* const p = r.allocate(a, size);
         t.order(t.a, t.b);
         will_read(t.b, p);
         t.place(cuota_simulator_launch(t.b, "sum", nothing, nullptr, nullptr));
         if (t.fixed) t.order(t.b, t.a);
         r.deallocate(a, p, size);
         auto* const again = r.allocate(a, size);
         REQUIRE(again == p);
         t.place(cudaMemsetAsync(again, 1, size, t.a));
         r.deallocate(a, again, size);
     }},
};

constexpr auto why_not = "ThreadSanitizer would end the program for the same races: see control_planted.cpp";

}  // namespace

TEST_CASE("seeded bugs: unordered work", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(missing);
}

TEST_CASE("seeded bugs: events and streams that order other work", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(events);
}

TEST_CASE("seeded bugs: slots reused in flight", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(slots);
}

TEST_CASE("seeded bugs: memory that is allocated or freed on another stream", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(lifetimes);
}
