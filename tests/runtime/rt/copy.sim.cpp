// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/copy.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

TEST_CASE("the error of a failed copy has the call site", "[runtime][copy]") {
    support::machine const sim;
    cuota::stream const s;
    char byte = 0;
    cuota::simulator::fail_call("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
    unsigned line = 0;
    auto const error = support::thrown<cuota::cuda_error>([&] {
        line = __LINE__ + 1;
        cuota::rt::copy_to_host(&byte, &byte, 1, s);
    });
    REQUIRE(error.call() == "cudaMemcpyAsync");
    REQUIRE(error.where().line == line);
    REQUIRE(cuota::source_location_text(error.where()) == "copy.sim.cpp:" + std::to_string(line));
}

TEST_CASE("a fill that exceeds its allocation throws", "[runtime][copy]") {
    support::machine const sim;
    cuota::stream const s;
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 100) == cudaSuccess);
    REQUIRE_THROWS_AS(cuota::rt::fill_bytes(p, 1, 101, s), cuota::cuda_error);
    REQUIRE(cudaFree(p) == cudaSuccess);
}
