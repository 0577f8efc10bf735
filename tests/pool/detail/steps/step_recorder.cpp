// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/step_recorder.hpp>

#include "support/catch.hpp"

TEST_CASE("step_recorder counts requests and frees, and lists live blocks", "[pool][step_recorder]") {
    cuota::detail::step_recorder recorder;
    int a{}, b{}, c{};
    recorder.note_given(&a);  // allocated before the step
    recorder.note_taken(&a, 100, {"first", {"step.cpp", 1}});
    recorder.note_taken(&b, 200, {"second", {"step.cpp", 2}});
    recorder.note_given(&a);
    recorder.note_taken(&a, 300, {"third", {"step.cpp", 3}});
    recorder.note_given(&c);
    recorder.note_given(&a);
    recorder.note_taken(&c, 400, {});
    auto const survivors = recorder.outlived();
    REQUIRE(survivors.size() == 2);
    CHECK(survivors[0].name == cuota::tag{"second"});
    CHECK(survivors[0].where.line == 2);
    CHECK(survivors[0].bytes == 200);
    CHECK(survivors[1].bytes == 400);

    auto const step = recorder.end();
    REQUIRE(step.requests.size() == 4);
    CHECK(step.requests[0] == cuota::planned_request{{0, 2, 100}});
    CHECK(step.requests[1] == cuota::planned_request{{1, 6, 200}, 0, false});
    CHECK(step.requests[2] == cuota::planned_request{{3, 4, 300}});
    CHECK(step.requests[3] == cuota::planned_request{{5, 6, 400}, 0, false});
}
