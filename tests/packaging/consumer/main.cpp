// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The smallest program that needs the whole package: the headers, CUDA's headers, a runtime to call, and nvcc if the project has CUDA.
// Prints the device that it ran on.
#include <cstdio>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/version.hpp>

using namespace cuota::literals;

#if defined(CONSUMER_HAS_KERNELS)
void add_index(cuota::stream_ref stream, cuota::device_span<int> to);  // defined in kernels.cu
#else
void add_index(cuota::stream_ref stream, cuota::device_span<int> to) {
    cuota::for_each_index(stream, to.size(),
                          [=] CUOTA_KERNEL(std::size_t i) { to[i] += static_cast<int>(i); });
}
#endif

namespace {

bool keeps_its_limit() {
    cuota::budget budget{"consumer", 1_MiB};
    return budget.try_charge(1_MiB) && !budget.try_charge(1);
}

bool computes() {
    cuota::stream stream;
    cuota::device_buffer<int> numbers{100, stream, cuota::device_memory{}};
    add_index(stream, numbers.write(stream));
    return numbers.to_vector(stream)[99] == 99;
}

int devices() try { return cuota::device::count(); } catch (cuota::cuda_error const&) {
    return 0;  // no driver
}

}  // namespace

int main() {
    bool good = keeps_its_limit();
    char const* device = "no device";
#if defined(CONSUMER_HAS_KERNELS) || defined(__CUDACC__)
    bool const can_compute = devices() > 0;
#else
    bool const can_compute = devices() > 0 && cuota::is_simulated();
#endif
    if (can_compute) {
        device = cuota::is_simulated() ? "the simulated device" : "a GPU";
        good = good && computes();
    }
    std::printf("cuota %d.%d.%d: %s on %s\n", CUOTA_VERSION_MAJOR, CUOTA_VERSION_MINOR, CUOTA_VERSION_PATCH,
                good ? "good" : "not good", device);
    return good ? 0 : 1;
}
