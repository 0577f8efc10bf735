// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuota/runtime/for_each_index.hpp>

// A program of which g++ or clang compiles one file and nvcc another; both launch the same body of a kernel.
namespace mixed {

struct by_both {
    int* at;
    CUOTA_KERNEL void operator()(std::size_t i) const { at[i] = static_cast<int>(i) + 1; }
};
struct without_nvcc {
    int* at;
    CUOTA_KERNEL void operator()(std::size_t i) const { at[i] = static_cast<int>(i) + 1; }
};

using each_by_both = cuota::detail::each_index<by_both>;

cuota::detail::launcher<each_by_both> known_to_nvcc();
void launch_by_nvcc(cuota::stream_ref s, std::size_t n, int* at);
void run_thrust_by_nvcc(cuota::stream_ref s);

}  // namespace mixed
