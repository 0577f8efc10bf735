// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// CUB itself, compiled by nvcc and run on a GPU. Other compilers do not accept its headers.
#include <cuota/interop/cub.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <numeric>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"

using namespace cuota::literals;

namespace {

constexpr std::size_t count = 1000;

std::vector<int> one_to(std::size_t n) {
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 1);
    return all;
}
std::vector<int> sums_to(std::size_t n) {
    auto all = one_to(n);
    std::inclusive_scan(all.begin(), all.end(), all.begin());
    return all;
}

}  // namespace

TEST_CASE("CUB sorts, scans and reduces with scratch memory of the budget", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::budget const budget{"cub", 64_MiB};
    cuota::scoped_pool pool{budget};
    auto descending = one_to(count);
    std::ranges::reverse(descending);
    cuota::device_buffer<int> const x{descending, s, pool};
    cuota::device_buffer<int> sorted{count, s, pool, cuota::no_init};
    cuota::device_buffer<int> sums{count, s, pool, cuota::no_init};
    cuota::device_buffer<int> total{1, s, pool, cuota::no_init};
    {
        auto const in = x.read(s);
        auto const keys = sorted.write(s);
        auto const scanned = sums.write(s);
        auto const result = total.write(s);
        int const n = static_cast<int>(count);
        cuota::run_cub(s, pool, [&](void* scratch, std::size_t& bytes) {
            return cub::DeviceRadixSort::SortKeys(scratch, bytes, in.span().data(), keys.span().data(), n, 0,
                                                  32, s.get());
        });
        cuota::run_cub(s, pool, [&](void* scratch, std::size_t& bytes) {
            return cub::DeviceScan::InclusiveSum(scratch, bytes, keys.span().data(), scanned.span().data(), n,
                                                 s.get());
        });
        cuota::run_cub(s, pool, [&](void* scratch, std::size_t& bytes) {
            return cub::DeviceReduce::Sum(scratch, bytes, keys.span().data(), result.span().data(), n,
                                          s.get());
        });
    }
    CHECK(sorted.to_vector(s) == one_to(count));
    CHECK(sums.to_vector(s) == sums_to(count));
    CHECK(total.to_vector(s).front() == static_cast<int>(count * (count + 1) / 2));
}
