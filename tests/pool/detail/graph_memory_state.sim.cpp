// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/graph_memory_state.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/detail/memory_of_graph.hpp>
#include <cuota/pool/graph_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
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
