// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "nvcc_mixed.hpp"

#include <cuota/interop/thrust.hpp>
#include <cuota/resource/device_memory.hpp>

namespace mixed {

cuota::detail::launcher<each_by_both> known_to_nvcc() {
    return cuota::detail::device_launcher<each_by_both>();
}
void launch_by_nvcc(cuota::stream_ref s, std::size_t n, int* at) { cuota::for_each_index(s, n, by_both{at}); }

void run_thrust_by_nvcc(cuota::stream_ref s) {
    cuota::run_thrust(s, cuota::device_memory{}, [](auto const&) {});
}

}  // namespace mixed
