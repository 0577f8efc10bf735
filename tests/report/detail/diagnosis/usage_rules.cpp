// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/diagnosis/usage_rules.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuota/report/diagnosis/diagnosis.hpp>

#include "report/diagnosis_samples.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::finding_kind;
using diagnosis_samples::only;
using diagnosis_samples::script;

namespace {

[[nodiscard]] std::vector<cuota::finding> idle_in(script const& s) {
    return only(finding_kind::idle, cuota::diagnose(s.made()));
}
[[nodiscard]] std::vector<cuota::finding> refusals_in(script const& s) {
    return only(finding_kind::refusals, cuota::diagnose(s.made()));
}

// A pool with `used` of `reserved` bytes in use in each step, after a step that used more.
[[nodiscard]] script idling(std::size_t steps, std::size_t used, std::size_t reserved) {
    script s;
    auto const pool = s.pool("work");
    auto const site = s.site("scratch");
    s.segment(pool, reserved);
    s.give(s.take(pool, site, reserved));
    s.end_step(pool);
    for (std::size_t i = 0; i != steps; ++i) {
        if (used != 0) s.give(s.take(pool, site, used));
        s.end_step(pool);
    }
    return s;
}

struct refusing {
    script s{};
    std::uint16_t root = s.budget("gpu", 1000);
    std::uint16_t model = s.budget("model", 400);
    std::uint16_t pool = s.pool("work");
    std::uint32_t site = s.site("activations");

    refusing() {
        s.charge(model, root);
        s.charge(pool, model);
    }
};

}  // namespace

TEST_CASE("memory that a pool reserves and no recent step used is idle", "[report][diagnosis]") {
    auto const found = idle_in(idling(20, 900_MiB, 4_GiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "pool work holds 3.1 GiB that were not used in the last 10 steps (4.0 GiB "
                           "reserved, at most 900.0 MiB in use): trim it or set a release_threshold");
    CHECK(found[0].level == cuota::severity::warning);
    CHECK(found[0].bytes == 4_GiB - 900_MiB);
    CHECK(found[0].reference_bytes == 4_GiB);
    CHECK(found[0].steps == 10);
    CHECK(found[0].subject == "work");
}

TEST_CASE("reserved memory is reported as idle after ten steps and from a quarter of the pool on",
          "[report][diagnosis]") {
    CHECK(idle_in(idling(10, 900_MiB, 4_GiB)).size() == 1);
    CHECK(idle_in(idling(9, 900_MiB, 4_GiB)).empty());
    CHECK(idle_in(idling(10, 3_GiB, 4_GiB)).size() == 1);
    CHECK(idle_in(idling(10, 3_GiB + 1, 4_GiB)).empty());
    CHECK(idle_in(idling(10, 0, 64_MiB)).size() == 1);
    CHECK(idle_in(idling(10, 0, 64_MiB - 1)).empty());
}

TEST_CASE("memory that was used or released in those steps is not idle", "[report][diagnosis]") {
    script used = idling(5, 900_MiB, 4_GiB);
    used.give(used.take(1, 1, 4_GiB));
    for (int i = 0; i != 10; ++i) used.end_step(1);
    CHECK(idle_in(used).empty());  // all of it was used in the first of the ten steps
    used.end_step(1);
    CHECK(idle_in(used).size() == 1);

    script trimmed = idling(20, 900_MiB, 4_GiB);
    trimmed.segment_back(1, 3_GiB);
    CHECK(idle_in(trimmed).empty());

    script grown = idling(20, 900_MiB, 1_GiB);
    grown.segment(1, 3_GiB);  // added just now
    CHECK(idle_in(grown).empty());

    script live = idling(20, 0, 4_GiB);
    script busy;
    auto const pool = busy.pool("work");
    busy.segment(pool, 4_GiB);
    static_cast<void>(busy.take(pool, 0, 3_GiB + 1));  // its only event
    for (int i = 0; i != 20; ++i) busy.end_step(pool);
    CHECK(idle_in(busy).empty());
    CHECK(idle_in(live).size() == 1);
}

TEST_CASE("memory from before a recording counts as reserved and as used", "[report][diagnosis]") {
    script s = idling(20, 900_MiB, 4_GiB);
    s.already(1, 3_GiB, 0);
    CHECK(idle_in(s).empty());
    script dropped = idling(20, 900_MiB, 4_GiB);
    dropped.drop(4);
    CHECK(idle_in(dropped).size() == 1);
    CHECK(idle_in(dropped)[0].bytes == 4_GiB - 900_MiB);

    script other;
    auto const pool = other.pool("work");
    auto const held = other.pool("held");
    other.already(held, 1_GiB, 4_GiB);  // has no steps and no events
    for (int i = 0; i != 11; ++i) other.end_step(pool);
    auto const found = idle_in(other);
    REQUIRE(found.size() == 1);
    CHECK(found[0].subject == "held");
    CHECK(found[0].bytes == 3_GiB);
}

TEST_CASE("refusals are counted for each budget, with the shortfall and the tag", "[report][diagnosis]") {
    refusing r;
    auto const other = r.s.site("weights", 5);
    for (int i = 0; i != 9; ++i) r.s.refuse(r.model, r.site, 100, 350);
    for (int i = 0; i != 3; ++i) r.s.refuse(r.model, other, 300, 200);
    auto const found = refusals_in(r.s);
    REQUIRE(found.size() == 1);
    CHECK(
        found[0].text ==
        "budget model refused 12 requests, short by 100 B at most; 9 of them for activations (train.cpp:17)");
    CHECK(found[0].level == cuota::severity::problem);
    CHECK(found[0].bytes == 100);
    CHECK(found[0].reference_bytes == 300);
    CHECK(found[0].count == 12);
    CHECK(found[0].name == cuota::tag{"activations"});
    CHECK(found[0].subject == "model");

    r.s.refuse(r.root, r.site, 100, 1000);
    CHECK(refusals_in(r.s).size() == 2);
}

TEST_CASE("one refusal is described in the singular, and without refusals nothing is reported",
          "[report][diagnosis]") {
    refusing r;
    CHECK(refusals_in(r.s).empty());
    r.s.refuse(r.model, r.site, 100, 350);
    CHECK(refusals_in(r.s)[0].text ==
          "budget model refused 1 request, short by 50 B; for activations (train.cpp:17)");
    r.s.refuse(r.model, r.site, 100, 350);
    CHECK(refusals_in(r.s)[0].text ==
          "budget model refused 2 requests, short by 50 B at most; all for activations (train.cpp:17)");
    r.s.refuse(r.model, 0, 200, cuota::unlimited);
    CHECK(refusals_in(r.s)[0].bytes == 200);
}

TEST_CASE("no shortfall is reported for a budget if its available bytes would have sufficed",
          "[report][diagnosis]") {
    refusing r;
    r.s.refuse(r.model, r.site, 100, 300);  // its limit was raised since, or the device was full
    auto const found = refusals_in(r.s);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "budget model refused 1 request of 100 B; for activations (train.cpp:17)");
    CHECK(found[0].bytes == 100);
    script pool_only;
    auto const pool = pool_only.pool("work");
    pool_only.refuse(pool, 0, 1_GiB, 0);
    CHECK(refusals_in(pool_only)[0].text == "pool work refused 1 request of 1.0 GiB; for untagged memory");
}

TEST_CASE("refusals while pools had enough free bytes are counted", "[report][diagnosis]") {
    refusing r;
    r.s.segment(r.pool, 400);
    auto const held = r.s.take(r.pool, r.site, 301);
    r.s.refuse(r.model, r.site, 100, 400);  // 99 are free
    CHECK(!refusals_in(r.s)[0].text.ends_with("fragmented or pending"));
    r.s.give(held);
    static_cast<void>(r.s.take(r.pool, r.site, 300));
    r.s.refuse(r.model, r.site, 100, 400);
    CHECK(refusals_in(r.s)[0].text ==
          "budget model refused 2 requests, short by 100 B at most; all for activations (train.cpp:17); 1 "
          "time its pools had that much free, fragmented or pending");
    r.s.refuse(r.root, r.site, 100, 1000);  // the pool is below the root, too
    auto const found = refusals_in(r.s);
    REQUIRE(found.size() == 2);
    CHECK(found[0].text == "budget gpu refused 1 request, short by 100 B; for activations (train.cpp:17); at "
                           "that time its pools had that much free, fragmented or pending");
    r.s.segment_back(r.pool, 100);
    r.s.refuse(r.root, r.site, 100, 1000);
    CHECK(refusals_in(r.s)[0].text.find("; 1 time its") != std::string::npos);

    // A pool that is charged to another budget does not count.
    refusing beside;
    auto const elsewhere = beside.s.budget("data", 1000);
    auto const other = beside.s.pool("other");
    beside.s.charge(elsewhere, beside.root);
    beside.s.charge(other, elsewhere);
    beside.s.already(other, 0, 500);
    beside.s.refuse(beside.model, beside.site, 100, 400);
    CHECK(!refusals_in(beside.s)[0].text.ends_with("fragmented or pending"));
    beside.s.refuse(beside.root, beside.site, 100, 1000);
    CHECK(refusals_in(beside.s).size() == 2);
    CHECK(refusals_in(beside.s)[0].text.ends_with(
        "at that time its pools had that much free, fragmented or pending"));
}
