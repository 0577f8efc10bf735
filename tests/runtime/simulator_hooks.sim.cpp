// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/simulator_hooks.hpp>

#include <string>

#include <cuota/runtime/for_each_index.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

TEST_CASE("is_simulated is true in a program that is linked to the simulator", "[runtime][simulated]") {
    support::machine const sim;
    REQUIRE(cuota::is_simulated());
    REQUIRE(std::string{cuota_simulator_fault()}.empty());
}

TEST_CASE("cuota_simulator_in_kernel is 1 in a simulated kernel and 0 outside", "[runtime][simulated]") {
    support::machine const sim;
    cuota::stream const s;
    int inside = -1;
    cuota::for_each_index(s, 1, [to = &inside](std::size_t) { *to = cuota_simulator_in_kernel(); });
    s.synchronize();
    REQUIRE(inside == 1);
    REQUIRE(cuota_simulator_in_kernel() == 0);
}
