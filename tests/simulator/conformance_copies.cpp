// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/conformance.hpp"

#include <algorithm>

using namespace conformance;

namespace {

constexpr std::size_t size = stopped_stream::size;

}  // namespace

TEST_CASE("a copy from pageable memory has read its source when it returns", "[simulator][copies]") {
    stopped_stream t;
    std::vector<unsigned char> source(size, 1);
    auto const copy = [&] {
        return cudaMemcpyAsync(t.device, source.data(), size, cudaMemcpyHostToDevice, t.stream);
    };
    REQUIRE(may_wait_for(t.closed, copy) == cudaSuccess);  // the driver may synchronize to stage the data
    std::fill(source.begin(), source.end(), static_cast<unsigned char>(2));
    CHECK(all_are(contents(t.device, size), 1));
}

TEST_CASE("a copy from pinned memory reads its source in stream order", "[simulator][copies]") {
    stopped_stream t;
    std::fill_n(t.pinned, size, static_cast<unsigned char>(1));
    REQUIRE(cudaMemcpyAsync(t.device, t.pinned, size, cudaMemcpyHostToDevice, t.stream) == cudaSuccess);
    std::fill_n(t.pinned, size, static_cast<unsigned char>(2));
    t.closed.open();
    CHECK(all_are(contents(t.device, size), 2));
}

TEST_CASE("a copy to pageable memory returns after it has completed", "[simulator][copies]") {
    stopped_stream t;
    std::vector<unsigned char> target(size, 0);
    REQUIRE(cudaMemsetAsync(t.device, 3, size, t.stream) == cudaSuccess);
    CHECK(returns_after(t.closed, [&] {
        return cudaMemcpyAsync(target.data(), t.device, size, cudaMemcpyDeviceToHost, t.stream);
    }));
    CHECK(all_are(target, 3));
}

TEST_CASE("a copy to pinned memory completes in stream order", "[simulator][copies]") {
    stopped_stream t;
    std::fill_n(t.pinned, size, static_cast<unsigned char>(1));
    REQUIRE(cudaMemsetAsync(t.device, 3, size, t.stream) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(t.pinned, t.device, size, cudaMemcpyDeviceToHost, t.stream) == cudaSuccess);
    CHECK(t.pinned[size - 1] == 1);
    t.closed.open();
    REQUIRE(cudaStreamSynchronize(t.stream) == cudaSuccess);
    CHECK(t.pinned[0] == 3);
    CHECK(t.pinned[size - 1] == 3);
}

TEST_CASE("registered memory is copied from like pinned memory", "[simulator][copies]") {
    stopped_stream t;
    alignas(4096) static unsigned char page[size];
    std::fill_n(page, size, static_cast<unsigned char>(1));
    REQUIRE(cudaHostRegister(page, size, cudaHostRegisterDefault) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(t.device, page, size, cudaMemcpyHostToDevice, t.stream) == cudaSuccess);
    std::fill_n(page, size, static_cast<unsigned char>(2));
    t.closed.open();
    CHECK(all_are(contents(t.device, size), 2));
    CHECK(cudaHostUnregister(page) == cudaSuccess);
}

TEST_CASE("cudaMemcpy between host and device waits for earlier work and for its own end",
          "[simulator][copies]") {
    auto* const d = device_memory(size);
    auto* const pinned = pinned_memory(size);
    auto const s = new_stream();
    REQUIRE(cudaMemset(d, 1, size) == cudaSuccess);
    {
        gate closed{s};
        REQUIRE(cudaMemsetAsync(d, 4, size, s) == cudaSuccess);
        CHECK(returns_after(closed, [&] { return cudaMemcpy(pinned, d, size, cudaMemcpyDeviceToHost); }));
        CHECK(pinned[size - 1] == 4);
    }
    {
        gate closed{s};
        CHECK(returns_after(closed, [&] { return cudaMemcpy(d, pinned, size, cudaMemcpyHostToDevice); }));
    }
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("cudaMemcpy within the device and cudaMemset may return before they have run",
          "[simulator][copies]") {
    auto* const d = static_cast<char*>(device_memory(2 * size));
    REQUIRE(cudaMemset(d, 1, size) == cudaSuccess);
    gate closed{nullptr};
    SECTION("copy") {
        CHECK(cudaMemcpy(d + size, d, size, cudaMemcpyDeviceToDevice) == cudaSuccess);
        CHECK_FALSE(closed.passed());
        closed.open();
        CHECK(all_are(contents(d + size, size), 1));
    }
    SECTION("memset") {
        CHECK(cudaMemset(d, 9, size) == cudaSuccess);
        CHECK_FALSE(closed.passed());
        closed.open();
        CHECK(all_are(contents(d, size), 9));
    }
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("cudaMemcpyDefault finds the direction by the pointers", "[simulator][copies]") {
    auto* const d = static_cast<char*>(device_memory(2 * size));
    std::vector<unsigned char> source(size, 7), target(size, 0);
    CHECK(cudaMemcpy(d, source.data(), size, cudaMemcpyDefault) == cudaSuccess);
    CHECK(cudaMemcpy(d + size, d, size, cudaMemcpyDefault) == cudaSuccess);
    CHECK(cudaMemcpy(target.data(), d + size, size, cudaMemcpyDefault) == cudaSuccess);
    CHECK(all_are(target, 7));
    CHECK(cudaFree(d) == cudaSuccess);
}

TEST_CASE("a copy between host memories has completed when it returns", "[simulator][copies]") {
    stopped_stream t;
    std::vector<unsigned char> source(size, 7), target(size, 0);
    bool const to_pinned = GENERATE(false, true);
    auto* const to = to_pinned ? t.pinned : target.data();
    auto const copy = [&] {
        return cudaMemcpyAsync(to, source.data(), size, cudaMemcpyHostToHost, t.stream);
    };
    REQUIRE(may_wait_for(t.closed, copy) == cudaSuccess);  // stream order is not guaranteed here
    CHECK(to[size - 1] == 7);
}

TEST_CASE("copies of zero bytes succeed, and unknown directions fail", "[simulator][copies]") {
    stopped_stream t;
    CHECK(cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault, t.stream) == cudaSuccess);
    CHECK(cudaMemsetAsync(nullptr, 0, 0, t.stream) == cudaSuccess);
    auto const nowhere = static_cast<cudaMemcpyKind>(7);
    CHECK(cudaMemcpyAsync(t.device, t.pinned, 1, nowhere, t.stream) == cudaErrorInvalidMemcpyDirection);
    CHECK(cudaMemcpyAsync(nullptr, t.pinned, 1, cudaMemcpyHostToDevice, t.stream) == cudaErrorInvalidValue);
}

TEST_CASE("a copy beyond its allocation is an invalid value", "[simulator][copies]") {
    stopped_stream t;
    auto* const d = static_cast<char*>(t.device);
    auto const to_device = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpyAsync(d, t.pinned, size + 1, to_device, t.stream) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyAsync(d + 1, t.pinned, size, to_device, t.stream) == cudaErrorInvalidValue);
    std::vector<unsigned char> host(size + 1);
    CHECK(cudaMemcpyAsync(host.data(), d, size + 1, cudaMemcpyDeviceToHost, t.stream) ==
          cudaErrorInvalidValue);
    CHECK(cudaMemsetAsync(d + 1, 0, size, t.stream) == cudaErrorInvalidValue);
    CHECK(cudaMemsetAsync(d + 1, 0, size - 1, t.stream) == cudaSuccess);
}
