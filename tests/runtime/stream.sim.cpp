// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/kernels.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/per_thread_default.hpp"
#include "support/thrown.hpp"

// 0 and nullptr do not convert to the legacy default stream implicitly.
static_assert(!std::is_constructible_v<cuota::stream_ref, int> &&
              !std::is_convertible_v<int, cuota::stream_ref>);
static_assert(!std::is_constructible_v<cuota::stream_ref, std::nullptr_t>);
static_assert(std::is_convertible_v<cudaStream_t, cuota::stream_ref>);
static_assert(std::is_convertible_v<cuota::stream const&, cuota::stream_ref>);
static_assert(std::is_trivially_copyable_v<cuota::stream_ref> &&
              !std::is_default_constructible_v<cuota::stream_ref>);

static_assert(!std::is_copy_constructible_v<cuota::stream> && !std::is_copy_assignable_v<cuota::stream>);
static_assert(std::is_nothrow_move_constructible_v<cuota::stream> &&
              std::is_nothrow_move_assignable_v<cuota::stream>);
static_assert(std::is_nothrow_copy_constructible_v<cuota::shared_stream> &&
              sizeof(cuota::shared_stream) == 8);

TEST_CASE("a stream is non-blocking and on the current device", "[runtime][stream]") {
    support::machine const sim{{2, std::size_t{1} << 20}};
    cuota::device_scope const here{cuota::device{1}};
    cuota::stream const s;
    unsigned flags = 0;
    REQUIRE(cudaStreamGetFlags(s.get(), &flags) == cudaSuccess);
    REQUIRE(flags == cudaStreamNonBlocking);
    REQUIRE(s.device().ordinal() == 1);
    REQUIRE(cuota::stream_ref{s}.device().ordinal() == 1);
    REQUIRE(cuota::stream_ref{s.get()}.device().ordinal() == 1);
}

TEST_CASE("high priority is the greatest priority of the device", "[runtime][stream]") {
    support::machine const sim;
    cuota::stream const normal;
    cuota::stream const high{cuota::stream_priority::high};
    int least = 0;
    int greatest = 0;
    int found = 0;
    REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
    REQUIRE(cudaStreamGetPriority(high.get(), &found) == cudaSuccess);
    REQUIRE(found == greatest);
    REQUIRE(cudaStreamGetPriority(normal.get(), &found) == cudaSuccess);
    REQUIRE(found == 0);
}

TEST_CASE("a stream's id is never reused, and the native handle has the same id", "[runtime][stream]") {
    support::machine const sim;
    std::set<std::uint64_t> seen;
    for (int i = 0; i != 20; ++i) {
        cuota::stream const s;
        REQUIRE(seen.insert(s.id()).second);
        REQUIRE(cuota::stream_ref{s}.id() == s.id());
        REQUIRE(cuota::stream_ref{s.get()}.id() == s.id());
    }
}

TEST_CASE("a stream is idle when its work has finished", "[runtime][stream]") {
    support::machine const sim;
    cuota::stream const s;
    REQUIRE(s.is_idle());
    {
        cuota::simulator::hold const nothing_runs;
        cuota::for_each_index(s, 1, [](std::size_t) {});
        REQUIRE(!s.is_idle());
        REQUIRE(!cuota::stream_ref{s.get()}.is_idle());
        REQUIRE(support::last_error() == cudaSuccess);
    }
    s.synchronize();
    REQUIRE(s.is_idle());
}

TEST_CASE("a stream is destroyed with its last owner", "[runtime][stream]") {
    support::machine const sim;
    auto s = std::make_unique<cuota::stream>();
    cuota::stream_ref const looks{*s};
    auto share = std::make_unique<cuota::shared_stream>(looks);
    auto const copy = std::make_unique<cuota::shared_stream>(*share);
    REQUIRE(share->is_owned());
    REQUIRE(!share->is_unique());
    cudaStream_t const native = s->get();
    std::uint64_t const id = s->id();

    s.reset();
    REQUIRE(cuota::simulator::live().streams == 1);
    REQUIRE(!share->is_unique());
    share.reset();
    REQUIRE(copy->is_unique());
    REQUIRE(copy->get() == native);
    cuota::stream_ref const still{*copy};
    REQUIRE(still.id() == id);
    int* const x = static_cast<int*>(cuota::rt::pinned_allocate(sizeof(int)));
    cuota::for_each_index(still, 1, support::write_value{x, 5});
    still.synchronize();
    REQUIRE(*x == 5);
    cuota::rt::pinned_free(x);
}

TEST_CASE("a shared_stream of a native handle does not own the stream", "[runtime][stream]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::shared_stream const share{cuota::stream_ref{s.get()}};
    REQUIRE(!share.is_owned());
    REQUIRE(!share.is_unique());
    REQUIRE(cuota::stream_ref{share} == s);
}

TEST_CASE("destroying a stream does not cancel its work", "[runtime][stream]") {
    support::machine const sim;
    int* const x = static_cast<int*>(cuota::rt::pinned_allocate(sizeof(int)));
    *x = 0;
    {
        cuota::simulator::hold const nothing_runs;
        cuota::stream const s;
        cuota::for_each_index(s, 1, support::write_value{x, 5});
    }
    cuota::device::current().synchronize();
    REQUIRE(*x == 5);
    cuota::rt::pinned_free(x);
}

TEST_CASE("moving a stream moves its handle", "[runtime][stream]") {
    support::machine const sim;
    cuota::stream a;
    cudaStream_t const native = a.get();
    cuota::stream b{std::move(a)};
    REQUIRE(b.get() == native);
    cuota::stream c;
    REQUIRE(cuota::simulator::live().streams == 2);
    c = std::move(b);
    REQUIRE(c.get() == native);
    REQUIRE(cuota::simulator::live().streams == 1);
}

TEST_CASE("the error of a failed wait has the call site", "[runtime][stream]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaStreamSynchronize", 1, cudaErrorUnknown);
    unsigned const line = __LINE__ + 2;
    try {
        s.synchronize();
        FAIL("nothing was thrown");
    } catch (cuota::cuda_error const& error) { REQUIRE(error.where().line == line); }
}

TEST_CASE("a stream reports the failure of any of its CUDA calls", "[runtime][stream]") {
    support::machine sim;
    auto const seen = support::survives_every_failure(sim, [] {
        cuota::stream const s{cuota::stream_priority::high};
        (void)cuota::stream_ref{s.get()}.id();
        (void)cuota::stream_ref{s.get()}.device();
        (void)s.is_idle();
        s.synchronize();
    });
    REQUIRE(seen.silent == 0);
    REQUIRE(seen.reported > 0);
}

namespace {

// Returns another thread's share of its own default stream.
cuota::shared_stream share_of_another_thread() {
    std::optional<cuota::shared_stream> share;
    std::thread{[&] { share.emplace(cuota::stream_ref{cudaStreamPerThread}); }}.join();
    return *share;
}

}  // namespace

TEST_CASE("a default stream handle denotes one stream for each thread and device", "[runtime][stream]") {
    support::machine const sim{{.devices = 2}};
    cuota::stream_ref const mine = cudaStreamPerThread;
    cuota::stream_ref const legacy = cudaStreamLegacy;
    std::uint64_t const my_id = mine.id();
    cuota::shared_stream const my_share{mine};
    std::optional<cuota::shared_stream> legacy_of_1;
    std::set<std::uint64_t> ids{my_id, legacy.id(), cuota::stream{}.id()};

    {
        cuota::device_scope const there{cuota::device{1}};
        ids.insert(mine.id());
        ids.insert(legacy.id());
        legacy_of_1.emplace(legacy);
        CHECK(cuota::stream_ref{my_share} != mine);
        CHECK(cuota::stream_ref{my_share}.device() == cuota::device{0});
    }
    std::thread{[&] {
        ids.insert(mine.id());
        CHECK(legacy.id() == cuota::stream_ref{cudaStream_t{}}.id());
        CHECK(ids.contains(legacy.id()));
        CHECK(cuota::stream_ref{my_share} != mine);
        CHECK(cuota::stream_ref{my_share}.id() == my_id);
    }}.join();

    CHECK(ids.size() == 6);
    CHECK(mine.id() == my_id);
    CHECK(cuota::stream_ref{my_share} == mine);
    CHECK(!my_share.is_owned());
    CHECK(my_share.get() == cudaStreamPerThread);
    CHECK(cuota::stream_ref{*legacy_of_1} != legacy);
    CHECK(cuota::stream_ref{*legacy_of_1}.device() == cuota::device{1});
}

TEST_CASE("stream 0 is the default stream for which its file is compiled", "[runtime][stream]") {
    support::machine const sim;
    CHECK(support::zero_in_per_thread_file() == cuota::stream_ref{cudaStreamPerThread});
    CHECK(support::zero_in_per_thread_file().get() == cudaStreamPerThread);
    CHECK(cuota::stream_ref{cudaStream_t{}}.id() == cuota::stream_ref{cudaStreamLegacy}.id());
}

TEST_CASE("using the default stream of another thread is misuse, and the error names both threads",
          "[runtime][stream]") {
    support::machine const sim;
    cuota::shared_stream const share = share_of_another_thread();
    cuota::stream_ref const theirs = share;
    cuota::stream const own;
    cuota::event const done{own};
    cuota::event moved{own};
    REQUIRE(!theirs.is_reachable());
    REQUIRE(cuota::stream_ref{cudaStreamPerThread}.is_reachable());

    auto const refused = [&](auto action) {
        std::string const text = support::thrown<cuota::usage_error>(action).what();
        return support::has(text, "cudaStreamPerThread of thread ") &&
               support::has(text, " in thread " + std::to_string(::gettid()));
    };
    CHECK(refused([&] { theirs.synchronize(); }));
    CHECK(refused([&] { (void)theirs.is_idle(); }));
    CHECK(refused([&] { (void)theirs.is_capturing(); }));
    CHECK(refused([&] { theirs.wait(done); }));
    CHECK(refused([&] { moved.record(theirs); }));
    CHECK(refused([&] { cuota::event const fresh{theirs}; }));
    CHECK(refused([&] { theirs.check_reachable(); }));
}

TEST_CASE("the default stream of another thread can be waited for, even after that thread has ended",
          "[runtime][stream]") {
    support::machine const sim;
    int* const x = static_cast<int*>(cuota::rt::pinned_allocate(sizeof(int)));
    *x = 0;
    bool const has_ended = GENERATE(false, true);
    std::optional<cuota::shared_stream> share;
    std::atomic<bool> is_enqueued = false;
    std::atomic<bool> may_end = has_ended;
    std::optional<cuota::simulator::hold> nothing_runs{std::in_place};
    std::thread other{[&] {
        share.emplace(cuota::stream_ref{cudaStreamPerThread});
        cuota::for_each_index(cudaStreamPerThread, 1, support::write_value{x, 5});
        is_enqueued = true;
        while (!may_end) std::this_thread::yield();
    }};
    while (!is_enqueued) std::this_thread::yield();
    if (has_ended) other.join();
    nothing_runs.reset();

    CHECK(cuota::stream_ref{*share}.has_live_thread() == !has_ended);
    CHECK(cuota::rt::drain(*share));
    CHECK(*x == 5);

    may_end = true;
    if (!has_ended) other.join();
    cuota::rt::pinned_free(x);
}

TEST_CASE("a stored legacy stream stays that of its device, whichever device is current",
          "[runtime][stream]") {
    support::machine const sim{{.devices = 2}};
    cuota::shared_stream const first{cuota::stream_ref{cudaStreamLegacy}};
    support::gate gate{cudaStreamLegacy};
    {
        cuota::device_scope const there{cuota::device{1}};
        CHECK(cuota::stream_ref{cudaStreamLegacy}.is_idle());
        CHECK(!cuota::stream_ref{first}.is_idle());
        cuota::event const mark{first};
        CHECK(!mark.is_done());
        gate.open();
        cuota::stream_ref{first}.synchronize();
        CHECK(mark.is_done());
        CHECK(cuota::device::current() == cuota::device{1});
    }
}

TEST_CASE("default_stream is the stream of launches that name none", "[runtime][stream]") {
    support::machine const machine;
    CHECK(cuota::default_stream == cuota::stream_ref{cudaStream_t{}});
    CHECK(cuota::default_stream.is_same(cuota::stream_ref{cudaStream_t{}}));
    CHECK(cuota::stream_ref::legacy() == cuota::stream_ref{cudaStreamLegacy});
    CHECK(cuota::stream_ref::per_thread() == cuota::stream_ref{cudaStreamPerThread});
    static_assert(std::is_trivially_destructible_v<cuota::stream_ref>);
    static constinit cuota::stream_ref const stored = cuota::stream_ref::legacy();
    CHECK(stored.get() == cudaStreamLegacy);
}

TEST_CASE("the end of a capture in another thread does not make it a foreign one",
          "[runtime][stream][threads]") {
    support::machine const machine;
    cuota::stream const s;
    std::atomic<bool> is_over = false;
    std::atomic<std::size_t> foreign = 0;
    std::vector<std::thread> queries(4);  // more than there are cores, so that they are interrupted
    for (std::thread& t : queries)
        t = std::thread{[&] {
            while (!is_over) foreign += cuota::detail::foreign_capture_of(s) != 0;
        }};
    for (int i = 0; i != 1'000; ++i) (void)cuota::capture(s, [] {});
    is_over = true;
    for (std::thread& t : queries) t.join();
    CHECK(foreign == 0);
}

TEST_CASE("the host waits for earlier work unless the stream is captured", "[runtime][stream]") {
    support::machine const machine;
    cuota::stream const s;
    std::atomic<bool> is_done = false;
    cuota::for_each_index(s, 1, [of = &is_done](std::size_t) { of->store(true); });
    CHECK(cuota::detail::wait_outside_captures(s));
    CHECK(is_done);
    (void)cuota::capture(s, [&] { CHECK(!cuota::detail::wait_outside_captures(s)); });
    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(!cuota::detail::wait_outside_captures(s));
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}
