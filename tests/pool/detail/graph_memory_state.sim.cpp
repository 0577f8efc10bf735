// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/graph_memory_state.hpp>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/detail/memory_of_graph.hpp>
#include <cuota/pool/graph_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::stream;
using cuota::detail::graph_memory_state;
using cuota::detail::intrusive_ptr;
using cuota::detail::memory_of_graph;

namespace {

void allocate_and_free(stream const& s, std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, bytes, s.get()) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess);
}

std::size_t by_driver() { return cuota::rt::memory_of_graphs(cuota::device{0}); }

}  // namespace

TEST_CASE("nothing is trimmed while a launch is enqueued", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    stream const s;
    auto const account = intrusive_ptr<graph_memory_state>::make(b, cuota::device{0}, cuota::label{"graphs"});
    auto const graph = intrusive_ptr<memory_of_graph>::make(account);
    graph->captured(8_MiB);
    graph->begin_launch(s, {});
    CHECK(b.held() == 8_MiB);
    CHECK(account->trim() == 0);
    CHECK(b.held() == 8_MiB);
    graph->end_launch(s, false);
    CHECK(b.held() == 0);  // the driver has allocated nothing
}

TEST_CASE("a launch that needs no memory asks the driver nothing", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    cuota::graph_memory memory{b};
    stream const s;
    cuota::graph_exec graph = memory.capture(s, [&] { allocate_and_free(s, 8_MiB); });
    auto const queries = [] { return cuota::simulator::calls("cudaDeviceGetGraphMemAttribute"); };
    graph.launch(s);
    auto const after_first = queries();
    for (int i = 0; i != 5; ++i) graph.launch(s);
    CHECK(queries() == after_first);
    s.synchronize();
    (void)memory.trim();
    auto const after_trim = queries();
    graph.launch(s);
    CHECK(queries() > after_trim);
    s.synchronize();
}

TEST_CASE("memory of graphs that were captured elsewhere is charged at the next change, also above the limit",
          "[pool][graph_memory]") {
    support::machine const machine;
    for (std::size_t const limit : {16_MiB, 8_MiB}) {
        budget const b{"b", limit};
        cuota::graph_memory memory{b};
        stream const s, other;
        cuota::graph_exec elsewhere = cuota::capture(other, [&] { allocate_and_free(other, 12_MiB); });
        cuota::graph_exec graph = memory.capture(s, [&] { allocate_and_free(s, 4_MiB); });
        elsewhere.launch(other);
        CHECK(b.held() == 0);
        graph.launch(s);
        CHECK(b.held() == 16_MiB);
        CHECK(!budget{b}.try_charge(1));
        s.synchronize();
        other.synchronize();
        CHECK(memory.trim() == 16_MiB);
        CHECK(b.held() == 0);
    }
}

TEST_CASE("memory that the driver took back during a launch is not counted as the graph's",
          "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 64_MiB};
    stream const s, other;
    auto const account = intrusive_ptr<graph_memory_state>::make(b, cuota::device{0}, cuota::label{"graphs"});
    auto const first = intrusive_ptr<memory_of_graph>::make(account);
    auto const second = intrusive_ptr<memory_of_graph>::make(account);
    first->captured(8_MiB);
    second->captured(4_MiB);
    first->begin_launch(s, {});
    first->end_launch(s, true);  // the driver reports no memory at the end of the launch
    CHECK(b.held() == 0);
    second->begin_launch(other, {});
    CHECK(b.held() == 4_MiB);
    second->end_launch(other, false);
}

TEST_CASE("the memory of a destroyed graph is in use while its last launch runs", "[pool][graph_memory]") {
    support::machine const machine;
    budget b{"b", 10_MiB};
    cuota::graph_memory memory{b};
    stream const s, other;
    std::optional first{memory.capture(s, [&] { allocate_and_free(s, 8_MiB); })};
    cuota::graph_exec second = memory.capture(other, [&] { allocate_and_free(other, 4_MiB); });
    SECTION("a launch that does not fit waits for it") {
        support::gate gate{s};
        first->launch(s);
        first.reset();
        support::while_waiting(
            gate, "cudaStreamSynchronize", [&] { second.launch(other); },
            [] { CHECK(by_driver() == 8_MiB); });
        CHECK(by_driver() == 4_MiB);
        CHECK(b.held() == 4_MiB);
    }
    SECTION("one that fits gets memory of its own") {
        b.set_limit(12_MiB);
        support::gate gate{s};
        first->launch(s);
        first.reset();
        second.launch(other);
        CHECK(by_driver() == 12_MiB);
        CHECK(b.held() == 12_MiB);
        gate.open();
        s.synchronize();
        other.synchronize();
        cuota::graph_exec third = memory.capture(s, [&] { allocate_and_free(s, 8_MiB); });
        third.launch(s);
        CHECK(b.held() == by_driver());
        CHECK(b.held() == 12_MiB);
        s.synchronize();
    }
    other.synchronize();
    (void)memory.trim();
    CHECK(b.held() == 0);
    CHECK(by_driver() == 0);
}

TEST_CASE("a launch for which the device has no room waits for graphs that run", "[pool][graph_memory]") {
    support::machine const machine{{1, 64_MiB}};
    budget const b{"b", 1_GiB};
    cuota::graph_memory memory{b};
    stream const s, other;
    cuota::graph_exec first = memory.capture(s, [&] { allocate_and_free(s, 40_MiB); });
    cuota::graph_exec second = memory.capture(other, [&] { allocate_and_free(other, 40_MiB); });
    support::gate gate{s};
    first.launch(s);
    support::while_waiting(
        gate, "cudaStreamSynchronize", [&] { second.launch(other); }, [] { CHECK(by_driver() == 40_MiB); });
    CHECK(by_driver() == 40_MiB);
    CHECK(b.held() == 40_MiB);
    other.synchronize();
}

TEST_CASE("after a trim, memory of a small graph that runs is no memory of a larger one on its stream",
          "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 9_MiB};
    cuota::graph_memory memory{b};
    stream const s, other;
    cuota::graph_exec small = memory.capture(s, [&] { allocate_and_free(s, 2_MiB); });
    cuota::graph_exec large = memory.capture(s, [&] { allocate_and_free(s, 8_MiB); });
    large.launch(s);
    s.synchronize();
    support::gate gate{s};
    small.launch(s);
    CHECK(memory.trim() == 6_MiB);
    support::while_waiting(
        gate, "cudaStreamSynchronize", [&] { large.launch(other); }, [] { CHECK(by_driver() == 2_MiB); });
    CHECK(by_driver() == 8_MiB);
    CHECK(b.held() == 8_MiB);
    other.synchronize();
}

TEST_CASE("a graph that was launched on a native stream is destroyed once its launch has ended",
          "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 1_GiB};
    cuota::graph_memory memory{b};
    stream const s;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreate(&native) == cudaSuccess);
    std::atomic<bool> is_done = false;
    {
        cuota::graph_exec graph = memory.capture(s, [&] { allocate_and_free(s, 8_MiB); });
        graph.launch(cuota::stream_ref{native});
        cuota::for_each_index(
            cuota::stream_ref{native}, 1, [of = &is_done](std::size_t) { of->store(true); }, "last");
    }
    CHECK(is_done);
    REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
    CHECK(memory.trim() == 8_MiB);
}

TEST_CASE("an account ends after the last launch of its graphs", "[pool][graph_memory]") {
    support::machine const machine;
    budget const b{"b", 1_GiB};
    stream const s;
    std::atomic<bool> is_done = false;
    {
        cuota::graph_memory memory{b};
        cuota::graph_exec graph = memory.capture(s, [&] { allocate_and_free(s, 8_MiB); });
        graph.launch(s);
        cuota::for_each_index(
            s, 1, [of = &is_done](std::size_t) { of->store(true); }, "last");
    }
    CHECK(is_done);
    CHECK(b.held() == 0);
    CHECK(by_driver() == 0);
}
