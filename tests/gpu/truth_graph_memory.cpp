// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The part of gpu_truth that compares what graph_memory charges with what the driver allocates for graphs.
#include <cstddef>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/graph_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>

#include "gpu/truth.hpp"

namespace truth {
namespace {

using namespace cuota::literals;

[[nodiscard]] void* allocated(cuota::stream const& s, std::size_t bytes) {
    void* p = nullptr;
    cuota::rt::check(cudaMallocAsync(&p, bytes, s.get()), "cudaMallocAsync");
    cuota::rt::check(cudaMemsetAsync(p, 1, bytes, s.get()), "cudaMemsetAsync");
    return p;
}
void freed(cuota::stream const& s, void* p) { cuota::rt::check(cudaFreeAsync(p, s.get()), "cudaFreeAsync"); }

// Captures `shapes` kinds of allocations, by number.
constexpr int shapes = 5;
void allocate_as(int shape, cuota::stream const& s, cuota::stream const& other) {
    switch (shape) {
        case 0:  // one after the other
            for (std::size_t const bytes : {4_MiB, 24_MiB, 1_MiB, 9_MiB}) freed(s, allocated(s, bytes));
            return;
        case 1: {  // at the same time
            std::vector<void*> all;
            for (std::size_t const bytes : {4_MiB, 24_MiB, 1_MiB, 9_MiB}) all.push_back(allocated(s, bytes));
            for (void* const p : all) freed(s, p);
            return;
        }
        case 2: {  // many small ones
            std::vector<void*> all;
            for (std::size_t i = 0; i != 2'000; ++i) all.push_back(allocated(s, 1 + i * 7 % 5'000));
            for (void* const p : all) freed(s, p);
            return;
        }
        case 3:  // on two branches
            freed(s, allocated(s, 12_MiB));
            freed(other, allocated(other, 20_MiB));
            return;
        default: {  // a hole that the next block does not fit
            void* const first = allocated(s, 6_MiB);
            void* const second = allocated(s, 6_MiB);
            freed(s, first);
            freed(s, allocated(s, 8_MiB));
            freed(s, second);
        }
    }
}

// Returns the part of the charge that the driver allocated.
[[nodiscard]] std::string compare_shape(int shape) {
    cuota::device const here = cuota::device::current();
    cuota::budget const budget{"graphs", 1_GiB};
    cuota::graph_memory memory{budget};
    cuota::stream const s, other;
    cuota::graph_exec graph = memory.capture({s, other}, [&] { allocate_as(shape, s, other); });
    cuota::rt::trim_memory_of_graphs(here);
    expect_equal("memory of graphs before", cuota::rt::memory_of_graphs(here), 0U);
    graph.launch(s);
    s.synchronize();
    std::size_t const taken = cuota::rt::memory_of_graphs(here);
    expect(taken <= graph.memory(),
           text("the driver allocated %zu bytes for shape %d, %zu were charged before", taken, shape,
                graph.memory()));
    expect_equal("bytes charged", budget.held(), taken);
    for (int i = 0; i != 10; ++i) graph.launch(s);
    s.synchronize();
    expect_equal("memory after more launches", cuota::rt::memory_of_graphs(here), taken);
    expect_equal("bytes released by the trim", memory.trim(), taken);
    expect_equal("bytes charged after it", budget.held(), 0U);
    return text("%.1f of %.1f", static_cast<double>(taken) / 1048576.0,
                static_cast<double>(graph.memory()) / 1048576.0);
}

void expect_refusals() {
    cuota::device const here = cuota::device::current();
    cuota::budget const budget{"graphs", 16_MiB};
    cuota::graph_memory memory{budget};
    cuota::stream const s;
    cuota::graph_exec graph = memory.capture(s, [&] { freed(s, allocated(s, 32_MiB)); });
    std::size_t const before = here.memory().free;
    try {
        graph.launch(s);
        throw failed{"a graph of 32 MiB was launched under a budget of 16 MiB"};
    } catch (cuota::budget_exceeded const&) {}
    expect_equal("free bytes after a refused launch", here.memory().free, before);
    expect_equal("memory of graphs after it", cuota::rt::memory_of_graphs(here), 0U);
}

// Returns the most that graphs held of one budget.
[[nodiscard]] std::size_t serve(std::size_t requests, std::size_t limit) {
    cuota::budget const budget{"server", limit};
    cuota::graph_memory memory{budget};
    cuota::stream const s;
    std::list<cuota::graph_exec> latest;
    std::size_t most = 0;
    for (std::size_t i = 0; i != requests; ++i) {
        std::size_t const bytes = (1 + i * 37 % 62) * 1_MiB;
        latest.push_back(memory.capture(s, [&] { freed(s, allocated(s, bytes)); }));
        if (latest.size() > 16) latest.pop_front();
        latest.back().launch(s);
        std::size_t const held = budget.held();
        expect(held >= cuota::rt::memory_of_graphs(cuota::device::current()),
               "graphs hold more than is charged");
        most = held > most ? held : most;
    }
    s.synchronize();
    return most;
}

}  // namespace

std::string memory_of_graphs() {
    std::string facts = "MiB taken of MiB charged:";
    for (int shape = 0; shape != shapes; ++shape) facts += ' ' + compare_shape(shape) + ';';
    expect_refusals();
    std::size_t const most = serve(on_a_gpu<std::size_t>(1'000, 100), 64_MiB);
    return facts + text(" at most %.1f MiB of 64 for many shapes", static_cast<double>(most) / 1048576.0);
}

}  // namespace truth
