// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/call.hpp>

#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

TEST_CASE("check throws the code, the name and the call site of a failed call, and clears the error",
          "[runtime][call]") {
    support::machine const sim;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorNotPermitted);
    void* p = nullptr;
    cudaError_t const code = cudaMalloc(&p, 16);

    auto const error = support::thrown<cuota::cuda_error>([&] {
        cuota::rt::check(code, "cudaMalloc", {"train.cpp", 17});
    });

    REQUIRE(error.code() == cudaErrorNotPermitted);
    REQUIRE(std::string{error.what()} ==
            "cuota::cuda_error: cudaMalloc failed with cudaErrorNotPermitted: operation "
            "not permitted (train.cpp:17)");
    REQUIRE(support::last_error() == cudaSuccess);
}

TEST_CASE("check does nothing if the call succeeded", "[runtime][call]") {
    support::machine const sim;
    REQUIRE_NOTHROW(cuota::rt::check(cudaSuccess, "cudaMalloc"));
    REQUIRE(cuota::simulator::calls() == 0);
}

TEST_CASE("give_back reports a failure and retries once", "[runtime][call]") {
    support::machine sim;
    int calls = 0;
    auto const failing = [&calls](int times) {
        return [&calls, times] { return ++calls <= times ? cudaErrorUnknown : cudaSuccess; };
    };

    REQUIRE(cuota::rt::give_back("cudaFree", failing(0)));
    REQUIRE(calls == 1);
    REQUIRE(sim.errors.count() == 0);

    calls = 0;
    REQUIRE(cuota::rt::give_back("cudaFree", failing(1)));
    REQUIRE(calls == 2);
    REQUIRE(
        sim.errors.take() ==
        std::vector<std::string>{"cuota::cuda_error: cudaFree failed with cudaErrorUnknown: unknown error"});

    calls = 0;
    REQUIRE(!cuota::rt::give_back("cudaFree", failing(9)));
    REQUIRE(calls == 2);
    REQUIRE(sim.errors.take().size() == 1);
}

TEST_CASE("give_back does not retry on a device that was lost", "[runtime][call]") {
    support::machine sim;
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
    cuota::simulator::lose_device(0);
    int calls = 0;
    REQUIRE(!cuota::rt::give_back("cudaFree", [&] { return ++calls, cudaFree(p); }));
    REQUIRE(calls == 1);
    REQUIRE(sim.errors.take().size() == 1);
    REQUIRE(cuota::simulator::misuse().double_frees == 0);
    cuota::simulator::reset();
    (void)cudaGetLastError();
}

TEST_CASE("give_back retries once even if an unrelated error is pending", "[runtime][call]") {
    support::machine const sim;
    auto before = cuota::set_error_sink([](std::exception const&) { (void)cudaSetDevice(-1); });
    int calls = 0;
    CHECK(cuota::rt::give_back("cudaFree", [&] { return ++calls == 1 ? cudaErrorUnknown : cudaSuccess; }));
    CHECK(calls == 2);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);  // the error of the sink
    cuota::set_error_sink(std::move(before));
}

TEST_CASE("give_back reports nothing when CUDA is unloading", "[runtime][call]") {
    support::machine sim;
    int calls = 0;
    REQUIRE(!cuota::rt::give_back("cudaFree", [&] { return ++calls, cudaErrorCudartUnloading; }));
    REQUIRE(calls == 1);
    REQUIRE(sim.errors.count() == 0);
}

TEST_CASE("the end of a client by the MPS server has a type of its own", "[runtime][call]") {
    support::machine sim;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorMpsClientTerminated);
    void* p = nullptr;
    cudaError_t const code = cudaMalloc(&p, 16);
    auto const error = support::thrown<cuota::mps_terminated_error>([&] {
        cuota::rt::check(code, "cudaMalloc", {"train.cpp", 17});
    });
    REQUIRE(error.code() == cudaErrorMpsClientTerminated);
    REQUIRE(error.call() == "cudaMalloc");
    REQUIRE(error.where().line == 17);

    int calls = 0;
    REQUIRE(!cuota::rt::give_back("cudaFree", [&] { return ++calls, cudaErrorMpsClientTerminated; }));
    REQUIRE(calls == 1);  // repeating is useless
    REQUIRE(sim.errors.take().size() == 1);
}
