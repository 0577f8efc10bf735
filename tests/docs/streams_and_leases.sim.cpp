// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/streams_and_leases.md.
#include <cstddef>
#include <cstdio>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

#include "streams_and_leases/kernel.inc"

TEST_CASE("streams and leases: a lease puts the waits in", "[docs]") {
    cuota::budget const budget{"device", 64_MiB};
    cuota::scoped_pool pool{budget};
#include "streams_and_leases/borrow.inc"
    CHECK(host == std::vector<float>(1'000'000, 2.0f));
    {
#include "streams_and_leases/give_back.inc"
        CHECK(next.to_vector(compute)[0] == 0.0f);
    }
    page::check_prints("streams_and_leases/two_writers", [&] {
#include "streams_and_leases/two_writers.inc"
    });
    page::check_prints("streams_and_leases/graph", [&] {
#include "streams_and_leases/graph.inc"
    });
    cuota::device_buffer<float> y{1'000'000, compute, pool, "y"};
    step(x, y, compute);
    CHECK(y.to_vector(compute)[0] == 8.0f);
    {
        auto const stream = compute.get();
        (void)stream;
    }
}

TEST_CASE("streams and leases: pointers for libraries, and copies that go on", "[docs]") {
    cuota::budget const pinned{"pinned", 64_MiB};
    cuota::stream const stream;
    cuota::device_buffer<float> x{1000, 3.0f, stream, cuota::device_memory{}, "x"};
    cuota::device_buffer<float> y{1000, stream, cuota::device_memory{}, "y"};
    {
        auto const library_call = [](float const* from, float* to, std::size_t count, cudaStream_t on) {
            CHECK(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, on) ==
                  cudaSuccess);
        };
#include "streams_and_leases/library.inc"
    }
    CHECK(y.to_vector(stream)[999] == 3.0f);
    {
        auto const work_on_something_else = [] {};
#include "streams_and_leases/download.inc"
        CHECK(first == 3.0f);
    }
    std::vector<float> numbers(1000, 5.0f);
#include "streams_and_leases/upload.inc"
    CHECK(x.to_vector(stream)[999] == 5.0f);
}

}  // namespace
