// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Uses stopped streams to show when the host waits.
#include <cuota/buffer/async_copy.hpp>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t count = 1000;
using numbers = cuota::device_buffer<int>;
using pinned = cuota::pinned_buffer<int>;
using pending = cuota::pending_copy<int>;

struct scene {
    cuota::stream const stream{};
    cuota::stream const other{};
    numbers there{count, 5, stream, cuota::device_memory{}};

    scene() { stream.synchronize(); }
};

pinned filled(int value) {
    pinned host{count};
    std::ranges::fill(host.write(), value);
    return host;
}

}  // namespace

TEST_CASE("host elements may be destroyed before their upload through a ring has begun",
          "[buffer][async_copy]") {
    support::machine const machine;
    scene on;
    cuota::staging_ring ring{4, 1024};
    support::gate gate{on.stream};
    {
        std::vector<int> host(count, 3);
        cuota::upload(host, on.there, ring, on.stream);  // four chunks; the stream is stopped
        std::ranges::fill(host, -1);
    }
    CHECK_FALSE(on.stream.is_idle());
    gate.open();
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
}

TEST_CASE("an upload through a ring makes the host wait for free slots only", "[buffer][async_copy]") {
    support::machine const machine;
    scene on;
    cuota::staging_ring ring{2, 1024};
    support::gate gate{on.stream};
    std::vector<int> const host(count, 3);

    calls_since const waits{"cudaEventSynchronize"};
    std::thread opener{[&] { gate.open(); }};
    cuota::upload(host, on.there, ring, on.stream);  // four chunks through two slots
    opener.join();

    CHECK(waits.count() == 2);
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
}

TEST_CASE("an upload waits for earlier work of other streams on the buffer, and later work waits for it",
          "[buffer][async_copy]") {
    support::machine const machine;
    scene on;
    cuota::staging_ring ring{4, 1024};
    support::gate gate{on.stream};
    {
        auto const to = on.there.write(on.stream);
        cuota::for_each_index(on.stream, count, [to = to.span()](std::size_t i) { to[i] = 9; });
    }
    cuota::upload(std::vector<int>(count, 3), on.there, ring, on.other);
    support::let_ready_work_run();
    CHECK_FALSE(on.other.is_idle());
    gate.open();

    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("pinned memory is not freed before its upload has finished", "[buffer][async_copy]") {
    support::machine const machine;
    simulator::set_unkindness({.free_at_once = true});
    scene on;
    support::gate gate{on.stream};
    calls_since const freed{"cudaFreeHost"};
    {
        pending moved = [&] {
            pending made = cuota::upload(filled(3), on.there, on.stream);
            return pending{std::move(made)};
        }();
        CHECK_FALSE(moved.is_done());
        CHECK(freed.count() == 0);
        gate.open();
    }
    CHECK(freed.count() == 1);
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
    CHECK(simulator::misuse().total() == 0);  // the destructor waited before it freed the memory
}

TEST_CASE("a download does not block the host until its result is used or its pending_copy is destroyed",
          "[buffer][async_copy]") {
    support::machine const machine;
    simulator::set_unkindness({.free_at_once = true});
    scene on;
    pinned memory = filled(0);
    std::optional<support::gate> gate{on.stream};
    std::optional<pending> down{cuota::download(on.there, std::move(memory), on.stream)};

    CHECK_FALSE(down->is_done());
    SECTION("when get is called") {
        std::thread opener{[&] { gate->open(); }};
        auto const seen = down->get();
        opener.join();
        CHECK(std::ranges::count(seen, 5) == count);
        CHECK(down->is_done());
    }
    SECTION("when the pending_copy is destroyed") {
        std::thread opener{[&] { gate->open(); }};
        down.reset();
        opener.join();
    }
    SECTION("when another pending_copy is assigned to it") {
        pending next = cuota::download(on.there, on.stream);
        std::thread opener{[&] { gate->open(); }};
        *down = std::move(next);
        opener.join();
        CHECK(std::ranges::count(down->get(), 5) == count);
    }
    gate.reset();
    down.reset();
    CHECK(simulator::misuse().total() == 0);  // no memory was freed before the copy into it had finished
}

TEST_CASE("work on a stream that make_wait has ordered behind a pending_copy waits for the copy",
          "[buffer][async_copy]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.stream};
    pending const down = cuota::download(on.there, on.stream);

    down.make_wait(on.other);

    support::let_ready_work_run();
    CHECK_FALSE(on.other.is_idle());
    gate.open();
    on.other.synchronize();
    CHECK(down.is_done());
}

TEST_CASE("a buffer may be destroyed while it is downloaded", "[buffer][async_copy]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::stream const other;
    std::optional<numbers> from{std::in_place, count, 5, stream, cuota::async_memory{}};
    std::optional<support::gate> gate{other};
    pending const down = cuota::download(*from, other);
    from.reset();
    gate.reset();

    CHECK(std::ranges::count(down.get(), 5) == count);
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("pending uploads and downloads survive the failure of any CUDA call, and leak nothing",
          "[buffer][async_copy]") {
    support::machine machine;
    cuota::budget host{"pinned", 1_MiB};
    std::vector<int> const values(count, 3);

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const home;
        cuota::stream const other;
        numbers there{count, home, cuota::device_memory{}};
        cuota::staging_ring ring{2, 1024, host};
        cuota::upload(values, there, ring, other);
        pending down = cuota::download(there, home, host);
        (void)down.get();
        pending const up = cuota::upload(std::move(down).take(), there, other);
        pending const again = cuota::download(there, other, host);
    });

    CHECK(seen.thrown > 15);
    CHECK(host.held() == 0);
}

TEST_CASE("an upload that fails leaves the pinned_buffer with its caller", "[buffer][async_copy]") {
    support::machine machine;
    scene on;
    for (std::uint64_t nth = 1;; ++nth) {
        INFO("call " << nth << " fails");
        pinned from = filled(3);
        auto const injected = simulator::faults_injected();
        simulator::fail_call(nullptr, nth, cudaErrorUnknown);
        bool threw = false;
        try {
            (void)cuota::upload(std::move(from), on.there, on.stream);
        } catch (cuota::cuda_error const&) { threw = true; }
        bool const was_used = simulator::faults_injected() != injected;
        simulator::clear_faults();
        (void)machine.errors.take();
        if (threw) REQUIRE(from.read().size() == count);
        if (!was_used) break;
    }
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
}
