// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Compiles Catch2 2.13 with the language mode and the sanitizers of the tests. A distribution's prebuilt main is C++14 and lacks functions
// that C++20 tests need. Catch2 3 has its own main; this file is not compiled with it.
#define CATCH_CONFIG_MAIN
#include "support/catch.hpp"
