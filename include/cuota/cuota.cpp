// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions of the library, for programs that compile their other files with CUOTA_SEPARATE_COMPILATION=1. Compile this file once,
// with the values of NDEBUG, CUOTA_CHECKED and CUOTA_SIMULATED_KERNELS that the other files have, and with nvcc (-x cu) when the program
// runs on a GPU. The files in parts/ can be compiled in its place, in parallel; of these, only kernels.cpp needs nvcc. CMake's cuota::cuota
// is a static library of them.
#define CUOTA_IMPLEMENTATION
#include <cuota/all.hpp>
