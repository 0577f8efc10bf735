// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Catch2 2.13 in the language mode and with the sanitizers of the tests: a distribution's prebuilt main is C++14 and
// lacks what the tests then ask for. Catch2 3 brings its own main and does not compile this file.
#define CATCH_CONFIG_MAIN
#include "support/catch.hpp"
