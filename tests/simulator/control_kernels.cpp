// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#include <stdexcept>
#include <string>

using namespace control;

namespace {

/// Counts its destructions, to follow the lifetime of a kernel's body.
struct dropped {
    explicit dropped(int& n) : count{&n} {}
    dropped(dropped&& other) noexcept : count{std::exchange(other.count, nullptr)} {}
    ~dropped() {
        if (count) ++*count;
    }
    dropped(dropped const&) = delete;
    dropped& operator=(dropped const&) = delete;
    dropped& operator=(dropped&&) = delete;
    int* count;
};

/// Makes the device fail: the kernel "bad" throws on it.
void fail(cudaStream_t s) {
    REQUIRE(launch(s, "bad", [] { throw std::runtime_error{"index 7 of 5"}; }) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
}

}  // namespace

TEST_CASE("a kernel runs once, in stream order, and its body is destroyed", "[simulator][kernels]") {
    machine m;
    auto const s = new_stream();
    auto* const d = static_cast<unsigned char*>(device_memory(100));
    int runs = 0, drops = 0;
    REQUIRE(cudaMemsetAsync(d, 1, 100, s) == cudaSuccess);
    auto kernel = [&runs, d, watch = dropped{drops}] {
        ++runs;
        for (int i = 0; i < 100; ++i) d[i] = static_cast<unsigned char>(d[i] + 1);
    };
    REQUIRE(launch(s, "add", std::move(kernel)) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(runs == 1);
    CHECK(drops == 1);
    CHECK(all_are(contents(d, 100), 2));
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a refused launch does not destroy the body", "[simulator][kernels]") {
    machine m;
    static int touched;
    touched = 0;
    auto const touch = [](void*) { ++touched; };
    int body = 0;
    auto const stale = new_stream();
    REQUIRE(cudaStreamDestroy(stale) == cudaSuccess);
    CHECK(cuota_simulator_launch(stale, "k", touch, touch, &body) == cudaErrorInvalidResourceHandle);
    sim::fail_call("cuota_simulator_launch", 1, cudaErrorLaunchOutOfResources);
    CHECK(cuota_simulator_launch(nullptr, "k", touch, touch, &body) == cudaErrorLaunchOutOfResources);
    CHECK(cuota_simulator_launch(nullptr, "k", nullptr, touch, &body) == cudaErrorInvalidDeviceFunction);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(touched == 0);
}

TEST_CASE("only code inside a kernel is recognised as such", "[simulator][kernels]") {
    machine m;
    int in_kernel = -1, in_callback = -1;
    cudaError_t call = cudaSuccess;
    REQUIRE(launch(nullptr, "k", [&] {
                in_kernel = cuota_simulator_in_kernel();
                call = cudaDeviceSynchronize();
            }) == cudaSuccess);
    auto const note = [](void* p) { *static_cast<int*>(p) = cuota_simulator_in_kernel(); };
    REQUIRE(cudaLaunchHostFunc(nullptr, note, &in_callback) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(in_kernel == 1);
    CHECK(in_callback == 0);
    CHECK(cuota_simulator_in_kernel() == 0);
    CHECK(call == cudaErrorNotPermitted);
    CHECK(sim::misuse().calls_in_callbacks == 1);
}

TEST_CASE("an exception in a kernel makes the device fail, with its text", "[simulator][kernels]") {
    machine m;
    auto const s = new_stream();
    CHECK(cuota_simulator_fault() == std::string{});
    fail(s);
    std::string const fault = cuota_simulator_fault();
    CHECK(fault.find("kernel bad at control") == 0);
    CHECK(fault.find(" threw: index 7 of 5") != std::string::npos);
    CHECK(cudaStreamDestroy(s) == cudaErrorLaunchFailure);
    sim::reset();
    CHECK(cuota_simulator_fault() == std::string{});
}

TEST_CASE("a failed device fails every call until the machine is reset", "[simulator][kernels]") {
    machine m;
    auto const s = new_stream();
    auto const e = new_event();
    auto* const d = device_memory(100);
    fail(s);
    void* p = nullptr;
    auto const failure = cudaErrorLaunchFailure;
    CHECK(cudaMalloc(&p, 100) == failure);
    CHECK(cudaMallocAsync(&p, 100, s) == failure);
    CHECK(cudaMemsetAsync(d, 0, 100, s) == failure);
    CHECK(cudaEventRecord(e, s) == failure);
    CHECK(cudaEventQuery(e) == failure);
    CHECK(cudaStreamQuery(s) == failure);
    CHECK(cudaDeviceSynchronize() == failure);
    CHECK(launch(s, "k", [] {}) == failure);
    CHECK(cudaGetLastError() == failure);
    CHECK(cudaGetLastError() == failure);
    CHECK(std::async(std::launch::async, [] { return cudaDeviceSynchronize(); }).get() == failure);

    sim::reset();
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaMemsetAsync(d, 0, 100, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("memory and objects of a failed device are freed although the calls return its error",
          "[simulator][kernels]") {
    machine m;
    auto const s = new_stream();
    auto const e = new_event();
    auto* const d = device_memory(100);
    auto* const pinned = pinned_memory(100);
    void* pooled = nullptr;
    REQUIRE(cudaMallocAsync(&pooled, 100, s) == cudaSuccess);
    fail(s);
    CHECK(cudaFree(d) == cudaErrorLaunchFailure);
    CHECK(cudaFreeHost(pinned) == cudaErrorLaunchFailure);
    CHECK(cudaFreeAsync(pooled, s) == cudaErrorLaunchFailure);
    CHECK(cudaEventDestroy(e) == cudaErrorLaunchFailure);
    CHECK(cudaStreamDestroy(s) == cudaErrorLaunchFailure);
    CHECK(sim::live().total() == 0);
}

TEST_CASE("work behind a failed kernel is discarded, and its bodies are destroyed", "[simulator][kernels]") {
    machine m;
    auto const s = new_stream();
    auto* const pinned = pinned_memory(1);
    *pinned = 1;
    auto* const d = device_memory(1);
    int runs = 0, drops = 0, callbacks = 0;
    {
        sim::hold all;
        REQUIRE(launch(s, "bad", [] { throw 1; }) == cudaSuccess);
        REQUIRE(launch(s, "next", [&runs, watch = dropped{drops}] { ++runs; }) == cudaSuccess);
        REQUIRE(cudaLaunchHostFunc(
                    s, [](void* n) { ++*static_cast<int*>(n); }, &callbacks) == cudaSuccess);
        REQUIRE(cudaMemcpyAsync(pinned, d, 1, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    }
    CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
    CHECK(std::string{cuota_simulator_fault()}.find("threw: something that is not a std::exception") !=
          std::string::npos);
    CHECK(runs == 0);
    CHECK(drops == 1);
    CHECK(callbacks == 0);
    CHECK(*pinned == 1);
    (void)cudaFree(d);
    (void)cudaFreeHost(pinned);
    (void)cudaStreamDestroy(s);
}

TEST_CASE("synchronising a failed device still waits for running work", "[simulator][kernels]") {
    machine m;
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    gate closed{a};
    closed.wait_until_reached();
    fail(b);
    CHECK(returns_after(closed, [] {
        return cudaDeviceSynchronize() == cudaErrorLaunchFailure ? cudaSuccess : cudaErrorUnknown;
    }));
    (void)cudaStreamDestroy(a);
    (void)cudaStreamDestroy(b);
}

TEST_CASE("the failure of one device does not affect the others", "[simulator][kernels]") {
    machine m{{.devices = 2}};
    fail(nullptr);
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cuota_simulator_fault() == std::string{});
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // the thread's error, from before
    CHECK(cudaGetLastError() == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("kernels of two streams can wait for each other", "[simulator][kernels]") {
    machine m;
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    std::promise<void> ping, pong;
    REQUIRE(launch(a, "first", [&] {
                ping.set_value();
                pong.get_future().wait();
            }) == cudaSuccess);
    REQUIRE(launch(b, "second", [&] {
                ping.get_future().wait();
                pong.set_value();
            }) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}
