// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// All definitions, for a program whose other files set CUOTA_SEPARATE to 1: compile this one with CUOTA_SEPARATE=1 and
// CUOTA_DEFINE=1, and with what else changes cuota (NDEBUG, CUOTA_CHECKED). CMake's cuota::compiled is just that.
#if !defined CUOTA_SEPARATE || !CUOTA_SEPARATE || !defined CUOTA_DEFINE || !CUOTA_DEFINE
#error                                                                                                       \
    "compile cuota.cpp with -DCUOTA_SEPARATE=1 -DCUOTA_DEFINE=1, and all other files with -DCUOTA_SEPARATE=1"
#else
#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>
#endif
