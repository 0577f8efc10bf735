// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions, for a program whose other files set CUOTA_SEPARATE to 1: compile this one once, with what else changes cuota
// (NDEBUG, CUOTA_CHECKED), and by nvcc (-x cu) if the program is to run on a GPU. CMake's cuota::compiled is just that.
#define CUOTA_IMPLEMENTATION
#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>
