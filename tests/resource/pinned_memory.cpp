// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"

TEST_CASE("pinned_memory behaves as a resource", "[resource][pinned_memory]") {
    support::behaves_as_a_resource(cuota::pinned_memory{});
}

TEST_CASE("all objects of pinned_memory are equal", "[resource][pinned_memory]") {
    REQUIRE(cuota::pinned_memory{} == cuota::pinned_memory{});
    static_assert(sizeof(cuota::pinned_memory) == 1 && cuota::pinned_memory::granularity() == 1);
}
