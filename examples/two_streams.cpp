// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Two streams: one computes the next value while the other sums the current one; leases insert the required waits.
///
/// Expected output:
///
///     the sums add up to 310000
#include <cstddef>
#include <cstdio>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

using namespace cuota::literals;

struct double_all {
    cuota::device_span<double const> from;
    cuota::device_span<double> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = 2 * from[i]; }
};

struct add_all {
    cuota::device_span<double const> values;
    cuota::device_span<double> sum;
    CUOTA_KERNEL void operator()(std::size_t) const {
        for (std::size_t i = 0; i != values.size(); ++i) sum[0] += values[i];
    }
};

int main() {
    cuota::scoped_pool const pool{cuota::budget{"program", 64_MiB}};
    cuota::stream const computing, summing;
    cuota::device_buffer<double> value{10'000, 1.0, computing, pool, "value"};
    cuota::device_buffer<double> sum{1, summing, pool, "sum"};

    for (int step = 0; step != 5; ++step) {
        cuota::for_each_index(summing, 1, add_all{value.read(summing), sum.write(summing)});
        cuota::device_buffer<double> next{value.size(), computing, pool, cuota::no_init, "value"};
        cuota::for_each_index(computing, next.size(),
                              double_all{value.read(computing), next.write(computing)});
        value = std::move(next);  // the old value is freed when both streams have finished with it
    }
    std::printf("the sums add up to %g\n", sum.to_vector(summing).front());
}
