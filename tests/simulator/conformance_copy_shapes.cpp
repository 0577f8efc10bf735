// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <algorithm>

using namespace conformance;

TEST_CASE("a rectangle is copied row by row, with the pitches of source and destination",
          "[simulator][copies]") {
    auto* const d = device_memory(8 * 32);
    REQUIRE(cudaMemset(d, 0, 8 * 32) == cudaSuccess);
    std::vector<unsigned char> rows(8 * 10);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<unsigned char>(i);
    REQUIRE(cudaMemcpy2D(d, 32, rows.data(), 10, 6, 8, cudaMemcpyHostToDevice) == cudaSuccess);
    auto const there = contents(d, 8 * 32);
    for (std::size_t y = 0; y < 8; ++y) {
        CHECK(there[y * 32 + 5] == y * 10 + 5);
        CHECK(there[y * 32 + 6] == 0);
    }
    std::vector<unsigned char> back(8 * 7, 99);
    REQUIRE(cudaMemcpy2D(back.data(), 7, d, 32, 6, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(back[7 * 7 + 5] == 75);
    CHECK(back[7 * 7 + 6] == 99);
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("an invalid rectangle is refused, and nothing is copied", "[simulator][copies]") {
    auto* const d = device_memory(4 * 32);
    auto const s = new_stream();
    std::vector<unsigned char> host(1000);
    REQUIRE(cudaMemset(d, 1, 4 * 32) == cudaSuccess);
    CHECK(cudaMemcpy2DAsync(d, 4, host.data(), 10, 5, 2, cudaMemcpyHostToDevice, s) ==
          cudaErrorInvalidPitchValue);
    CHECK(cudaMemset2DAsync(d, 4, 0, 5, 2, s) != cudaSuccess);
    CHECK(cudaMemcpy2DAsync(d, 32, host.data(), 10, 10, 5, cudaMemcpyHostToDevice, s) ==
          cudaErrorInvalidValue);
    CHECK(cudaMemset2DAsync(d, 32, 0, 10, 5, s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(all_are(contents(d, 4 * 32), 1));
    CHECK(cudaMemcpy2DAsync(nullptr, 32, nullptr, 32, 10, 0, cudaMemcpyHostToDevice, s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("the last row of a rectangle may be shorter than the pitch", "[simulator][copies]") {
    auto* const d = device_memory(3 * 32 + 10);
    REQUIRE(cudaMemset2D(d, 32, 7, 10, 4) == cudaSuccess);
    CHECK(contents(d, 3 * 32 + 10)[3 * 32 + 9] == 7);
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("rectangles are copied in stream order", "[simulator][copies]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const d = device_memory(4 * 32);
    auto* const pinned = pinned_memory(4 * 16);
    std::fill(pinned, pinned + 4 * 16, static_cast<unsigned char>(1));
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    gate closed{s};
    REQUIRE(cudaMemset2DAsync(d, 32, 5, 16, 4, s) == cudaSuccess);
    REQUIRE(cudaMemcpy2DAsync(pinned, 16, d, 32, 16, 4, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    CHECK(pinned[63] == 1);
    closed.open();
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(pinned[63] == 5);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

#if CUDART_VERSION >= 13000
namespace {

struct batch_of_two {
    void* to[2];
    void const* from[2];
    std::size_t sizes[2] = {100, 50};
    cudaMemcpyAttributes attributes[2]{};
    std::size_t first_of[2] = {0, 1};
    std::size_t attribute_count = 1;

    cudaError_t enqueue(cudaStream_t s, cudaMemcpySrcAccessOrder order, std::size_t count = 2) {
        for (auto& a : attributes) a.srcAccessOrder = order;
        return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first_of, attribute_count, s);
    }
};

}  // namespace

TEST_CASE("a batch performs all of its copies", "[simulator][copies]") {
    auto const s = new_stream();
    auto *const a = static_cast<unsigned char*>(device_memory(100)), *const b = static_cast<unsigned char*>(
                                                                         device_memory(50));
    auto* const pinned = pinned_memory(150);
    REQUIRE(cudaMemsetAsync(a, 1, 100, s) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(b, 2, 50, s) == cudaSuccess);
    batch_of_two two{{pinned, pinned + 100}, {a, b}};
    SECTION("with one set of attributes") {}
    SECTION("with one set of attributes for each copy") { two.attribute_count = 2; }
    REQUIRE(two.enqueue(s, cudaMemcpySrcAccessOrderStream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(pinned[99] == 1);
    CHECK(pinned[100] == 2);
    CHECK(pinned[149] == 2);
    CHECK(cudaFree(a) == cudaSuccess);
    CHECK(cudaFree(b) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a batch reads its sources at the requested time", "[simulator][copies]") {
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const d = static_cast<unsigned char*>(device_memory(150));
    auto* const pinned = pinned_memory(150);
    std::fill(pinned, pinned + 150, static_cast<unsigned char>(3));
    batch_of_two two{{d, d + 100}, {pinned, pinned + 100}};
    gate closed{s};
    SECTION("before the call returns") {
        auto const enqueue = [&] { return two.enqueue(s, cudaMemcpySrcAccessOrderDuringApiCall); };
        REQUIRE(may_wait_for(closed, enqueue) == cudaSuccess);
        std::fill(pinned, pinned + 150, static_cast<unsigned char>(4));  // the source may be changed again
        CHECK(all_are(contents(d, 150), 3));
    }
    SECTION("in stream order, pageable memory too") {
        std::vector<unsigned char> source(150, 3);
        two.from[0] = source.data();
        two.from[1] = source.data() + 100;
        auto const change = [](void* p) {
            auto& bytes = *static_cast<std::vector<unsigned char>*>(p);
            std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(6));
        };
        REQUIRE(cudaLaunchHostFunc(s, change, &source) == cudaSuccess);
        auto const enqueue = [&] { return two.enqueue(s, cudaMemcpySrcAccessOrderStream); };
        REQUIRE(may_wait_for(closed, enqueue) == cudaSuccess);
        CHECK(all_are(contents(d, 150), 6));
    }
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("an invalid batch is refused, and nothing is copied", "[simulator][copies]") {
    auto const s = new_stream();
    auto* const d = static_cast<unsigned char*>(device_memory(150));
    auto* const pinned = pinned_memory(150);
    std::fill(pinned, pinned + 150, static_cast<unsigned char>(3));
    REQUIRE(cudaMemset(d, 9, 150) == cudaSuccess);
    batch_of_two two{{d, d + 100}, {pinned, pinned + 100}};
    auto const in_order = cudaMemcpySrcAccessOrderStream;
    CHECK(two.enqueue(nullptr, in_order) == cudaErrorInvalidValue);
    CHECK(two.enqueue(s, cudaMemcpySrcAccessOrderInvalid) == cudaErrorInvalidValue);
    CHECK(two.enqueue(s, in_order, 0) == cudaErrorInvalidValue);
    two.attribute_count = 2;
    two.first_of[1] = 0;
    CHECK(two.enqueue(s, in_order) == cudaErrorInvalidValue);
    two.first_of[1] = 2;
    CHECK(two.enqueue(s, in_order) == cudaErrorInvalidValue);
    two.attribute_count = 1;
    two.first_of[0] = 1;
    CHECK(two.enqueue(s, in_order) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(all_are(contents(d, 150), 9));
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
#endif

TEST_CASE("a callback runs in stream order and receives its stream's status", "[simulator][streams]") {
    struct heard {
        cudaStream_t s = nullptr;
        cudaError_t status = cudaErrorUnknown;
    } result;
    auto const s = new_stream();
    auto const note = [](cudaStream_t where, cudaError_t status, void* data) {
        *static_cast<heard*>(data) = {where, status};
    };
    CHECK(cudaStreamAddCallback(s, note, &result, 1) == cudaErrorInvalidValue);
    CHECK(cudaStreamAddCallback(s, nullptr, &result, 0) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    REQUIRE(cudaStreamAddCallback(s, note, &result, 0) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(result.s == s);
    CHECK(result.status == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
