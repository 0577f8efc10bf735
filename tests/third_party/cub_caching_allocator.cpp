// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cub/util_allocator.cuh>

#include "third_party/their_machine.hpp"

// CUB's caching allocator, with free lists by size and stream, on the simulated runtime.

using namespace control;

namespace {

constexpr unsigned growth = 8, smallest_bin = 3, largest_bin = 7;  // blocks from 512 bytes to 2 MiB

struct allocator : cub::CachingDeviceAllocator {
    explicit allocator(std::size_t most_cached = SIZE_MAX)
        : cub::CachingDeviceAllocator(growth, smallest_bin, largest_bin, most_cached) {}

    void* take(std::size_t bytes, cudaStream_t s) {
        void* p = nullptr;
        REQUIRE(DeviceAllocate(&p, bytes, s) == cudaSuccess);
        return p;
    }
    void give(void* p) { REQUIRE(DeviceFree(p) == cudaSuccess); }
};

struct two_streams {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);

    ~two_streams() {
        for (auto const s : {a, b}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
};

}  // namespace

TEST_CASE("CUB's allocator gives a stream its own freed block at once", "[third_party][cub]") {
    their_machine m;
    two_streams const t;
    allocator all;
    auto* const p = all.take(1000, t.a);
    gate closed{t.a};
    REQUIRE(cudaMemsetAsync(p, 1, 1000, t.a) == cudaSuccess);
    all.give(p);
    CHECK(all.take(900, t.a) == p);
    CHECK_FALSE(closed.passed());
    CHECK(sim::calls("cudaMalloc") == 1);
    all.give(p);
    closed.open();
}

TEST_CASE("CUB's allocator gives another stream a freed block when its work has finished",
          "[third_party][cub]") {
    their_machine m;
    two_streams const t;
    allocator all;
    auto* const p = all.take(1000, t.a);
    gate closed{t.a};
    REQUIRE(cudaMemsetAsync(p, 1, 1000, t.a) == cudaSuccess);
    all.give(p);
    auto* const other = all.take(1000, t.b);
    CHECK(other != p);
    all.give(other);
    REQUIRE(cudaMemsetAsync(other, 2, 1000, t.b) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(t.b) == cudaSuccess);

    closed.open();
    REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
    auto* const first = all.take(1000, t.b);
    auto* const second = all.take(1000, t.b);
    CHECK(((first == p && second == other) || (first == other && second == p)));
    CHECK(sim::calls("cudaMalloc") == 2);
    all.give(first);
    all.give(second);
}

TEST_CASE("CUB's allocator works for several streams and threads", "[third_party][cub]") {
    their_machine m;
    allocator all;
    auto const drive = [&all](int value) {
        bool good = true;
        cudaStream_t s = nullptr;
        good &= cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess;
        for (int i = 0; i < 50; ++i) {
            auto const bytes = std::size_t{300} << (i % 10);
            void* p = nullptr;
            unsigned char seen[300] = {};
            good &= all.DeviceAllocate(&p, bytes, s) == cudaSuccess;
            good &= cudaMemsetAsync(p, value + i, bytes, s) == cudaSuccess;
            good &= cudaMemcpyAsync(seen, p, sizeof seen, cudaMemcpyDeviceToHost, s) == cudaSuccess;
            good &= all_are({seen, seen + sizeof seen}, static_cast<unsigned char>(value + i));
            // CUB leaves cudaErrorNotReady of its event queries as the last error, and DeviceFree would report it as its own.
            if (auto const left = cudaGetLastError()) good &= left == cudaErrorNotReady;
            good &= all.DeviceFree(p) == cudaSuccess;
        }
        return good && cudaStreamSynchronize(s) == cudaSuccess && cudaStreamDestroy(s) == cudaSuccess;
    };
    std::vector<std::future<bool>> threads;
    for (int i = 0; i < 3; ++i) threads.push_back(std::async(std::launch::async, drive, 70 * i));
    for (auto& t : threads) CHECK(t.get());
    CHECK(sim::calls("cudaMalloc") < 150);
    CHECK(sim::misuse().total() == 0);
}

TEST_CASE("CUB's allocator frees its cache on request and when it is destroyed", "[third_party][cub]") {
    their_machine m;
    two_streams const t;
    bool const told = GENERATE(true, false);
    {
        allocator all;
        auto* const kept = all.take(5000, t.a);
        for (auto const s : {t.a, t.b}) all.give(all.take(100'000, s));
        CHECK(sim::live().device_allocations >= 2);
        if (told) {
            REQUIRE(all.FreeAllCached() == cudaSuccess);
            CHECK(sim::live().device_allocations == 1);
        }
        all.give(kept);
    }
    CHECK(sim::live().device_allocations == 0);
    CHECK(sim::live().events == 0);
}

TEST_CASE("CUB's allocator caches no more than its maximum", "[third_party][cub]") {
    their_machine m;
    allocator all{100'000};
    auto* const small = all.take(30'000, nullptr);
    auto* const large = all.take(200'000, nullptr);
    all.give(large);
    CHECK(sim::live().device_allocations == 1);
    all.give(small);
    CHECK(sim::live().device_allocations == 1);
}

TEST_CASE("CUB's allocator frees its cache and tries again when the device is full", "[third_party][cub]") {
    their_machine m{{.capacity = 280 * KiB}};
    allocator all;
    SECTION("the device is full") {
        for (int i = 0; i < 4; ++i) all.give(all.take(std::size_t{512} << (3 * (i % 3)), nullptr));
        auto* const p = all.take(256 * KiB, nullptr);  // does not fit beside the cached blocks
        CHECK(sim::live().device_allocations == 1);
        all.give(p);
    }
    SECTION("the call fails once") {
        all.give(all.take(1000, nullptr));
        sim::fail_call("cudaMalloc", 1);
        auto* const p = all.take(30'000, nullptr);
        CHECK(sim::faults_injected() == 1);
        CHECK(sim::calls("cudaMalloc") == 3);
        CHECK(sim::live().device_allocations == 1);
        CHECK(cudaGetLastError() == cudaSuccess);
        all.give(p);
    }
    SECTION("the call keeps failing") {
        all.give(all.take(1000, nullptr));
        sim::fail_call("cudaMalloc", 1, cudaSuccess, sim::fault_kind::until_cleared);
        void* p = nullptr;
        CHECK(all.DeviceAllocate(&p, 30'000, nullptr) == cudaErrorMemoryAllocation);
        CHECK(sim::live().device_allocations == 0);
        sim::clear_faults();
        all.give(all.take(30'000, nullptr));
    }
}
