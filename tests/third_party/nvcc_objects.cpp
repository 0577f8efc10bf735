// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/simulator/host_kernel.hpp>

#include <cstring>
#include <stdexcept>
#include <string>

#include "third_party/their_machine.hpp"

// kernels.cu and kernels_per_thread.cu are compiled by nvcc and launch with <<<>>>; this file defines what their kernels do on a host.

using namespace control;

namespace kernels {

struct line {
    double slope;
    char sign;
    float offset;
};

void scale(float* x, float by, unsigned n);
void apply(line f, float const* x, float* y, unsigned n);
void nothing();
void add(int* x, int value);
void const* address_of_fill();
cudaError_t call_scale(float* x, float by, unsigned n, cudaStream_t s);
cudaError_t call_apply(line f, float const* x, float* y, unsigned n, cudaStream_t s);
cudaError_t call_apply_by_configuration(line f, float const* x, float* y, unsigned n, cudaStream_t s);
cudaError_t call_fill(int* x, int value, unsigned n, cudaStream_t s);
cudaError_t call_nothing();
cudaError_t call_nothing_with_too_many_threads();
cudaError_t call_add(int* x, int value);
cudaError_t call_add_by_configuration(int* x, int value);

}  // namespace kernels

namespace {

constexpr unsigned count = 1000;

void scale_on_host(sim::launch_shape const& shape, float* x, float by, unsigned n) {
    if (shape.threads() < n) throw std::logic_error{"too few threads"};
    for (unsigned i = 0; i < n; ++i) x[i] *= by;
}

void apply_on_host(sim::launch_shape const&, kernels::line f, float const* x, float* y, unsigned n) {
    for (unsigned i = 0; i < n; ++i)
        y[i] = (f.sign == '-' ? -1.f : 1.f) * (static_cast<float>(f.slope) * x[i] + f.offset);
}

template <class T>
std::vector<T> seen(T const* device, cudaStream_t s) {
    std::vector<T> host(count);
    REQUIRE(cudaMemcpyAsync(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost, s) ==
            cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    return host;
}

}  // namespace

TEST_CASE("kernels of nvcc run their host bodies in stream order", "[third_party][nvcc]") {
    their_machine m;
    sim::run_on_host(kernels::scale, scale_on_host);
    sim::run_on_host(kernels::apply, apply_on_host);
    bool const configured = GENERATE(false, true);
    auto const call_apply = configured ? kernels::call_apply_by_configuration : kernels::call_apply;
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const x = static_cast<float*>(device_memory(count * sizeof(float)));
    auto* const y = static_cast<float*>(device_memory(count * sizeof(float)));
    std::vector<float> const ones(count, 1.f);
    {
        gate closed{s};
        REQUIRE(cudaMemcpyAsync(x, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice, s) ==
                cudaSuccess);
        REQUIRE(kernels::call_scale(x, 3.f, count, s) == cudaSuccess);
        REQUIRE(kernels::call_scale(x, 5.f, count, s) == cudaSuccess);
        REQUIRE(call_apply({2., '-', 7.f}, x, y, count, s) == cudaSuccess);
        CHECK_FALSE(closed.passed());
    }
    CHECK(seen(x, s) == std::vector<float>(count, 15.f));
    CHECK(seen(y, s) == std::vector<float>(count, -37.f));
    CHECK(sim::calls("cudaLaunchKernel") == (configured ? 2 : 3));
    CHECK(sim::calls("cudaLaunchKernelExC") == (configured ? 1 : 0));
    for (void* const p : {x, y}) CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a kernel that is visible only in its object file has its host body by its address",
          "[third_party][nvcc]") {
    their_machine m;
    sim::launch_shape got;
    sim::run_on_host(kernels::address_of_fill(),
                     {{{sizeof(int*), alignof(int*)}, {sizeof(int), alignof(int)}, {sizeof(unsigned), 4}},
                      [&got](sim::launch_shape const& shape, void** arguments) {
                          got = shape;
                          auto* const x = *static_cast<int**>(arguments[0]);
                          std::fill_n(x, *static_cast<unsigned*>(arguments[2]),
                                      *static_cast<int*>(arguments[1]));
                      }});
    auto* const x = static_cast<int*>(device_memory(count * sizeof(int)));
    REQUIRE(kernels::call_fill(x, 42, count, nullptr) == cudaSuccess);
    CHECK(seen(x, nullptr) == std::vector<int>(count, 42));
    CHECK(got.grid.x == 4);
    CHECK(got.block.x == 32);
    CHECK(got.block.y == 8);
    CHECK(got.shared_bytes == 64);
    CHECK(got.threads() == 1024);
    CHECK(cudaFree(x) == cudaSuccess);
    sim::run_on_host(kernels::address_of_fill(), {});
}

TEST_CASE("a kernel of nvcc without a host body is refused by its name", "[third_party][nvcc]") {
    their_machine m;
    CHECK(kernels::call_nothing() == cudaErrorInvalidDeviceFunction);
    CHECK(kernels::call_nothing() == cudaErrorInvalidDeviceFunction);
    CHECK(sim::misuse().device_kernels == 2);
    CHECK(sim::report().find("kernels::nothing()") != std::string::npos);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("an exception of a host body is the kernel's failure", "[third_party][nvcc]") {
    their_machine m;
    sim::run_on_host(kernels::nothing, [](sim::launch_shape const&) { throw std::runtime_error{"no"}; });
    CHECK(kernels::call_nothing_with_too_many_threads() == cudaErrorInvalidConfiguration);
    {
        gate closed{nullptr};  // otherwise the launch itself might return the failure
        REQUIRE(kernels::call_nothing() == cudaSuccess);
    }
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    std::string const fault = cuota_simulator_fault();  // the call site is in the middle
    INFO(fault);
    CHECK(fault.starts_with("kernel kernels::nothing() at "));
    CHECK(fault.ends_with(" threw: no"));
    sim::run_on_host(reinterpret_cast<void const*>(kernels::nothing), {});
}

TEST_CASE("an object for per-thread default streams launches on the thread's own default stream",
          "[third_party][nvcc]") {
    their_machine m;
    sim::run_on_host(kernels::add, [](sim::launch_shape const&, int* x, int value) { *x += value; });
    bool const configured = GENERATE(false, true);
    auto const call = configured ? kernels::call_add_by_configuration : kernels::call_add;
    auto* const x = static_cast<int*>(device_memory(sizeof(int)));
    REQUIRE(cudaMemset(x, 0, sizeof(int)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    gate closed{cudaStreamPerThread};
    REQUIRE(call(x, 1) == cudaSuccess);  // waits behind the gate
    auto const on_another_thread = [&] {
        bool const launched = call(x, 10) == cudaSuccess;
        return launched && cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess;
    };
    CHECK(std::async(std::launch::async, on_another_thread).get());
    CHECK_FALSE(closed.passed());
    CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
    closed.open();
    int sum = 0;
    REQUIRE(cudaMemcpy(&sum, x, sizeof sum, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(sum == 11);
    CHECK(cudaFree(x) == cudaSuccess);
}
