// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/graph_memory.hpp>

#include <cstddef>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using cuota::event;
using cuota::stream;

namespace {

void* allocated(stream const& s, std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, bytes, s.get()) == cudaSuccess);
    return p;
}

void freed(stream const& s, void* p) { REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess); }

template <class F>
std::size_t memory_of(stream const& s, F work) {
    return cuota::capture(s, work).memory();
}

}  // namespace

TEST_CASE("a graph without allocations needs no memory", "[runtime][graph_memory]") {
    support::machine const machine;
    stream const s;
    CHECK(memory_of(s, [] {}) == 0);
}

TEST_CASE("memory that is freed before the next allocation is counted once", "[runtime][graph_memory]") {
    support::machine const machine;
    stream const s;
    CHECK(memory_of(s, [&] {
              for (std::size_t const bytes : {4_MiB, 6_MiB, 2_MiB}) freed(s, allocated(s, bytes));
          }) == 6_MiB);
    CHECK(memory_of(s, [&] {
              void* const a = allocated(s, 4_MiB);
              void* const b = allocated(s, 6_MiB);
              freed(s, a);
              freed(s, allocated(s, 4_MiB));
              freed(s, b);
          }) == 10_MiB);
}

TEST_CASE("blocks of 512 bytes are summed up, and the sum is in pieces of 2 MiB", "[runtime][graph_memory]") {
    support::machine const machine;
    stream const s;
    CHECK(memory_of(s, [&] { freed(s, allocated(s, 1)); }) == 2_MiB);
    auto const blocks = [&](std::size_t count) {
        return memory_of(s, [&] {
            std::vector<void*> all;
            for (std::size_t i = 0; i != count; ++i) all.push_back(allocated(s, 1));
            for (void* const p : all) freed(s, p);
        });
    };
    CHECK(blocks(4'096) == 2_MiB);
    CHECK(blocks(4'097) == 4_MiB);
}

TEST_CASE("memory is not shared between branches, where no order is given", "[runtime][graph_memory]") {
    support::machine const machine;
    stream const s, other;
    auto const of_branches = [&](bool in_order) {
        return cuota::capture({s, other},
                              [&] {
                                  freed(s, allocated(s, 4_MiB));
                                  if (in_order) other.wait(event{s});
                                  freed(other, allocated(other, 6_MiB));
                              })
            .memory();
    };
    CHECK(of_branches(false) == 10_MiB);
    CHECK(of_branches(true) == 6_MiB);
}

TEST_CASE("the memory needed is what the driver allocates at the first launch", "[runtime][graph_memory]") {
    support::machine const machine;
    stream const s;
    auto graph = cuota::capture(s, [&] {
        void* const a = allocated(s, 3_MiB);
        freed(s, allocated(s, 5_MiB));
        freed(s, a);
    });
    graph.launch(s);
    s.synchronize();
    CHECK(cuota::rt::memory_of_graphs(cuota::device{0}) == graph.memory());
    cuota::rt::trim_memory_of_graphs(cuota::device{0});
    CHECK(cuota::rt::memory_of_graphs(cuota::device{0}) == 0);
}
