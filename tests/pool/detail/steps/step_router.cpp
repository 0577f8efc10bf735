// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/step_router.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::planned_slab;
using cuota::detail::step_recorder;
using cuota::detail::step_router;

namespace {

std::byte* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);

std::unique_ptr<planned_slab> slab_of(cuota::planned_step step) {
    cuota::detail::place_requests(step, {});
    return std::make_unique<planned_slab>(step, base);
}
void* try_take(step_router& router, cuota::stream_ref s, std::size_t bytes) {
    return router.try_take(s, bytes, {});
}

}  // namespace

TEST_CASE("step_router passes requests on while it has no slab, and records those of a recorded step",
          "[pool][step_router]") {
    cuota::stream const s;
    step_router router;
    char a{}, b{};
    CHECK(try_take(router, s, 1000) == nullptr);
    router.note_taken(&a, 1000, {});
    CHECK(router.stats().outside == 1);
    CHECK_FALSE(router.is_recording());
    CHECK_FALSE(router.end_step());

    router.begin_recorded_step();
    CHECK(router.is_recording());
    // Allocated before the step.
    CHECK_FALSE(router.try_give(&static_cast<cuota::stream_ref const&>(s), &a, 1000));
    CHECK(try_take(router, s, 1000) == nullptr);
    router.note_taken(&a, 1000, {"x", {}});
    CHECK(try_take(router, s, 2000) == nullptr);
    router.note_taken(&b, 2000, {"y", {}});
    router.note_outside({});
    CHECK_FALSE(router.try_give(nullptr, &a, 1000));
    auto ended = router.end_step();
    REQUIRE(ended);
    CHECK_FALSE(router.is_recording());
    CHECK(ended->outlived().size() == 1);
    auto const step = ended->end();
    REQUIRE(step.requests.size() == 2);
    CHECK(step.requests[0] == cuota::planned_request{{0, 2, 1000}});

    router.begin_planned_step();
    CHECK(try_take(router, s, 1000) == nullptr);
    router.note_taken(&a, 1000, {});
    CHECK_FALSE(router.end_step());
    auto const stats = router.stats();
    CHECK(stats.steps == 2);
    CHECK(stats.recorded == 2);
    CHECK(stats.missed_no_slab == 1);
    CHECK(stats.outside == 2);
    CHECK(stats.fallbacks() == 1);
    CHECK(stats.served == 0);
}

TEST_CASE("step_router serves planned requests, and counts the others by reason", "[pool][step_router]") {
    cuota::stream const owner;
    cuota::stream_ref const s = owner;
    step_router router;
    router.slabs().put(slab_of({{{{0, 1, 1000}}, {{2, 9, 2000}, 0, false}, {{3, 4, 3000}}, {{5, 6, 4000}}}}));
    CHECK(try_take(router, s, 1000) == nullptr);  // between steps
    router.begin_planned_step();
    void* const p = try_take(router, s, 1000);
    REQUIRE(p == base);
    CHECK(try_take(router, s, 2000) == nullptr);
    CHECK(try_take(router, s, 3000) == nullptr);
    CHECK(try_take(router, s, 999) == nullptr);
    REQUIRE_THROWS_AS(router.try_give(&s, p, 999), cuota::usage_error);
    CHECK(router.try_give(&s, p, 1000));
    REQUIRE_THROWS_AS(router.try_give(&s, p, 1000), cuota::usage_error);
    REQUIRE_THROWS_AS(router.try_give(nullptr, p, 1000), cuota::usage_error);
    void* const q = try_take(router, s, 4000);
    REQUIRE(q == base);
    CHECK(router.try_give(nullptr, q, 4000));
    CHECK(try_take(router, s, 4000) == nullptr);
    CHECK_FALSE(router.end_step());
    auto const stats = router.stats();
    CHECK(stats.served == 2);
    CHECK(stats.not_plannable == 1);
    CHECK(stats.missed_busy == 1);
    CHECK(stats.missed_size == 1);
    CHECK(stats.missed_beyond_plan == 1);
    CHECK(stats.outside == 1);
    CHECK(stats.skipped == 0);
    CHECK(stats.live == 0);
    CHECK(stats.has_slab);
}

TEST_CASE("a closed step_router refuses requests and accepts frees", "[pool][step_router]") {
    cuota::stream const owner;
    cuota::stream_ref const s = owner;
    step_router router;
    router.slabs().put(slab_of({{{{0, 1, 1000}}}}));
    router.begin_planned_step();
    void* const p = try_take(router, s, 1000);
    router.close();
    for (int i = 0; i != 2; ++i) {
        REQUIRE_THROWS_AS(try_take(router, s, 1000), cuota::usage_error);
        REQUIRE_THROWS_AS(router.note_outside({}), cuota::usage_error);
        REQUIRE_THROWS_AS(router.check_open({}), cuota::usage_error);
        if (i == 0) CHECK_FALSE(router.end_step());  // changes nothing
    }
    CHECK(router.stats().outside == 0);
    CHECK(router.try_give(&s, p, 1000));
    CHECK(router.stats().live == 0);
}

TEST_CASE("step_router records a request completely or not at all", "[pool][step_router]") {
    cuota::stream const s;
    step_router router;
    router.begin_recorded_step();
    char a{}, b{};
    router.note_taken(&a, 1000, {});
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        support::failing_heap const heap{allowed};
        try {
            router.note_taken(&b, 2000, {});
            break;
        } catch (std::bad_alloc const&) { ++refused; }
    }
    CHECK(refused > 0);
    CHECK(router.stats().recorded == 2);
    auto ended = router.end_step();
    CHECK(ended->outlived().size() == 2);
    auto const step = ended->end();
    REQUIRE(step.requests.size() == 2);
    CHECK(step.requests[1].live.from == 1);
}

TEST_CASE("step_router undoes a request that the upstream refused, only in the step of that request",
          "[pool][step_router]") {
    cuota::stream const owner;
    cuota::stream_ref const s = owner;
    step_router router;
    router.slabs().put(slab_of({{{{0, 9, 2000}, 0, false}, {{1, 2, 1000}}}}));
    router.note_refused({}, {});  // between steps
    router.begin_planned_step();
    auto const before = router.now();
    CHECK(try_take(router, s, 2000) == nullptr);
    auto const after = router.now();
    CHECK(before.next == 0);
    CHECK(after.next == 1);
    router.note_refused(before, after);
    CHECK(router.now().next == 0);
    CHECK(try_take(router, s, 2000) == nullptr);
    CHECK_FALSE(router.end_step());

    router.begin_planned_step();
    CHECK(try_take(router, s, 2000) == nullptr);
    router.note_refused(before, after);  // of the previous step
    CHECK(router.now().next == 1);
    CHECK(router.stats().not_plannable == 3);
}
