// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "support/failing_heap.hpp"

using namespace control;

namespace {

// Runs `take` with the n-th host allocation failing, for every n, until it succeeds; `give` frees its result.
template <class Take, class Give>
void with_every_request_failing(Take take, Give give) {
    auto const before = sim::live();
    auto const [free_before, total] = [] {
        std::size_t free = 0, all = 0;
        REQUIRE(cudaMemGetInfo(&free, &all) == cudaSuccess);
        return std::pair{free, all};
    }();
    std::size_t failed = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        void* p = nullptr;
        cudaError_t code = cudaSuccess;
        bool was_refused = false;
        {
            support::failing_heap const heap{allowed};
            code = take(&p);
            was_refused = heap.refused() != 0;
        }
        (void)cudaGetLastError();
        INFO(allowed << " requests succeed");
        if (code == cudaSuccess) {
            REQUIRE(p);
            REQUIRE(give(p) == cudaSuccess);
            REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
            if (!was_refused) break;
            continue;
        }
        ++failed;
        REQUIRE(code == cudaErrorMemoryAllocation);
        auto const now = sim::live();
        REQUIRE(now.device_bytes == before.device_bytes);
        REQUIRE(now.pinned_bytes == before.pinned_bytes);
        REQUIRE(now.managed_bytes == before.managed_bytes);
        std::size_t free = 0, all = 0;
        REQUIRE(cudaMemGetInfo(&free, &all) == cudaSuccess);
        REQUIRE(free == free_before);
    }
    CHECK(failed != 0);
}

}  // namespace

// AddressSanitizer reports memory that is not freed.
TEST_CASE("memory that cannot be recorded for lack of host memory is freed", "[simulator][memory]") {
    SECTION("cudaMalloc") {
        for (int i = 0; i != 40; ++i)  // until a list of freed blocks must grow
            with_every_request_failing([](void** p) { return cudaMalloc(p, 5000); },
                                       [](void* p) { return cudaFree(p); });
    }
    SECTION("cudaMallocHost") {
        with_every_request_failing([](void** p) { return cudaMallocHost(p, 5000); },
                                   [](void* p) { return cudaFreeHost(p); });
    }
    SECTION("cudaMallocManaged") {
        with_every_request_failing([](void** p) { return cudaMallocManaged(p, 5000); },
                                   [](void* p) { return cudaFree(p); });
    }
}

TEST_CASE("work that waits for other work is not lost when host memory is exhausted",
          "[simulator][schedule]") {
    machine const on;
    sim::set_schedule(GENERATE(sim::schedule::workers, sim::schedule::late), 3);
    for (std::size_t allowed = 0; allowed != 12; ++allowed) {
        INFO(allowed << " requests succeed");
        cudaStream_t first = nullptr;
        REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == cudaSuccess);
        cudaStream_t others[20] = {};
        cudaEvent_t done = nullptr;
        REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
        int ran = 0;  // each waits for the previous one
        auto const add = [](void* to) { ++*static_cast<int*>(to); };
        {
            sim::hold const still;
            REQUIRE(cudaLaunchHostFunc(first, add, &ran) == cudaSuccess);
            REQUIRE(cudaEventRecord(done, first) == cudaSuccess);
            for (cudaStream_t& s : others) {
                REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
                REQUIRE(cudaStreamWaitEvent(s, done, 0) == cudaSuccess);
            }
        }
        {
            support::failing_heap const heap{allowed};
            (void)cudaStreamSynchronize(first);
            (void)cudaEventRecord(done, first);
            (void)cudaStreamWaitEvent(others[0], done, 0);
        }
        (void)cudaGetLastError();
        for (cudaStream_t const s : others) {
            REQUIRE(cudaLaunchHostFunc(s, add, &ran) == cudaSuccess);
            REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
            REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
        }
        CHECK(ran == 21);
        REQUIRE(cudaEventDestroy(done) == cudaSuccess);
        REQUIRE(cudaStreamDestroy(first) == cudaSuccess);
    }
}
