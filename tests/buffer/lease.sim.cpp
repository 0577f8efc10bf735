// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/lease.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/launch_kernel.hpp>
#include <cuota/runtime/rt/peer_access.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t count = 4096;

// Stands for the host function that nvcc makes of a kernel.
void copy_words(support::word*, support::word const*, std::size_t) { std::abort(); }
using words = cuota::device_buffer<support::word>;

struct scene {
    cuota::stream const home{};
    cuota::stream const b{};
    cuota::stream const c{};
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    words some{count, 1u, home, pool};
    words out{count, home, pool};

    scene() {
        home.synchronize();
        (void)out.write(b);  // b has waited for out's initialization
        b.synchronize();
    }

    void write(cuota::stream_ref s, support::word value) {
        auto const to = some.write(s);
        cuota::for_each_index(s, count, support::write_word{to.span().data(), value}, "write");
    }
    // Reads on s into memory that no other stream uses.
    void read(cuota::stream_ref s, void* into) {
        auto const from = some.read(s);
        cuota::for_each_index(
            s, count, support::copy_word{static_cast<support::word*>(into), from.span().data()}, "read");
    }
};

// Allocates memory on one stream, without leases.
struct block {
    cuota::scoped_pool& pool;
    cuota::stream_ref s;
    void* at = pool.allocate(s, count * sizeof(support::word));
    block(cuota::scoped_pool& from, cuota::stream_ref on) : pool{from}, s{on} {}
    ~block() { pool.deallocate(s, at, count * sizeof(support::word)); }
    [[nodiscard]] bool holds(support::word value) const {
        return support::all_are(support::words(s, at, count * sizeof(support::word)), value);
    }
};

bool is_held_up(cuota::stream_ref s) {
    support::let_ready_work_run();
    return !s.is_idle();
}

}  // namespace

TEST_CASE("leases on the home stream make no CUDA call", "[buffer][lease]") {
    support::machine const machine;
    scene on;

    calls_since const calls;
    for (int i = 0; i != 10; ++i) {
        auto const reading = on.some.read();
        auto const writing = on.some.write(on.home);
    }

    CHECK(calls.count() == 0);
}

TEST_CASE("a lease on another stream records one event, and enqueues only waits that its stream has not made",
          "[buffer][lease]") {
    support::machine const machine;
    scene on;
    { auto const first = on.some.read(on.b); }

    auto const calls_of = [](auto work) {
        calls_since const all;
        calls_since const records{"cudaEventRecord"};
        calls_since const waits{"cudaStreamWaitEvent"};
        calls_since const requested{"cudaStreamGetCaptureInfo"};  // checks for a foreign capture
        work();
        CHECK(requested.count() == records.count() + waits.count());
        CHECK(all.count() == records.count() + waits.count() + requested.count());
        return std::pair{records.count(), waits.count()};
    };
    using counts = std::pair<std::uint64_t, std::uint64_t>;  // events recorded, waits enqueued

    SECTION("a reader enqueues no wait when nothing was written since its last wait") {
        CHECK(calls_of([&] {
                  for (int i = 0; i != 10; ++i) (void)on.some.read(on.b);
              }) == counts{10, 0});
    }
    SECTION("a reader enqueues one wait after the home stream has written once or more") {
        CHECK(calls_of([&] {
                  for (int i = 0; i != 10; ++i) {
                      (void)on.some.write();
                      (void)on.some.write();
                      (void)on.some.read(on.b);
                      (void)on.some.read(on.b);
                  }
              }) == counts{30, 20});  // home also waits for the readers
    }
    SECTION("a repeated writer enqueues no wait when no other stream has read or written") {
        { auto const first = on.some.write(on.b); }
        CHECK(calls_of([&] {
                  for (int i = 0; i != 10; ++i) (void)on.some.write(on.b);
              }) == counts{10, 0});
    }
    SECTION("a writer enqueues one wait after another stream has read its values") {
        { auto const first = on.some.write(on.b); }
        CHECK(calls_of([&] {
                  for (int i = 0; i != 10; ++i) {
                      (void)on.some.read();
                      (void)on.some.read();
                      (void)on.some.write(on.b);
                  }
              }) == counts{20, 20});
    }
    SECTION(
        "a writer enqueues one wait for each reader, and none for the write that the readers waited for") {
        { auto const first = on.some.read(on.c); }
        { auto const second = on.some.read(); }
        cuota::stream const d;
        { auto const third = on.some.read(d); }
        CHECK(calls_of([&] { (void)on.some.write(on.b); }) ==
              counts{1, 3});  // the event that d waited for is reused
    }
    SECTION("a reader on the stream that wrote enqueues no wait") {
        { auto const first = on.some.write(on.b); }
        CHECK(calls_of([&] { (void)on.some.read(on.b); }) == counts{1, 0});
    }
    CHECK(simulator::live().events <= 8);
}

TEST_CASE("a reader on another stream waits for the home stream's write", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    block const into{on.pool, on.b};
    support::gate gate{on.home};
    on.write(on.home, 2);

    on.read(on.b, into.at);

    CHECK(is_held_up(on.b));
    gate.open();
    CHECK(into.holds(2));
}

TEST_CASE("a reader waits for a writer on another stream", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.b};
    on.write(on.b, 3);

    SECTION("on a third stream") {
        block const into{on.pool, on.c};
        on.read(on.c, into.at);
        CHECK(is_held_up(on.c));
        gate.open();
        CHECK(into.holds(3));
    }
    SECTION("on the home stream") {
        block const into{on.pool, on.home};
        on.read(on.home, into.at);
        CHECK(is_held_up(on.home));
        gate.open();
        CHECK(into.holds(3));
    }
}

TEST_CASE("a writer waits for readers on other streams", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    block const into{on.pool, on.b};
    support::gate gate{on.b};
    on.read(on.b, into.at);
    cuota::stream const& writer = GENERATE(0, 1) == 0 ? on.home : on.c;

    on.write(writer, 4);

    CHECK(is_held_up(writer));
    gate.open();
    CHECK(into.holds(1));  // not 4
}

TEST_CASE("a writer waits for writers on other streams", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.b};
    on.write(on.b, 5);
    cuota::stream const& writer = GENERATE(0, 1) == 0 ? on.home : on.c;

    on.write(writer, 6);

    CHECK(is_held_up(writer));
    gate.open();
    CHECK(support::all_are(on.some.to_vector(on.home), 6));
}

TEST_CASE("readers on different streams do not wait for each other", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    block const of_b{on.pool, on.b};
    block const of_c{on.pool, on.c};
    block const of_home{on.pool, on.home};
    support::gate gate{on.b};
    on.read(on.b, of_b.at);

    on.read(on.c, of_c.at);
    on.read(on.home, of_home.at);

    CHECK(of_c.holds(1));  // while b is stopped
    CHECK(of_home.holds(1));
    gate.open();
    CHECK(of_b.holds(1));
}

TEST_CASE("a reader waits for the last writer although other streams have read since", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.b};
    on.write(on.b, 7);
    block const of_b{on.pool, on.b};
    on.read(on.b, of_b.at);  // on the stream that wrote
    block const of_home{on.pool, on.home};
    on.read(on.home, of_home.at);
    block const of_c{on.pool, on.c};

    on.read(on.c, of_c.at);

    CHECK(is_held_up(on.c));
    gate.open();
    CHECK(of_c.holds(7));
    CHECK(of_home.holds(7));
}

TEST_CASE("a read on the home stream does not remove an earlier reader that a later writer must wait for",
          "[buffer][lease]") {
    support::machine const machine;
    scene on;
    block const of_b{on.pool, on.b};
    block const of_home{on.pool, on.home};
    support::gate gate{on.b};
    on.read(on.b, of_b.at);
    on.read(on.home, of_home.at);

    on.write(on.c, 7);

    CHECK(is_held_up(on.c));
    gate.open();
    CHECK(of_b.holds(1));
}

TEST_CASE(
    "after a write on the home stream, waiting for that write orders a reader behind all earlier writes",
    "[buffer][lease]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.b};
    on.write(on.b, 8);
    on.write(on.home, 9);
    block const into{on.pool, on.c};

    on.read(on.c, into.at);

    CHECK(is_held_up(on.c));
    gate.open();
    CHECK(into.holds(9));
}

TEST_CASE("memory is freed in order after the last use on every stream, without a wait of the host",
          "[buffer][lease]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"test", count * sizeof(support::word)}};
    bool const writes = GENERATE(false, true);
    std::optional<words> some{std::in_place, count, 1u, home, pool};
    cuota::device_buffer<support::word> into{count, b, cuota::device_memory{}};
    home.synchronize();
    support::gate gate{b};
    if (writes) {
        auto const to = some->write(b);
        cuota::for_each_index(b, count, support::write_word{to.span().data(), 2}, "write");
    } else {
        auto const from = some->read(b);
        auto const to = into.write(b);
        cuota::for_each_index(b, count, support::copy_word{to.span().data(), from.span().data()}, "read");
    }

    calls_since const of_streams{"cudaStreamSynchronize"};
    calls_since const of_events{"cudaEventSynchronize"};
    calls_since const of_devices{"cudaDeviceSynchronize"};
    calls_since const waits{"cudaStreamWaitEvent"};
    some.reset();
    CHECK(of_streams.count() + of_events.count() + of_devices.count() == 0);
    CHECK(waits.count() == 1);

    words const next{count, 3u, home, pool};  // gets the same memory without waiting on the host
    CHECK(next.read(home).size() == count);
    CHECK(is_held_up(home));
    gate.open();
    CHECK(support::all_are(next.to_vector(home), 3));
    if (!writes) CHECK(support::all_are(into.to_vector(b), 1));
}

TEST_CASE("a use on a stream that was destroyed is still waited for", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    {
        std::optional<cuota::stream> gone{std::in_place};
        support::gate gate{*gone};
        on.write(*gone, 7);
        gone.reset();
        CHECK(simulator::live().streams == 3);  // the stream is destroyed; its event remains
        block const into{on.pool, on.home};
        on.read(on.home, into.at);
        CHECK(is_held_up(on.home));
        gate.open();
        CHECK(into.holds(7));
    }
    on.write(on.home, 8);
    CHECK(support::all_are(on.some.to_vector(on.home), 8));
}

TEST_CASE("a moved buffer keeps the uses that later leases must wait for", "[buffer][lease]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.b};
    on.write(on.b, 7);

    words moved{std::move(on.some)};
    on.some = words{count, 0u, on.home, on.pool};
    auto const from = moved.read(on.c);

    CHECK(is_held_up(on.c));
    gate.open();
    on.c.synchronize();
}

TEST_CASE("a lease whose event cannot be recorded makes the host wait for its stream, and is reported",
          "[buffer][lease]") {
    support::machine machine;
    scene on;
    {
        auto const to = on.some.write(on.b);
        cuota::for_each_index(on.b, count, support::write_word{to.span().data(), 7}, "write");
        simulator::fail_call("cudaEventRecord", 1);
    }

    REQUIRE(machine.errors.take().size() == 1);
    CHECK(on.b.is_idle());
    CHECK(support::all_are(on.some.to_vector(on.home), 7));
}

TEST_CASE("when a stream cannot wait for a buffer's last use, the host waits and the error is reported",
          "[buffer][lease]") {
    support::machine machine;
    cuota::stream const home;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    std::optional<words> some{std::in_place, count, 1u, home, pool};
    {
        auto const to = some->write(b);
        cuota::for_each_index(b, count, support::write_word{to.span().data(), 7}, "write");
    }
    simulator::fail_call("cudaStreamWaitEvent", 1);

    some.reset();

    CHECK(machine.errors.take().size() == 1);
    CHECK(b.is_idle());
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("destroying a leased buffer waits for the stream of the lease", "[buffer][lease]") {
    support::machine machine;
    cuota::stream const home;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    std::optional<words> some{std::in_place, count, 1u, home, pool};
    {
        auto const to = some->write(b);
        cuota::for_each_index(b, count, support::write_word{to.span().data(), 7}, "write");
        calls_since const waits{"cudaStreamSynchronize"};
        some.reset();
        CHECK(waits.count() == 1);
        CHECK(b.is_idle());
    }
    CHECK(machine.errors.take().size() == 1);
}

TEST_CASE("a lease that throws leaves the buffer unleased", "[buffer][lease]") {
    support::machine machine;
    scene on;
    char const* const call = GENERATE("cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent");
    simulator::fail_call(call, 1, cudaErrorUnknown);

    CHECK_THROWS_AS(on.some.write(on.b), cuota::cuda_error);

    REQUIRE_NOTHROW(on.some.write(on.c));
    REQUIRE_NOTHROW(on.some.write(on.home));
}

namespace {

cuota::stream stream_of(int ordinal) {
    cuota::device_scope const there{cuota::device{ordinal}};
    return cuota::stream{};
}

}  // namespace

TEST_CASE("a lease on a stream of another device is refused if its kernels cannot access the memory",
          "[buffer][lease][peers]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const home;
    cuota::stream const other = stream_of(1);
    cuota::budget const budget{"test", 64_MiB};
    cuota::scoped_pool by_pages{budget};
    cuota::scoped_pool by_segments{budget, {.growth = cuota::pool_growth::segments}};
    std::size_t const which = GENERATE(0U, 1U, 2U);
    cuota::any_resource const all[] = {by_pages, by_segments, cuota::device_memory{}};
    cuota::any_resource const& memory = all[which];
    words some{count, 1u, home, memory};
    for (bool const writes : {false, true}) {
        auto const refused = support::thrown<cuota::usage_error>([&] {
            if (writes) (void)some.write(other);
            else (void)some.read(other);
        });
        CHECK(support::has(refused.what(), "memory of device 0"));
        CHECK(support::has(refused.what(), "stream of device 1"));
    }
    CHECK_NOTHROW(some.resize(2 * count));  // nothing is borrowed
    cuota::device_buffer<int> const nothing{0, home, memory};
    CHECK_NOTHROW(nothing.read(other));

    if (which == 0) return;
    cuota::rt::allow_reach(cuota::device{1}, cuota::device{0});
    CHECK_NOTHROW(some.read(other));
    CHECK_NOTHROW(some.write(other));
}

TEST_CASE("a buffer from a pool can be leased on streams of the pool's peers, whatever its home stream",
          "[buffer][lease][peers]") {
    support::machine const machine{{.devices = 2}};
    simulator::set_memory_checks(simulator::memory_checks::strict);
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const here;
    cuota::stream const there = stream_of(1);
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}, {.peers = {cuota::device{1}}}};
    for (auto const& [home, other] : {std::pair{cuota::stream_ref{here}, cuota::stream_ref{there}},
                                      std::pair{cuota::stream_ref{there}, cuota::stream_ref{here}}}) {
        words some{count, 1u, home, pool};
        auto const to = some.write(other);
        cuota::for_each_index(other, count, support::write_word{to.span().data(), 5}, "write");
    }
    here.synchronize();
    there.synchronize();
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("buffers are copied between devices without peer access", "[buffer][lease][peers]") {
    support::machine const machine{{.devices = 2, .has_peer_access = false}};
    cuota::stream const home;
    cuota::stream const other = stream_of(1);
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    words some{count, 1u, home, pool};
    std::vector<support::word> const ones(count, 1u);

    CHECK(some.to_vector(other) == ones);
    some.copy_from(std::vector<support::word>(count, 2u), other);
    cuota::device_scope const there{cuota::device{1}};
    words far{count, 0u, other, cuota::device_memory{}};
    far.copy_from(some, other);
    CHECK(far.to_vector(home) == std::vector<support::word>(count, 2u));
    some.copy_from(far, other);
    cuota::pinned_buffer<support::word> host{count};
    host.download(some, other);
    CHECK(host.read()[0] == 2u);
    host.upload(far, home);
    CHECK(far.to_vector(other) == std::vector<support::word>(count, 2u));
    CHECK(simulator::misuse().total() == 0);
}

namespace {

// Checks races under the latest possible schedule, which exposes missing order.
struct default_stream_scene {
    explicit default_stream_scene(int devices = 1) : machine{{.devices = devices}} {
        simulator::set_race_checks(simulator::race_checks::report);
    }
    default_stream_scene(default_stream_scene const&) = delete;
    default_stream_scene& operator=(default_stream_scene const&) = delete;
    ~default_stream_scene() {
        std::string found;
        for (std::string const& report : simulator::race_reports()) found += report + '\n';
        INFO(found);
        CHECK(simulator::misuse().total() == 0);
    }

    static void write(words& some, cuota::stream_ref s, support::word value) {
        auto const to = some.write(s);
        cuota::for_each_index(s, some.size(), support::write_word{to.span().data(), value}, "write");
    }

    support::machine machine;
};

std::string misuse_of(auto action) { return support::thrown<cuota::usage_error>(action).what(); }

bool names_two_threads(std::string const& text) {
    return support::has(text, "cudaStreamPerThread of thread ") && support::has(text, " in thread ");
}

}  // namespace

TEST_CASE("threads share a buffer whose home is one thread's default stream",
          "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::any_resource const memory = GENERATE(0, 1) == 0 ? cuota::any_resource{pool.resource()}
                                                           : cuota::any_resource{cuota::async_memory{}};
    words some{count, 1u, cudaStreamPerThread, memory};
    std::vector<support::word> seen;

    std::thread{[&] {
        seen = some.to_vector(cudaStreamPerThread);
        on.write(some, cudaStreamPerThread, 2u);
    }}.join();
    CHECK(support::all_are(seen, 1u));
    CHECK(support::all_are(some.to_vector(cudaStreamPerThread), 2u));
    on.write(some, cudaStreamPerThread, 3u);
    cuota::stream const other;
    CHECK(support::all_are(some.to_vector(other), 3u));
    some.resize(2 * count, 4u);
    std::thread{[&] { seen = some.to_vector(cudaStreamPerThread); }}.join();
    CHECK(seen.back() == 4u);
    CHECK(seen.front() == 3u);
}

TEST_CASE("a buffer with the default stream of one thread as home stream may be destroyed in another thread",
          "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::any_resource const memory = GENERATE(0, 1) == 0 ? cuota::any_resource{pool.resource()}
                                                           : cuota::any_resource{cuota::async_memory{}};
    bool const is_written = GENERATE(false, true);
    std::optional<words> some;
    std::thread{[&] {
        some.emplace(count, 1u, cudaStreamPerThread, memory);
        if (is_written) on.write(*some, cudaStreamPerThread, 2u);
    }}.join();

    some.reset();

    cuota::stream const other;
    words next{count, cuota::stream_ref{other}, memory, cuota::no_init};
    on.write(next, other, 7u);
    CHECK(support::all_are(next.to_vector(other), 7u));
}

TEST_CASE("a lease on a thread's default stream that ends in another thread is ordered, and is reported",
          "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::stream const home;
    words some{count, 1u, home, pool};
    bool const is_home = GENERATE(false, true);
    if (is_home) std::thread{[&] { some = words{count, 1u, cudaStreamPerThread, pool}; }}.join();
    std::optional<cuota::lease<support::word>> writing;
    std::thread{[&] {
        writing.emplace(some.write(cudaStreamPerThread));
        cuota::for_each_index(cudaStreamPerThread, count, support::write_word{writing->span().data(), 5u},
                              "write");
    }}.join();

    writing.reset();

    auto const reported = on.machine.errors.take();
    REQUIRE(reported.size() == 1);
    CHECK(names_two_threads(reported.front()));
    CHECK(support::all_are(some.to_vector(home), 5u));
}

TEST_CASE("use of a home stream that is another thread's default stream is misuse",
          "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    words some{count, 1u, cudaStreamPerThread, pool};
    cuota::mirrored_buffer<support::word> both{count, cudaStreamPerThread, pool,
                                               cuota::default_pinned_resource()};
    (void)both.write(cudaStreamPerThread);
    cuota::stream const s;
    cuota::graph_exec graph = cuota::capture(s, [&] { (void)some.read(s); });
    words target{count, 1u, s, pool};
    auto const all = target.write(s);
    support::write_word const write{all.span().data(), 0u};
    std::thread{[&] {
        CHECK(names_two_threads(misuse_of([&] { graph.launch(some.home()); })));
        CHECK(names_two_threads(misuse_of([&] { cuota::for_each_index(some.home(), count, write); })));
        CHECK(names_two_threads(misuse_of([&] { (void)some.read(); })));
        CHECK(names_two_threads(misuse_of([&] { (void)some.write(); })));
        CHECK(names_two_threads(misuse_of([&] { some.resize(2 * count); })));
        CHECK(names_two_threads(misuse_of([&] { (void)both.read_host(); })));
        CHECK(names_two_threads(misuse_of([&] { words const more{count, some.home(), pool}; })));
        CHECK(names_two_threads(misuse_of([&] {
            words const more{count, some.home(), cuota::async_memory{}};
        })));
        CHECK(some.read(cudaStreamPerThread).size() == count);
    }}.join();
    CHECK(support::all_are(some.to_vector(cudaStreamPerThread), 1u));
}

TEST_CASE("a buffer whose home is the legacy default stream can be used while another device is current",
          "[buffer][lease][default_stream]") {
    default_stream_scene on{2};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::any_resource const memory = GENERATE(0, 1) == 0 ? cuota::any_resource{pool.resource()}
                                                           : cuota::any_resource{cuota::async_memory{}};
    cuota::stream const other;
    {
        words some{count, 1u, cudaStreamLegacy, memory};
        on.write(some, cudaStreamLegacy, 2u);
        cuota::device_scope const there{cuota::device{1}};
        CHECK(support::all_are(some.to_vector(other), 2u));
        on.write(some, other, 3u);
        words const gone{std::move(some)};
    }
    words next{count, cuota::stream_ref{other}, memory, cuota::no_init};
    on.write(next, other, 7u);
    CHECK(support::all_are(next.to_vector(other), 7u));
}

TEST_CASE("an empty or refused buffer keeps nothing of its thread's default stream",
          "[buffer][lease][default_stream]") {
    default_stream_scene const on;
    cuota::budget const budget{"test", 4_MiB};
    cuota::scoped_pool pool{budget};
    std::thread{[&] {  // what it keeps beyond the end of the thread, AddressSanitizer finds
        words const none{0, cudaStreamPerThread, pool};
        words const some{count, 1u, cudaStreamPerThread, pool};
        CHECK_THROWS_AS((words{10'000'000, cudaStreamPerThread, pool}), cuota::budget_exceeded);
        CHECK(some.to_vector(cudaStreamPerThread).size() == count);
    }}
        .join();
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("work on a default home stream is enqueued on that stream while another device is current",
          "[buffer][lease][default_stream]") {
    default_stream_scene on{2};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    bool const is_legacy = GENERATE(false, true);
    int const what = GENERATE(range(0, 7));
    INFO((is_legacy ? "legacy, " : "of the thread, ") << what);
    cuota::stream_ref const home = is_legacy ? cudaStreamLegacy : cudaStreamPerThread;
    cuota::stream const other;
    words some{count, 1u, home, pool};
    words const more{count, 5u, home, pool};
    std::vector<support::word> const host(count, 5u);
    words counted{count, 0u, home, pool};
    cuota::graph_exec graph = cuota::capture(other, [&] {
        auto const all = counted.write(other);
        cuota::for_each_index(other, count, support::add_word{all.span().data(), 5u}, "add");
    });
    support::word expected = 5;
    words const* seen = &some;
    {
        cuota::device_scope const there{cuota::device{1}};
        switch (what) {
            case 0: some.copy_from(more, some.home()); break;
            case 1: some.copy_from(host, some.home()); break;
            case 2: on.write(some, some.home(), 5u); break;
            case 3:
                some.resize(2 * count, 1u);
                expected = 1;
                break;
            case 4: some = more.clone(some.home()); break;
            case 5: expected = some.to_vector(some.home()).back(); break;
            default: graph.launch(some.home()); seen = &counted;
        }
    }
    CHECK(support::all_are(seen->to_vector(other), expected));
    CHECK(support::all_are(more.to_vector(home), 5u));
}

TEST_CASE("a graph that was launched on a thread's default stream may be destroyed in another thread",
          "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::stream const s;
    cuota::any_resource const memory = GENERATE(0, 1) == 0 ? cuota::any_resource{pool.resource()}
                                                           : cuota::any_resource{cuota::device_memory{}};
    words out{count, 0u, s, memory};
    std::optional<cuota::graph_exec> graph{cuota::capture(s, [&] {
        words scratch{count, 1u, s, pool};
        out.copy_from(scratch, s);
    })};
    std::thread{[&] { graph->launch(cudaStreamPerThread); }}.join();

    graph.reset();

    words next{count, cuota::stream_ref{s}, pool, cuota::no_init};
    on.write(next, s, 7u);
    CHECK(support::all_are(next.to_vector(s), 7u));
    CHECK(support::all_are(out.to_vector(s), 1u));
}

TEST_CASE("a lease from before a capture is refused in the capture", "[buffer][lease][default_stream]") {
    default_stream_scene on;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::stream const s;
    words some{count, 1u, s, pool};
    auto const refused = [&](auto const& before) {
        std::string const text = misuse_of(
            [&] { (void)cuota::capture(s, [&] { (void)cuota::device_span<support::word const>{before}; }); });
        CHECK_THROWS_AS(cuota::capture(s, [&] { (void)before.span(); }), cuota::usage_error);
        return support::has(text, "lease the buffer in the capture");
    };
    CHECK(refused(some.write(s)));
    CHECK(refused(some.read(s)));
    CHECK(refused(some.read(cuota::stream{})));

    auto const before = some.read(s);
    auto const graph = cuota::capture(s, [&] {
        auto const to = some.write(s);
        auto const moved = some.read(s);
        CHECK(moved.span().size() == count);
        cuota::for_each_index(s, count, support::write_word{to.span().data(), 2u}, "write");
    });
    CHECK(before.span().size() == count);
}

TEST_CASE("a kernel of the program on another stream than its lease is a race", "[buffer][lease]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    support::machine const gpu;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::run_on_host(copy_words, [](simulator::launch_shape const&, support::word* to,
                                          support::word const* from, std::size_t n) {
        for (std::size_t i = 0; i != n; ++i) to[i] = from[i];
    });
    cuota::stream const home;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    words from{count, 1u, home, pool, "from"};
    words to{count, home, pool, "to"};
    auto const races = [] { return simulator::misuse().races; };

    cuota::launch_kernel(other, {1, 1}, copy_words, to.write(other), from.read(other), count);  // right
    other.synchronize();
    home.synchronize();
    CHECK(races() == 0);

    from.fill(2u, home);
    cuota::launch_kernel(other, {1, 1}, copy_words, to.write(other), from.read(home), count);
    REQUIRE(races() == 1);
    std::string const read_too_early = simulator::race_reports().back();
    CHECK(support::has(read_too_early, "reads bytes ["));
    CHECK(support::has(read_too_early, "in block \"from\""));
    other.synchronize();
    home.synchronize();

    cuota::launch_kernel(other, {1, 1}, copy_words, to.write(home), from.read(other), count);
    to.fill(3u, home);  // the kernel may still write
    REQUIRE(races() == 2);
    CHECK(support::has(simulator::race_reports().back(), "in block \"to\""));
    other.synchronize();
    home.synchronize();
    simulator::run_on_host(reinterpret_cast<void const*>(copy_words), {});
}
