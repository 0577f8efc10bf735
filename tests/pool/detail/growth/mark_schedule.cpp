// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/mark_schedule.hpp>

#include <cstddef>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::detail::mark_schedule;

namespace {

// Returns the marks for frees of 1 MiB from `freed` up to `until`.
std::size_t marks(mark_schedule& schedule, std::size_t freed, std::size_t until, std::size_t reserved) {
    std::size_t count = 0;
    for (; freed < until; freed += 1_MiB) count += schedule.is_due(freed, reserved);
    return count;
}

}  // namespace

TEST_CASE("a pool that has not grown marks no frees", "[pool][mark_schedule]") {
    mark_schedule schedule;
    CHECK(marks(schedule, 0, 10_GiB, 1_GiB) == 0);
}

TEST_CASE("a growing pool marks once in 64 MiB until it has freed four times its memory",
          "[pool][mark_schedule]") {
    mark_schedule schedule;
    schedule.note_growth(0, 640_MiB);
    CHECK(marks(schedule, 0, 640_MiB, 640_MiB) == 9);  // none in the first 64 MiB
    CHECK(marks(schedule, 640_MiB, 2560_MiB, 640_MiB) == 30);
    CHECK(marks(schedule, 2560_MiB, 10_GiB, 640_MiB) == 0);
    schedule.note_growth(10_GiB, 640_MiB);
    CHECK(marks(schedule, 10_GiB, 10_GiB + 640_MiB, 640_MiB) == 10);
}

TEST_CASE("a large pool marks once in a sixteenth of its memory", "[pool][mark_schedule]") {
    mark_schedule schedule;
    schedule.note_growth(1_GiB, 32_GiB);
    CHECK(marks(schedule, 1_GiB, 33_GiB, 32_GiB) == 16);
}
