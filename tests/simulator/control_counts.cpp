// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <stdexcept>
#include <string>

#include <malloc.h>

#include "support/failing_heap.hpp"
#include "support/rounds.hpp"

using namespace control;

TEST_CASE("allocations, streams, events and pools are counted until they are freed or destroyed",
          "[simulator][counts]") {
    machine m;
    auto const s = new_stream();
    auto const e = new_event();
    auto* const d = device_memory(1000);
    auto* const pinned = pinned_memory(1000);
    void *managed = nullptr, *pooled = nullptr;
    REQUIRE(cudaMallocManaged(&managed, 10, cudaMemAttachGlobal) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&pooled, 100, s) == cudaSuccess);

    auto const live = sim::live();
    CHECK(live.device_allocations == 2);
    CHECK(live.device_bytes == 1024 + 512);
    CHECK(live.pinned_allocations == 1);
    CHECK(live.pinned_bytes == 1000);
    CHECK(live.managed_allocations == 1);
    CHECK(live.managed_bytes == 10);
    CHECK(live.streams == 1);
    CHECK(live.events == 1);
    CHECK(live.pools == 0);
    CHECK(live.total() == 6);

    auto const leaks = sim::leaks();
    REQUIRE(leaks.size() == 6);
    CHECK(leaks[0].find("device memory, 1000 bytes") != std::string::npos);
    CHECK(leaks[1].find("pinned memory, 1000 bytes") != std::string::npos);
    CHECK(leaks[3].find("from cudaMallocAsync") != std::string::npos);
    CHECK(leaks[4].find("from cudaStreamCreateWithFlags") != std::string::npos);
    CHECK(leaks[5].find("from cudaEventCreateWithFlags") != std::string::npos);

    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFree(managed) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaFreeAsync(pooled, s) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(sim::live().total() == 0);
    CHECK(sim::leaks().empty());
}

TEST_CASE("free memory that a pool keeps counts as used, but not as live", "[simulator][counts]") {
    machine m;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    std::uint64_t threshold = UINT64_MAX;
    REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
    auto const before = free_bytes();
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 100 * KiB, nullptr) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, nullptr) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(sim::live().total() == 0);
    CHECK(free_bytes() == before - 100 * KiB);
    REQUIRE(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
    CHECK(free_bytes() == before);
}

TEST_CASE("peaks are the maximum in use at one time", "[simulator][counts]") {
    machine m;
    auto* const a = device_memory(1);
    CHECK(cudaFree(device_memory(10 * KiB)) == cudaSuccess);
    CHECK(cudaFreeHost(pinned_memory(77)) == cudaSuccess);
    CHECK(sim::peak_device_bytes() == 512 + 10 * KiB);
    CHECK(sim::peak_pinned_bytes() == 77);
    sim::reset_peaks();
    CHECK(sim::peak_device_bytes() == 512);
    CHECK(sim::peak_pinned_bytes() == 0);
    CHECK(cudaFree(a) == cudaSuccess);
    CHECK_THROWS_AS(sim::peak_device_bytes(1), std::invalid_argument);
}

TEST_CASE("calls are counted by function, including refused ones", "[simulator][counts]") {
    machine m;
    void* p = nullptr;
    sim::fail_call("cudaMalloc", 1);
    (void)cudaMalloc(&p, 16);
    REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
    auto* const pinned = pinned_memory(16);
    CHECK(sim::calls("cudaMalloc") == 2);
    CHECK(sim::calls("cudaFree") == 0);
    CHECK(sim::calls() == 3);
    CHECK(sim::allocation_calls() == 3);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(sim::calls() == 5);
    CHECK(sim::allocation_calls() == 3);
}

TEST_CASE("misuse is refused and counted by kind", "[simulator][counts]") {
    machine m;
    auto* const d = device_memory(100);
    int local = 0;
    auto const stale_stream = new_stream();
    auto const stale_event = new_event();
    REQUIRE(cudaStreamDestroy(stale_stream) == cudaSuccess);
    REQUIRE(cudaEventDestroy(stale_event) == cudaSuccess);

    CHECK(cudaFree(&local) == cudaErrorInvalidValue);
    CHECK(cudaMemset(d, 0, 101) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(&local, d, 4, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFree(d) == cudaErrorInvalidValue);
    CHECK(sim::misuse().foreign_frees == 1);
    CHECK(sim::misuse().bad_ranges == 1);
    CHECK(sim::misuse().bad_directions == 1);
    CHECK(sim::misuse().double_frees == 1);

    auto const handle = cudaErrorInvalidResourceHandle;
    CHECK(cudaStreamSynchronize(stale_stream) == handle);
    CHECK(cudaStreamQuery(stale_stream) == handle);
    CHECK(cudaStreamDestroy(stale_stream) == handle);
    CHECK(cudaMemsetAsync(d, 0, 1, stale_stream) == handle);
    CHECK(cudaEventRecord(stale_event, nullptr) == handle);
    CHECK(cudaEventQuery(stale_event) == handle);
    CHECK(cudaEventDestroy(stale_event) == handle);
    CHECK(cudaStreamWaitEvent(nullptr, stale_event, 0) == handle);
    CHECK(sim::misuse().bad_handles == 8);
    CHECK(sim::misuse().total() == 12);
    sim::reset();
    CHECK(sim::misuse().total() == 0);
}

TEST_CASE("the handle of a destroyed stream or event is never used again", "[simulator][counts]") {
    machine m;
    auto const stream = new_stream();
    auto const event = new_event();
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
    REQUIRE(cudaEventDestroy(event) == cudaSuccess);
    for (int i = 0; i < 1000; ++i) {
        auto const s = new_stream();
        auto const e = new_event();
        REQUIRE(s != stream);
        REQUIRE(e != event);
        REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
        REQUIRE(cudaEventDestroy(e) == cudaSuccess);
    }
}

TEST_CASE("the report shows live objects, calls and misuse", "[simulator][counts]") {
    machine m;
    auto* const d = device_memory(600);
    int local = 0;
    (void)cudaFree(&local);
    auto const text = sim::report();
    INFO(text);
    CHECK(text.find("device 1 (1024 bytes)") != std::string::npos);
    CHECK(text.find("foreign frees 1") != std::string::npos);
    CHECK(text.find("cudaMalloc ") != std::string::npos);
    CHECK(text.find("cudaStreamCreate") == std::string::npos);
    CHECK(cudaFree(d) == cudaSuccess);
}

namespace {

/// Returns the heap bytes in use. Sanitizers have a heap of their own, which is not included.
std::size_t heap_in_use() {
    auto const facts = mallinfo2();
    return facts.uordblks + facts.hblkhd;
}

/// Each stream records its own event, and some wait for an earlier one.
void make_and_destroy(int count) {
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
    for (int i = 0; i < count; ++i) {
        streams.push_back(new_stream(i % 2 == 0 ? cudaStreamDefault : cudaStreamNonBlocking));
        events.push_back(new_event());
    }
    for (int i = 0; i < count; ++i) {
        auto const n = static_cast<std::size_t>(i);
        REQUIRE(cudaEventRecord(events[n], streams[n]) == cudaSuccess);
        if (n % 50 != 0) continue;
        REQUIRE(cudaStreamWaitEvent(streams[(n + 1) % streams.size()], events[n], 0) == cudaSuccess);
    }
    CHECK(sim::live().streams == static_cast<std::size_t>(count));
    CHECK(sim::live().events == static_cast<std::size_t>(count));
    for (auto const e : events) REQUIRE(cudaEventDestroy(e) == cudaSuccess);
    for (auto const s : streams) REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(sim::live().total() == 0);
}

}  // namespace

TEST_CASE("a free frees although the host has no memory, or, in stream order, fails and changes nothing",
          "[simulator][counts]") {
    machine m;
    bool const strict = GENERATE(false, true);
    sim::set_memory_checks(strict ? sim::memory_checks::strict : sim::memory_checks::heap);
    enum kind { device, managed, pinned, stream_ordered, registered };
    auto const of = GENERATE(device, managed, pinned, stream_ordered, registered);
    // Work that may be unfinished uses the memory, except where a free need not wait for it.
    bool const is_used =
        GENERATE(false, true) && (of == stream_ordered || !sim::current_unkindness().free_at_once);
    cudaStream_t const s = new_stream();
    alignas(4096) static std::byte own[4096];
    auto const allocate = [&] {
        void* p = own;
        REQUIRE((of == device           ? cudaMalloc(&p, 4096)
                 : of == managed        ? cudaMallocManaged(&p, 4096)
                 : of == pinned         ? cudaHostAlloc(&p, 4096, cudaHostAllocDefault)
                 : of == stream_ordered ? cudaMallocAsync(&p, 4096, s)
                                        : cudaHostRegister(p, 4096, cudaHostRegisterDefault)) == cudaSuccess);
        return p;
    };
    auto const free_it = [&](void* p) {
        return of == pinned           ? cudaFreeHost(p)
               : of == stream_ordered ? cudaFreeAsync(p, s)
               : of == registered     ? cudaHostUnregister(p)
                                      : cudaFree(p);
    };
    auto const live = [] { return sim::live().total(); };
    std::size_t const before = live();
    std::size_t failed = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        REQUIRE(allowed < 100);
        void* const p = allocate();
        std::size_t const with_it = live();
        if (is_used) REQUIRE(cudaMemsetAsync(p, 1, 4096, s) == cudaSuccess);
        cudaError_t error = cudaSuccess;
        std::size_t refused = 0;
        {
            support::failing_heap const heap{allowed};
            error = free_it(p);
            refused = heap.refused();
        }
        INFO("kind " << of << ", " << allowed << " allowed, " << refused << " refused");
        if (error != cudaSuccess) {
            ++failed;
            CHECK(error == cudaErrorMemoryAllocation);
            CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
            REQUIRE(live() == with_it);
            cudaPointerAttributes facts{};
            REQUIRE(cudaPointerGetAttributes(&facts, p) == cudaSuccess);
            CHECK(facts.type != cudaMemoryTypeUnregistered);
            REQUIRE(free_it(p) == cudaSuccess);
        }
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        CHECK(live() == before);
        if (refused == 0) break;
    }
    CHECK((failed != 0) == (of == stream_ordered));  // which enqueues work
    CHECK(sim::misuse().total() == 0);
    REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("streams and events leak no host memory", "[simulator][counts]") {
    machine m;
    static int const all = support::rounds(10'000);
    auto const at_once = GENERATE(all < 50 ? 1 : all / 50, all);
    make_and_destroy(at_once);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    auto const before = heap_in_use();
    for (int made = 0; made < all; made += at_once) {
        make_and_destroy(at_once);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    constexpr std::size_t less_than_two_bytes_for_each_of_ten_thousand = 16 * KiB;
    CHECK(heap_in_use() < before + less_than_two_bytes_for_each_of_ten_thousand);
}
