// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/pool_resource.hpp>

#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"

using namespace cuota::literals;

static_assert(sizeof(cuota::pool_resource_for<cuota::lifetime_hint::persistent>) == 8);
static_assert(cuota::labeled_resource<cuota::pool_resource_for<cuota::lifetime_hint::step>>);

TEST_CASE("handles of every lifetime_hint behave as resources", "[pool][pool_resource][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool pool{budget};
        auto const step = pool.begin_step();
        SECTION("persistent") { support::behaves_as_a_resource(pool.persistent()); }
        SECTION("step") { support::behaves_as_a_resource(step.resource()); }
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a block that one handle of a pool allocated may be freed through any other",
          "[pool][pool_resource]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    auto const step = pool.begin_step();
    auto scratch = pool.resource();
    auto of_step = step.resource();
    auto persistent = pool.persistent();
    scratch.deallocate(s, persistent.allocate(s, 5000), 5000);
    persistent.deallocate(s, of_step.allocate(s, 5000), 5000);
    of_step.deallocate_sync(scratch.allocate_sync(5000), 5000);
    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("every handle refuses invalid requests with usage_error or out_of_memory, and changes nothing",
          "[pool][pool_resource]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    auto const step = pool.begin_step();
    auto const refuses = [&](auto memory) {
        CHECK(memory.allocate(s, 0) == nullptr);
        for (std::size_t const alignment : {std::size_t{0}, std::size_t{3}, 4_MiB, cuota::unlimited}) {
            CHECK_THROWS_AS(memory.allocate(s, 64, alignment), cuota::usage_error);
            CHECK_THROWS_AS(memory.allocate_sync(64, alignment), cuota::usage_error);
        }
        for (std::size_t const bytes : {cuota::unlimited, cuota::unlimited - 255, cuota::unlimited / 2}) {
            CHECK_THROWS_AS(memory.allocate(s, bytes), cuota::out_of_memory);
            CHECK_THROWS_AS(memory.allocate_sync(bytes), cuota::out_of_memory);
        }
        CHECK(pool.stats().allocated == 0);
        CHECK(pool.stats().live_blocks == 0);
    };
    refuses(pool.persistent());
    CHECK(pool.stats().reserved == 1_MiB);
    CHECK(budget.held() == 1_MiB);
    refuses(step.resource());
    refuses(pool.resource());
    CHECK(pool.stats().peak_requested == 0);
}
