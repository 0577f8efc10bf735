// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/captured_streams.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/runtime/device.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"

namespace sim = cuota::simulator;
using cuota::detail::capture_delay;
using cuota::detail::captured_streams;
using cuota::detail::key_of;
using support::has;

namespace {

// Gives a capture of another thread that nothing stops the time to begin.
void look_until(std::atomic<bool> const& is_there) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
    while (!is_there && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

std::string failure_of(std::function<void()> const& action) {
    try {
        action();
    } catch (std::exception const& e) { return e.what(); }
    return "";
}

// Captures s in a thread while another thread is about to make the CUDA call of `use`, after its checks; returns both threads' errors. A
// capture that begins before the call stays open until `use` has ended.
std::vector<std::string> capture_beside(cuota::stream_ref s, char const* call,
                                        std::function<void()> const& use) {
    std::string use_failure, capture_failure;
    std::atomic<bool> has_begun = false;
    std::atomic<bool> is_used = false;
    sim::held_call held{call};
    std::thread user{[&] {
        use_failure = failure_of(use);
        is_used = true;
    }};
    held.wait_until_reached();
    std::thread capturer{[&] {
        auto const work = [&] {
            has_begun = true;
            while (!is_used) std::this_thread::yield();
        };
        capture_failure = failure_of([&] { (void)cuota::capture(s, work); });
    }};
    look_until(has_begun);
    held.let_go();
    user.join();
    capturer.join();
    return {use_failure, capture_failure};
}

cuota::detail::captured_stream entry_of(cuota::stream_ref s, bool is_blocking = false) {
    return {s.get(), s.id(), s.device().ordinal(), is_blocking};
}

// Adds the stream in another thread, until `then` has returned; returns whether it could be added.
bool enters_elsewhere(
    cuota::detail::captured_stream s, std::function<void()> const& then = [] {}) {
    bool has_entered = false;
    std::thread{[&] {
        has_entered = captured_streams::all().try_enter({&s, 1}, [] { return true; });
        if (!has_entered) return;
        then();
        captured_streams::all().leave({&s.id, 1});
    }}.join();
    return has_entered;
}

}  // namespace

TEST_CASE("a capture does not begin between another thread's check of its stream and its wait or query",
          "[runtime][captured_streams][threads]") {
    support::machine const machine;
    cuota::stream const s;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreate(&native) == cudaSuccess);
    cuota::stream_ref const blocking{native};
    {
        struct use {
            char const* call;
            cuota::stream_ref captured;
            std::function<void()> make;
        };
        use const uses[]{
            {"cudaStreamSynchronize", s, [&] { s.synchronize(); }},
            {"cudaStreamSynchronize", s, [&] { CHECK(cuota::rt::drain(s)); }},
            {"cudaStreamSynchronize", s, [&] { CHECK(cuota::detail::wait_outside_captures(s)); }},
            {"cudaStreamSynchronize", blocking, [&] { blocking.synchronize(); }},
            {"cudaStreamSynchronize", blocking, [] { cuota::stream_ref::legacy().synchronize(); }},
            {"cudaStreamSynchronize", blocking, [] { CHECK(cuota::rt::drain(cudaStreamLegacy)); }},
            {"cudaDeviceSynchronize", s, [] { cuota::device::current().synchronize(); }},
            {"cudaStreamQuery", s, [&] { CHECK(s.is_idle()); }},
            {"cudaStreamQuery", s, [&] { CHECK(cuota::rt::is_known_idle(s)); }},
            {"cudaStreamGetId", blocking, [&] { CHECK(blocking.id() != 0); }},
            {"cudaStreamGetDevice", blocking, [&] { CHECK(blocking.device() == cuota::device{0}); }},
        };
        for (std::size_t i = 0; i != std::size(uses); ++i) {
            auto const& [call, captured, make] = uses[i];
            INFO("use " << i << ", " << call);
            CHECK(capture_beside(captured, call, make) == std::vector<std::string>{"", ""});
        }
    }
    REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
}

TEST_CASE("waits of other threads delay captures of their streams only", "[runtime][captured_streams]") {
    support::machine const machine{{.devices = 2, .capacity = std::size_t{1} << 30}};
    cuota::stream const s, other;
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    cuota::stream const elsewhere;
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    {
        capture_delay const first{s};
        capture_delay const second{s};
        CHECK(!enters_elsewhere(entry_of(s)));
        CHECK(enters_elsewhere(entry_of(other)));
        auto mine = entry_of(s);
        CHECK(captured_streams::all().try_enter({&mine, 1}, [] { return true; }));  // no other thread waits
        captured_streams::all().leave({&mine.id, 1});
    }
    {
        capture_delay const of_device{cuota::device{0}};
        CHECK(!enters_elsewhere(entry_of(s)));
        CHECK(enters_elsewhere(entry_of(elsewhere)));
    }
    {
        capture_delay const of_legacy{cuota::stream_ref::legacy()};
        CHECK(enters_elsewhere(entry_of(s)));
        CHECK(!enters_elsewhere(entry_of(s, true)));
        CHECK(enters_elsewhere(entry_of(elsewhere, true)));
    }
    CHECK(enters_elsewhere(entry_of(s, true)));
}

TEST_CASE("a wait that comes too late delays nothing, and one for the legacy stream is refused",
          "[runtime][captured_streams]") {
    support::machine machine;
    cuota::stream const s, other;
    CHECK(enters_elsewhere(entry_of(s, true), [&] {
        CHECK(captured_streams::all().has(key_of(s)));
        CHECK(capture_delay{s}.is_too_late());
        CHECK(capture_delay{s.device()}.is_too_late());
        CHECK(capture_delay{cuota::stream_ref::legacy()}.is_too_late());
        CHECK(!capture_delay{other}.is_too_late());
        CHECK(has(failure_of([] { cuota::stream_ref::legacy().synchronize(); }),
                  "cannot wait for the legacy stream"));
        CHECK(!cuota::rt::drain(cudaStreamLegacy));  // its own work may be unfinished
        CHECK(has(machine.errors.take().at(0), "cannot wait for the legacy stream"));
        CHECK(cuota::rt::drain(s));  // its earlier work has finished
        auto const found = captured_streams::all().find_or(key_of(s), [] { FAIL("it is captured"); });
        REQUIRE(found);
        CHECK(found->id == s.id());
    }));
    CHECK(!capture_delay{s}.is_too_late());
    CHECK(enters_elsewhere(entry_of(s)));
}
