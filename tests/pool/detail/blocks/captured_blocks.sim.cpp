// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Memory of a pool in a capture: a graph's memory is not reused until the graph is destroyed, and no call invalidates the capture.
#include <cuota/pool/detail/blocks/captured_blocks.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t some = 10'000;  // bytes

template <class Action>
std::string why_refused(Action action) {
    return support::thrown<cuota::usage_error>(action).what();
}

struct scene {
    cuota::stream const s{};
    cuota::stream const other{};
    cuota::budget account{"test", 64_MiB};
    cuota::scoped_pool pool{account};
};

}  // namespace

TEST_CASE("a block that is allocated in a capture belongs to the graph until that is destroyed",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    std::optional<cuota::graph_exec> graph{cuota::capture(on.s, [&] {
        void* const p = on.pool.allocate(on.s, some);
        support::write_words(on.s, p, some, 7);
        on.pool.deallocate(on.s, p, some);
    })};
    CHECK(on.pool.stats().live_blocks == 1);
    std::vector<void*> others;
    for (int i = 0; i != 20; ++i) others.push_back(on.pool.allocate(on.other, some));
    for (void* const p : others) support::write_words(on.other, p, some, 1);
    for (int i = 0; i != 3; ++i) graph->launch(on.s);
    for (void* const p : others) CHECK(support::all_are(support::words(on.other, p, some), 1));
    {
        simulator::hold const nothing_runs;
        graph->launch(on.other);
    }
    graph.reset();  // waits for the launch
    CHECK(on.pool.stats().live_blocks == 20);
    for (void* const p : others) on.pool.deallocate(on.other, p, some);
    on.pool.close();
    CHECK(on.account.held() == 0);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("in a capture, a freed block is reused by its stream and not by others", "[pool][graph]") {
    support::machine const machine;
    scene on;
    auto const graph = cuota::capture({on.s, on.other}, [&] {
        void* const p = on.pool.allocate(on.s, some);
        on.pool.deallocate(on.s, p, some);
        CHECK(on.pool.allocate(on.s, some) == p);
        on.pool.deallocate(on.s, p, some);
        void* const q = on.pool.allocate(on.other, some);
        CHECK(q != p);
        on.pool.deallocate(on.other, q, some);
        void* const larger = on.pool.allocate(on.s, 2 * some);
        CHECK(larger != p);
        on.pool.deallocate(on.s, larger, 2 * some);
    });
    CHECK(on.pool.stats().live_blocks == 3);
}

TEST_CASE("in a capture, the host waits for earlier work of other streams on an allocated block",
          "[pool][graph]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 4_MiB}, {.growth = cuota::pool_growth::segments}};
    std::size_t const much = 3_MiB;
    void* const p = pool.allocate(other, much);
    support::write_words(other, p, much, 1);
    pool.deallocate(other, p, much);
    auto graph = cuota::capture(s, [&] {
        void* const q = pool.allocate(s, much);
        CHECK(q == p);
        CHECK(other.is_idle());
        support::write_words(s, q, much, 2);
        pool.deallocate(s, q, much);
    });
    graph.launch(s);
    s.synchronize();
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a block from before a capture that is freed in it stays allocated until the graph is destroyed",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    void* const p = on.pool.allocate(on.s, some);
    std::optional<cuota::graph_exec> graph{cuota::capture(on.s, [&] {
        support::write_words(on.s, p, some, 7);
        on.pool.deallocate(on.s, p, some);
    })};
    for (int i = 0; i != 5; ++i) {
        void* const q = on.pool.allocate(on.s, some);
        CHECK(q != p);
        on.pool.deallocate(on.s, q, some);
    }
    graph->launch(on.other);
    graph.reset();
    CHECK(on.pool.stats().live_blocks == 0);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a block that is allocated in a capture and never freed in it outlives the graph",
          "[pool][graph]") {
    support::machine machine;
    scene on;
    void* p = nullptr;
    void* q = nullptr;
    std::optional<cuota::graph_exec> graph{cuota::capture(on.s, [&] {
        p = on.pool.allocate(on.s, some);
        q = on.pool.allocate(on.s, some);
        support::write_words(on.s, p, some, 7);
    })};
    graph->launch(on.s);
    CHECK(support::all_are(support::words(on.s, p, some), 7));

    on.pool.deallocate(on.s, q, some);  // the graph keeps this block until it is destroyed
    for (int i = 0; i != 5; ++i) {
        void* const next = on.pool.allocate(on.s, some);
        CHECK(next != q);
        on.pool.deallocate(on.s, next, some);
    }
    on.pool.deallocate(on.s, q, some);
    on.pool.deallocate(on.s, p, some + 1);
    auto const errors = machine.errors.take();
    REQUIRE(errors.size() == 2);
    CHECK(errors[0].find("double free") != std::string::npos);
    CHECK(errors[1].find("that a graph uses") != std::string::npos);

    graph.reset();
    CHECK(on.pool.stats().live_blocks == 1);
    CHECK(support::all_are(support::words(on.s, p, some), 7));
    on.pool.deallocate(on.s, p, some);
    CHECK(on.pool.stats().live_blocks == 0);
}

TEST_CASE("growing, trimming and reclaiming in a capture leave the capture intact", "[pool][graph]") {
    support::machine const machine;
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    cuota::stream const s;
    cuota::budget const account{"test", 32_MiB};
    cuota::scoped_pool idle{account, {.growth = growth}};
    cuota::scoped_pool pool{account, {.growth = growth}};
    idle.deallocate(s, idle.allocate(s, 20_MiB), 20_MiB);
    pool.deallocate(s, pool.allocate(s, 2_MiB), 2_MiB);
    auto graph = cuota::capture(s, [&] {
        CHECK(pool.trim() == 2_MiB);
        void* const p = pool.allocate(s, 28_MiB);  // idle must release memory for it
        support::write_words(s, p, 28_MiB, 7);
        pool.deallocate(s, p, 28_MiB);
        CHECK(pool.trim() == 0);
        (void)pool.stats();
        (void)pool.largest_free();
        CHECK_THROWS_AS(pool.allocate(s, 28_MiB + 1), cuota::budget_exceeded);
    });
    CHECK(idle.stats().reserved <= 4_MiB);
    graph.launch(s);
    s.synchronize();
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("other streams and other threads use the pool during a capture", "[pool][graph]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 4_MiB}, {.growth = cuota::pool_growth::segments}};
    std::size_t const much = 3_MiB;
    void* const p = pool.allocate(s, much);
    support::write_words(s, p, much, 1);
    pool.deallocate(s, p, much);  // other streams have to wait for this write
    auto const use = [&](cuota::stream_ref on) {
        void* const q = pool.allocate(on, much);
        support::write_words(on, q, much, 2);
        CHECK(support::all_are(support::words(on, q, much), 2));
        pool.deallocate(on, q, much);
    };
    auto graph = cuota::capture(s, [&] {
        use(other);
        std::thread{[&] {
            cuota::stream const own;
            use(own);
            CHECK(why_refused([&] { (void)pool.allocate(s, 64_KiB); }).find("another thread captures") !=
                  std::string::npos);
        }}.join();
    });
    use(s);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("captures begin and end while another thread allocates blocks that their stream has freed",
          "[pool][graph]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}, {.growth = cuota::pool_growth::segments}};
    std::size_t const much = 100_KiB;  // larger than the blocks of a thread cache
    auto const use = [&](cuota::stream_ref on) {
        void* const p = pool.allocate(on, much);
        cuota::rt::fill_bytes(p, 1, much, on);
        pool.deallocate(on, p, much);
    };
    std::atomic<bool> is_over = false;
    std::atomic<int> failed = 0;
    std::thread other{[&] {
        cuota::stream const own;
        while (!is_over) try {
                use(own);
            } catch (std::exception const&) { ++failed; }
    }};
    for (int i = 0; i != 30; ++i) {
        use(s);
        auto graph = cuota::capture(s, [&] { use(s); });
        graph.launch(s);
    }
    is_over = true;
    other.join();
    CHECK(failed == 0);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("requests to resources that cannot serve a graph are refused before they invalidate the capture",
          "[pool][graph]") {
    support::machine machine;
    scene on;
    auto const graph = cuota::capture(on.s, [&] {
        cuota::async_memory driver;
        CHECK(why_refused([&] { (void)driver.allocate(on.s, some); }).find("use a scoped_pool") !=
              std::string::npos);
        auto frame = on.pool.frame();
        CHECK(why_refused([&] { (void)frame.allocate(on.s, some); }).find("allocate from its pool") !=
              std::string::npos);
        frame.deallocate(on.other, frame.allocate(on.other, some), some);
    });
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("freeing memory to the driver in a capture that may use it makes the capture fail",
          "[pool][graph]") {
    support::machine machine;
    scene on;
    cuota::async_memory driver;
    cuota::device_memory plain;
    void* const p = driver.allocate(on.s, some);
    void* const q = plain.allocate(on.s, some);
    CHECK(why_refused([&] {
              (void)cuota::capture(on.s, [&] { driver.deallocate(on.s, p, some); });
          }).find("cannot wait for captured work") != std::string::npos);
    CHECK(why_refused([&] {
              (void)cuota::capture(on.s, [&] { plain.deallocate(on.s, q, some); });
          }).find("cannot wait for captured work") != std::string::npos);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE(
    "a pool destroyed before its graph is reported, and its memory is kept until the graph is destroyed",
    "[pool][graph]") {
    support::machine machine;
    cuota::stream const s;
    std::optional<cuota::scoped_pool> pool{std::in_place, cuota::budget{"test", 4_MiB}};
    auto graph = cuota::capture(s, [&] {
        void* const p = pool->allocate(s, some);
        support::write_words(s, p, some, 7);
        pool->deallocate(s, p, some);
    });
    pool.reset();
    auto const errors = machine.errors.take();
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].find("destroyed while") != std::string::npos);
    graph.launch(s);
    s.synchronize();
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("destroying a graph waits for its last successful launch before its blocks are reused",
          "[pool][graph]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    scene on;
    void* p = nullptr;
    std::optional<cuota::graph_exec> graph{cuota::capture(on.s, [&] {
        p = on.pool.allocate(on.s, some);
        cuota::rt::fill_bytes(p, 1, some, on.s);
        on.pool.deallocate(on.s, p, some);
    })};
    graph->launch(on.s);
    simulator::fail_call("cudaGraphLaunch", 1);
    CHECK_THROWS_AS(graph->launch(on.other), cuota::cuda_error);
    graph.reset();

    void* const next = on.pool.allocate(on.other, some);
    CHECK(next == p);
    cuota::rt::fill_bytes(next, 2, some, on.other);
    on.pool.deallocate(on.other, next, some);
    CHECK(simulator::race_reports() == std::vector<std::string>{});
}

TEST_CASE("no CUDA failure around a capture with allocations leaks memory or makes the pool unusable",
          "[pool][graph]") {
    support::machine machine;
    scene on;
    auto const program = [&] {
        cuota::scoped_pool pool{on.account, {.growth = cuota::pool_growth::segments}};
        void* before = pool.allocate(on.s, some);
        pool.deallocate(on.other, pool.allocate(on.other, some), some);
        try {
            auto graph = cuota::capture(on.s, [&] {
                struct block {
                    cuota::scoped_pool& pool;
                    cuota::stream_ref s;
                    void* at = pool.allocate(s, 2 * some);
                    ~block() { pool.deallocate(s, at, 2 * some); }
                };
                block const a{pool, on.s};
                block const b{pool, on.s};
                support::write_words(on.s, a.at, 2 * some, 7);
                support::write_words(on.s, b.at, 2 * some, 7);
                pool.deallocate(on.s, std::exchange(before, nullptr), some);
            });
            graph.launch(on.s);
            graph.launch(on.other);
        } catch (...) {
            if (before) pool.deallocate(on.s, before, some);
            throw;
        }
        pool.close();
    };
    program();
    CHECK(support::survives_every_failure(machine, program, {cudaErrorUnknown}).silent == 0);
    support::survives_every_failure(machine, program,
                                    // A pool then retries with smaller requests.
                                    {cudaErrorMemoryAllocation});
    CHECK(on.account.held() == 0);
}
