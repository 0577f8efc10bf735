// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/launch_kernel.hpp>

#include <cstdlib>
#include <optional>
#include <string>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

namespace simulator = cuota::simulator;
using support::has;
using support::thrown;

namespace {

// Stand for the host functions that nvcc makes of kernels. Never called: their addresses name the kernels.
void add(int*, int const*, long) { std::abort(); }
void count() { std::abort(); }

int counted = 0;

struct bodies {
    bodies() {
        simulator::run_on_host(
            add, [](simulator::launch_shape const& shape, int* to, int const* from, long value) {
                *to = *from + static_cast<int>(value) * static_cast<int>(shape.threads());
            });
        simulator::run_on_host(count, [](simulator::launch_shape const& shape) {
            counted = static_cast<int>(shape.shared_bytes);
        });
    }
    ~bodies() {
        simulator::run_on_host(reinterpret_cast<void const*>(add), {});
        simulator::run_on_host(reinterpret_cast<void const*>(count), {});
    }
};

struct two_numbers {
    two_numbers() { REQUIRE(cudaMalloc(reinterpret_cast<void**>(&at), 2 * sizeof(int)) == cudaSuccess); }
    two_numbers(two_numbers const&) = delete;
    two_numbers& operator=(two_numbers const&) = delete;
    ~two_numbers() { CHECK(cudaFree(at) == cudaSuccess); }
    int* at = nullptr;
};

// Converts as a lease does.
struct pointer {
    int* at;
    operator int*() const noexcept { return at; }
};

}  // namespace

TEST_CASE("launch_kernel runs a kernel in stream order with converted arguments",
          "[runtime][launch_kernel]") {
    support::machine const gpu;
    bodies const registered;
    cuota::stream const s;
    two_numbers const numbers;
    REQUIRE(cudaMemsetAsync(numbers.at, 0, 2 * sizeof(int), s.get()) == cudaSuccess);
    cuota::launch_kernel(s, {2, 32}, add, numbers.at, pointer{numbers.at + 1}, 3);
    cuota::launch_kernel(s, {dim3{1, 2}, dim3{4, 1, 2}}, add, pointer{numbers.at + 1}, numbers.at, 1);
    int host[2] = {};
    REQUIRE(cudaMemcpyAsync(host, numbers.at, sizeof host, cudaMemcpyDeviceToHost, s.get()) == cudaSuccess);
    s.synchronize();
    CHECK(host[0] == 192);
    CHECK(host[1] == 192 + 16);
    cuota::launch_kernel(s, {1, 1, 512}, count);
    s.synchronize();
    CHECK(counted == 512);
}

TEST_CASE("a grid is given in numbers of any integer type", "[runtime][launch_kernel]") {
    support::machine const gpu;
    bodies const registered;
    cuota::stream const s;
    auto const threads = [&](cuota::kernel_shape const& shape) {
        return std::size_t{shape.grid.x} * shape.grid.y * shape.block.x;
    };
    int const n = 1000;
    std::size_t const many = 1000;
    CHECK(threads({(n + 255) / 256, 256}) == 1024);
    CHECK(threads({(many + 255) / 256, 256U}) == 1024);
    CHECK(threads({dim3{2, 3}, many}) == 6000);
    CHECK_THROWS_AS(cuota::launch_kernel(s, {-1, 1}, count), cuota::cuda_error);
    CHECK_THROWS_AS(cuota::launch_kernel(s, {(std::size_t{1} << 32) + 1, 1}, count), cuota::cuda_error);
    CHECK_THROWS_AS(cuota::launch_kernel(s, {1, (std::size_t{1} << 32) + 1}, count), cuota::cuda_error);
    CHECK_THROWS_AS(cuota::launch_kernel(s, {0, 1}, count), cuota::cuda_error);
}

TEST_CASE("launch_kernel throws what CUDA rejects, also where the thread has an older error",
          "[runtime][launch_kernel]") {
    support::machine const gpu;
    bodies const registered;
    cuota::stream const s;
    auto const before = simulator::current_unkindness();
    simulator::set_unkindness({.stale_errors = true});
    counted = 0;
    cuota::launch_kernel(s, {1, 1, 7}, count);
    auto const refused = thrown<cuota::cuda_error>([&] { cuota::launch_kernel(s, {1, 2048}, count); });
    CHECK(refused.code() == cudaErrorInvalidConfiguration);
    CHECK(has(refused.what(), "cudaLaunchKernel"));
    CHECK(has(refused.what(), "launch_kernel.sim.cpp:"));
    s.synchronize();
    CHECK(counted == 7);
    CHECK(simulator::misuse().bad_launches == 1);
    CHECK(has(simulator::misuse_reports().back(), "with 1 x 1 x 1 blocks of 2048 x 1 x 1 threads"));
    simulator::set_unkindness(before);
    (void)cudaGetLastError();
}

TEST_CASE("launch_kernel makes the stream's device current for the launch", "[runtime][launch_kernel]") {
    support::machine const gpu{{.devices = 2}};
    bodies const registered;
    cuota::device const other{1};
    std::optional<cuota::stream> made;
    {
        cuota::device_scope const there{other};
        made.emplace();
    }
    cuota::stream const& s = *made;
    counted = 0;
    cuota::launch_kernel(s, {1, 1, 9}, count);
    s.synchronize();
    CHECK(counted == 9);
    CHECK(cuota::device::current().ordinal() == 0);
}
