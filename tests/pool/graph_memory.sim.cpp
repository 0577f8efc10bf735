// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/graph_memory.hpp>

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;
using cuota::budget;
using cuota::graph_exec;
using cuota::graph_memory;
using cuota::stream;

namespace {

// A graph that still runs keeps its memory when it is destroyed. The second call is for a fault in the first.
struct wait_at_end {
    ~wait_at_end() {
        for (int i = 0; i != 2; ++i) (void)cudaDeviceSynchronize();
        (void)cudaGetLastError();
    }
};

// Does the same as a library in a capture.
void allocate_and_free(stream const& s, std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, bytes, s.get()) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(p, 1, bytes, s.get()) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess);
}

graph_exec graph_with(graph_memory& memory, stream const& s, std::size_t bytes) {
    return memory.capture(s, [&] { allocate_and_free(s, bytes); });
}

// A budget with memory of graphs, on a machine of its own.
struct server {
    explicit server(std::size_t limit = 64_MiB, cuota::simulator::options shape = support::usual_machine())
        : machine{std::move(shape)}, b{"b", limit} {}
    [[nodiscard]] graph_exec graph_of(std::size_t bytes) { return graph_with(memory, s, bytes); }
    void launch(graph_exec& graph) const {
        graph.launch(s);
        s.synchronize();
    }

    support::machine const machine;
    budget const b;
    graph_memory memory{b};
    stream const s{};
};

std::size_t reserved() {
    std::uint64_t bytes = 0;
    REQUIRE(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes) == cudaSuccess);
    return bytes;
}

}  // namespace

TEST_CASE("a graph's first launch charges what the driver allocates for it", "[pool][graph_memory]") {
    server on;
    graph_exec const idle = on.graph_of(20_MiB);
    graph_exec graph = on.graph_of(7_MiB);
    CHECK(graph.memory() == 8_MiB);
    CHECK(on.b.held() == 0);
    for (int i = 0; i != 3; ++i) graph.launch(on.s);
    CHECK(on.b.held() == 8_MiB);
    CHECK(on.memory.held() == 8_MiB);
    CHECK(reserved() == 8_MiB);
    on.s.synchronize();
}

TEST_CASE("graphs share memory on one stream, and have their own on two", "[pool][graph_memory]") {
    server on;
    stream const other;
    graph_exec large = on.graph_of(8_MiB), small = on.graph_of(4_MiB);
    small.launch(on.s);
    CHECK(on.b.held() == 4_MiB);
    large.launch(on.s);
    CHECK(on.b.held() == 8_MiB);
    small.launch(on.s);
    CHECK(on.b.held() == 8_MiB);
    small.launch(other);
    CHECK(on.b.held() == 12_MiB);
    CHECK(reserved() == 12_MiB);
    on.s.synchronize();
    other.synchronize();
}

TEST_CASE("a launch beyond the budget is refused before the driver allocates", "[pool][graph_memory]") {
    server on{10_MiB};
    graph_exec small = on.graph_of(4_MiB), large = on.graph_of(12_MiB);
    on.launch(small);
    auto const launches = cuota::simulator::calls("cudaGraphLaunch");
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { large.launch(on.s); });
    CHECK(cuota::simulator::calls("cudaGraphLaunch") == launches);
    CHECK(refused.info().request.name == cuota::tag{"graphs"});
    CHECK(refused.info().requested == 12_MiB);  // the round of reclaiming has trimmed what it had
    CHECK(on.b.held() == 0);
    CHECK(reserved() == 0);
    small.launch(on.s);
    CHECK(on.b.held() == 4_MiB);
    on.s.synchronize();
}

TEST_CASE("a trim releases the memory of graphs that do not run, and their next launch charges it again",
          "[pool][graph_memory]") {
    server on;
    graph_exec graph = on.graph_of(8_MiB);
    on.launch(graph);
    CHECK(on.memory.trim() == 8_MiB);
    CHECK(on.b.held() == 0);
    CHECK(reserved() == 0);
    CHECK(on.memory.trim() == 0);
    graph.launch(on.s);
    CHECK(on.b.held() == 8_MiB);
    on.s.synchronize();
}

TEST_CASE("a request that does not fit the budget gets the memory of idle graphs", "[pool][graph_memory]") {
    server on{16_MiB};
    graph_exec graph = on.graph_of(12_MiB);
    on.launch(graph);
    cuota::budgeted<cuota::device_memory> direct{on.b};
    void* const p = direct.allocate_sync(8_MiB);
    CHECK(on.b.held() == 8_MiB);
    CHECK_THROWS_AS(graph.launch(on.s), cuota::budget_exceeded);
    direct.deallocate_sync(p, 8_MiB);
    graph.launch(on.s);
    CHECK(on.b.held() == 12_MiB);
    on.s.synchronize();
}

TEST_CASE("a running graph keeps its memory, and is launched again under a full budget",
          "[pool][graph_memory]") {
    server on{12_MiB};
    graph_exec graph = on.graph_of(12_MiB);
    {
        cuota::simulator::hold const running;
        graph.launch(on.s);
        CHECK(on.memory.trim() == 0);
        // A refusal names it as in use, not as idle.
        auto const refused =
            support::thrown<cuota::budget_exceeded>([&] { cuota::budget{on.b}.charge(1_MiB); });
        REQUIRE(refused.info().holders.size() == 1);
        CHECK(refused.info().holders[0].name == cuota::tag{"graphs"});
        CHECK(refused.info().holders[0].bytes == 12_MiB);
        CHECK(!refused.info().holders[0].is_cached);
        CHECK(on.b.held() == 12_MiB);
        graph.launch(on.s);
        CHECK(on.b.held() == 12_MiB);
    }
    on.s.synchronize();
}

TEST_CASE("the memory of a destroyed graph stays charged until it is trimmed", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    std::optional<graph_memory> memory{std::in_place, b};
    stream const s;
    std::optional<graph_exec> gone = graph_with(*memory, s, 8_MiB);
    graph_exec stays = graph_with(*memory, s, 4_MiB);
    gone->launch(s);
    s.synchronize();
    gone.reset();
    CHECK(b.held() == 8_MiB);
    stays.launch(s);  // in the same memory
    s.synchronize();
    CHECK(b.held() == 8_MiB);
    CHECK(memory->trim() == 8_MiB);
    stays.launch(s);
    s.synchronize();
    memory.reset();
    CHECK(b.held() == 4_MiB);  // its graph may run
    { graph_exec const last = std::move(stays); }
    CHECK(b.held() == 0);
    CHECK(reserved() == 0);
}

TEST_CASE("a launch for which the device has no room is refused with its bytes", "[pool][graph_memory]") {
    server on{64_MiB, {1, 64_MiB}};
    graph_exec graph = on.graph_of(32_MiB);
    graph_exec plain = cuota::capture(on.s, [&] { allocate_and_free(on.s, 32_MiB); });
    cuota::simulator::set_other_programs(0, 40_MiB);
    auto const refused = support::thrown<cuota::out_of_memory>([&] { graph.launch(on.s); });
    CHECK(refused.info().requested == 32_MiB);
    CHECK_THROWS_AS(plain.launch(on.s), cuota::out_of_memory);
    cuota::simulator::set_other_programs(0, 0);
    on.memory.trim();  // of what the driver kept of the launches that failed
    on.launch(graph);
    CHECK(on.memory.held() == reserved());
}

TEST_CASE("a launch for which the device has no room gets idle memory of pools", "[pool][graph_memory]") {
    server on{128_MiB, {1, 64_MiB}};
    cuota::scoped_pool pool{budget{"pool", 64_MiB}};
    graph_exec graph = on.graph_of(40_MiB);
    pool.deallocate(on.s, pool.allocate(on.s, 40_MiB), 40_MiB);
    on.s.synchronize();
    on.launch(graph);
    CHECK(on.memory.held() >= 40_MiB);
}

TEST_CASE("a moved graph_memory is the same account", "[pool][graph_memory][moved_from]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    graph_memory from{b};
    stream const s;
    graph_exec graph = graph_with(from, s, 8_MiB);
    graph_memory memory{std::move(from)};
    CHECK_THROWS_AS(from.held(), cuota::usage_error);
    CHECK_THROWS_AS(from.trim(), cuota::usage_error);
    CHECK_THROWS_AS(graph_with(from, s, 1), cuota::usage_error);
    graph.launch(s);
    s.synchronize();
    CHECK(memory.held() == 8_MiB);
    from = std::move(memory);
    CHECK(from.held() == 8_MiB);
}

TEST_CASE("a device has one graph_memory, which its graphs keep alive", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    stream const s;
    {
        std::optional<graph_memory> memory{std::in_place, b};
        CHECK_THROWS_AS(graph_memory{b}, cuota::usage_error);
        graph_exec const graph = graph_with(*memory, s, 4_MiB);
        memory.reset();
        CHECK_THROWS_AS(graph_memory{b}, cuota::usage_error);
    }
    graph_memory const again{b};
    CHECK(again.held() == 0);
}

TEST_CASE("a server of a thousand shapes keeps the graphs that fit", "[pool][graph_memory]") {
    server on{32_MiB};
    std::list<graph_exec> recent;
    for (std::size_t shape = 0; shape != static_cast<std::size_t>(support::rounds(1'000)); ++shape) {
        recent.push_back(on.graph_of((1 + shape * 7 % 31) * 1_MiB));
        if (recent.size() > 8) recent.pop_front();
        recent.back().launch(on.s);
        REQUIRE(on.b.held() == reserved());
        REQUIRE(on.b.held() <= 32_MiB);
    }
    on.s.synchronize();
}

TEST_CASE("a budget of the device counts memory of graphs as its own", "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b = budget::for_device(cuota::device{0}, 1.0, 0, 0ns);
    graph_memory memory{b};
    stream const s;
    graph_exec graph = graph_with(memory, s, 24_MiB);
    graph.launch(s);
    s.synchronize();
    CHECK(b.held() == 24_MiB);
    CHECK(budget{b}.try_charge(40_MiB));
    budget{b}.refund(40_MiB);
    CHECK(b.limit() == 64_MiB);
}

TEST_CASE("threads launch graphs of one graph_memory on streams of their own", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    graph_memory memory{b};
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t != 5; ++t)
        threads.emplace_back([&, t] {
            stream const s;
            for (int i = 0; i != support::rounds(50); ++i) {
                graph_exec graph = memory.capture(s, [&] {
                    void* p = nullptr;
                    (void)cudaMallocAsync(&p, t * 2_MiB, s.get());
                    (void)cudaFreeAsync(p, s.get());
                });
                graph.launch(s);
                graph.launch(s);
                if (i % 5 == 0) (void)memory.trim();
                s.synchronize();
            }
        });
    for (std::thread& t : threads) t.join();
    (void)memory.trim();
    CHECK(b.held() == 0);
    CHECK(reserved() == 0);
}

TEST_CASE("launches charge and leak nothing when any CUDA call fails", "[pool][graph_memory]") {
    support::machine machine;
    budget const b{"b", 64_MiB};
    support::survives_every_failure(machine, [&] {
        wait_at_end const last;
        graph_memory memory{b};
        stream const s;
        graph_exec graph = memory.capture(s, [&] {
            void* p = nullptr;
            cuota::rt::check(cudaMallocAsync(&p, 8_MiB, s.get()), "cudaMallocAsync");
            cuota::rt::check(cudaFreeAsync(p, s.get()), "cudaFreeAsync");
        });
        graph.launch(s);
        s.synchronize();
        (void)memory.trim();
    });
    CHECK(b.held() == 0);
}

TEST_CASE("in a child, graph_memory ends without a CUDA call", "[pool][graph_memory][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    budget const b{"b", 64_MiB};
    std::optional<graph_memory> memory{std::in_place, b};
    stream const s;
    std::optional<graph_exec> graph = graph_with(*memory, s, 8_MiB);
    graph->launch(s);
    s.synchronize();
    CHECK(support::status_of_ends_in_child([&] {
              graph.reset();
              memory.reset();
          }) == 0);
}
