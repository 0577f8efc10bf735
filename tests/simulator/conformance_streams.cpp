// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

using namespace conformance;

namespace {

cudaEvent_t mark(cudaStream_t s) {
    auto const reached = new_event();
    REQUIRE(cudaEventRecord(reached, s) == cudaSuccess);
    return reached;
}

/// Returns whether the stream passes this point while the gate is closed.
bool goes_on(gate const& closed, cudaStream_t s) {
    auto const reached = mark(s);
    REQUIRE(cudaEventSynchronize(reached) == cudaSuccess);
    REQUIRE(cudaEventDestroy(reached) == cudaSuccess);
    return !closed.passed();
}

/// Returns whether the stream stays blocked for the time in which an unblocked one would have continued.
bool stands(gate const&, cudaStream_t s, cudaStream_t witness) {
    auto const reached = mark(s);
    for (int i = 0; i < 10 && cudaEventQuery(reached) == cudaErrorNotReady; ++i) {
        REQUIRE(cudaStreamSynchronize(witness) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    bool const standing = cudaEventQuery(reached) == cudaErrorNotReady;
    (void)cudaGetLastError();
    REQUIRE(cudaEventDestroy(reached) == cudaSuccess);
    return standing;
}

}  // namespace

TEST_CASE("a stream runs its work in the order of submission", "[simulator][streams]") {
    auto* const d = device_memory(1000);
    auto* const pinned = pinned_memory(100);
    auto const s = new_stream();
    gate closed{s};
    for (int i = 0; i < 100; ++i) {
        REQUIRE(cudaMemsetAsync(d, i, 1000, s) == cudaSuccess);
        REQUIRE(cudaMemcpyAsync(pinned + i, d, 1, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    }
    closed.open();
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    for (int i = 0; i < 100; ++i) REQUIRE(pinned[i] == i);
    CHECK(all_are(contents(d, 1000), 99));
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("work on a stream does not block the calling thread", "[simulator][streams]") {
    auto const s = new_stream();
    gate closed{s};
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    (void)cudaGetLastError();
    closed.open();
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(closed.passed());
    CHECK(cudaStreamQuery(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("streams run concurrently", "[simulator][streams]") {
    auto const a = new_stream(), b = new_stream();
    gate closed{a};
    CHECK(goes_on(closed, b));
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("the legacy default stream waits for blocking streams, and they wait for it",
          "[simulator][streams]") {
    auto const blocking = new_stream(), witness = new_stream(cudaStreamNonBlocking);
    auto const legacy = GENERATE(cudaStream_t{nullptr}, cudaStreamLegacy);
    SECTION("the default stream waits") {
        gate closed{blocking};
        CHECK(stands(closed, legacy, witness));
    }
    SECTION("a blocking stream waits") {
        gate closed{legacy};
        CHECK(stands(closed, blocking, witness));
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
    CHECK(cudaStreamDestroy(witness) == cudaSuccess);
}

TEST_CASE("a non-blocking stream and the default stream do not wait for each other", "[simulator][streams]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    SECTION("the default stream continues") {
        gate closed{s};
        CHECK(goes_on(closed, nullptr));
    }
    SECTION("the non-blocking stream continues") {
        gate closed{nullptr};
        CHECK(goes_on(closed, s));
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("work enqueued on the default stream runs between earlier and later work of a blocking stream",
          "[simulator][streams]") {
    auto* const d = device_memory(1000);
    auto* const pinned = pinned_memory(2);
    auto const s = new_stream();
    REQUIRE(cudaMemset(d, 9, 1000) == cudaSuccess);
    auto const look = [&](unsigned char* to, cudaStream_t from) {
        REQUIRE(cudaMemcpyAsync(to, d, 1, cudaMemcpyDeviceToHost, from) == cudaSuccess);
    };
    for (bool const stop_the_default_stream : {false, true}) {
        gate before{stop_the_default_stream ? nullptr : s};
        REQUIRE(cudaMemsetAsync(d, 1, 1000, s) == cudaSuccess);
        look(pinned, nullptr);
        gate between{stop_the_default_stream ? nullptr : s};
        REQUIRE(cudaMemsetAsync(d, 2, 1000, nullptr) == cudaSuccess);
        look(pinned + 1, s);
        REQUIRE(cudaMemsetAsync(d, 3, 1000, s) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds{5});  // time to go wrong
        before.open();
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
        between.open();
        CHECK(all_are(contents(d, 1000), 3));
        CHECK(pinned[0] == 1);
        CHECK(pinned[1] == 2);
    }
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("synchronising the default stream waits for blocking streams", "[simulator][streams]") {
    auto const s = new_stream();
    gate closed{s};
    CHECK(returns_after(closed, [] { return cudaStreamSynchronize(nullptr); }));
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("synchronising the device waits for non-blocking streams", "[simulator][streams]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    gate closed{s};
    CHECK(returns_after(closed, [] { return cudaDeviceSynchronize(); }));
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("synchronising a stream does not wait for another", "[simulator][streams]") {
    auto const a = new_stream(), b = new_stream();
    gate closed{a};
    CHECK(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("each thread has its own default stream, which is a blocking stream", "[simulator][streams]") {
    auto const witness = new_stream(cudaStreamNonBlocking);
    SECTION("one thread's stream does not block another's") {
        gate closed{cudaStreamPerThread};
        std::thread{[] {
            CHECK(cudaMemsetAsync(nullptr, 0, 0, cudaStreamPerThread) == cudaSuccess);
            CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
        }}.join();
        CHECK_FALSE(closed.passed());
    }
    SECTION("it waits for the legacy stream") {
        gate closed{cudaStreamLegacy};
        CHECK(stands(closed, cudaStreamPerThread, witness));
    }
    SECTION("the legacy stream waits for it") {
        gate closed{cudaStreamPerThread};
        CHECK(stands(closed, cudaStreamLegacy, witness));
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamDestroy(witness) == cudaSuccess);
}

TEST_CASE("destroying a stream returns at once, and its work still runs", "[simulator][streams]") {
    auto* const d = device_memory(100);
    REQUIRE(cudaMemset(d, 1, 100) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    auto const s = new_stream(cudaStreamNonBlocking);
    gate closed{s};
    REQUIRE(cudaMemsetAsync(d, 7, 100, s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(all_are(contents(d, 100), 7));
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("the default streams cannot be destroyed", "[simulator][streams]") {
    CHECK(cudaStreamDestroy(cudaStreamLegacy) == cudaErrorInvalidResourceHandle);
    CHECK(cudaStreamDestroy(cudaStreamPerThread) == cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
}

TEST_CASE("a stream's flags, priority, device and unique id can be queried", "[simulator][streams]") {
    int least = 1, greatest = 1;
    REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
    CHECK(least == 0);
    CHECK(greatest <= least);

    cudaStream_t s = nullptr;
    REQUIRE(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest - 1) == cudaSuccess);
    auto const other = new_stream();
    unsigned flags = 0;
    int priority = 1, device = -1;
    unsigned long long id = 0, other_id = 0, legacy_id = 0, null_id = 1;
    CHECK(cudaStreamGetFlags(s, &flags) == cudaSuccess);
    CHECK(flags == cudaStreamNonBlocking);
    CHECK(cudaStreamGetPriority(s, &priority) == cudaSuccess);
    CHECK(priority == greatest);
    CHECK(cudaStreamGetDevice(s, &device) == cudaSuccess);
    CHECK(device == 0);
    CHECK(cudaStreamGetId(s, &id) == cudaSuccess);
    CHECK(cudaStreamGetId(other, &other_id) == cudaSuccess);
    CHECK(cudaStreamGetId(cudaStreamLegacy, &legacy_id) == cudaSuccess);
    CHECK(cudaStreamGetId(nullptr, &null_id) == cudaSuccess);
    CHECK(id != other_id);
    CHECK(id != legacy_id);
    CHECK(legacy_id == null_id);
    auto capture = cudaStreamCaptureStatusActive;
    CHECK(cudaStreamIsCapturing(s, &capture) == cudaSuccess);
    CHECK(capture == cudaStreamCaptureStatusNone);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(other) == cudaSuccess);
}

TEST_CASE("creating a stream with unknown flags is refused", "[simulator][streams]") {
    cudaStream_t s = nullptr;
    CHECK(cudaStreamCreateWithFlags(&s, 0x40) == cudaErrorInvalidValue);
    CHECK(cudaStreamCreate(nullptr) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("a host function runs once, in stream order", "[simulator][streams]") {
    std::atomic<int> calls{0};
    auto const s = new_stream();
    auto const count = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
    gate closed{s};
    REQUIRE(cudaLaunchHostFunc(s, count, &calls) == cudaSuccess);
    CHECK(calls == 0);
    closed.open();
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(calls == 1);
    CHECK(cudaLaunchHostFunc(s, nullptr, nullptr) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("hundreds of streams can be created", "[simulator][streams]") {
    auto* const d = device_memory(400);
    std::vector<cudaStream_t> all;
    for (int i = 0; i < 400; ++i) all.push_back(new_stream(cudaStreamNonBlocking));
    for (std::size_t i = 0; i < all.size(); ++i)
        REQUIRE(cudaMemsetAsync(static_cast<char*>(d) + i, 3, 1, all[i]) == cudaSuccess);
    CHECK(all_are(contents(d, 400), 3));
    for (auto const s : all) REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
}
