// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Compiles Catch2 2.13 with the language mode and sanitizers of the tests: a prebuilt main is C++14 and lacks functions that the tests
// need. Catch2 3 has its own main and does not compile this file.
#define CATCH_CONFIG_MAIN
#include "support/catch.hpp"
