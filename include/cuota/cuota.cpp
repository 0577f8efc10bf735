// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions of the library, for programs that compile their other files with CUOTA_SEPARATE_COMPILATION=1. Compile this file once,
// with the values of NDEBUG, CUOTA_CHECKED and CUOTA_SIMULATED_KERNELS that the other files have, and with nvcc (-x cu) when the program
// runs on a GPU. The four files in parts/ can be compiled in its place, in parallel; CMake's cuota::cuota is a static library of those
// four.
#define CUOTA_IMPLEMENTATION
#include <cuota/all.hpp>
