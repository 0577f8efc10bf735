// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Checks that fail, in each form of support/check.hpp. CTest runs them as core.failing_checks, and requires that each one is reported.
#include <stdexcept>

#include "support/catch.hpp"

namespace {

int one() { return 1; }
int throws() { throw std::runtime_error{"thrown by an operand"}; }

}  // namespace

TEST_CASE("checks that fail are reported, and the test goes on", "[.][failing_checks]") {
    CHECK(one() == 2);
    CHECK(one() < 0);
    CHECK(!one());
    CHECK_FALSE(one() == 1);
    CHECK_FALSE(one());
}

TEST_CASE("a REQUIRE that fails ends the test", "[.][failing_checks]") {
    REQUIRE(one() == 2);
    REQUIRE(one() == 3);
}

TEST_CASE("a REQUIRE_FALSE that fails ends the test", "[.][failing_checks]") {
    REQUIRE_FALSE(one() == 1);
    REQUIRE(one() == 3);
}

TEST_CASE("an exception of an operand fails the test", "[.][failing_checks]") { CHECK(throws() == 1); }
