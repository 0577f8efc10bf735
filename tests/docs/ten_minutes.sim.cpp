// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/ten_minutes.md. ten_minutes.py tests building it by hand.
#include "docs/page.hpp"

namespace {

#include "ten_minutes/mean.inc"

TEST_CASE("ten minutes: the program prints a mean and a refusal", "[docs]") {
    page::check_prints("ten_minutes/mean", main_of_mean);
}

}  // namespace
