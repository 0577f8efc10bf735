// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes Catch2 2.13 or 3 under one name. Tests use the macros that both have: TEST_CASE, SECTION, REQUIRE, CHECK, REQUIRE_THROWS_AS,
// REQUIRE_NOTHROW, INFO, GENERATE, FAIL.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>

#include "support/check.hpp"
#endif

#include <iostream>

/// Ends a test that cannot run here and prints the reason; CTest lists it by name as skipped. Call it before any check.
#define CUOTA_SKIP(why)                                                                                      \
    do {                                                                                                     \
        std::cout << "CUOTA_SKIPPED: " << Catch::getResultCapture().getCurrentTestName() << ": " << (why)    \
                  << std::endl;                                                                              \
        return;                                                                                              \
    } while (false)
