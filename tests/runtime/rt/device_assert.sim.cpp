// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/device_assert.hpp>

#include <memory>
#include <string>

#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

namespace rt = cuota::rt;
using cuota::detail::out_of_bounds;
using support::has;

namespace {

struct noted {
    noted() {
        rt::record_device_assert(rt::first_device_assert(), {out_of_bounds::part::element, {12}, {10}},
                                 "floats", "weights", {"train.cpp", 41});
    }
    ~noted() { rt::first_device_assert() = {}; }
};

std::string error_after(cudaError_t code) {
    return support::thrown<cuota::cuda_error>([&] { rt::check(code, "cudaStreamSynchronize"); }).what();
}

}  // namespace

TEST_CASE("the error of a call that fails because a kernel stopped itself has the reason",
          "[runtime][device_assert_record]") {
    support::machine const machine;
    noted const what;
    for (cudaError_t const code : {cudaErrorLaunchFailure, cudaErrorIllegalInstruction, cudaErrorAssert})
        CHECK(has(error_after(code),
                  "; a kernel stopped itself: cuota::usage_error: index 12 is outside a device_span "
                  "of 10 floats: weights, leased at train.cpp:41"));
}

TEST_CASE("an error with another cause, or without a record, does not mention a stopped kernel",
          "[runtime][device_assert_record]") {
    support::machine const machine;
    CHECK_FALSE(has(error_after(cudaErrorLaunchFailure), "kernel stopped"));
    noted const what;
    CHECK_FALSE(has(error_after(cudaErrorInvalidValue), "kernel stopped"));
    CHECK_FALSE(has(error_after(cudaErrorIllegalAddress), "kernel stopped"));
}

TEST_CASE("an error that is reported and not thrown has the reason why a kernel stopped",
          "[runtime][device_assert_record]") {
    support::machine machine;
    noted const what;
    CHECK_FALSE(rt::give_back("cudaFree", [] { return cudaErrorLaunchFailure; }));
    auto const texts = machine.errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0], "weights, leased at train.cpp:41"));
}

TEST_CASE("kernels of the simulator throw and need no record", "[runtime][device_assert_record]") {
    support::machine const machine;
    CHECK(rt::device_assert_buffer() == nullptr);
    CHECK(cuota::simulator::calls() == 0);
}

TEST_CASE("a record that is opened to kernels is page-locked, and its device address is its own",
          "[runtime][device_assert_record]") {
    support::machine const machine;
    auto const record = std::make_unique<rt::device_assert_record>();

    CHECK(rt::detail::open_to_kernels(*record) == record.get());

    cudaPointerAttributes at{};
    CHECK(cudaPointerGetAttributes(&at, record.get()) == cudaSuccess);
    CHECK(at.type == cudaMemoryTypeHost);
    CHECK(at.devicePointer == record.get());
    CHECK(cudaHostUnregister(record.get()) == cudaSuccess);
}

TEST_CASE("opening a record leaves another thread's capture intact", "[runtime][device_assert_record]") {
    support::machine const machine;
    auto const record = std::make_unique<rt::device_assert_record>();
    cuota::stream const s;
    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);

    CHECK(rt::detail::open_to_kernels(*record) == record.get());

    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == cudaStreamCaptureModeGlobal);  // as before
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaHostUnregister(record.get()) == cudaSuccess);
}

TEST_CASE("a record that CUDA cannot map is not used and is unregistered",
          "[runtime][device_assert_record]") {
    support::machine machine;
    auto const record = std::make_unique<rt::device_assert_record>();
    auto const failures = support::survives_every_failure(machine, [&] {
        if (rt::detail::open_to_kernels(*record))
            rt::give_back("cudaHostUnregister", [&] { return cudaHostUnregister(record.get()); });
    });
    CHECK(failures.thrown == 0);

    for (char const* const call : {"cudaHostRegister", "cudaHostGetDevicePointer"}) {
        cuota::simulator::fail_call(call, 1, cudaErrorNotSupported);
        CHECK(rt::detail::open_to_kernels(*record) == nullptr);
        cudaPointerAttributes at{};
        CHECK(cudaPointerGetAttributes(&at, record.get()) == cudaSuccess);
        CHECK(at.type == cudaMemoryTypeUnregistered);
    }
    CHECK(rt::detail::open_to_kernels(*record) == record.get());
    CHECK(cudaHostUnregister(record.get()) == cudaSuccess);
}
