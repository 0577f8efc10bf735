// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/lifespan.hpp>

#include "support/catch.hpp"

using cuota::lifespan;
using cuota::detail::birth;
using cuota::detail::step_clock;

static_assert(sizeof(birth) == 4);

TEST_CASE("a birth tells what was meant, and how many steps have begun since", "[pool][lifespan]") {
    step_clock steps;
    birth const before{steps.now(), lifespan::persistent};
    CHECK_FALSE(steps.is_open());
    steps.go_on();
    birth const in_first{steps.now(), lifespan::step};
    CHECK(steps.is_open());
    CHECK(before.age(steps.now()) == 1);
    CHECK(in_first.age(steps.now()) == 0);
    steps.go_on();
    CHECK_FALSE(steps.is_open());
    CHECK(in_first.age(steps.now()) == 0);
    steps.go_on();
    birth const in_second{steps.now(), lifespan::step};

    CHECK(before.age(steps.now()) == 2);
    CHECK(in_first.age(steps.now()) == 1);
    CHECK(in_second.age(steps.now()) == 0);
    CHECK(before.meant() == lifespan::persistent);
    CHECK(in_first.meant() == lifespan::step);
    CHECK(birth{}.meant() == lifespan::scratch);
    CHECK_FALSE(in_first == in_second);
}

TEST_CASE("ages stay right when the steps of a pool are more than a birth can count", "[pool][lifespan]") {
    // The largest value of 30 bits.
    cuota::detail::step_time const late = (cuota::detail::step_time{1} << 30) - 1;
    birth const b{late, lifespan::step};
    CHECK(b.age(late + 2) == 1);
    CHECK(b.age(late + 240) == 120);
    CHECK(b.meant() == lifespan::step);
}
