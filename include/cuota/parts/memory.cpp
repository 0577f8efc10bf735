// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The definitions of core/, runtime/, resource/, guard/, pool/ and buffer/; see cuota.cpp.
#define CUOTA_SEPARATE_COMPILATION 1
#define CUOTA_PART_MEMORY 1
#include <cuota/all.hpp>
