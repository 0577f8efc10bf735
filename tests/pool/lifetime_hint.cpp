// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/lifetime_hint.hpp>

#include "support/catch.hpp"

using cuota::lifetime_hint;
using cuota::detail::allocation_epoch;
using cuota::detail::step_clock;

static_assert(sizeof(allocation_epoch) == 4);

TEST_CASE("an allocation_epoch has the lifetime_hint and the number of steps since its allocation",
          "[pool][lifetime_hint]") {
    step_clock steps;
    allocation_epoch const before{steps.now(), lifetime_hint::persistent};
    CHECK_FALSE(steps.is_open());
    steps.go_on();
    allocation_epoch const in_first{steps.now(), lifetime_hint::step};
    CHECK(steps.is_open());
    CHECK(before.age(steps.now()) == 1);
    CHECK(in_first.age(steps.now()) == 0);
    steps.go_on();
    CHECK_FALSE(steps.is_open());
    CHECK(in_first.age(steps.now()) == 0);
    steps.go_on();
    allocation_epoch const in_second{steps.now(), lifetime_hint::step};

    CHECK(before.age(steps.now()) == 2);
    CHECK(in_first.age(steps.now()) == 1);
    CHECK(in_second.age(steps.now()) == 0);
    CHECK(before.lifetime() == lifetime_hint::persistent);
    CHECK(in_first.lifetime() == lifetime_hint::step);
    CHECK(allocation_epoch{}.lifetime() == lifetime_hint::scratch);
    CHECK_FALSE(in_first == in_second);
}

TEST_CASE("ages are correct when a pool's steps exceed the range of an allocation_epoch",
          "[pool][lifetime_hint]") {
    // The largest value of 30 bits.
    cuota::detail::step_time const late = (cuota::detail::step_time{1} << 30) - 1;
    allocation_epoch const b{late, lifetime_hint::step};
    CHECK(b.age(late + 2) == 1);
    CHECK(b.age(late + 240) == 120);
    CHECK(b.lifetime() == lifetime_hint::step);
}
