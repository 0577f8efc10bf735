// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions, for a program whose other files are compiled with CUOTA_SEPARATE=1. Compile this file once, with the same NDEBUG,
// CUOTA_CHECKED and CUOTA_SIMULATED_KERNELS as those, and by nvcc (-x cu) if the program is to run on a GPU. CMake's cuota::compiled is
// this file as a static library.
#define CUOTA_IMPLEMENTATION
#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>
