// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Numbered defects of RMM's containers and pools, found in its source or by running it (development version of 26.08); the tests show that
// cuota has none of them. Those that it excludes at compile time are in tests/compile_fail.
#include <cuota/buffer/device_buffer.hpp>

#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_scalar.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"
#include "support/rounds.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace simulator = cuota::simulator;

namespace {

using support::word;
using support::detail::block;
using words = cuota::device_buffer<word>;
constexpr std::size_t count = 1000;

// Runs `work` with memory of a pool, of the driver's pool and of the driver.
template <class Work>
void on_each_memory(Work work) {
    cuota::budget const budget{"test", 64_MiB};
    cuota::scoped_pool pool{budget};
    work(cuota::any_resource{pool});
    work(cuota::any_resource{cuota::budgeted<cuota::async_memory>{budget}});
    work(cuota::any_resource{cuota::budgeted<cuota::device_memory>{budget}});
}

void write(words& buffer, cuota::stream_ref s, word value) {
    auto const to = buffer.write(s);
    cuota::for_each_index(s, buffer.size(), support::write_word{to.span().data(), value}, "write");
}

// Detects elements that host code can read.
template <class V>
concept has_host_access = requires(V const& v) {
    v[0];
}
|| requires(V const& v) { *v; };

// Detects elements that host code can iterate over, and conversions that would allow it.
template <class V>
concept has_raw_elements = std::ranges::range<V> || std::is_convertible_v<V, word const*> ||
    std::is_convertible_v<V, std::span<word const>> || requires(V& v) {
    v.begin();
} || requires(V& v) { *v; } || requires(V& v) {
    v.front();
};

}  // namespace

// 1
TEST_CASE("a stream that is destroyed before its buffer stays usable until the buffer is destroyed",
          "[buffer][holes]") {
    support::machine const machine;
    on_each_memory([](cuota::any_resource const& memory) {
        {
            std::optional<cuota::stream> home{std::in_place};
            words some{count, 1u, *home, memory};
            home.reset();
            cuota::stream const other;
            write(some, some.home(), 2);
            CHECK(support::all_are(some.to_vector(other), 2));
            some.resize(2 * count, 2u);
            CHECK(support::all_are(some.to_vector(some.home()), 2));
        }
    });
    CHECK(simulator::live().streams == 0);
    CHECK(simulator::misuse().total() == 0);
}

// 2
TEST_CASE("a block that is freed on one stream is not reused before its use on another has finished",
          "[buffer][holes]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    for (cuota::any_resource const& memory :
         {cuota::any_resource{pool}, cuota::any_resource{cuota::async_memory{}}}) {
        cuota::stream const a;
        cuota::stream const b;
        std::optional<words> first{std::in_place, count, b, memory};
        words seen{count, a, memory};
        std::optional<support::gate> gate{a};
        write(*first, a, 1);
        {
            auto const from = first->read(a);
            auto const to = seen.write(a);
            cuota::for_each_index(a, count, support::copy_word{to.span().data(), from.span().data()}, "use");
        }
        first.reset();
        words const second{count, 2u, b, memory};  // same address: must wait for the use on a
        support::let_ready_work_run();
        gate.reset();

        CHECK(support::all_are(second.to_vector(b), 2));
        CHECK(support::all_are(seen.to_vector(a), 1));
    }
    CHECK(simulator::misuse().total() == 0);
}

// 3
TEST_CASE("buffers and spans do not convert to pointers, leases only for calls, and none has iterators",
          "[buffer][holes]") {
    CHECK(has_raw_elements<std::vector<word>>);  // the concept detects such members
    CHECK(has_raw_elements<word*>);
    CHECK_FALSE(has_raw_elements<words>);
    CHECK_FALSE(has_raw_elements<cuota::device_scalar<word>>);
    CHECK_FALSE((std::ranges::range<cuota::lease<word>> || has_host_access<cuota::lease<word>>));
    CHECK(has_host_access<word*>);
    CHECK_FALSE(has_raw_elements<cuota::device_span<word>>);
    CHECK_FALSE(has_raw_elements<cuota::released_buffer<word>>);
}

TEST_CASE(
    "resize and release throw under an open lease, and destroying the buffer waits for the lease's work",
    "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    cuota::stream const other;
    std::optional<words> some{std::in_place, count, 3u, stream, cuota::async_memory{}};
    {
        auto const view = some->read(other);
        CHECK_THROWS_AS(some->resize(10), cuota::usage_error);
        CHECK_THROWS_AS((void)some->release(), cuota::usage_error);
        words moved{std::move(*some)};
        CHECK(view.size() == count);
        CHECK_THROWS_AS(moved.resize(10), cuota::usage_error);
        *some = std::move(moved);
        some.reset();
        auto const told = machine.errors.take();
        REQUIRE(told.size() == 1);
        CHECK(has(told[0], "buffer destroyed while it is leased"));
    }
    CHECK(simulator::misuse().total() == 0);
}

// 4
TEST_CASE("access to an element out of range is reported with its index, in kernels and by host code",
          "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    words some{count, stream, cuota::device_memory{}};
    auto lease = some.read();

    CHECK_THROWS_AS((void)lease.span().subspan(count, 1), cuota::usage_error);
    CHECK_THROWS_AS((void)lease.span().first(count + 1), cuota::usage_error);
    CHECK_THROWS_AS(some.copy_from(some, {.from = count, .to = 0, .count = 1}, stream), cuota::usage_error);
#if CUOTA_CHECKED
    cuota::for_each_index(
        stream, 1, [from = lease.span()](std::size_t) { (void)from[count]; }, "beyond");
    auto const error = thrown<cuota::cuda_error>([&] { stream.synchronize(); });
    CHECK(has(error.what(), "index 1000 is outside a device_span of 1000 elements"));
    CHECK(has(error.what(), "beyond"));
    machine.reset();
    (void)machine.errors.take();
#endif
}

// 5
TEST_CASE("a moved-from buffer is empty and supports every operation of an empty buffer", "[buffer][holes]") {
    support::machine const machine;
    on_each_memory([](cuota::any_resource const& memory) {
        cuota::stream const stream;
        words some{count, 1u, stream, memory};
        words const moved{std::move(some)};

        CHECK(some.memory() == memory);
        CHECK(some.home() == cuota::stream_ref{stream});
        CHECK(some.read().size() == 0);
        CHECK(some.write(stream).size() == 0);
        CHECK(some.clone(stream).is_empty());
        CHECK(some.release().is_empty());
        CHECK_NOTHROW(some.copy_from(std::span<words::value_type const>{}, stream));
        some.resize(10, 7u);
        CHECK(some.to_vector(stream) == std::vector<word>(10, 7));
        auto again = some.memory();
        void* const p = again.allocate(stream, 100);
        CHECK(p != nullptr);
        again.deallocate(stream, p, 100);
    });
}

// 6
TEST_CASE("a resize that throws leaves the home stream, the elements and the size unchanged",
          "[buffer][holes]") {
    support::machine machine;
    cuota::budget budget{"test", 8_KiB};
    cuota::stream const home;
    cuota::stream const other;
    words some{count, 1u, home, cuota::budgeted{budget, cuota::async_memory{}}};
    { auto const used = some.read(other); }

    CHECK_THROWS_AS(some.resize(10 * count), cuota::budget_exceeded);
    CHECK_THROWS_AS(some.resize(10 * count, 5u), cuota::budget_exceeded);
    CHECK_THROWS_AS(some.resize(10 * count, cuota::discard), cuota::budget_exceeded);
    std::uint64_t nth = 0;
    for (bool threw = true; threw;) {
        simulator::fail_call(nullptr, ++nth, cudaErrorUnknown);
        threw = false;
        try {
            some.resize(count / 2);
        } catch (cuota::cuda_error const&) { threw = true; }
        simulator::clear_faults();
        (void)machine.errors.take();
        CHECK(some.home() == cuota::stream_ref{home});
        CHECK(support::all_are(some.to_vector(home), 1));
        CHECK(some.size() == (threw ? count : count / 2));
        if (nth > 100) break;
    }
    CHECK(nth > 2);
    CHECK(nth < 100);
}

// 7
TEST_CASE("elements are zero by default, on new and on reused memory", "[buffer][holes]") {
    support::machine const machine;
    on_each_memory([](cuota::any_resource const& memory) {
        cuota::stream const stream;
        { words const dirty{count, 0xdeadu, stream, memory}; }
        words some{count, stream, memory};
        CHECK(support::all_are(some.to_vector(stream), 0));
        some.resize(3 * count);
        CHECK(support::all_are(some.to_vector(stream), 0));
    });
}

TEST_CASE("an alignment is provided or refused, and never ignored", "[buffer][holes]") {
    support::machine const machine;
    on_each_memory([](cuota::any_resource memory) {
        cuota::stream const stream;
        void* const first = memory.allocate(stream, 100);  // misaligns the next block
        for (std::size_t alignment = 1; alignment <= 16_MiB; alignment *= 2) {
            INFO("alignment " << alignment);
            void* p = nullptr;
            try {
                p = memory.allocate(stream, 100, alignment);
            } catch (cuota::usage_error const& refused) {
                CHECK(alignment > cuota::default_alignment);
                CHECK(has(refused.what(), "unsupported alignment " + std::to_string(alignment)));
                continue;
            }
            CHECK(support::detail::is_aligned(p, alignment));
            memory.deallocate(stream, p, 100, alignment);
        }
        CHECK_THROWS_AS((void)memory.allocate(stream, 100, 3), cuota::usage_error);
        CHECK_THROWS_AS((void)memory.allocate(stream, 100, 0), cuota::usage_error);
        memory.deallocate(stream, first, 100);
    });
}

// 8
TEST_CASE("a synchronization that fails throws from the call that made it", "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    words some{count, 1u, stream, cuota::device_memory{}};
    cuota::device_scalar<word> one{1u, stream, cuota::device_memory{}};
    std::vector<word> host(count);
    stream.synchronize();

    auto const fails = [&](auto work) {
        simulator::fail_call("cudaStreamSynchronize", 1, cudaErrorUnknown);
        auto const error = thrown<cuota::cuda_error>(work);
        CHECK(error.code() == cudaErrorUnknown);
        CHECK(error.call() == "cudaStreamSynchronize");
        simulator::clear_faults();
    };
    fails([&] { some.copy_from(host, stream); });
    fails([&] { some.copy_to(host, stream); });
    fails([&] { (void)some.to_vector(stream); });
    fails([&] { one.set(2u, stream); });
    fails([&] { (void)one.get(); });
    CHECK(machine.errors.take().empty());
}

TEST_CASE("an event that cannot be recorded is reported, and the host waits for the stream instead",
          "[buffer][holes]") {
    support::machine machine;
    cuota::stream const home;
    cuota::stream const other;
    words some{count, 1u, home, cuota::async_memory{}};
    { auto const first = some.read(other); }  // creates the event
    {
        auto const to = some.write(other);
        cuota::for_each_index(other, count, support::write_word{to.span().data(), 2}, "write");
        simulator::fail_call("cudaEventRecord", 1, cudaErrorUnknown);
    }
    simulator::clear_faults();

    CHECK(machine.errors.take().size() == 1);
    CHECK(other.is_idle());
    CHECK(support::all_are(some.to_vector(home), 2));
}

TEST_CASE("a stream whose id cannot be queried throws a cuda_error and is not treated as stream 0",
          "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    cuota::stream const native;
    words some{count, 1u, stream, cuota::device_memory{}};
    simulator::fail_call("cudaStreamGetId", 1, cudaErrorUnknown);

    CHECK_THROWS_AS((void)some.write(cuota::stream_ref{native.get()}), cuota::cuda_error);

    simulator::clear_faults();
    CHECK(support::all_are(some.to_vector(stream), 1));
}

// 9
TEST_CASE("freeing memory needs no host memory, at whichever allocation the host runs out",
          "[buffer][holes]") {
    support::machine machine;
    cuota::budget const budget{"test", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::tracked const tracked{pool.resource()};
    std::size_t allowed = 0;
    for (std::size_t refused = 1; refused != 0; allowed += allowed < 20 ? 1 : support::divisor()) {
        INFO("the host has memory for " << allowed << " more");
        REQUIRE(allowed < 1000);
        std::vector<cuota::stream> streams(8);
        std::vector<words> all;
        for (std::size_t n : {10u, 1000u, 100'000u})
            for (cuota::stream const& home : streams) {
                all.emplace_back(n, home, pool);
                all.emplace_back(n, home, tracked);
            }
        for (words& some : all) {
            (void)some.read(streams[0]);
            (void)some.write();  // so the release makes no CUDA call; simulated ones allocate
        }
        for (cuota::stream const& s : streams) s.synchronize();
        {
            support::failing_heap const heap{allowed};
            for (words& some : all) words const gone{std::move(some)};
            refused = heap.refused();
        }
        REQUIRE(pool.stats().live_blocks == 0);
        REQUIRE(tracked.live().blocks.empty());
        REQUIRE(machine.errors.take().empty());
        pool.trim(0);
    }
    CHECK(allowed > 1);
    CHECK(simulator::misuse().total() == 0);
}

// 10
TEST_CASE("a double free, a foreign pointer or a wrong size is reported, and no address is allocated twice",
          "[buffer][holes]") {
    support::machine machine;
    cuota::budget const budget{"test", 64_MiB};
    bool const pooled = GENERATE(true, false);
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    cuota::any_resource memory = pooled ? cuota::any_resource{pool}
                                        : cuota::any_resource{cuota::budgeted<cuota::device_memory>{budget}};
    std::size_t const bytes = GENERATE(4_KiB, 300_KiB);
    void* const a = memory.allocate(stream, bytes);
    void* const b = memory.allocate(stream, bytes);
    char on_the_host[64];

    memory.deallocate(stream, a, 2 * bytes);  // would free b as well
    CHECK(machine.errors.take().size() == 1);
    memory.deallocate(stream, on_the_host, sizeof on_the_host);
    CHECK(machine.errors.take().size() == 1);
    memory.deallocate(stream, a, bytes);
    memory.deallocate(stream, a, bytes);
    CHECK(machine.errors.take().size() == 1);

    std::vector<block> blocks{{b, bytes, 0}};
    for (int i = 0; i != 4; ++i) blocks.push_back({memory.allocate(stream, bytes), bytes, 0});
    CHECK(support::detail::are_distinct(blocks));
    for (block const& one : blocks) memory.deallocate(stream, one.at, bytes);
    CHECK(machine.errors.take().empty());
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a free with a wrong size is reported and leaves the budget's account correct", "[buffer][holes]") {
    support::machine machine;
    cuota::budget const budget{"test", 1_MiB};
    cuota::budgeted<cuota::device_memory> memory{budget};
    void* const p = memory.allocate_sync(4096);

    memory.deallocate_sync(p, 1_MiB);

    CHECK(machine.errors.take().size() == 1);
    CHECK(budget.held() == 4096);
    void* const next = memory.allocate_sync(1_MiB - 4096);
    memory.deallocate_sync(next, 1_MiB - 4096);
    memory.deallocate_sync(p, 4096);
    CHECK(budget.held() == 0);
}

// 11
TEST_CASE("sizes that would wrap around are refused, and later blocks do not overlap", "[buffer][holes]") {
    support::machine const machine;
    auto const refuses = [](cuota::any_resource memory) {
        cuota::stream const stream;
        void* const live = memory.allocate(stream, 1000);
        void* const hole = memory.allocate(stream, 1000);
        memory.deallocate(stream, hole, 1000);
        for (std::size_t less = 0; less != 600; ++less) {
            INFO("SIZE_MAX - " << less);
            REQUIRE_THROWS_AS((void)memory.allocate(stream, cuota::unlimited - less), cuota::out_of_memory);
            REQUIRE_THROWS_AS((void)memory.allocate_sync(cuota::unlimited - less), cuota::out_of_memory);
        }
        std::vector<block> blocks{{live, 1000, 0}};
        for (int i = 0; i != 3; ++i) blocks.push_back({memory.allocate(stream, 1000), 1000, 0});
        CHECK(support::detail::are_distinct(blocks));
        for (block const& one : blocks) memory.deallocate(stream, one.at, 1000);
    };
    on_each_memory(refuses);
    refuses(cuota::device_memory{});
    refuses(cuota::async_memory{});
    refuses(cuota::tracked{cuota::device_memory{}});
    refuses(cuota::guarded{cuota::async_memory{}});
}

// 12
TEST_CASE("allocations that outlive their pool or their tracker are reported by tag and call site",
          "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    cuota::label const who{"scores", {"train.cpp", 7}};
    {
        std::optional<cuota::scoped_pool> pool{std::in_place, cuota::budget{"test", 1_MiB}};
        cuota::pool_resource memory = pool->resource();
        void* const p = memory.allocate(stream, 100, 256, who);
        pool.reset();
        auto const told = machine.errors.take();
        REQUIRE(told.size() == 1);
        CHECK(has(told[0], "scores"));
        CHECK(has(told[0], "train.cpp:7"));
        memory.deallocate(stream, p, 100);
    }
    {
        cuota::device_memory below;
        void* p = nullptr;
        {
            cuota::tracked memory{below};
            p = memory.allocate_sync(100, 256, who);
        }
        auto const told = machine.errors.take();
        REQUIRE(told.size() == 1);
        CHECK(has(told[0], "scores"));
        CHECK(has(told[0], "train.cpp:7"));
        below.deallocate_sync(p, 100);
    }
}

TEST_CASE("guard bytes detect a write beyond a block of a pool", "[buffer][holes]") {
    support::machine machine;
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 4_MiB}};
    cuota::guarded memory{pool.resource()};
    {
        words some{count, stream, memory, "scores"};
        auto const raw = some.release();
        cuota::for_each_index(stream, 1, support::write_word{raw.get() + count, 7}, "beyond");
    }
    stream.synchronize();
    auto const broken = thrown<cuota::guard_bytes_error>([&] { memory.verify(stream); });
    CHECK(has(broken.what(), "scores"));
    (void)machine.errors.take();
}
