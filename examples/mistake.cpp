// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A program that is wrong: it copies from memory that a kernel on another stream may not have written yet.
/// On a GPU it may be right for years. On the simulated device, with CUOTA_SIM_RACES=fatal, it ends with both lines named.
#include <cstdio>

#include <cuota/cuota.hpp>

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

int main() {
    cuota::stream work, copies;
    cuota::pinned_buffer<float> host{1000, cuota::pinned_memory{}};
    cuota::device_buffer<float> x{1000, 1.0f, work, cuota::device_memory{}, "x"};
    auto const borrowed = x.write(work);
    float const* const raw = borrowed.span().data();  // around the lease, which would have put in the wait

    cuota::for_each_index(work, x.size(), twice{borrowed});
    cudaMemcpyAsync(host.write().data(), raw, x.bytes(), cudaMemcpyDeviceToHost, copies.get());
    copies.synchronize();
    std::printf("%g\n", static_cast<double>(host.read()[0]));
}
