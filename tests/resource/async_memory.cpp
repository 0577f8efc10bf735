// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"

TEST_CASE("async_memory behaves as a resource", "[resource][async_memory]") {
    support::behaves_as_a_resource(cuota::async_memory{});
}

TEST_CASE("async_memory counts the bytes that this process has allocated on the device",
          "[resource][async_memory]") {
    cuota::async_memory memory;
    auto const& taken = cuota::detail::taken_on(memory.device());
    std::size_t const before = taken;
    void* const p = memory.allocate_sync(513);
    REQUIRE(taken == before + 1024);
    memory.deallocate_sync(p, 513);
    REQUIRE(taken == before);
}
