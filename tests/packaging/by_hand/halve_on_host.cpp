// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/simulator.hpp>

namespace sim = cuota::simulator;

void halve(float* x, int count);  // the kernel; nvcc compiles it to a host function that launches it

static bool const is_registered = [] {
    sim::run_on_host(halve, [](sim::launch_shape const&, float* x, int count) {
        for (int i = 0; i != count; ++i) x[i] /= 2;
    });
    return true;
}();
