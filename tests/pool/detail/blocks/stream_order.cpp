// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/stream_order.hpp>

#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"

using cuota::detail::stream_order;
using cuota::detail::wait_point;
using support::calls_since;

namespace {

wait_point release_on(stream_order& order, cuota::stream_ref s) {
    return order.release_on(order.index_of(s));
}

void wait(stream_order& order, cuota::stream_ref s, wait_point point) {
    order.wait(s, order.index_of(s), point);
    if (auto const left = order.take_host_waits()) left->wait();
}

// Returns true if work enqueued on `waiting` from now on runs after the gated stream's work.
bool comes_after(cuota::stream_ref waiting) {
    support::let_ready_work_run();
    return !waiting.is_idle();
}

}  // namespace

TEST_CASE("a stream keeps its index until it is destroyed", "[pool][stream_order]") {
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

TEST_CASE("the most recently used stream is found without a search", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    CHECK_FALSE(order.was_last(a));

    auto const of_a = order.index_of(a);
    CHECK(order.was_last(a));
    CHECK(order.last() == of_a);
    auto const of_b = order.index_of(b);
    CHECK(order.was_last(b));
    CHECK_FALSE(order.was_last(a));
    CHECK(order.last() == of_b);
    CHECK(order.find(a) == of_a);
    CHECK(order.was_last(a));
    CHECK(order.last() == of_a);
}

TEST_CASE("recording a free makes no CUDA call", "[pool][stream_order]") {
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

TEST_CASE("another stream waits for many frees by one event", "[pool][stream_order]") {
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
    }
    wait(order, b, released.front());

    CHECK(creations.count() == 1);
    CHECK(records.count() == 1);
    CHECK(order.waits() == 1);
    for (wait_point point : released) {  // the event was recorded after all of them
        CHECK(order.is_ordered(point, of_b));
        CHECK(order.is_ready(point, of_b));
    }
    for (wait_point point : released) wait(order, b, point);
    CHECK(creations.count() == 1);
    CHECK(records.count() == 1);
    CHECK(order.waits() == 101);
    CHECK(comes_after(b));
    gate.open();
    b.synchronize();
    CHECK(a.is_idle());
}

TEST_CASE("a wait for a later free records the event again and leaves earlier waits unchanged",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    wait(order, b, release_on(order, a));
    support::gate gate{a};

    calls_since const creations{"cudaEventCreateWithFlags"};
    calls_since const records{"cudaEventRecord"};
    wait(order, c, release_on(order, a));

    CHECK(creations.count() == 0);
    CHECK(records.count() == 1);
    CHECK(comes_after(c));
    b.synchronize();  // does not wait for the gate
}

TEST_CASE("a free whose event has completed is known to be ready, without a wait", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    wait_point const point = release_on(order, a);
    wait(order, b, point);
    a.synchronize();

    calls_since const waits{"cudaStreamWaitEvent"};
    CHECK(order.is_ready(point, order.index_of(c)));
    calls_since const calls;
    CHECK(order.is_ready(point, order.index_of(c)));  // the result is cached
    CHECK(order.is_ordered(point, order.index_of(c)));

    CHECK(calls.count() == 0);
    CHECK(waits.count() == 0);
}

TEST_CASE("is_ready records no event", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    wait_point const point = release_on(order, a);
    auto const of_b = order.index_of(b);

    calls_since const calls;
    CHECK_FALSE(order.is_ready(point, of_b));  // unknown, because no event has been recorded

    CHECK(calls.count() == 0);
}

TEST_CASE("wait_now waits for the given free only", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    wait_point const first = release_on(order, a);
    order.wait_now(first);
    support::gate gate{a};
    wait_point const second = release_on(order, a);

    calls_since const calls;
    order.wait_now(first);
    CHECK(calls.count() == 0);
    gate.open();
    order.wait_now(second);

    CHECK(order.is_ordered(second, ~std::uint32_t{0}));
}

TEST_CASE("the slot of a destroyed stream is reused once its work has finished", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    wait_point point;
    {
        cuota::stream const gone;
        point = release_on(order, gone);
        order.wait_now(point);
    }
    CHECK(cuota::simulator::live().streams == 1);  // the order keeps it until its slot is reused

    cuota::stream const next;
    auto const index = order.index_of(next);

    CHECK(index == point.stream);
    CHECK(order.streams() == 1);
    CHECK(cuota::simulator::live().streams == 1);
    CHECK(order.is_ordered(point, ~std::uint32_t{0}));  // the old point is complete for every stream
    CHECK_FALSE(order.is_ordered(order.release_on(index), ~std::uint32_t{0}));
}

TEST_CASE("the slot of a destroyed stream is kept until its work has finished", "[pool][stream_order]") {
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
        wait(order, next, point);
        CHECK(comes_after(next));
    }
    next.synchronize();
}

TEST_CASE("the slot of a stream that still has an owner is kept", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    std::optional<cuota::stream> a{std::in_place};
    cuota::shared_stream const kept{*a};
    auto const of_a = order.index_of(*a);
    a.reset();

    cuota::stream const b;
    CHECK(order.index_of(b) != of_a);
    CHECK(order.index_of(kept) == of_a);
}

TEST_CASE("short-lived streams leave few slots", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;

    std::size_t most = 0;
    for (int i = 0; i != support::rounds(10'000); ++i) {
        cuota::stream const s;
        (void)release_on(order, s);
        if (i % 100 == 0) cuota::device::current().synchronize();  // otherwise the host outruns the device
        most = std::max(most, cuota::simulator::live().streams);
    }

    CHECK(order.streams() < 500);
    CHECK(most < 500);
    CHECK(cuota::simulator::live().events < 500);
}

TEST_CASE("a native stream may be destroyed after a free on it", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const b;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
    {
        support::gate gate{native};
        wait_point const point = release_on(order, native);
        REQUIRE(cudaStreamDestroy(native) == cudaSuccess);

        REQUIRE_NOTHROW(wait(order, b, point));

        CHECK(comes_after(b));
    }
    b.synchronize();
}

TEST_CASE("a free on a native stream whose event cannot be recorded throws and leaves no wait point",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cudaStream_t const native = cudaStreamLegacy;
    auto const index = order.index_of(native);
    bool const had_an_event = GENERATE(false, true);
    if (had_an_event) (void)order.release_on(index);
    cuota::simulator::fail_call(had_an_event ? "cudaEventRecord" : "cudaEventCreateWithFlags", 1,
                                cudaErrorUnknown);

    CHECK_THROWS_AS(order.release_on(index), cuota::cuda_error);

    cuota::stream_ref{native}.synchronize();
    CHECK(order.look());  // queries no event that does not exist
    wait_point const next = order.release_on(index);
    order.wait_now(next);
    CHECK(order.is_ordered(next, stream_order::no_stream));
}

TEST_CASE("earlier work of a stream that is never idle is found complete after look_and_mark",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const s;
    std::optional<support::gate> earlier{s};
    wait_point const point = release_on(order, s);
    calls_since const recorded{"cudaEventRecord"};

    order.look_and_mark();
    CHECK_FALSE(order.was_over(point));
    order.look_and_mark();
    CHECK(recorded.count() == 1);  // that event is still pending

    cuota::event const before_later{s};
    support::gate later{s};
    wait_point const unmarked = release_on(order, s);
    earlier.reset();
    before_later.synchronize();

    CHECK_FALSE(order.look());
    order.look_and_mark();
    CHECK(order.was_over(point));
    CHECK_FALSE(order.was_over(unmarked));
    later.open();
    s.synchronize();
    order.look_and_mark();
    CHECK(order.was_over(unmarked));
}

TEST_CASE("look_and_mark records no event on a stream that is captured", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const s;
    wait_point const point = release_on(order, s);
    calls_since const recorded{"cudaEventRecord"};
    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);

    order.look_and_mark();

    CHECK(recorded.count() == 0);
    CHECK_FALSE(order.was_over(point));
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    order.look_and_mark();
    CHECK(order.was_over(point));
}

TEST_CASE("no event is leaked when the host has no memory", "[pool][stream_order]") {
    support::machine const machine;
    bool released = false;
    for (std::size_t allowed = 0; !released; ++allowed) {
        REQUIRE(allowed < 100);
        try {
            support::failing_heap const heap{allowed};
            stream_order order;
            (void)release_on(order, cudaStreamLegacy);
            released = true;
        } catch (std::bad_alloc const&) {
        } catch (cuota::cuda_error const&) {}
        REQUIRE(cuota::simulator::live().events == 0);
    }
}

TEST_CASE("a free on a thread's default stream is waited for as that thread's, also by another thread",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const b;
    support::gate gate{cudaStreamPerThread};
    wait_point const point = release_on(order, cudaStreamPerThread);

    std::thread{[&] {
        CHECK(order.index_of(cudaStreamPerThread) != point.stream);
        wait(order, b, point);
    }}.join();

    CHECK(comes_after(b));
    gate.open();
    b.synchronize();
}

TEST_CASE("a free is waited for whichever device is current", "[pool][stream_order]") {
    support::machine const machine{{.devices = 2}};
    {
        stream_order order;
        cuota::stream const a;
        cuota::stream const b;
        wait_point const point = release_on(order, a);
        cuota::device_scope const other{cuota::device{1}};

        REQUIRE_NOTHROW(wait(order, b, point));
    }
    CHECK(cuota::device::current() == cuota::device{0});
}

TEST_CASE("stream_order is unchanged when a CUDA call fails", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    wait_point const point = release_on(order, a);

    SECTION("the event cannot be created") { cuota::simulator::fail_call("cudaEventCreateWithFlags", 1); }
    SECTION("the event cannot be recorded") { cuota::simulator::fail_call("cudaEventRecord", 1); }
    SECTION("the wait cannot be enqueued") { cuota::simulator::fail_call("cudaStreamWaitEvent", 1); }
    REQUIRE_THROWS_AS(wait(order, b, point), cuota::cuda_error);

    CHECK(order.waits() == 0);
    CHECK_FALSE(order.is_ordered(point, order.index_of(b)));
    REQUIRE_NOTHROW(wait(order, b, point));
    CHECK(order.waits() == 1);
}

// ---- Earlier waits of a stream ----

TEST_CASE("a stream that has waited for an event needs no wait for frees before it", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    auto const of_b = order.index_of(b);
    support::gate gate{a};
    wait_point const first = release_on(order, a);
    wait_point const second = release_on(order, a);
    wait(order, b, second);
    wait_point const later = release_on(order, a);

    calls_since const calls;
    CHECK(order.is_ordered(second, of_b));
    CHECK(order.is_ordered(first, of_b));
    CHECK_FALSE(order.is_ordered(later, of_b));
    CHECK(calls.count() == 0);
    CHECK_FALSE(order.is_ready(later, of_b));
    CHECK(order.waits() == 1);
    wait(order, b, later);
    CHECK(order.is_ordered(later, of_b));
    CHECK(order.waits() == 2);
}

TEST_CASE("a wait for an event that is recorded later covers all frees before it", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    wait_point const first = release_on(order, a);
    wait(order, b, release_on(order, a));  // the event also covers `first`

    wait(order, c, first);

    CHECK(order.is_ordered({first.stream, first.ticket + 1}, order.index_of(c)));
}

TEST_CASE("order is transitive: a wait for a stream covers the waits that it made before",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::stream const d;
    auto const of_a = order.index_of(a);
    auto const of_c = order.index_of(c);
    auto const of_d = order.index_of(d);
    support::gate gate{a};
    wait_point const of_first = release_on(order, a);
    wait(order, b, of_first);
    wait_point const of_second = release_on(order, b);
    wait_point const unseen = release_on(order, a);

    wait(order, c, of_second);

    CHECK(order.is_ordered(of_second, of_c));
    CHECK(order.is_ordered(of_first, of_c));
    CHECK_FALSE(order.is_ordered(unseen, of_c));
    CHECK_FALSE(order.is_ordered(of_second, of_a));  // not the reverse
    CHECK_FALSE(order.is_ordered(of_first, of_d));   // d has not waited
    CHECK(comes_after(c));
    wait(order, d, release_on(order, c));  // the order is transitive
    CHECK(order.is_ordered(of_first, of_d));
    CHECK(order.is_ordered(of_second, of_d));
    CHECK_FALSE(order.is_ordered(unseen, of_d));
    CHECK(comes_after(d));
    CHECK(order.waits() == 3);
}

TEST_CASE("a stream's event does not cover waits that the stream made after it was recorded",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::stream const d;
    auto const of_c = order.index_of(c);
    wait_point const of_second = release_on(order, b);
    wait(order, d, of_second);  // b's event is recorded
    support::gate gate{a};
    wait_point const of_first = release_on(order, a);
    wait(order, b, of_first);

    wait(order, c, of_second);

    CHECK(order.is_ordered(of_second, of_c));
    CHECK_FALSE(order.is_ordered(of_first, of_c));
    c.synchronize();                       // does not wait for the gate
    wait(order, c, release_on(order, b));  // b's event is recorded again
    CHECK(order.is_ordered(of_first, of_c));
    CHECK(comes_after(c));
    CHECK_FALSE(order.is_ordered(of_first, order.index_of(d)));
}

TEST_CASE("an event that is recorded late covers the waits that its stream had made by then",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    wait_point const of_second = release_on(order, b);  // before b waits
    support::gate gate{a};
    wait_point const of_first = release_on(order, a);
    wait(order, b, of_first);

    wait(order, c, of_second);  // b's event is recorded only now, after that wait

    CHECK(order.is_ordered(of_first, order.index_of(c)));
    CHECK(comes_after(c));
}

TEST_CASE("an event on a thread's default stream covers the waits that were made before the free",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const c;
    cuota::stream const d;
    for (auto const* s : {&a, &c, &d}) (void)order.index_of(*s);
    support::gate gate{a};
    wait_point const of_first = release_on(order, a);
    wait_point const before = release_on(order, cudaStreamPerThread);
    wait(order, cudaStreamPerThread, of_first);

    wait(order, c, before);
    CHECK_FALSE(order.is_ordered(of_first, order.index_of(c)));
    c.synchronize();
    wait(order, d, release_on(order, cudaStreamPerThread));
    CHECK(order.is_ordered(of_first, order.index_of(d)));
    CHECK(comes_after(d));
}

TEST_CASE("a stream that reuses another's slot has waited for nothing", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    support::gate gate{a};
    wait_point const point = release_on(order, a);
    std::optional<cuota::stream> gone{std::in_place};
    auto const of_gone = order.index_of(*gone);
    wait(order, *gone, point);
    REQUIRE(order.is_ordered(point, of_gone));
    gone.reset();  // it has released nothing, so its completion does not matter

    cuota::stream const next;
    auto const of_next = order.index_of(next);

    REQUIRE(of_next == of_gone);
    CHECK_FALSE(order.is_ordered(point, of_next));
    CHECK_FALSE(order.is_ready(point, of_next));
    CHECK(next.is_idle());
    cuota::stream const last;
    wait(order, last, order.release_on(of_next));
    CHECK_FALSE(order.is_ordered(point, order.index_of(last)));
    wait(order, next, point);
    CHECK(order.is_ordered(point, of_next));
    CHECK(comes_after(next));
}

TEST_CASE("a wait for a destroyed stream does not cover the stream that reuses its slot",
          "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const b;
    auto const of_b = order.index_of(b);
    wait_point point;
    {
        cuota::stream const gone;
        for (int i = 0; i != 10; ++i) point = release_on(order, gone);
        wait(order, b, point);
        order.wait_now(point);
    }
    cuota::stream const next;
    support::gate gate{next};

    wait_point const fresh = release_on(order, next);

    REQUIRE(fresh.stream == point.stream);
    CHECK(order.is_ordered(point, of_b));
    CHECK_FALSE(order.is_ordered(fresh, of_b));
    wait(order, b, fresh);
    CHECK(comes_after(b));
}

TEST_CASE("order is tracked for streams that are added after others have waited", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    std::vector<cuota::stream> streams(40);
    support::gate gate{streams.front()};
    std::vector<wait_point> points{release_on(order, streams.front())};

    for (std::size_t i = 1; i != streams.size(); ++i) {
        wait(order, streams[i], points.back());
        points.push_back(release_on(order, streams[i]));
        for (std::size_t j = 0; j != points.size(); ++j) {
            REQUIRE(order.is_ordered(points[j], order.index_of(streams[i])));
            REQUIRE(order.is_ordered(points[i], order.index_of(streams[j])) == (i == j));
        }
    }

    CHECK(order.waits() == streams.size() - 1);
    CHECK(comes_after(streams.back()));
}

TEST_CASE("the recorded order is unchanged when a wait fails", "[pool][stream_order]") {
    support::machine const machine;
    stream_order order;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    auto const of_b = order.index_of(b);
    auto const of_c = order.index_of(c);
    support::gate gate{a};
    wait_point const of_first = release_on(order, a);
    wait(order, b, of_first);
    wait_point const of_second = release_on(order, b);
    wait_point const later = release_on(order, a);

    auto const is_unchanged = [&] {
        return order.waits() == 1 && order.is_ordered(of_first, of_b) && !order.is_ordered(later, of_b) &&
               !order.is_ordered(of_first, of_c) && !order.is_ordered(of_second, of_c) &&
               !order.is_ordered(later, of_c);
    };
    SECTION("the event cannot be created") {
        cuota::simulator::fail_call("cudaEventCreateWithFlags", 1);
        REQUIRE_THROWS_AS(wait(order, c, of_second), cuota::cuda_error);
    }
    SECTION("the event cannot be recorded") {
        cuota::simulator::fail_call("cudaEventRecord", 1);
        REQUIRE_THROWS_AS(wait(order, c, of_second), cuota::cuda_error);
    }
    SECTION("the event cannot be recorded again") {
        cuota::simulator::fail_call("cudaEventRecord", 1);
        REQUIRE_THROWS_AS(wait(order, b, later), cuota::cuda_error);
    }
    SECTION("the wait cannot be enqueued") {
        cuota::simulator::fail_call("cudaStreamWaitEvent", 1);
        REQUIRE_THROWS_AS(wait(order, c, of_second), cuota::cuda_error);
    }
    SECTION("the host has no memory") {
        std::size_t const allowed =
            GENERATE(std::size_t{0}, std::size_t{1});  // for c's view, for the event's view
        calls_since const calls;
        bool refused = false;
        {
            support::failing_heap const heap{allowed};
            try {
                order.wait(c, of_c, of_second);
            } catch (std::bad_alloc const&) { refused = true; }
        }
        CHECK(refused);
        CHECK(calls.count() == 0);
    }

    CHECK(is_unchanged());
    c.synchronize();  // does not wait for the gate
    wait(order, c, of_second);
    CHECK(order.is_ordered(of_first, of_c));
    CHECK_FALSE(order.is_ordered(later, of_c));
    CHECK(order.waits() == 2);
    CHECK(comes_after(c));
}

namespace {

// Memory that several streams write in turn, with the waits that a stream_order requires.
class handed_round {
public:
    static constexpr std::size_t bytes = 1024;

    explicit handed_round(std::size_t cells) : points_(cells), values_(cells) {
        cuota::simulator::set_race_checks(cuota::simulator::race_checks::report);
        memory_ = static_cast<std::byte*>(source_.allocate_sync(cells * bytes, 256));
    }
    handed_round(handed_round const&) = delete;
    handed_round& operator=(handed_round const&) = delete;
    ~handed_round() {
        cuota::device::current().synchronize();
        source_.deallocate_sync(memory_, points_.size() * bytes, 256);
    }

    // Returns true if a wait was necessary.
    bool write(cuota::stream_ref s, std::size_t cell, unsigned char value) {
        bool const waits = take(s, cell);
        cuota::rt::fill_bytes(at(cell), value, bytes, s);
        give(s, cell, value);
        return waits;
    }
    void copy(cuota::stream_ref s, std::size_t to, std::size_t from) {
        (void)take(s, to);
        (void)take(s, from);
        cuota::rt::copy_on_device(at(to), at(from), bytes, s);
        give(s, to, values_[from]);
        give(s, from, values_[from]);
    }
    // Returns true if each cell has its last value and the race checker found all accesses ordered.
    [[nodiscard]] bool is_right() {
        cuota::device::current().synchronize();
        cuota::stream const s;
        std::vector<unsigned char> found(bytes);
        for (std::size_t cell = 0; cell != values_.size(); ++cell) {
            cuota::rt::copy_to_host(found.data(), at(cell), bytes, s);
            s.synchronize();
            for (unsigned char byte : found)
                if (byte != values_[cell]) return false;
        }
        return cuota::simulator::misuse().races == 0;
    }

    stream_order order{};

private:
    [[nodiscard]] std::byte* at(std::size_t cell) const { return memory_ + cell * bytes; }
    bool take(cuota::stream_ref s, std::size_t cell) {
        if (!points_[cell] || order.is_ordered(*points_[cell], order.index_of(s))) return false;
        wait(order, s, *points_[cell]);
        return true;
    }
    void give(cuota::stream_ref s, std::size_t cell, unsigned char value) {
        points_[cell] = release_on(order, s);
        values_[cell] = value;
    }

    cuota::device_memory source_{};
    std::byte* memory_ = nullptr;
    std::vector<std::optional<wait_point>> points_;
    std::vector<unsigned char> values_;
};

}  // namespace

TEST_CASE("memory that is passed between streams is ordered, and waits that are implied are omitted",
          "[pool][stream_order]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    handed_round memory{3};
    support::gate gate{a};
    memory.write(a, 0, 1);
    memory.write(a, 1, 2);
    memory.write(a, 2, 3);

    CHECK(memory.write(b, 0, 4));        // b waits for a
    CHECK_FALSE(memory.write(b, 1, 5));  // b has waited already
    CHECK(memory.write(c, 0, 6));        // c waits for b
    CHECK_FALSE(memory.write(c, 1, 7));  // c has waited already
    CHECK_FALSE(memory.write(c, 2, 8));  // c has waited for a through b
    CHECK(memory.write(a, 2, 9));        // a waits for c
    CHECK_FALSE(memory.write(a, 0, 10));
    CHECK(memory.write(b, 2, 11));

    CHECK(memory.order.waits() == 4);
    gate.open();
    CHECK(memory.is_right());
    CHECK(cuota::simulator::current_race_check_counts().accesses >= 11);
}

TEST_CASE("memory that is passed to a stream with an outdated wait is ordered", "[pool][stream_order]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::stream const d;
    handed_round memory{3};
    memory.write(b, 0, 1);
    CHECK(memory.write(d, 0, 2));  // b's event is recorded
    memory.write(b, 1, 3);
    support::gate gate{a};
    memory.write(a, 2, 4);
    CHECK(memory.write(c, 1, 5));  // b's event, recorded again before b waits for a
    CHECK(memory.write(b, 2, 6));

    CHECK(memory.write(c, 2, 7));
    gate.open();
    CHECK(memory.is_right());
}

TEST_CASE("in a random walk, memory that is passed between streams is ordered with fewer waits than uses",
          "[pool][stream_order]") {
    support::machine const machine;
    std::mt19937 random{GENERATE(1u, 2u, 3u)};
    std::vector<cuota::stream> streams(6);
    handed_round memory{24};
    std::size_t handed = 0;

    for (int step = 0; step != 4000; ++step) {
        auto& s = streams[random() % streams.size()];
        std::size_t const cell = random() % 24;
        if (random() % 200 == 0) s = cuota::stream{};  // the old stream's slot can be reused
        if (random() % 4 == 0) {
            memory.copy(s, cell, (cell + 1 + random() % 23) % 24);
            handed += 2;
        } else {
            memory.write(s, cell, static_cast<unsigned char>(random() % 256));
            ++handed;
        }
        if (random() % 500 == 0) s.synchronize();
    }

    CHECK(memory.is_right());
    CHECK(cuota::simulator::current_race_check_counts().accesses >= handed);
    CHECK(memory.order.waits() > 0);
    // Five of six accesses follow one on another stream. The clocks make some of the waits unnecessary.
    CHECK(memory.order.waits() < handed * 4 / 5);
}
