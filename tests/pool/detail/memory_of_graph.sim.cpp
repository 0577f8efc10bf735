// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/memory_of_graph.hpp>

#include <cstddef>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/graph_memory.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::stream;

namespace {

cuota::graph_exec graph_of(cuota::graph_memory& memory, stream const& s, std::size_t bytes) {
    return memory.capture(s, [&] {
        void* p = nullptr;
        REQUIRE(cudaMallocAsync(&p, bytes, s.get()) == cudaSuccess);
        REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess);
    });
}
std::size_t by_driver() { return cuota::rt::memory_of_graphs(cuota::device{0}); }

}  // namespace

TEST_CASE("a launch without room is refused before the driver allocates a part of its memory",
          "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b{"b", 64_MiB};
    cuota::graph_memory memory{b};
    stream const s;
    cuota::graph_exec graph = graph_of(memory, s, 40_MiB);
    cuota::simulator::set_other_programs(0, 32_MiB);
    CHECK_THROWS_AS(graph.launch(s), cuota::out_of_memory);
    CHECK(by_driver() == 0);
    CHECK(b.held() == 0);
    cuota::simulator::set_other_programs(0, 0);
    graph.launch(s);
    s.synchronize();
    CHECK(b.held() == 40_MiB);
}

TEST_CASE("a launch gets the memory of graphs that do not run", "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b{"b", 1_GiB};
    cuota::graph_memory memory{b};
    stream const s, other;
    cuota::graph_exec first = graph_of(memory, s, 40_MiB);
    cuota::graph_exec second = graph_of(memory, other, 40_MiB);
    first.launch(s);
    s.synchronize();
    second.launch(other);
    other.synchronize();
    CHECK(by_driver() == 40_MiB);
    CHECK(b.held() == 40_MiB);
}

TEST_CASE("the part that the driver keeps of a launch that it refused is charged", "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b{"b", 1_GiB};
    cuota::graph_memory memory{b};
    stream const s;
    cuota::graph_exec graph = graph_of(memory, s, 40_MiB);
    graph.launch(s);
    s.synchronize();
    // The driver takes the graph's memory for cudaMalloc, which the next launch on the same stream does not know.
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 50_MiB) == cudaSuccess);
    REQUIRE(by_driver() == 0);
    CHECK_THROWS_AS(graph.launch(s), cuota::out_of_memory);
    CHECK(by_driver() > 0);
    CHECK(b.held() == by_driver());
    REQUIRE(cudaFree(block) == cudaSuccess);
    graph.launch(s);
    s.synchronize();
    CHECK(b.held() == by_driver());
}

TEST_CASE("memory that the driver has taken back is charged again by the launches of all graphs",
          "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b{"b", 1_GiB};
    cuota::graph_memory memory{b};
    stream const s, other;
    cuota::graph_exec first = graph_of(memory, s, 16_MiB), second = graph_of(memory, other, 16_MiB);
    first.launch(s);
    second.launch(other);
    s.synchronize();
    other.synchronize();
    CHECK(b.held() == 32_MiB);
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 60_MiB) == cudaSuccess);
    REQUIRE(cudaFree(block) == cudaSuccess);
    REQUIRE(by_driver() == 0);
    cuota::graph_exec third = graph_of(memory, s, 2_MiB);
    third.launch(s);  // finds it
    CHECK(b.held() == 2_MiB);
    second.launch(other);
    CHECK(b.held() == 18_MiB);
    s.synchronize();
    other.synchronize();
    CHECK(by_driver() == 18_MiB);
}
