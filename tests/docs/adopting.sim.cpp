// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/adopting.md.
#include <cstddef>
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
    cuota::budget const host{"host", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
#include "adopting/pointers.inc"
    CHECK(loss == 1.0f);
    CHECK(host.held() == sizeof(float));
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
