// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A server captures a graph for each new shape of a request and keeps the latest 16: 200 shapes under one budget.
///
/// In each capture a library calls cudaMallocAsync; the driver allocates that memory at the graph's first launch and keeps it. `graph_memory`
/// charges it, and when the buffer of an answer does not fit beside it, the memory of idle graphs is released. Expected output:
///
///     200 shapes under 64.0 MiB: at most 16 graphs, 64.0 MiB held; memory of idle graphs was released 17 times
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
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

int main() try {
    constexpr std::size_t shapes = 200, most_graphs = 16;
    cuota::budget const budget{"server", 64_MiB};
    cuota::graph_memory memory{budget};
    cuota::stream const stream;
    std::list<cuota::graph_exec> latest;
    std::size_t graphs = 0, held = 0, releases = 0;
    for (std::size_t shape = 0; shape != shapes; ++shape) {
        std::size_t const scratch = (1 + shape * 37 % 40) * 1_MiB;
        latest.push_front(memory.capture(stream, [&] { library_call(stream, scratch); }));
        if (latest.size() > most_graphs) latest.pop_back();
        latest.front().launch(stream);
        stream.synchronize();

        std::size_t const before = memory.held();
        cuota::device_buffer<std::byte> const answer{(1 + shape * 11 % 30) * 1_MiB, stream,
                                                     cuota::budgeted<cuota::device_memory>{budget},
                                                     cuota::no_init, "answer"};
        releases += memory.held() < before;
        graphs = std::max(graphs, latest.size());
        held = std::max(held, budget.held());
    }
    std::printf(
        "%zu shapes under %s: at most %zu graphs, %s held; memory of idle graphs was released %zu times\n",
        shapes, cuota::bytes_text(budget.limit()).c_str(), graphs, cuota::bytes_text(held).c_str(), releases);
    return held <= budget.limit() && releases != 0 ? 0 : 1;
} catch (std::exception const& error) {
    std::puts(error.what());
    return 1;
}
