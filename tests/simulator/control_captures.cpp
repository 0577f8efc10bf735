// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/graphs.hpp"

#include <functional>
#include <string>
#include <utility>

// Behavior of the simulator if CUDA's documentation specifies neither an error nor a list of calls.

using namespace control;

namespace {

using call = std::pair<char const*, std::function<cudaError_t()>>;

/// Makes each call in a capture of its own: it must be refused and end the capture, or succeed if the thread is in relaxed mode.
void unsafe(std::vector<call> const& calls) {
    auto const s = new_stream(cudaStreamNonBlocking);
    for (auto const& [name, make] : calls) {
        INFO(name);
        begin_capture(s, cudaStreamCaptureModeThreadLocal);
        CHECK(make() == cudaErrorStreamCaptureUnsupported);
        CHECK(end_broken_capture(s) == cudaErrorStreamCaptureInvalidated);
        begin_capture(s, cudaStreamCaptureModeRelaxed);
        CHECK(make() == cudaSuccess);
        CHECK(cudaGraphDestroy(end_capture(s)) == cudaSuccess);
    }
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

}  // namespace

TEST_CASE("calls that allocate, free, register or query events are unsafe in a capture",
          "[simulator][capture]") {
    machine m;
    void *device = device_memory(16), *pinned = pinned_memory(16), *p = nullptr;
    alignas(4096) static char own[4096];
    auto const e = new_event();
    REQUIRE(cudaEventRecord(e, nullptr) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    unsafe({{"cudaFree", [&] { return cudaFree(device); }},
            {"cudaFreeHost", [&] { return cudaFreeHost(pinned); }},
            {"cudaHostRegister", [&] { return cudaHostRegister(own, sizeof own, 0); }},
            {"cudaHostUnregister", [&] { return cudaHostUnregister(own); }},
            {"cudaEventQuery", [&] { return cudaEventQuery(e); }},
            {"cudaEventSynchronize", [&] { return cudaEventSynchronize(e); }},
            {"cudaMalloc", [&] { return cudaMalloc(&p, 16); }}});
    CHECK(cudaFree(p) == cudaSuccess);
    unsafe({{"cudaMallocManaged", [&] { return cudaMallocManaged(&p, 16, cudaMemAttachGlobal); }}});
    CHECK(cudaFree(p) == cudaSuccess);
    unsafe({{"cudaMallocHost", [&] { return cudaMallocHost(&p, 16); }}});
    CHECK(cudaFreeHost(p) == cudaSuccess);
    unsafe({{"cudaHostAlloc", [&] { return cudaHostAlloc(&p, 16, 0); }}});
    CHECK(cudaFreeHost(p) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
}

TEST_CASE("a driver, and the simulator by option, may treat every slow call as unsafe",
          "[simulator][capture]") {
    machine m;
    auto const other = new_stream(cudaStreamNonBlocking);
    auto const captured = new_stream(cudaStreamNonBlocking);
    cudaEvent_t e = nullptr;
    auto const make = [&] { return cudaEventCreate(&e); };
    auto const wait = [&] { return cudaStreamSynchronize(other); };
    begin_capture(captured, cudaStreamCaptureModeGlobal);
    CHECK(make() == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    CHECK(wait() == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(captured)) == cudaSuccess);
    sim::set_capture_checks(sim::capture_checks::every_slow_call);
    unsafe({{"cudaStreamSynchronize", wait}, {"cudaStreamQuery", [&] { return cudaStreamQuery(other); }}});
    unsafe({{"cudaEventCreate", make}});
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    sim::set_capture_checks(sim::capture_checks::named);
    CHECK(cudaStreamDestroy(captured) == cudaSuccess);
    CHECK(cudaStreamDestroy(other) == cudaSuccess);
}

TEST_CASE("synchronous copies are unsafe in a capture", "[simulator][capture]") {
    machine m;
    auto* const d = device_memory(64);
    auto* const other = device_memory(64);
    unsafe({{"cudaMemcpy", [&] { return cudaMemcpy(d, other, 64, cudaMemcpyDeviceToDevice); }},
            {"cudaMemcpy2D", [&] { return cudaMemcpy2D(d, 8, other, 8, 4, 4, cudaMemcpyDeviceToDevice); }},
            {"cudaMemcpyPeer", [&] { return cudaMemcpyPeer(d, 0, other, 0, 64); }},
            {"cudaMemset", [&] { return cudaMemset(d, 0, 64); }},
            {"cudaMemset2D", [&] { return cudaMemset2D(d, 8, 0, 4, 4); }}});
    auto const blocking = new_stream();
    begin_capture(blocking);
    CHECK(cudaMemcpyPeer(d, 0, other, 0, 64) == cudaErrorStreamCaptureImplicit);
    end_broken_capture(blocking);
    CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFree(other) == cudaSuccess);
}

TEST_CASE("events of a broken capture add no stream to it, and the legacy stream is never added",
          "[simulator][capture]") {
    machine m;
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    auto const e = new_event(cudaEventDisableTiming);
    begin_capture(a);
    REQUIRE(cudaEventRecord(e, a) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(cudaStreamLegacy, e, 0) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamWaitEvent(b, e, 0) == cudaErrorStreamCaptureInvalidated);
    CHECK(status_of(b) == cudaStreamCaptureStatusNone);
    end_broken_capture(a);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("an executable graph cannot be updated with a graph that has other edges", "[simulator][graphs]") {
    machine m;
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    auto const forked = new_event(cudaEventDisableTiming), joined = new_event(cudaEventDisableTiming);
    auto const two_kernels = [&](bool side_by_side) {
        begin_capture(a);
        REQUIRE(cudaEventRecord(forked, a) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(b, forked, 0) == cudaSuccess);
        REQUIRE(launch(a, "first", [] {}) == cudaSuccess);
        REQUIRE(launch(side_by_side ? b : a, "second", [] {}) == cudaSuccess);
        REQUIRE(cudaEventRecord(joined, b) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(a, joined, 0) == cudaSuccess);
        return end_capture(a);
    };
    {
        executable const e{two_kernels(true)};
        auto const chain = two_kernels(false);
        cudaGraphExecUpdateResultInfo told{};
        CHECK(cudaGraphExecUpdate(e.get(), chain, &told) == cudaErrorGraphExecUpdateFailure);
        CHECK(told.result == cudaGraphExecUpdateErrorTopologyChanged);
        CHECK(told.errorNode != nullptr);
        CHECK(cudaGraphDestroy(chain) == cudaSuccess);
    }
    for (auto const s : {a, b}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    for (auto const e : {forked, joined}) CHECK(cudaEventDestroy(e) == cudaSuccess);
}
