// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/virtual_memory.hpp"
#include "support/last_error.hpp"

// Misuse of the driver's memsets; conformance_memsets.cpp tests correct use.

using namespace control;
using conformance::entry_point;

namespace {

struct memset_bench {
    machine m{};
    cudaStream_t const a = new_stream(cudaStreamNonBlocking);
    cudaStream_t const b = new_stream(cudaStreamNonBlocking);
    std::byte* const memory = reinterpret_cast<std::byte*>(device_memory(1000));
    decltype(cuMemsetD16Async)* const of_16 = entry_point<decltype(cuMemsetD16Async)>("cuMemsetD16Async");
    decltype(cuMemsetD32Async)* const of_32 = entry_point<decltype(cuMemsetD32Async)>("cuMemsetD32Async");

    ~memset_bench() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaStreamDestroy(a) == cudaSuccess);
        CHECK(cudaStreamDestroy(b) == cudaSuccess);
        CHECK(cudaFree(memory) == cudaSuccess);
    }
    [[nodiscard]] CUdeviceptr at(std::size_t byte = 0) const {
        return reinterpret_cast<CUdeviceptr>(memory) + byte;
    }
};

}  // namespace

TEST_CASE("a memset of the driver that is too long for its memory is refused and named",
          "[simulator][memsets]") {
    memset_bench const w;
    CHECK(w.of_32(w.at(), 1, 250, w.a) == CUDA_SUCCESS);
    CHECK(w.of_32(w.at(), 1, 251, w.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(w.of_16(w.at(2), 1, 500, w.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(w.of_16(w.at(2), 1, SIZE_MAX, w.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(sim::misuse().bad_ranges == 2);
    auto const reports = sim::misuse_reports();
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].find("cuMemsetD16Async") != std::string::npos);
    CHECK(reports[1].find("requests 1000 bytes from byte 2 of") != std::string::npos);
    CHECK(support::last_error() == cudaSuccess);  // the driver sets none
}

TEST_CASE("the race check includes memsets of the driver", "[simulator][memsets]") {
    memset_bench const w;
    sim::set_race_checks(sim::race_checks::report);
    CHECK(w.of_32(w.at(), 1, 250, w.a) == CUDA_SUCCESS);
    CHECK(w.of_16(w.at(998), 2, 1, w.b) == CUDA_SUCCESS);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(sim::misuse().races == 1);
}

TEST_CASE("a memset of the driver is counted and can be made to fail", "[simulator][memsets]") {
    memset_bench const w;
    sim::fail_call("cuMemsetD32Async", 1, cudaErrorInvalidValue);
    CHECK(w.of_32(w.at(), 1, 250, w.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(w.of_32(w.at(), 1, 250, w.a) == CUDA_SUCCESS);
    CHECK(sim::calls("cuMemsetD32Async") == 2);
}

TEST_CASE("words are set across pages that are not adjacent", "[simulator][memsets]") {
    memset_bench const w;
    conformance::driver const d;
    auto const page = d.granularity();
    conformance::range const r{d, 2 * page};
    conformance::memory const second{d, page}, first{d, page};
    conformance::mapped const here{d, r.start, first}, there{d, r.start + page, second};
    d.open(r.start, 2 * page);
    CHECK(w.of_32(r.start + page - 4, 0x01020304, 2, w.a) == CUDA_SUCCESS);
    std::uint8_t got[8]{};
    CHECK(cudaMemcpyAsync(got, conformance::pointer(r.start + page - 4), 8, cudaMemcpyDeviceToHost, w.a) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(w.a) == cudaSuccess);
    for (int i = 0; i != 8; ++i) CHECK(got[i] == 4 - i % 4);
}
