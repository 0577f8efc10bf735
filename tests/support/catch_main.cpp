// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Compiles Catch2 2.13 with the language mode and sanitizers of the tests: a prebuilt main is C++14 and lacks functions that the tests
// need. A filter that matches no test is an error, as in Catch2 3, which has its own main and does not compile this file.
#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

int main(int count, char** words) {
    Catch::Session session;
    int const wrong = session.applyCommandLine(count, words);
    if (wrong != 0) return wrong;
    Catch::ConfigData& chosen = session.configData();
    chosen.warnings = static_cast<Catch::WarnAbout::What>(chosen.warnings | Catch::WarnAbout::NoTests);
    return session.run();
}
