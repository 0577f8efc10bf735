// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The definitions of report/; see cuota.cpp.
#define CUOTA_SEPARATE_COMPILATION 1
#define CUOTA_PART_REPORT 1
#include <cuota/report.hpp>
