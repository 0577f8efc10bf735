// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/event.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/kernels.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"

// CUDA reports an event that was never recorded as complete; such an event cannot be constructed here.
static_assert(!std::is_default_constructible_v<cuota::event>);
static_assert(!std::is_copy_constructible_v<cuota::event>);
static_assert(std::is_nothrow_move_constructible_v<cuota::event> &&
              std::is_nothrow_move_assignable_v<cuota::event>);
static_assert(!std::is_convertible_v<cuota::stream_ref, cuota::event>);

namespace {

struct pinned_ints {
    explicit pinned_ints(std::size_t count)
        : at{static_cast<int*>(cuota::rt::pinned_allocate(count * sizeof(int)))} {
        for (std::size_t i = 0; i != count; ++i) at[i] = 0;
    }
    ~pinned_ints() { cuota::rt::pinned_free(at); }
    int* at;
};

}  // namespace

TEST_CASE("an event is recorded when it is constructed", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const s;
    pinned_ints const x{1};
    {
        cuota::simulator::hold const nothing_runs;
        cuota::for_each_index(s, 1, support::write_value{x.at, 7});
        cuota::event const written{s};
        REQUIRE(!written.is_done());
        REQUIRE(support::last_error() == cudaSuccess);  // cudaErrorNotReady is a result, not an error
    }
    cuota::event const written{s};
    written.synchronize();
    REQUIRE(written.is_done());
    REQUIRE(*x.at == 7);
}

TEST_CASE("a wait orders the work of two streams", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const first;
    cuota::stream const second;
    pinned_ints const x{3};
    for (int round = 0; round != 50; ++round) {
        cuota::event written = [&] {
            cuota::simulator::hold const nothing_runs;
            cuota::for_each_index(first, 1, support::write_value{x.at, round});
            cuota::event done{first};
            second.wait(done);
            cuota::for_each_index(second, 1, support::add_one{x.at + 1, x.at});
            return done;
        }();
        second.synchronize();
        REQUIRE(x.at[1] == round + 1);
    }
}

TEST_CASE("recording an event again changes later waits, but not earlier ones", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const first;
    cuota::stream const second;
    cuota::stream const third;
    pinned_ints const x{1};
    cuota::event done{first};
    {
        cuota::simulator::hold const nothing_runs;
        second.wait(done);
        cuota::for_each_index(first, 1, support::write_value{x.at, 1});
        done.record(first);
        third.wait(done);
    }
    done.synchronize();
    second.synchronize();
    third.synchronize();
    REQUIRE(x.at[0] == 1);
    {
        cuota::simulator::hold const nothing_runs;
        cuota::for_each_index(first, 1, support::write_value{x.at, 2});
        REQUIRE(done.is_done());  // it represents the point at which it was recorded
        done.record(first);
        REQUIRE(!done.is_done());
        REQUIRE(second.is_idle());  // a stream that has waited does not wait again
        third.wait(done);
        REQUIRE(!third.is_idle());
    }
    third.synchronize();
    REQUIRE(x.at[0] == 2);
}

TEST_CASE("moving an event moves its handle", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::event a{s};
    cudaEvent_t const native = a.get();
    cuota::event b{std::move(a)};
    REQUIRE(b.get() == native);
    a = cuota::event{s};
    a = std::move(b);
    REQUIRE(a.get() == native);
    REQUIRE(cuota::simulator::live().events == 1);
}

TEST_CASE("an event whose calls fail reports the failure and does not leak", "[runtime][event]") {
    support::machine sim;
    cuota::stream const s;
    auto const seen = support::survives_every_failure(sim, [&] {
        cuota::event done{s};
        (void)done.is_done();
        s.wait(done);
        done.record(s);
        done.synchronize();
    });
    REQUIRE(seen.silent == 0);
}

TEST_CASE("timed_event measures a stream's time between two events once both have finished",
          "[runtime][event]") {
    using namespace std::chrono_literals;
    support::machine const sim;
    cuota::stream const s;
    cuota::timed_event const begin{s};
    pinned_ints const x{1};
    {
        cuota::simulator::hold const nothing_runs;
        cuota::timed_event const end{s};
        CHECK(!end.since(begin));
        CHECK(support::last_error() == cudaSuccess);  // cudaErrorNotReady is a result, not an error
    }
    cuota::simulator::link_options slow;
    slow.kernel = 3ms;
    cuota::simulator::set_link(slow);
    cuota::for_each_index(s, 1, support::write_value{x.at, 7});
    cuota::timed_event end{s};
    s.synchronize();
    auto const taken = end.since(begin);
    REQUIRE(taken);
    CHECK(*taken >= 3ms);
    cuota::for_each_index(s, 1, support::write_value{x.at, 8});
    end.record(s);
    s.synchronize();
    CHECK(*end.since(begin) >= *taken + 3ms);
}

TEST_CASE("timed_event throws the errors of its CUDA calls", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaEventCreate", 1);
    CHECK_THROWS_AS(cuota::timed_event{s}, cuota::cuda_error);
    cuota::timed_event const begin{s};
    s.synchronize();
    cuota::simulator::fail_call("cudaEventElapsedTime", 1);
    CHECK_THROWS_AS((void)begin.since(begin), cuota::cuda_error);
}

TEST_CASE("the host blocks in a wait for an event that was made for blocking waits", "[runtime][event]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::event const active{s};
    cuota::event blocking{s, cuota::host_wait::blocking};
    active.synchronize();
    CHECK(cuota::simulator::event_waits().active == 1);
    CHECK(cuota::simulator::event_waits().blocking == 0);
    blocking.synchronize();
    blocking.record(s);
    blocking.synchronize();
    CHECK(cuota::simulator::event_waits().active == 1);
    CHECK(cuota::simulator::event_waits().blocking == 2);
}
