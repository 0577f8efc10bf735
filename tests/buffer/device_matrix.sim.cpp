// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Simulated device only: an out-of-bounds access makes a real device unusable for the rest of the process.
#include <cuota/buffer/device_matrix.hpp>

#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using cuota::device_matrix;
using support::thrown;

#if CUOTA_CHECKED
TEST_CASE("access outside a device_matrix stops the kernel, and the next CUDA call reports the element",
          "[buffer][device_matrix]") {
    support::machine machine;
    cuota::stream const stream;
    {
        cuota::device_buffer<int> numbers{12, stream, cuota::device_memory{}, "numbers"};
        auto const lease = numbers.write({"train.cpp", 41});
        device_matrix const m{lease, 3, 4};
        cuota::for_each_index(
            stream, 1, [m](std::size_t) { m(2, 4) = 1; }, "one_too_far");

        auto const error = thrown<cuota::cuda_error>([&] { stream.synchronize(); });

        CHECK(support::has(error.what(), "one_too_far"));
        CHECK(support::has(
            error.what(),
            "element (2, 4) is outside a device_matrix of 3 x 4 ints: numbers, leased at train.cpp:41"));
    }
    machine.reset();
    (void)machine.errors.take();  // every call on a failed device reports an error
}
#endif
