// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// What only the simulated device can show: which calls are made, and what is left when they fail.
#include <cuota/buffer/device_buffer.hpp>

#include <numeric>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

using numbers = cuota::device_buffer<int>;

std::vector<int> counted(std::size_t count) {
    std::vector<int> host(count);
    std::iota(host.begin(), host.end(), 1);
    return host;
}

// Runs `change` on a buffer with its n-th CUDA call failing, for every n; `is_right` judges what is left, knowing
// whether it threw.
template <class Change, class Judge>
void with_every_call_failing(support::machine& machine, Change change, Judge is_right) {
    cuota::stream const stream;
    cuota::stream const other;
    std::uint64_t nth = 0;
    for (bool was_used = true; was_used;) {
        ++nth;
        INFO("call " << nth << " fails");
        numbers some{counted(1000), stream, cuota::device_memory{}};
        { auto const used = some.read(other); }  // so that there is a stream to wait for
        auto const injected = simulator::faults_injected();
        simulator::fail_call(nullptr, nth);
        bool threw = false;
        try {
            change(some, other);
        } catch (cuota::cuda_error const&) { threw = true; } catch (cuota::out_of_memory const&) {
            threw = true;
        }
        was_used = simulator::faults_injected() != injected;
        simulator::clear_faults();
        (void)machine.errors.take();
        REQUIRE(some.home() == cuota::stream_ref{stream});
        REQUIRE(is_right(some.to_vector(stream), threw));
        REQUIRE_NOTHROW(some.write(other));
    }
    CHECK(nth > 3);
}

}  // namespace

TEST_CASE("a buffer from a warm pool makes no CUDA call but for its contents", "[buffer][device_buffer]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    { numbers const warm{1000, stream, pool}; }

    calls_since const calls;
    { numbers const raw{1000, stream, pool, cuota::no_init}; }
    CHECK(calls.count() == 0);
    { numbers const zero{1000, stream, pool}; }
    CHECK(calls.count() == 1);  // cudaMemsetAsync
    {
        numbers some{1000, stream, pool, cuota::no_init};
        numbers moved{std::move(some)};
        some = std::move(moved);
    }
    CHECK(calls.count() == 1);
}

TEST_CASE("a new element is never what somebody else left", "[buffer][device_buffer]") {
    support::machine const machine;
    cuota::stream const stream;
    numbers some{1000, 7, stream, cuota::device_memory{}};
    some.resize(5000);  // the simulated device fills new memory with garbage

    auto const host = some.to_vector(stream);

    CHECK(std::count(host.begin(), host.begin() + 1000, 7) == 1000);
    CHECK(std::count(host.begin() + 1000, host.end(), 0) == 4000);
}

TEST_CASE("resize changes everything or nothing, whichever call fails", "[buffer][device_buffer]") {
    support::machine machine;
    std::size_t const count = GENERATE(2000u, 10u, 0u);
    std::vector<int> const before = counted(1000);
    std::vector<int> after = before;
    after.resize(count);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref) { some.resize(count); },
        [&](std::vector<int> const& left, bool threw) { return left == (threw ? before : after); });
}

TEST_CASE("copy_from leaves the old elements or the new ones, whichever call fails",
          "[buffer][device_buffer]") {
    support::machine machine;
    std::vector<int> const before = counted(1000);
    std::vector<int> const after(1000, -5);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref s) { some.copy_from(after, s); },
        [&](std::vector<int> const& left, bool threw) { return left == after || (threw && left == before); });
}

TEST_CASE("clone leaves its source alone, whichever call fails", "[buffer][device_buffer]") {
    support::machine machine;
    std::vector<int> const before = counted(1000);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref s) { (void)some.clone(s); },
        [&](std::vector<int> const& left, bool) { return left == before; });
}

TEST_CASE("a buffer's whole life survives the failure of any CUDA call, and leaks nothing",
          "[buffer][device_buffer]") {
    support::machine machine;
    cuota::budget budget{"test", 1_MiB};
    std::vector<int> const host = counted(1000);

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const home;
        cuota::stream const other;
        cuota::scoped_pool pool{budget};
        numbers zero{1000, home, pool};
        numbers value{500, 7, other, pool};
        numbers copied{std::span<int const>{host}, home, pool};
        { auto const use = copied.read(other); }
        { auto const use = zero.write(other); }
        zero.resize(3000);
        value = copied.clone(other);
        (void)value.to_vector(home);
    });

    CHECK(seen.thrown > 20);
    CHECK(budget.held() == 0);
}

TEST_CASE("a buffer of another device than the current one works", "[buffer][device_buffer]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const home;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    numbers some{1000, 7, home, pool};
    cuota::device_scope const elsewhere{cuota::device{1}};

    REQUIRE_NOTHROW(some.read(other));
    REQUIRE_NOTHROW(some.resize(2000));
    std::vector<int> expected(1000, 7);
    expected.resize(2000);
    CHECK(some.to_vector(other) == expected);
}
