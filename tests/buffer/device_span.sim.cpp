// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A kernel's misuse ends a real device for this process, so that only the simulated one is asked.
#include <cuota/buffer/device_span.hpp>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using support::thrown;

#if CUOTA_CHECKED
TEST_CASE("an index outside a device_span stops the kernel, and the next call names it",
          "[buffer][device_span]") {
    support::machine machine;
    cuota::stream const stream;
    {
        cuota::device_buffer<int> numbers{4, stream, cuota::device_memory{}};
        cuota::for_each_index(
            stream, 5, [to = cuota::device_span<int>{numbers.write()}](std::size_t i) { to[i] = 1; },
            "fill_too_much");

        auto const error = thrown<cuota::cuda_error>([&] { stream.synchronize(); });

        CHECK(support::has(error.what(), "fill_too_much"));
        CHECK(support::has(error.what(), "index 4 is outside a device_span of 4 elements"));
    }
    cuota::simulator::reset();
    (void)machine.errors.take();  // a failed device answers no call
}

TEST_CASE("a kernel reaches every element of a device_span", "[buffer][device_span]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::device_buffer<int> numbers{4, stream, cuota::device_memory{}};
    {
        auto const to = numbers.write();
        cuota::for_each_index(stream, 4,
                              [to = to.span()](std::size_t i) { to[i] = static_cast<int>(i) + 1; });
    }
    CHECK(numbers.to_vector(stream) == std::vector<int>{1, 2, 3, 4});
}
#endif
