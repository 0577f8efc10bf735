// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds a leak: memory that is still allocated when a step ends is reported with its tag, size and call site.
///
/// Expected output:
///
///     step 0 gave back what it took
///     step 1: cuota::usage_error: a step of tracked memory trainer ended with more memory in use: 1 allocation is still alive: losses 3.9 KiB (find_a_leak.cpp:31) (find_a_leak.cpp:28)
///     step 2 gave back what it took
#include <cstdio>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>

using namespace cuota::literals;

int main() {
    cuota::scoped_pool const pool{cuota::budget{"trainer", 64_MiB}};
    cuota::tracked const memory{pool.resource(), "trainer"};  // counts and lists the pool's live blocks
    cuota::stream const stream;
    std::vector<cuota::device_buffer<float>> history;

    for (int i = 0; i != 3; ++i) try {
            auto step = memory.expect_no_growth("a step");
            {
                cuota::device_buffer<float> const activations{100'000, stream, memory, "activations"};
                cuota::device_buffer<float> losses{1000, stream, memory, "losses"};
                if (i == 1) history.push_back(std::move(losses));  // the bug: this buffer outlives its step
            }
            step.close();
            std::printf("step %d gave back what it took\n", i);
        } catch (cuota::usage_error const& leak) { std::printf("step %d: %s\n", i, leak.what()); }
}
