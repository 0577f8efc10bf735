// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/stream_order.hpp>

#include <map>
#include <thread>
#include <vector>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using cuota::detail::stream_order;
using cuota::detail::wait_point;
using cuota::detail::wait_set;
using support::calls_since;

namespace {

std::vector<wait_point> points(wait_set const& waits) {
    std::vector<wait_point> found;
    waits.for_each([&](wait_point point) { found.push_back(point); });
    return found;
}

wait_point release_on(stream_order& order, cuota::stream_ref s) {
    return order.release_on(order.index_of(s));
}

// True when what is enqueued on `waiting` from now on comes after the gated stream's work.
bool comes_after(cuota::stream_ref waiting) {
    support::let_ready_work_run();
    return !waiting.is_idle();
}

}  // namespace

TEST_CASE("a wait_set keeps the latest point of each stream", "[pool][stream_order]") {
    wait_set all{wait_point{0, 5}};

    all.merge(wait_set{wait_point{0, 3}});
    all.merge(wait_set{wait_point{1, 1}});
    all.merge(wait_set{wait_point{0, 9}});
    all.merge(wait_set{});
    all.merge(wait_set{wait_point{1, 2}});

    CHECK(points(all) == std::vector<wait_point>{{0, 9}, {1, 2}});
    CHECK_FALSE(all.is_empty());
    CHECK(wait_set{}.is_empty());
}

TEST_CASE("a wait_set merged into an empty one is that set", "[pool][stream_order]") {
    wait_set two{wait_point{3, 1}};
    two.merge(wait_set{wait_point{4, 1}});
    wait_set none;

    none.merge(two);

    CHECK(points(none) == points(two));
}

TEST_CASE("a stream keeps its index while it lives", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;

    auto const of_a = order.index_of(a);
    auto const of_b = order.index_of(b);

    CHECK(of_a != of_b);
    CHECK(order.index_of(a) == of_a);
    CHECK(order.index_of(b) == of_b);
    CHECK(order.streams() == 2);
}

TEST_CASE("a release makes no CUDA call", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const s;
    auto const index = order.index_of(s);

    calls_since const calls;
    wait_point const first = order.release_on(order.index_of(s));
    wait_point const second = order.release_on(order.index_of(s));

    CHECK(first.ticket < second.ticket);
    CHECK(order.is_ordered(first, index));
    CHECK(order.is_ready(first, index));
    CHECK(calls.count() == 0);
}

TEST_CASE("another stream waits for a release, by one event for all releases before it",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    auto const of_b = order.index_of(b);
    support::gate gate{a};
    std::vector<wait_point> released;
    for (int i = 0; i != 100; ++i) released.push_back(release_on(order, a));

    calls_since const creations{"cudaEventCreateWithFlags"};
    calls_since const records{"cudaEventRecord"};
    for (wait_point point : released) {
        CHECK_FALSE(order.is_ordered(point, of_b));
        CHECK_FALSE(order.is_ready(point, of_b));
        order.wait(b, point);
    }

    CHECK(creations.count() == 1);
    CHECK(records.count() == 1);
    CHECK(order.waits() == 100);
    CHECK(comes_after(b));
    gate.open();
    b.synchronize();
    CHECK(a.is_idle());
}

TEST_CASE("a later release needs the event recorded again, and earlier waits keep what they had",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    order.wait(b, release_on(order, a));
    support::gate gate{a};

    calls_since const creations{"cudaEventCreateWithFlags"};
    calls_since const records{"cudaEventRecord"};
    order.wait(c, release_on(order, a));

    CHECK(creations.count() == 0);
    CHECK(records.count() == 1);
    CHECK(comes_after(c));
    b.synchronize();  // does not wait for the gate
}

TEST_CASE("a release whose event is over is known to be, without a wait", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    wait_point const point = release_on(order, a);
    order.wait(b, point);
    a.synchronize();

    calls_since const waits{"cudaStreamWaitEvent"};
    CHECK(order.is_ready(point, order.index_of(c)));
    calls_since const calls;
    CHECK(order.is_ready(point, order.index_of(c)));  // now it is known
    CHECK(order.is_ordered(point, order.index_of(c)));

    CHECK(calls.count() == 0);
    CHECK(waits.count() == 0);
}

TEST_CASE("looking whether a release is over records nothing", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    wait_point const point = release_on(order, a);
    auto const of_b = order.index_of(b);

    calls_since const calls;
    CHECK_FALSE(order.is_ready(point, of_b));  // nobody has asked for an event yet, so nobody can tell

    CHECK(calls.count() == 0);
}

TEST_CASE("a wait on the host waits for the release and for nothing after it", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    wait_point const first = release_on(order, a);
    order.wait_on_host(first);
    support::gate gate{a};
    wait_point const second = release_on(order, a);

    calls_since const calls;
    order.wait_on_host(first);
    CHECK(calls.count() == 0);
    gate.open();
    order.wait_on_host(second);

    CHECK(order.is_ordered(second, ~std::uint32_t{0}));
}

TEST_CASE("the place of a stream that is gone is taken over once its work is over", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    wait_point point;
    {
        cuota::stream const gone;
        point = release_on(order, gone);
        order.wait_on_host(point);
    }
    CHECK(cuota::simulator::live().streams == 1);  // the order keeps it until its place is wanted

    cuota::stream const next;
    auto const index = order.index_of(next);

    CHECK(index == point.stream);
    CHECK(order.streams() == 1);
    CHECK(cuota::simulator::live().streams == 1);
    CHECK(order.is_ordered(point, ~std::uint32_t{0}));  // the old point is over, for everybody
    CHECK_FALSE(order.is_ordered(order.release_on(index), ~std::uint32_t{0}));
}

TEST_CASE("the place of a stream that is gone is kept while its work goes on", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const next;
    {
        std::optional<cuota::stream> gone{std::in_place};
        support::gate gate{*gone};
        wait_point const point = release_on(order, *gone);
        gone.reset();

        CHECK(order.index_of(next) != point.stream);
        CHECK(order.streams() == 2);
        order.wait(next, point);
        CHECK(comes_after(next));
    }
    next.synchronize();
}

TEST_CASE("the place of a stream that somebody can still use is kept", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    std::optional<cuota::stream> a{std::in_place};
    cuota::stream_share const kept{*a};
    auto const of_a = order.index_of(*a);
    a.reset();

    cuota::stream const b;
    CHECK(order.index_of(b) != of_a);
    CHECK(order.index_of(kept) == of_a);
}

TEST_CASE("ten thousand streams that come and go leave a few places", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;

    std::size_t most = 0;
    for (int i = 0; i != 10'000; ++i) {
        cuota::stream const s;
        (void)release_on(order, s);
        if (i % 100 == 0) cuota::device::current().synchronize();  // or the host outruns the device
        most = std::max(most, cuota::simulator::live().streams);
    }

    CHECK(order.streams() < 500);
    CHECK(most < 500);
    CHECK(cuota::simulator::live().events < 500);
}

TEST_CASE("a native stream may be destroyed after a release on it", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const b;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
    {
        support::gate gate{native};
        wait_point const point = release_on(order, native);
        REQUIRE(cudaStreamDestroy(native) == cudaSuccess);

        REQUIRE_NOTHROW(order.wait(b, point));

        CHECK(comes_after(b));
    }
    b.synchronize();
}

TEST_CASE("a release on a thread's default stream is that thread's, whoever waits for it",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const b;
    support::gate gate{cudaStreamPerThread};
    wait_point const point = release_on(order, cudaStreamPerThread);

    std::thread{[&] {
        CHECK(order.index_of(cudaStreamPerThread) != point.stream);
        order.wait(b, point);
    }}.join();

    CHECK(comes_after(b));
    gate.open();
    b.synchronize();
}

TEST_CASE("a release is waited for whichever device is current", "[pool][stream_order]") {
    support::machine const machine{{.devices = 2}};
    {
        stream_order order;
        cuota::stream const a;
        cuota::stream const b;
        wait_point const point = release_on(order, a);
        cuota::device_scope const other{cuota::device{1}};

        REQUIRE_NOTHROW(order.wait(b, point));
    }
    CHECK(cuota::device::current() == cuota::device{0});
}

TEST_CASE("stream_order is as it was when a call fails", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    wait_point const point = release_on(order, a);

    SECTION("the event cannot be made") { cuota::simulator::fail_call("cudaEventCreateWithFlags", 1); }
    SECTION("the event cannot be recorded") { cuota::simulator::fail_call("cudaEventRecord", 1); }
    SECTION("the wait cannot be enqueued") { cuota::simulator::fail_call("cudaStreamWaitEvent", 1); }
    REQUIRE_THROWS_AS(order.wait(b, point), cuota::cuda_error);

    CHECK(order.waits() == 0);
    CHECK_FALSE(order.is_ordered(point, order.index_of(b)));
    REQUIRE_NOTHROW(order.wait(b, point));
    CHECK(order.waits() == 1);
}
