// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/graph_records.hpp>

#include <cstddef>
#include <cstdint>
#include <list>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using cuota::stream;
using cuota::detail::graph_record;
using cuota::detail::graph_records;

namespace {

graph_record& add(graph_records& to, std::size_t needed, std::uint64_t stream) {
    graph_record& record = to.enter();
    record.needed = needed;
    record.stream = stream;
    return record;
}

}  // namespace

TEST_CASE("graphs of one stream share memory, those of different streams do not", "[pool][graph_memory]") {
    graph_records graphs;
    CHECK(graphs.needed_by_launched() == 0);
    (void)add(graphs, 30, 1);
    (void)add(graphs, 20, 1);
    (void)add(graphs, 7, 2);
    graph_record& without_memory = add(graphs, 100, 0);
    CHECK(graphs.needed_by_launched() == 37);
    CHECK(graphs.needed_with(without_memory, 1) == 107);
    CHECK(graphs.needed_with(without_memory, 3) == 137);
    without_memory.needed = cuota::unlimited;
    CHECK(graphs.needed_with(without_memory, 3) == cuota::unlimited);
}

TEST_CASE("a graph that is being launched has the memory of its last launch", "[pool][graph_memory]") {
    graph_records graphs;
    (void)add(graphs, 30, 1);
    graph_record& moving = add(graphs, 50, 2);
    moving.stream_before = 1;
    moving.is_launching = true;
    CHECK(graphs.needed_by_launched() == 30);
    CHECK(graphs.needed_before_launches() == 50);
    CHECK(graphs.needed_with(moving, 2) == 80);
}

TEST_CASE("released memory is that of graphs that did not run", "[pool][graph_memory]") {
    support::machine const machine;
    stream const first;
    stream const second;
    bool const keeps_noted = GENERATE(false, true);
    graph_records graphs;
    graph_record& runs = add(graphs, 30, 1);
    graph_record& is_idle = add(graphs, 7, 2);
    graph_record& is_launched = add(graphs, 100, 3);
    runs.last.emplace(first);
    is_idle.last.emplace(second);
    is_launched.is_launching = true;
    {
        support::gate const gate{first};
        CHECK(runs.may_run());
        CHECK(!is_idle.may_run());
        CHECK(graphs.needed_by_running() == 30);
        CHECK(graphs.busy_streams().size() == 1);
        CHECK(cuota::stream_ref{graphs.busy_streams().at(0)}.id() == cuota::stream_ref{first}.id());
        graphs.note_running();
    }
    first.synchronize();
    CHECK(graphs.needed_by_running() == 0);
    CHECK(graphs.needed_by_noted() == 30);  // as it was before
    graphs.forget_memory(keeps_noted);
    CHECK(runs.stream == (keeps_noted ? 1 : 0));
    CHECK(is_idle.stream == 0);
    CHECK(is_launched.stream == 3);
}

TEST_CASE("a destroyed graph has a record until its last launch has ended", "[pool][graph_memory]") {
    support::machine const machine;
    stream const s;
    graph_records graphs;
    std::list<graph_record> ended;
    graph_record& running = add(graphs, 30, 1);
    graph_record& never_launched = add(graphs, 7, 0);
    (void)add(graphs, 9, 0);
    running.last.emplace(s);
    running.is_destroyed = never_launched.is_destroyed = true;
    {
        support::gate const gate{s};
        graphs.take_ended(ended);
        CHECK(ended.size() == 1);
        CHECK(graphs.all().size() == 2);
    }
    s.synchronize();
    graphs.take_ended(ended);
    CHECK(ended.size() == 2);
    CHECK(graphs.all().size() == 1);
    CHECK(graphs.all().front().needed == 9);
}
