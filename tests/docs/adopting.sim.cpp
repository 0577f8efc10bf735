// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/adopting.md.
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

constexpr std::size_t n = 1000;

void forward(float* to, float const* from, std::size_t count, cudaStream_t on) {
    cuota::for_each_index(
        cuota::stream_ref{on}, count, [=](std::size_t i) { to[i] = 2 * from[i]; }, "forward");
}

void scale(float* x, std::size_t count) {
    cuota::for_each_index(
        cuota::default_stream, count, [=](std::size_t i) { x[i] += 3; }, "scale");
}

TEST_CASE("adopting: pointers in structs", "[docs]") {
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
#include "adopting/pointers.inc"
    CHECK(loss == 1.0f);
    CHECK(host.held() == sizeof(float));
}

// Stand for the host functions that nvcc makes of kernels.
void halve(float*, int) { std::abort(); }
void add_up(float*, float const*, int) { std::abort(); }

TEST_CASE("adopting: kernels, parts and single values", "[docs]") {
    namespace sim = cuota::simulator;
    sim::run_on_host(halve, [](sim::launch_shape const&, float* x, int count) {
        for (int i = 0; i != count; ++i) x[i] /= 2;
    });
    sim::run_on_host(add_up, [](sim::launch_shape const&, float* to, float const* from, int count) {
        for (int i = 0; i != count; ++i) *to += from[i];
    });
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    std::vector<float> const some(10, 4.0f);
    std::vector<float> last(5, 1.0f);
    cuota::device_buffer<float> const y{5, 2.0f, stream, pool};
#include "adopting/kernels.inc"
    CHECK(value == 10 * 4.0f + 5 * 2.0f);
    CHECK(last == std::vector<float>(5));
    sim::run_on_host(reinterpret_cast<void const*>(halve), {});
    sim::run_on_host(reinterpret_cast<void const*>(add_up), {});
}

TEST_CASE("adopting: launches without a stream", "[docs]") {
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::scoped_pool pool{budget};
    std::vector<float> result(n);
#include "adopting/default_stream.inc"
    CHECK(result == std::vector<float>(n, 3.0f));
}

std::size_t limit_of(char const* argument) {
    auto const print_usage = [] { return std::size_t{0}; };
#include "adopting/limits.inc"
    return budget.limit();
}

TEST_CASE("adopting: limits from the command line", "[docs]") {
    CHECK(limit_of("1.5 GiB") == 1536_MiB);
    CHECK(limit_of("1.5 GB") == 0);
}

TEST_CASE("adopting: the largest batch, kept", "[docs]") {
    cuota::budget const budget{"trainer", 42_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr std::size_t per_sample = 1_MiB;  // elements of 4 bytes
    auto const log = [](std::size_t, cuota::out_of_memory const&) {};
    page::check_prints("adopting/keep", [&] {
#include "adopting/keep.inc"
    });
    CHECK(budget.held() == 40_MiB);
}

}  // namespace
