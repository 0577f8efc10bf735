// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_buffer.hpp>

#include <algorithm>
#include <future>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/sanitizer.hpp"

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

// Runs `change` on a buffer with its n-th CUDA call failing, for every n. `is_right` checks the result; its argument is whether `change`
// threw.
template <class Change, class Judge>
void with_every_call_failing(support::machine& machine, Change change, Judge is_right) {
    cuota::stream const stream;
    cuota::stream const other;
    std::uint64_t nth = 0;
    for (bool was_used = true; was_used;) {
        ++nth;
        INFO("call " << nth << " fails");
        numbers some{counted(1000), stream, cuota::device_memory{}};
        { auto const used = some.read(other); }  // a second stream to wait for
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

TEST_CASE("a buffer from a warm pool makes no CUDA call except to fill its elements",
          "[buffer][device_buffer]") {
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

TEST_CASE("a buffer may be destroyed while its kernel runs, though cudaFree does not wait",
          "[buffer][device_buffer]") {
    support::machine const sim;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::set_unkindness({.free_at_once = true});
    cuota::stream const stream;
    std::promise<void> running;
    std::promise<void> go_on;
    std::thread opener{[&] {
        running.get_future().wait();
        go_on.set_value();
    }};
    {
        numbers x{1000, 0, stream, cuota::device_memory{}};
        auto const lease = x.write(stream);
        cuota::for_each_index(stream, x.size(), [&running, &go_on, to = lease.span()](std::size_t n) {
            if (n == 0) running.set_value();
            if (n == 0) go_on.get_future().wait();
            to[n] = 1;
        });
    }
    opener.join();
    CHECK_NOTHROW(stream.synchronize());
    for (std::string const& line : simulator::race_reports()) UNSCOPED_INFO(line);
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("elements that resize adds are zero although the new memory has other contents",
          "[buffer][device_buffer]") {
    support::machine const machine;
    cuota::stream const stream;
    numbers some{1000, 7, stream, cuota::device_memory{}};
    some.resize(5000);  // the simulator fills new memory with garbage

    auto const host = some.to_vector(stream);

    CHECK(std::count(host.begin(), host.begin() + 1000, 7) == 1000);
    CHECK(std::count(host.begin() + 1000, host.end(), 0) == 4000);
}

TEST_CASE("a resize that throws leaves the elements unchanged, whichever CUDA call fails",
          "[buffer][device_buffer]") {
    support::machine machine;
    std::size_t const count = GENERATE(2000u, 10u, 0u);
    std::vector<int> const before = counted(1000);
    std::vector<int> after = before;
    after.resize(count);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref) { some.resize(count); },
        [&](std::vector<int> const& left, bool threw) { return left == (threw ? before : after); });
}

TEST_CASE("copy_from leaves the old elements or the new ones, whichever CUDA call fails",
          "[buffer][device_buffer]") {
    support::machine machine;
    std::vector<int> const before = counted(1000);
    std::vector<int> const after(1000, -5);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref s) { some.copy_from(after, s); },
        [&](std::vector<int> const& left, bool threw) { return left == after || (threw && left == before); });
}

TEST_CASE("clone leaves the original unchanged, whichever CUDA call fails", "[buffer][device_buffer]") {
    support::machine machine;
    std::vector<int> const before = counted(1000);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref s) { (void)some.clone(s); },
        [&](std::vector<int> const& left, bool) { return left == before; });
}

TEST_CASE("a buffer survives the failure of any CUDA call, and leaks nothing", "[buffer][device_buffer]") {
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

TEST_CASE("a buffer can be leased, resized and copied while another device is current",
          "[buffer][device_buffer]") {
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

TEST_CASE("a buffer outlives its pool's scope and its stream, and releases both when it is destroyed",
          "[buffer][device_buffer]") {
    support::machine machine;
    bool const small = GENERATE(false, true);
    std::size_t const count = small ? 100 : 100'000;
    auto const before = simulator::live();
    {
        std::optional<cuota::stream> home{std::in_place};
        std::optional<cuota::scoped_pool> pool{std::in_place, cuota::budget{"test", 64_MiB},
                                               cuota::pool_options{.initial_size = 16_MiB}};
        std::optional<numbers> a{std::in_place, counted(count), *home, *pool};
        std::optional<numbers> b{std::in_place, count, 7, *home, *pool};
        home.reset();
        for (int i = 0; i != 20; ++i) {  // no new stream replaces the destroyed one
            cuota::stream const next;
            numbers const some{count, 1, next, *pool};
            REQUIRE(some.to_vector(next).back() == 1);
        }
        CHECK(a->to_vector(a->home()) == counted(count));
        pool.reset();
        CHECK(machine.errors.take().size() == 1);  // reports two live blocks

        CHECK(a->to_vector(a->home()) == counted(count));
        a.reset();
        numbers c{std::move(*b)};
        CHECK(c.to_vector(b->home()) == std::vector<int>(count, 7));
        CHECK_THROWS_AS(b->resize(5), cuota::usage_error);  // b keeps the closed pool, which refuses
        b.reset();
        cuota::stream const other;
        CHECK(c.to_vector(other) == std::vector<int>(count, 7));
    }
    CHECK(simulator::live().streams == before.streams);
    CHECK(simulator::live().events == before.events);
    CHECK(simulator::live().device_bytes == before.device_bytes);
    CHECK(machine.errors.take().empty());
}

TEST_CASE("buffers that two threads destroy free the memory of a pool that was destroyed before them",
          "[buffer][device_buffer][threads]") {
    support::machine machine;
    for (int round = 0; round != support::rounds(50); ++round) {
        cuota::stream const home;
        std::vector<numbers> here;
        std::vector<numbers> there;
        {
            cuota::scoped_pool pool{cuota::budget{"test", 64_MiB},
                                    cuota::pool_options{.initial_size = 8_MiB}};
            for (int i = 0; i != 8; ++i) {
                here.emplace_back(100u, home, pool);
                there.emplace_back(100'000u, home, pool);
            }
        }
        std::thread other{[&] { there.clear(); }};
        here.clear();
        other.join();
        REQUIRE(machine.errors.take().size() == 1);
    }
    CHECK(simulator::live().device_bytes == 0);
}

TEST_CASE("every overload of resize leaves the elements unchanged when it throws, whichever CUDA call fails",
          "[buffer][device_buffer]") {
    support::machine machine;
    std::size_t const count = GENERATE(2000u, 10u, 0u);
    int const how = GENERATE(0, 1, 2);
    std::vector<int> const before = counted(1000);
    std::vector<int> after = before;
    after.resize(count, 9);

    with_every_call_failing(
        machine,
        [&](numbers& some, cuota::stream_ref) {
            if (how == 0) some.resize(count, 9);
            if (how == 1) some.resize(count, cuota::no_init);
            if (how == 2) some.resize(count, cuota::discard);
        },
        [&](std::vector<int> const& left, bool threw) {
            if (threw) return left == before;
            std::size_t const same = how == 0 ? count : how == 1 ? std::min<std::size_t>(count, 1000) : 0;
            return left.size() == count &&
                   std::equal(left.begin(), left.begin() + std::ptrdiff_t(same), after.begin());
        });
}

TEST_CASE("copy_from another buffer leaves the old elements or the new ones, whichever CUDA call fails",
          "[buffer][device_buffer]") {
    support::machine machine;
    cuota::stream const third;
    numbers const from{1000, -5, third, cuota::device_memory{}};
    std::vector<int> const before = counted(1000);
    std::vector<int> const after(1000, -5);

    with_every_call_failing(
        machine, [&](numbers& some, cuota::stream_ref s) { some.copy_from(from, s); },
        [&](std::vector<int> const& left, bool threw) { return left == after || (threw && left == before); });
}

TEST_CASE("a copy between buffers waits for the last writers of both, and later uses wait for the copy",
          "[buffer][device_buffer]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    numbers from{1000, 1, a, cuota::device_memory{}};
    numbers to{1000, 2, b, cuota::device_memory{}};
    a.synchronize();
    b.synchronize();
    auto const write = [](numbers& buffer, cuota::stream_ref s, int value) {
        auto const out = buffer.write(s);
        cuota::for_each_index(s, 1000, [out = out.span(), value](std::size_t i) { out[i] = value; });
    };
    bool const source_is_late = GENERATE(true, false);
    {
        support::gate gate{source_is_late ? a : b};
        write(from, a, 3);
        write(to, b, 4);
        to.copy_from(from, c);
        write(from, a, 5);
        support::let_ready_work_run();
        CHECK_FALSE(c.is_idle());
        CHECK_FALSE(a.is_idle());
    }
    CHECK(to.to_vector(b) == std::vector<int>(1000, 3));
    CHECK(from.to_vector(b) == std::vector<int>(1000, 5));
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("elements are copied between devices", "[buffer][device_buffer]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const here;
    numbers const from{counted(1000), here, cuota::device_memory{}};
    cuota::device_scope const elsewhere{cuota::device{1}};
    cuota::stream const there;
    numbers to{1000, -1, there, cuota::device_memory{}};
    bool const pushed = GENERATE(true, false);

    to.copy_from(from, pushed ? here : there);

    CHECK(to.to_vector(there) == counted(1000));
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("swap exchanges the open leases of two buffers", "[buffer][device_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    numbers first{1000, 1, home, pool};
    numbers second{1000, 2, home, pool};
    {
        auto const reading = first.read(other);
        swap(first, second);
        CHECK_NOTHROW((void)first.write(home));
        CHECK_THROWS_AS((void)second.write(home), cuota::usage_error);
    }
    CHECK_NOTHROW((void)second.write(home));
    CHECK(second.to_vector(home) == std::vector<int>(1000, 1));
}

TEST_CASE("copy_to has finished when it throws because a wait failed", "[buffer][device_buffer]") {
    support::machine machine;
    cuota::stream const stream;
    numbers some{1000, 7, stream, cuota::device_memory{}};
    cuota::pinned_memory memory;
    auto* const at = static_cast<int*>(memory.allocate_sync(1000 * sizeof(int)));
    std::span<int> const host{at, 1000};
    stream.synchronize();
    {
        support::gate gate{stream};
        simulator::fail_call("cudaStreamSynchronize", 1, cudaErrorUnknown);
        std::thread opener{[&] { gate.open(); }};
        CHECK_THROWS_AS(some.copy_to(host, stream), cuota::cuda_error);
        opener.join();
    }
    CHECK(stream.is_idle());
    memory.deallocate_sync(at, 1000 * sizeof(int));
}

TEST_CASE("elements are filled on the home stream: a read on another stream without a lease is a race",
          "[buffer][device_buffer]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it is a race, which ThreadSanitizer reports as well");
    bool const is_resized = GENERATE(false, true);
    support::machine const on;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const home;
    cuota::stream const other;
    std::vector<int> host(2'000);
    numbers made{is_resized ? 0u : 2'000u, 7, home, cuota::device_memory{}};
    if (is_resized) made.resize(2'000, 8);
    int const* from = nullptr;
    {
        auto const lease = made.read(home);  // ended before the read on the other stream
        from = lease.span().data();
    }

    cuota::rt::check(cudaMemcpyAsync(host.data(), from, made.bytes(), cudaMemcpyDeviceToHost, other.get()),
                     "cudaMemcpyAsync");

    auto const reports = simulator::race_reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].find("cuMemsetD32Async") != std::string::npos);
    home.synchronize();
    other.synchronize();
}
