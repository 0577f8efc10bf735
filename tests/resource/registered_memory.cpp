// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/registered_memory.hpp>

#include <cstddef>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"

TEST_CASE("registered_memory behaves as a resource", "[resource][registered_memory]") {
    support::behaves_as_a_resource(cuota::registered_memory{});
}

TEST_CASE("registered_memory is aligned to pages and refuses larger alignments",
          "[resource][registered_memory]") {
    cuota::registered_memory memory;
    CHECK(memory == cuota::registered_memory{});
    std::size_t const page = memory.granularity();
    CHECK(page >= 4096);
    void* const p = memory.allocate_sync(1, page);
    CHECK(support::detail::is_aligned(p, page));
    memory.deallocate_sync(p, 1, page);
    CHECK_THROWS_AS(memory.allocate_sync(1, 2 * page), cuota::usage_error);
}
