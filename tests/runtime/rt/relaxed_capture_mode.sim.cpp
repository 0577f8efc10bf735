// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Captures begun by other code, in every mode, on this thread and on another: no call of the library invalidates one.
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/gate.hpp"
#include "support/kernels.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::foreign_capture;
using support::native_stream;

namespace simulator = cuota::simulator;
namespace rt = cuota::rt;

namespace {

struct add_one {
    int* at;
    void operator()(std::size_t) const { ++*at; }
};

// Calls every function of runtime/ that waits, allocates, frees, creates or destroys, on streams that are not captured.
void call_all() {
    cuota::device const here = cuota::device::current();
    (void)here.memory();
    (void)rt::in_default_pool(here);
    rt::trim_default_pool(here);
    cuota::stream const s{cuota::stream_priority::high};
    cuota::stream const other;
    cuota::event first{s};
    other.wait(first);
    first.record(other);
    (void)first.is_done();
    first.synchronize();
    cuota::timed_event const from{s};
    cuota::timed_event const to{s};
    s.synchronize();
    (void)s.is_idle();
    (void)to.since(from);
    rt::drain(s);
    rt::drain(first);
    rt::device_free(rt::device_allocate(4096));
    rt::device_free(rt::managed_allocate(4096));
    void* const pinned = rt::pinned_allocate(4096);
    rt::pinned_free(pinned);
    alignas(4096) static std::byte page[4096];
    if (rt::lock_pages(page, sizeof page)) rt::unlock_pages(page, sizeof page);
    rt::async_free(rt::async_allocate(4096, s), s);
    std::size_t const bytes = rt::page_size(here);
    rt::address_range const range{here, bytes};
    REQUIRE(rt::map_memory({here}, range.at(), bytes));
    rt::allow_access({here}, range.at(), bytes);
    REQUIRE(rt::unmap_memory(range.at(), bytes));
}

template <class Action>
std::string why_refused(Action action) {
    return support::thrown<cuota::usage_error>(action).what();
}

}  // namespace

TEST_CASE("no call of the library invalidates a foreign capture", "[runtime][foreign_capture]") {
    support::machine const machine;
    auto const mode =
        GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
    bool const is_here = GENERATE(true, false);
    simulator::set_capture_checks(simulator::capture_checks::every_slow_call);
    call_all();  // makes objects that are created only once, before the capture
    native_stream const captured;
    foreign_capture capture{captured, mode};
    if (is_here) call_all();
    else std::thread{call_all}.join();
    CHECK(capture.is_intact());
    simulator::set_capture_checks(simulator::capture_checks::named);
    (void)capture.end();
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a capture by the library and a foreign one do not disturb each other",
          "[runtime][foreign_capture]") {
    support::machine const machine;
    native_stream const captured;
    cuota::stream const s;
    int x = 0;
    std::optional<foreign_capture> theirs{std::in_place, captured};
    cuota::graph_exec graph = cuota::capture(s, [&] { cuota::for_each_index(s, 1, add_one{&x}); });
    {
        simulator::set_capture_checks(simulator::capture_checks::every_slow_call);
        cuota::graph_exec const another =
            cuota::capture(s, [&] { cuota::for_each_index(s, 1, add_one{&x}); });
    }
    simulator::set_capture_checks(simulator::capture_checks::named);
    (void)theirs->end();
    graph.launch(s);
    s.synchronize();
    CHECK(x == 1);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a native stream has an id and a device while it is captured and CUDA cannot be queried",
          "[runtime][foreign_capture]") {
    support::machine const machine{{2, 64_MiB}};
    native_stream const captured;
    native_stream const another;
    cuota::stream_ref const s{captured};
    std::uint64_t const before = s.id();
    SECTION("a foreign capture: its own id, the same each time") {
        foreign_capture capture{captured, cudaStreamCaptureModeGlobal};
        std::uint64_t const meanwhile = s.id();
        CHECK(meanwhile == s.id());
        CHECK(meanwhile != before);
        CHECK(meanwhile != cuota::stream_ref{another}.id());
        CHECK(s.device() == cuota::device{0});
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    SECTION("a capture by the library: the same id as before") {
        int x = 0;
        auto graph = cuota::capture(s, [&] {
            CHECK(s.id() == before);
            CHECK(s.device() == cuota::device{0});
            cuota::device_scope const elsewhere{cuota::device{1}};
            CHECK(s.device() == cuota::device{0});
            cuota::for_each_index(s, 1, add_one{&x});
        });
        graph.launch(s);
        s.synchronize();
        CHECK(x == 1);
    }
    SECTION("a capture by the library of a thread's default stream") {
        cuota::stream_ref const own{cudaStreamPerThread};
        std::uint64_t const its_id = own.id();
        int x = 0;
        auto graph = cuota::capture(own, [&] {
            CHECK(own.id() == its_id);
            std::thread{[&] { CHECK(cuota::stream_ref{cudaStreamPerThread}.id() != its_id); }}.join();
            cuota::for_each_index(own, 1, add_one{&x});
        });
        graph.launch(own);
        own.synchronize();
        CHECK(x == 1);
    }
    CHECK(s.id() == before);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("relaxed_capture_mode restores the thread's capture mode, whatever it was and even if nested",
          "[runtime][foreign_capture]") {
    support::machine machine;
    auto const mode_now = [] {
        auto mode = cudaStreamCaptureModeRelaxed;
        REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
        auto back = mode;
        REQUIRE(cudaThreadExchangeStreamCaptureMode(&back) == cudaSuccess);
        return mode;
    };
    auto mode =
        GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
    auto const wanted = mode;
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    {
        rt::relaxed_capture_mode const outer;
        CHECK(mode_now() == cudaStreamCaptureModeRelaxed);
        { rt::relaxed_capture_mode const inner; }
        CHECK(mode_now() == cudaStreamCaptureModeRelaxed);
    }
    CHECK(mode_now() == wanted);
    for (std::uint64_t nth : {1, 2}) {
        simulator::fail_call("cudaThreadExchangeStreamCaptureMode", nth, cudaErrorUnknown);
        { rt::relaxed_capture_mode const tried_again; }
        CHECK(machine.errors.take().size() == 1);
        CHECK(mode_now() == wanted);
    }
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
}

TEST_CASE("waits and queries of a stream in a foreign capture are refused, and the capture stays intact",
          "[runtime][foreign_capture]") {
    support::machine machine;
    native_stream const native;
    cuota::stream const owned;
    cudaStream_t const s = GENERATE(true, false) ? native : owned.get();
    cuota::stream_ref const ref{s};
    foreign_capture capture{s};
    CHECK(cuota::detail::foreign_capture_of(ref) != 0);
    CHECK(why_refused([&] { ref.synchronize(); }).find("while the stream is being captured") !=
          std::string::npos);
    CHECK(why_refused([&] { (void)ref.is_idle(); }).find("while the stream is being captured") !=
          std::string::npos);
    CHECK(why_refused([&] { cuota::timed_event const mark{ref}; }).find("captured outside cuota::capture") !=
          std::string::npos);
    CHECK(why_refused([&] { (void)rt::async_allocate(64, ref); }).find("captured outside cuota::capture") !=
          std::string::npos);
    CHECK(why_refused([&] { (void)cuota::capture(ref, [] {}); }).find("already being captured") !=
          std::string::npos);
    CHECK_FALSE(rt::drain(ref));
    CHECK(machine.errors.take().size() == 1);
    cuota::event const inside{ref};
    CHECK(why_refused([&] { inside.synchronize(); }).find("recorded during a capture") != std::string::npos);
    CHECK(why_refused([&] { (void)inside.is_done(); }).find("recorded during a capture") !=
          std::string::npos);
    CHECK_FALSE(rt::drain(inside));
    (void)capture.end();
    CHECK(why_refused([&] { inside.synchronize(); }).find("recorded during a capture") != std::string::npos);
    CHECK(cuota::detail::foreign_capture_of(ref) == 0);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a captured stream waits on the host for outside work, and in the graph for captured work",
          "[runtime][foreign_capture]") {
    support::machine const machine;
    native_stream const a;
    native_stream const b;
    cuota::stream const outside;
    int x = 0;
    cuota::for_each_index(outside, 1, add_one{&x});
    cuota::event const before{outside};
    foreign_capture capture{a};
    a.ref().wait(before);
    CHECK(x == 1);  // the host has waited
    cuota::for_each_index(a, 1, add_one{&x});
    b.ref().wait(cuota::event{a});  // adds b to the capture
    cuota::for_each_index(b, 1, add_one{&x});
    a.ref().wait(cuota::event{b});
    auto const graph = capture.end();
    CHECK(x == 1);
    graph.launch(outside.get());
    outside.synchronize();
    CHECK(x == 3);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("while a blocking stream is in a foreign capture, the capture of the legacy stream is unknown",
          "[runtime][foreign_capture]") {
    support::machine const machine;
    cudaStream_t blocking = nullptr;
    REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
    {
        foreign_capture capture{blocking};
        CHECK(cuota::detail::foreign_capture_of(cudaStreamLegacy) == cuota::detail::unknown_capture);
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    REQUIRE(cudaStreamDestroy(blocking) == cudaSuccess);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("other threads can query streams while a capture waits for its stream's earlier work",
          "[runtime][foreign_capture]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    support::gate closed{s};
    support::calls_since const waits{"cudaStreamSynchronize"};
    std::atomic<bool> is_answered = false;
    std::thread asks{[&] {
        while (waits.count() == 0) std::this_thread::yield();
        is_answered = !cuota::detail::captured_streams::all().has(cuota::detail::key_of(other));
        closed.open();  // never reached if has() waits for the capture
    }};
    cuota::graph_exec const graph = cuota::capture(s, [] {});
    asks.join();
    CHECK(is_answered);
}
