// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/inner_product.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <algorithm>
#include <numeric>

#include "third_party/their_machine.hpp"

// Thrust's host algorithms on memory of the simulated device. They run synchronously on the calling thread, so each is in a kernel, where
// device memory is accessible and stream order holds.

using namespace control;

namespace {

constexpr int count = 5000;

int scrambled(int i) { return static_cast<int>((static_cast<unsigned>(i) * 7919u) % 10007u); }

/// `count` ints on the device, by either kind of allocation.
struct ints {
    ints(bool in_stream_order, cudaStream_t s)
        : stream{in_stream_order ? s : nullptr}, pooled{in_stream_order} {
        void* p = nullptr;
        REQUIRE((pooled ? cudaMallocAsync(&p, bytes, s) : cudaMalloc(&p, bytes)) == cudaSuccess);
        start = static_cast<int*>(p);
    }
    ints(ints const&) = delete;
    ints& operator=(ints const&) = delete;
    ~ints() { CHECK((pooled ? cudaFreeAsync(start, stream) : cudaFree(start)) == cudaSuccess); }

    [[nodiscard]] std::vector<int> seen_after(cudaStream_t s) const {
        std::vector<int> host(count);
        REQUIRE(cudaMemcpyAsync(host.data(), start, bytes, cudaMemcpyDeviceToHost, s) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        return host;
    }

    static constexpr std::size_t bytes = count * sizeof(int);
    int* start = nullptr;
    cudaStream_t stream;
    bool pooled;
};

std::vector<int> expected_scrambled() {
    std::vector<int> all(count);
    for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = scrambled(i);
    return all;
}

struct stream_of_a_test {
    cudaStream_t s = new_stream(cudaStreamNonBlocking);

    ~stream_of_a_test() { CHECK(cudaStreamDestroy(s) == cudaSuccess); }
    operator cudaStream_t() const { return s; }
};

}  // namespace

TEST_CASE("Thrust fills, transforms, sorts and scans device memory", "[third_party][thrust]") {
    their_machine m;
    stream_of_a_test const s;
    bool const pooled = GENERATE(false, true);
    ints const data{pooled, s}, sums{pooled, s};
    auto* const from = data.start;
    auto* const to = sums.start;
    REQUIRE(launch(s, "sequence", [from] {
                auto const first = thrust::device_pointer_cast(from);
                thrust::sequence(first, first + count);
            }) == cudaSuccess);
    REQUIRE(launch(s, "transform", [from] {
                thrust::transform(thrust::device, from, from + count, from, scrambled);
            }) == cudaSuccess);
    auto expected = expected_scrambled();
    CHECK(data.seen_after(s) == expected);

    REQUIRE(launch(s, "sort", [from] {
                auto const first = thrust::device_pointer_cast(from);
                thrust::sort(first, first + count);
            }) == cudaSuccess);
    REQUIRE(launch(s, "scan", [from, to] {
                thrust::inclusive_scan(thrust::device, from, from + count, to);
            }) == cudaSuccess);
    std::sort(expected.begin(), expected.end());
    CHECK(data.seen_after(s) == expected);
    std::partial_sum(expected.begin(), expected.end(), expected.begin());
    CHECK(sums.seen_after(s) == expected);
}

TEST_CASE("Thrust reduces device memory into device memory", "[third_party][thrust]") {
    their_machine m;
    stream_of_a_test const s;
    bool const pooled = GENERATE(false, true);
    ints const data{pooled, s}, results{pooled, s};
    auto* const from = data.start;
    auto* const to = results.start;
    auto const host = expected_scrambled();
    REQUIRE(cudaMemcpyAsync(from, host.data(), ints::bytes, cudaMemcpyHostToDevice, s) == cudaSuccess);
    REQUIRE(launch(s, "reduce", [from, to] {
                auto const first = thrust::device_pointer_cast(from);
                to[0] = thrust::reduce(first, first + count);
                to[1] = thrust::reduce(thrust::device, from, from + count, 0, thrust::maximum<int>{});
                to[2] = thrust::inner_product(first, first + 10, first, 0);
                thrust::sort(first, first + count, thrust::greater<int>{});
                to[3] = static_cast<int>(thrust::unique(first, first + count) - first);
            }) == cudaSuccess);
    auto const seen = results.seen_after(s);
    CHECK(seen[0] == std::accumulate(host.begin(), host.end(), 0));
    CHECK(seen[1] == *std::max_element(host.begin(), host.end()));
    CHECK(seen[2] == std::inner_product(host.begin(), host.begin() + 10, host.begin(), 0));
    CHECK(seen[3] == count);  // 7919 and 10007 are prime, so all values are distinct
}

TEST_CASE("Thrust sorts keys with their values", "[third_party][thrust]") {
    their_machine m;
    stream_of_a_test const s;
    bool const pooled = GENERATE(false, true);
    ints const keys{pooled, s}, values{pooled, s};
    auto* const k = keys.start;
    auto* const v = values.start;
    REQUIRE(launch(s, "sort_by_key", [k, v] {
                thrust::sequence(thrust::device, v, v + count);
                thrust::transform(thrust::device, v, v + count, k, scrambled);
                auto const first = thrust::device_pointer_cast(k);
                thrust::stable_sort_by_key(first, first + count, thrust::device_pointer_cast(v));
            }) == cudaSuccess);
    auto const sorted = keys.seen_after(s), came_from = values.seen_after(s);
    CHECK(std::is_sorted(sorted.begin(), sorted.end()));
    bool together = true;
    for (std::size_t i = 0; i < sorted.size(); ++i) together &= sorted[i] == scrambled(came_from[i]);
    CHECK(together);
}

TEST_CASE("Thrust's work runs in stream order", "[third_party][thrust]") {
    their_machine m;
    stream_of_a_test const a, b;
    ints const data{true, a};
    auto* const p = data.start;
    auto const e = new_event(cudaEventDisableTiming);
    std::vector<int> seen(count);
    {
        gate closed{a};
        REQUIRE(launch(a, "sequence", [p] { thrust::sequence(thrust::device, p, p + count); }) ==
                cudaSuccess);
        REQUIRE(cudaEventRecord(e, a) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(b, e, 0) == cudaSuccess);
        REQUIRE(launch(b, "reverse", [p] {
                    thrust::sort(thrust::device, p, p + count, thrust::greater<int>{});
                }) == cudaSuccess);
        CHECK(cudaStreamQuery(b) == cudaErrorNotReady);
    }
    REQUIRE(cudaMemcpyAsync(seen.data(), p, ints::bytes, cudaMemcpyDeviceToHost, b) == cudaSuccess);
    CHECK(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK(seen.front() == count - 1);
    CHECK(std::is_sorted(seen.rbegin(), seen.rend()));
    CHECK(cudaEventDestroy(e) == cudaSuccess);
}
