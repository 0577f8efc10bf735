// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/budgets.md.
#include <cstddef>
#include <cstdio>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

TEST_CASE("budgets: below a pool pages are charged, and trimmed", "[docs]") {
    cuota::stream const stream;
    page::check_prints("budgets/below", [&] {
#include "budgets/below.inc"
    });
}

TEST_CASE("budgets: above a pool each user has a limit", "[docs]") {
    cuota::stream const stream;
    cuota::budget const device{"device", 64_MiB};
    page::check_prints("budgets/above", [&] {
#include "budgets/above.inc"
    });
}

TEST_CASE("budgets: parts share one limit, and a reservation is paid for", "[docs]") {
    page::check_prints("budgets/tree", [&] {
#include "budgets/tree.inc"
        CHECK(trainer.held() == 384_MiB);
#include "budgets/reserve.inc"
        CHECK(trainer.held() == 384_MiB + 64_MiB);
        CHECK(pool.account().limit() == 64_MiB);
        model.refund(384_MiB);
    });
}

TEST_CASE("budgets: of a device, and of pinned memory", "[docs]") {
    {
#include "budgets/for_device.inc"
        CHECK(device.limit() > 1_GiB);
    }
#include "budgets/pinned.inc"
    CHECK(pinned.held() == staging.bytes());
}

}  // namespace
