// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/async_frees.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

namespace rt = cuota::rt;
using cuota::detail::async_frees;
using cuota::detail::wait_for_async_frees;

namespace {

void free_on(cuota::stream_ref s) { CHECK(rt::async_free(rt::async_allocate(1000, s), s)); }

std::size_t taken(int device) { return async_frees::take(cuota::device{device}).size(); }

}  // namespace

TEST_CASE("a stream is listed once for all frees on it, under its device", "[runtime][async_frees]") {
    support::machine const on{{.devices = 2}};
    (void)taken(0);  // discards the streams of other tests
    (void)taken(1);
    cuota::stream const a;
    cuota::stream const b;
    std::optional<cuota::stream> other;
    {
        cuota::device_scope const there{cuota::device{1}};
        other.emplace();
        free_on(*other);
    }
    free_on(a);
    free_on(a);
    CHECK(taken(0) == 1);
    CHECK(taken(0) == 0);
    free_on(a);
    free_on(b);
    CHECK(taken(0) == 2);
    CHECK(taken(1) == 1);
}

TEST_CASE("a stream that was destroyed and a native handle are not listed", "[runtime][async_frees]") {
    support::machine const on;
    (void)taken(0);
    support::native_stream const native;
    free_on(native);
    free_on(cudaStreamPerThread);
    {
        cuota::stream const brief;
        free_on(brief);
    }
    CHECK(taken(0) == 0);
    CHECK(!wait_for_async_frees(cuota::device{0}));
}

TEST_CASE("a listed stream stays alive until it was waited for", "[runtime][async_frees]") {
    support::machine const on;
    (void)taken(0);
    std::optional<cuota::stream> brief{std::in_place};
    free_on(*brief);
    auto const held = async_frees::take(cuota::device{0});
    brief.reset();
    CHECK(cuota::simulator::live().streams == 1);
    CHECK(held.size() == 1);
}

TEST_CASE("captured streams are not waited for, and stay listed for a later wait", "[runtime][async_frees]") {
    support::machine const on;
    (void)taken(0);
    cuota::stream const s;
    free_on(s);
    bool const is_foreign = GENERATE(false, true);
    if (is_foreign) {
        support::foreign_capture capture{s.get()};
        CHECK(!wait_for_async_frees(cuota::device{0}));
        support::native_graph const graph{capture.end()};
    } else {
        (void)cuota::capture(s, [] { CHECK(!wait_for_async_frees(cuota::device{0})); });
    }
    CHECK(wait_for_async_frees(cuota::device{0}));
    CHECK(!wait_for_async_frees(cuota::device{0}));
}

TEST_CASE("a stream whose wait fails stays listed", "[runtime][async_frees]") {
    support::machine on;
    (void)taken(0);
    cuota::stream const s;
    free_on(s);
    cuota::simulator::fail_call("cudaStreamSynchronize", 1);
    CHECK(!wait_for_async_frees(cuota::device{0}));
    CHECK(on.errors.take().size() == 1);
    CHECK(wait_for_async_frees(cuota::device{0}));
    CHECK(s.is_idle());
}

TEST_CASE("the host waits only for the streams on which memory was freed", "[runtime][async_frees]") {
    support::machine const on;
    (void)taken(0);
    cuota::stream const busy;
    cuota::stream const freed;
    support::gate gate{busy};
    {
        cuota::simulator::set_jitter(1, std::chrono::milliseconds{5});
        free_on(freed);
    }
    CHECK(wait_for_async_frees(cuota::device{0}));
    CHECK(freed.is_idle());
    CHECK(!busy.is_idle());
}
