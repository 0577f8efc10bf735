// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/process.hpp"

#include <cuota/simulator/host_kernel.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace control;

extern "C" {
void __cudaRegisterFunction(void** image, const char* address, char* device_address, const char* name,
                            int threads, uint3*, uint3*, dim3*, dim3*, int*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void** arguments, size_t shared_bytes, cudaStream_t);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void** arguments, size_t shared_bytes,
                                    cudaStream_t);
cudaError_t cudaLaunchKernel_ptsz(const void*, dim3, dim3, void** arguments, size_t shared_bytes,
                                  cudaStream_t);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void*, void** arguments);
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void*, dim3, dim3, void** arguments, size_t shared_bytes,
                                             cudaStream_t);
}

namespace {

// Stand for nvcc's host stubs of kernels. Never called: only the address matters.
void add(int*, int) { std::abort(); }
void empty() { std::abort(); }
struct alignas(64) wide {
    int numbers[16];
};
void sum(char, wide, int*) { std::abort(); }

void const* address(auto* kernel) { return reinterpret_cast<void const*>(kernel); }

/// Bodies for the kernels above, for one test.
struct bodies {
    bodies() {
        sim::run_on_host(add, [](sim::launch_shape const&, int* x, int value) { *x += value; });
        sim::run_on_host(sum, [](sim::launch_shape const&, char first, wide const& w, int* out) {
            *out = first;
            for (int const n : w.numbers) *out += n;
            if (reinterpret_cast<std::uintptr_t>(&w) % alignof(wide) != 0) *out = -1;
        });
    }
    ~bodies() {
        for (auto const kernel : {address(add), address(sum), address(empty)}) sim::run_on_host(kernel, {});
    }
};

struct number {
    int* there = static_cast<int*>(device_memory(sizeof(int)));

    number() { REQUIRE(cudaMemset(there, 0, sizeof(int)) == cudaSuccess); }
    ~number() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(there) == cudaSuccess);
    }

    [[nodiscard]] int value() const {
        int seen = -1;
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        REQUIRE(cudaMemcpy(&seen, there, sizeof seen, cudaMemcpyDeviceToHost) == cudaSuccess);
        return seen;
    }

    cudaError_t launch_add(int by, dim3 grid = 1, dim3 block = 1, std::size_t shared_bytes = 0,
                           cudaStream_t s = nullptr) {
        void* arguments[] = {&there, &by};
        return cudaLaunchKernel(address(add), grid, block, arguments, shared_bytes, s);
    }
};

}  // namespace

TEST_CASE("every way to launch a kernel runs its host body", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    int by = 1;
    void* arguments[] = {&n.there, &by};
    auto const kernel = static_cast<cudaKernel_t>(const_cast<void*>(address(add)));
    cudaLaunchConfig_t plain{};
    plain.gridDim = plain.blockDim = 1;
    CHECK(cudaLaunchKernel(address(add), 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(cudaLaunchKernel_ptsz(address(add), 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(n.value() == 2);
    by = 10;
    CHECK(__cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(__cudaLaunchKernel_ptsz(kernel, 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(n.value() == 22);
    by = 100;
    CHECK(cudaLaunchKernelExC(&plain, address(add), arguments) == cudaSuccess);
    CHECK(cudaLaunchKernelExC_ptsz(&plain, address(add), arguments) == cudaSuccess);
    CHECK(n.value() == 222);
    by = 1000;
    CHECK(cudaLaunchCooperativeKernel(address(add), 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(cudaLaunchCooperativeKernel_ptsz(address(add), 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(n.value() == 2222);
    CHECK(sim::calls("cudaLaunchKernel") == 4);
    CHECK(sim::calls("cudaLaunchKernelExC") == 2);
    CHECK(sim::calls("cudaLaunchCooperativeKernel") == 2);
    CHECK(sim::misuse().total() == 0);
}

TEST_CASE("a launch copies its arguments immediately", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    gate closed{nullptr};
    for (int i = 1; i <= 3; ++i) REQUIRE(n.launch_add(i) == cudaSuccess);  // from a dead variable
    closed.open();
    CHECK(n.value() == 6);
}

TEST_CASE("arguments keep their alignment", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    char first = 4;
    wide w{};
    w.numbers[0] = 30;
    w.numbers[15] = 8;
    void* arguments[] = {&first, &w, &n.there};
    REQUIRE(cudaLaunchKernel(address(sum), 1, 1, arguments, 0, nullptr) == cudaSuccess);
    CHECK(n.value() == 42);
}

TEST_CASE("a body receives the shape of its launch", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    std::vector<sim::launch_shape> seen;
    sim::run_on_host(empty, [&seen](sim::launch_shape const& shape) { seen.push_back(shape); });
    REQUIRE(cudaLaunchKernel(address(empty), {2, 3, 4}, {5, 6, 7}, nullptr, 1000, nullptr) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].grid.z == 4);
    CHECK(seen[0].block.y == 6);
    CHECK(seen[0].shared_bytes == 1000);
    CHECK(seen[0].threads() == 24u * 210u);
}

TEST_CASE("a launch beyond the limits of every device is refused", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    auto const impossible = cudaErrorInvalidConfiguration;
    CHECK(n.launch_add(1, dim3{0}) == impossible);
    CHECK(n.launch_add(1, dim3{1, 70'000}) == impossible);
    CHECK(n.launch_add(1, 1, dim3{1, 0, 1}) == impossible);
    CHECK(n.launch_add(1, 1, dim3{1025}) == impossible);
    CHECK(n.launch_add(1, 1, dim3{64, 32}) == impossible);
    CHECK(n.launch_add(1, 1, 1, (48 << 10) + 1) == cudaErrorInvalidValue);
    CHECK(sim::misuse().bad_launches == 6);
    CHECK(sim::misuse_reports().back().find(
              "with 1 x 1 x 1 blocks of 1 x 1 x 1 threads and 49153 bytes of dynamic "
              "shared memory") != std::string::npos);
    CHECK(cudaLaunchKernel(address(add), 1, 1, nullptr, 0, nullptr) == cudaErrorInvalidValue);
    auto const gone = new_stream();
    REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
    CHECK(n.launch_add(1, 1, 1, 0, gone) == cudaErrorInvalidResourceHandle);
    sim::fail_call("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    CHECK(n.launch_add(1) == cudaErrorLaunchOutOfResources);
    CHECK(n.value() == 0);
    (void)cudaGetLastError();
}

TEST_CASE("a launch accepts attributes without effect here and refuses all others", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    int by = 5;
    void* arguments[] = {&n.there, &by};
    cudaLaunchAttribute attribute{};
    cudaLaunchConfig_t c{};
    c.gridDim = c.blockDim = 1;
    c.numAttrs = 1;
    CHECK(cudaLaunchKernelExC(&c, address(add), arguments) == cudaErrorInvalidValue);
    CHECK(cudaLaunchKernelExC(nullptr, address(add), arguments) == cudaErrorInvalidValue);
    c.attrs = &attribute;
    attribute.id = cudaLaunchAttributeCooperative;
    CHECK(cudaLaunchKernelExC(&c, address(add), arguments) == cudaSuccess);
    attribute.id = cudaLaunchAttributeLaunchCompletionEvent;  // would have to be recorded
    CHECK(cudaLaunchKernelExC(&c, address(add), arguments) == cudaErrorNotSupported);
    CHECK(n.value() == 5);
    (void)cudaGetLastError();
}

TEST_CASE("a kernel without a host body is reported on standard error once", "[simulator][kernels]") {
    constexpr char const* name = "a kernel without a host body is reported on standard error once";
    if (std::getenv("CUOTA_PLANTED")) {
        bodies const registered;
        number n;
        sim::run_on_host(address(add), {});
        for (int i = 0; i != 3; ++i) CHECK(n.launch_add(1) == cudaErrorInvalidDeviceFunction);
        for (int i = 0; i != 3; ++i)
            CHECK(cudaLaunchKernel(address(empty), 1, 1, nullptr, 0, nullptr) ==
                  cudaErrorInvalidDeviceFunction);
        return;
    }
    auto const times = [](std::string const& text, std::string const& what) {
        int n = 0;
        for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
        return n;
    };
    auto const told = run_again("CUOTA_PLANTED=1", name);  // as text, with the location of the first call
    INFO(told.text);
    CHECK(told.status == 0);
    CHECK(times(told.text, "cuota simulator: cudaLaunchKernel at control_host_kernels.cpp:") == 2);
    CHECK(times(told.text, " launches an unnamed kernel, which has no body for the host, so nothing ran: "
                           "register one with run_on_host, or link CUDA's runtime\n") == 2);
    auto const fatal = run_again("CUOTA_SIM_MISUSE=fatal CUOTA_PLANTED=1", name);
    INFO(fatal.text);
    CHECK(fatal.status != 0);
    CHECK(times(fatal.text, "so nothing ran") == 1);
}

TEST_CASE("a body can be removed, and pending launches keep theirs", "[simulator][kernels]") {
    machine m;
    bodies const registered;
    number n;
    char name[] = "_ZN7kernels3addEPii";
    __cudaRegisterFunction(nullptr, static_cast<char const*>(address(add)), name, name, -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    {
        gate closed{nullptr};
        REQUIRE(n.launch_add(7) == cudaSuccess);
        sim::run_on_host(address(add), {});
        CHECK(n.launch_add(1) == cudaErrorInvalidDeviceFunction);
        CHECK(n.launch_add(1) == cudaErrorInvalidDeviceFunction);
    }
    CHECK(n.value() == 7);
    CHECK(sim::misuse().device_kernels == 2);
    auto const lines = sim::misuse_reports();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].find("cudaLaunchKernel at control_host_kernels.cpp:") == 0);
    CHECK(lines[0].find(" launches kernels::add(int*, int), which has no body for the host") !=
          std::string::npos);
    sim::reset();
    CHECK(sim::misuse_reports().empty());
    (void)cudaGetLastError();
}
