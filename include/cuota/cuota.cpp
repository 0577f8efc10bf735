// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions, for a program whose other files are compiled with CUOTA_SEPARATE=1. Compile this file once, with the same NDEBUG,
// CUOTA_CHECKED and CUOTA_SIMULATED_KERNELS as those, and by nvcc (-x cu) if the program is to run on a GPU; or the four files in
// parts/, side by side, in place of it. CMake's cuota::cuota is those four as a static library.
#define CUOTA_IMPLEMENTATION
#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>
