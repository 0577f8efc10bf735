// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Simulated device only: an out-of-bounds access makes a real device unusable for the rest of the process.
#include <cuota/buffer/device_span.hpp>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using support::thrown;

#if CUOTA_CHECKED
namespace {

/// Returns the next call's error about a kernel on a span of "numbers", leased at train.cpp:41.
template <class Body>
std::string why_it_stops(char const* kernel, std::size_t indices, Body body) {
    support::machine machine;
    std::string why;
    {
        cuota::stream const stream;
        cuota::device_buffer<int> numbers{4, stream, cuota::device_memory{}, "numbers"};
        auto const lease = numbers.write({"train.cpp", 41});
        cuota::device_span<int> const to = lease;
        cuota::for_each_index(
            stream, indices, [to, body](std::size_t i) { body(to, i); }, kernel);
        why = thrown<cuota::cuda_error>([&] { stream.synchronize(); }).what();
    }
    machine.reset();
    (void)machine.errors.take();  // every call on a failed device reports an error
    return why;
}

}  // namespace

TEST_CASE("an index outside a device_span stops the kernel, and the next CUDA call reports it",
          "[buffer][device_span]") {
    auto const why =
        why_it_stops("fill_too_much", 5, [](cuota::device_span<int> to, std::size_t i) { to[i] = 1; });
    CHECK(support::has(why, "fill_too_much"));
    CHECK(support::has(why, "index 4 is outside a device_span of 4 ints: numbers, leased at train.cpp:41"));
}

TEST_CASE("a part outside a device_span stops the kernel, and the next CUDA call reports it",
          "[buffer][device_span]") {
    auto const why =
        why_it_stops("take_too_much", 1, [](cuota::device_span<int> to, std::size_t) { to.last(5)[0] = 1; });
    CHECK(support::has(
        why, "5 elements from index 0 are outside a device_span of 4 ints: numbers, leased at train.cpp:41"));
}
#endif
