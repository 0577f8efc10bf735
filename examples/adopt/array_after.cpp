// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// An array with a host side and a device side, and a limit on device memory: with cuota. Usage: array_after [SAMPLES [MIB]]
///
/// Solves a kernel ridge regression by coordinate descent: the host chooses the coordinate, and the device updates the residuals. The limit
/// is set after the arrays are made. Returns 2 if it is exceeded. Expected output:
///
///     step 0: residual -1.0000 of sample 2
///     step 10: residual -0.9271 of sample 691
///     step 20: residual 0.5600 of sample 378
///     step 30: residual 0.2700 of sample 443
///     sum of the solution -0.4608, of squared residuals 2.3807
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <numeric>
#include <span>
#include <vector>

#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "kernels.hpp"

using namespace cuota::literals;

int main(int argc, char** argv) try {
    constexpr std::size_t features = 64;
    constexpr cuota::stream_ref home = cuota::default_stream;
    std::size_t const samples = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
    std::size_t const mebibytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 64;
    if (samples == 0 || mebibytes == 0) {
        std::fprintf(stderr, "usage: array_after [SAMPLES [MIB]]\n");
        return EXIT_FAILURE;
    }
    cuota::reservation limit = cuota::budget{"device", cuota::unlimited}.reserve(0, "arrays");
    cuota::budgeted<> const memory{limit.as_budget()};
    auto const make = [&](std::size_t size, cuota::tag name) {
        return cuota::mirrored_buffer<float>{size, home, memory, cuota::pinned_memory{}, name};
    };
    auto inputs = make(samples * features, "inputs"), row = make(samples, "row"),
         residuals = make(samples, "residuals"), solution = make(samples, "solution");
    std::vector<float> const data = kernels::random_values(samples * features, 2);
    std::copy(data.begin(), data.end(), inputs.overwrite_host().begin());
    for (std::size_t i = 0; i != samples; ++i) residuals.write_host()[i] = data[i * features];

    limit.grow(mebibytes * 1_MiB);
    for (int step = 0; step != 40; ++step) {
        std::span<float const> const r = residuals.read_host();
        auto const is_smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
        auto const chosen =
            static_cast<std::size_t>(std::max_element(r.begin(), r.end(), is_smaller) - r.begin());
        if (step % 10 == 0) std::printf("step %d: residual %.4f of sample %zu\n", step, r[chosen], chosen);

        auto const all = inputs.read(home);
        kernels::dot_rows(row.overwrite(home), all, all.data() + chosen * features, samples, features);
        float const change = r[chosen] / (row.read_host()[chosen] + 1);
        solution.write_host()[chosen] += change;
        kernels::add_scaled(residuals.write(home), row.read(home), -change, samples);
        residuals.write_host()[chosen] -= change;
    }
    std::span<float const> const found = solution.read_host();
    std::span<float const> const r = residuals.read_host();
    std::printf("sum of the solution %.4f, of squared residuals %.4f\n",
                std::accumulate(found.begin(), found.end(), 0.0),
                std::inner_product(r.begin(), r.end(), r.begin(), 0.0));
} catch (std::bad_alloc const& refused) {
    std::fprintf(stderr, "out of memory: %s\n", refused.what());
    return 2;
} catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
