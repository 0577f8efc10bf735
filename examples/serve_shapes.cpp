// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A server captures a graph for each new shape of a request, and keeps the latest ones: 1,000 shapes under one budget.
///
/// A library calls cudaMallocAsync in each capture, and the driver allocates that memory at the first launch. `graph_memory` charges it before,
/// so that the server evicts a graph, or releases the memory of idle ones, where it would run out of memory. Expected output:
///
///     1000 shapes, 1000 answers; at most 16 graphs, 62.0 MiB of 64.0 MiB
#include <cstddef>
#include <cstdio>
#include <list>

#include <cuota/cuota.hpp>
#include <cuota/pool/graph_memory.hpp>

using namespace cuota::literals;

/// Stands for a function of a library that allocates its own scratch memory.
void library_call(cuota::stream const& stream, std::size_t bytes) {
    void* scratch = nullptr;
    cuota::rt::check(cudaMallocAsync(&scratch, bytes, stream.get()), "cudaMallocAsync");
    cuota::rt::check(cudaMemsetAsync(scratch, 0, bytes, stream.get()), "cudaMemsetAsync");
    cuota::rt::check(cudaFreeAsync(scratch, stream.get()), "cudaFreeAsync");
}

struct shape_graph {
    std::size_t shape;
    cuota::graph_exec graph;
};

int main() try {
    constexpr std::size_t shapes = 1'000, most_graphs = 16;
    cuota::budget const budget{"server", 64_MiB};
    cuota::graph_memory memory{budget};
    cuota::stream const stream;
    std::list<shape_graph> latest;
    std::size_t answers = 0, graphs = 0, held = 0;
    for (std::size_t shape = 0; shape != shapes; ++shape) {
        std::size_t const scratch = (1 + shape * 37 % 62) * 1_MiB;
        latest.push_front({shape, memory.capture(stream, [&] { library_call(stream, scratch); })});
        if (latest.size() > most_graphs) latest.pop_back();
        latest.front().graph.launch(stream);
        ++answers;
        graphs = std::max(graphs, latest.size());
        held = std::max(held, budget.held());
    }
    stream.synchronize();
    std::printf("%zu shapes, %zu answers; at most %zu graphs, %s of %s\n", shapes, answers, graphs,
                cuota::bytes_text(held).c_str(), cuota::bytes_text(budget.limit()).c_str());
    return held <= budget.limit() ? 0 : 1;
} catch (std::exception const& error) {
    std::puts(error.what());
    return 1;
}
