// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// On the simulated library.
#include <cuota/interop/libraries/cublas.hpp>

#include <cstddef>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

namespace {

// c = a b of 2 by 2 matrices, by columns.
void multiply(cuota::cublas_handle::scope const& on, float const* a, float const* b, float* c) {
    float const one = 1, zero = 0;
    cuota::cublas_handle::check(
        cublasSgemm(on, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2), "cublasSgemm");
}

std::vector<float> const a{1, 2, 3, 4}, b{5, 6, 7, 8}, product{23, 34, 31, 46};

}  // namespace

TEST_CASE("products on several streams use a workspace of the pool each, without a race",
          "[interop][cublas]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"pool", 256_MiB}};
    cuota::stream const first, second;
    cuota::cublas_handle blas{pool};
    CHECK(blas.workspace_bytes() == 32_MiB);  // the simulated device has compute capability 9.0
    cuota::stream const* const streams[] = {&first, &second};
    std::vector<cuota::device_buffer<float>> left, right, results;
    for (int i = 0; i != 6; ++i) {
        cuota::stream const& s = *streams[i % 2];
        left.emplace_back(a, s, pool);
        right.emplace_back(b, s, pool);
        results.emplace_back(4, s, pool);
    }
    auto const races = cuota::simulator::misuse().races;
    {
        support::gate const gate{first};
        for (std::size_t i = 0; i != 6; ++i) {
            cuota::stream const& s = *streams[i % 2];
            auto const on = blas.on(s);
            multiply(on, left[i].read(s), right[i].read(s), results[i].write(s));
        }
    }
    for (auto const& z : results) CHECK(z.to_vector(first) == product);
    CHECK(cuota::simulator::misuse().races == races);
    CHECK(pool.stats().live_blocks == 3 * results.size());
}

TEST_CASE("scopes on one stream use the same workspace in turn", "[interop][cublas]") {
    support::machine const machine;
    cuota::budget const budget{"pool", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const s;
    cuota::cublas_handle blas{pool};
    std::size_t after_first = 0;
    for (int i = 0; i != 20; ++i) {
        { auto const on = blas.on(s); }
        if (i == 0) after_first = budget.held();
    }
    CHECK(budget.held() == after_first);
}

TEST_CASE("outside of a scope cuBLAS has its own workspace again", "[interop][cublas]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 64_MiB};
    cuota::stream const s;
    cuota::cublas_handle blas{cuota::budgeted<cuota::async_memory>{budget}};
    cuota::device_buffer<float> x{a, s, cuota::async_memory{}}, y{b, s, cuota::async_memory{}},
        z{4, s, cuota::async_memory{}};
    cublasHandle_t native = nullptr;
    {
        auto const on = blas.on(s);
        native = on;
        cudaStream_t set = nullptr;
        REQUIRE(cublasGetStream(on, &set) == CUBLAS_STATUS_SUCCESS);
        CHECK(set == s.get());
    }
    s.synchronize();
    auto const misuse = cuota::simulator::misuse().total();
    float const one = 1, zero = 0;
    REQUIRE(cublasSgemm(native, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, x.read(s), 2, y.read(s), 2, &zero,
                        z.write(s), 2) == CUBLAS_STATUS_SUCCESS);
    CHECK(z.to_vector(s) == product);
    CHECK(cuota::simulator::misuse().total() == misuse);  // the freed workspace was not written
}

TEST_CASE("a captured product keeps its workspace for the graph", "[interop][cublas]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"pool", 256_MiB}};
    cuota::stream const s, other;
    cuota::cublas_handle blas{pool};
    cuota::device_buffer<float> x{a, s, pool}, y{b, s, pool}, z{4, s, pool}, z2{4, s, pool};
    auto const races = cuota::simulator::misuse().races;
    cuota::graph_exec graph = cuota::capture(s, [&] {
        auto const on = blas.on(s);
        multiply(on, x.read(s), y.read(s), z.write(s));
    });
    graph.launch(other);
    {
        auto const on = blas.on(s);
        multiply(on, x.read(s), y.read(s), z2.write(s));
    }
    CHECK(z.to_vector(other) == product);
    CHECK(z2.to_vector(s) == product);
    CHECK(cuota::simulator::misuse().races == races);
}

TEST_CASE("cublasCreate without room releases idle memory of pools, and is out of memory otherwise",
          "[interop][cublas]") {
    support::machine const machine{{.capacity = 128_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 120_MiB}};
    { cuota::device_buffer<char> const used{100_MiB, s, pool}; }
    s.synchronize();
    { cuota::cublas_handle const blas{pool}; }
    cuota::device_buffer<char> const used{100_MiB, s, pool};
    std::string const text =
        support::thrown<cuota::out_of_memory>([&] { cuota::cublas_handle const blas{pool}; }).what();
    CHECK(support::has(text, "cublasCreate: not enough free memory on the device"));
    CHECK(support::has(text, "cublas.sim.cpp"));
}

TEST_CASE("invalid products are errors with cuBLAS's text", "[interop][cublas]") {
    support::machine const machine;
    cuota::cublas_handle blas{cuota::async_memory{}};
    cuota::stream const s;
    auto const on = blas.on(s);
    float const one = 1;
    std::string const text =
        support::thrown<cuota::library_error>([&] {
            cuota::cublas_handle::check(cublasSgemm(on, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, nullptr, 1,
                                                    nullptr, 2, &one, nullptr, 2),
                                        "cublasSgemm");
        }).what();
    CHECK(support::has(text, "cublasSgemm failed: an unsupported value"));
}
