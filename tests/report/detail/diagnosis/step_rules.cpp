// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/diagnosis/step_rules.hpp>

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

[[nodiscard]] std::vector<cuota::finding> leaks_in(script const& s) {
    return only(finding_kind::leak, cuota::diagnose(s.made()));
}
[[nodiscard]] std::vector<cuota::finding> churn_in(script const& s) {
    return only(finding_kind::churn, cuota::diagnose(s.made()));
}

// Steps of a pool that run `body(script, pool, step)` each; the first end of a step precedes them.
template <class Body>
[[nodiscard]] script steps_of(std::size_t steps, Body body) {
    script s;
    auto const pool = s.pool("work");
    s.end_step(pool);
    for (std::size_t i = 0; i != steps; ++i) {
        body(s, pool, i);
        s.end_step(pool);
    }
    return s;
}
[[nodiscard]] script leaking(std::size_t steps, std::size_t bytes) {
    std::uint32_t site = 0;
    return steps_of(steps, [&](script& s, std::uint16_t pool, std::size_t) {
        if (site == 0) site = s.site("log");
        static_cast<void>(s.take(pool, site, bytes));
    });
}
// Allocates and frees `count` blocks, of which `at_once` are live at a time.
void churn(script& s, std::uint16_t pool, std::uint32_t site, std::size_t count, std::size_t at_once,
           std::size_t bytes) {
    for (std::size_t done = 0; done < count; done += at_once) {
        std::vector<std::uint64_t> held;
        for (std::size_t i = 0; i != at_once && done + i != count; ++i)
            held.push_back(s.take(pool, site, bytes));
        for (std::uint64_t const address : held) s.give(address);
    }
}
[[nodiscard]] script churning(std::size_t steps, std::size_t count, std::size_t at_once) {
    std::uint32_t site = 0;
    return steps_of(steps, [&](script& s, std::uint16_t pool, std::size_t) {
        if (site == 0) site = s.site("scratch");
        churn(s, pool, site, count, at_once, 1_MiB);
    });
}

}  // namespace

TEST_CASE("memory that grows in each of the last steps is a leak", "[report][diagnosis]") {
    auto const found = leaks_in(leaking(10, 12_MiB));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "leak in pool work: log (train.cpp:17) grew by 12.0 MiB in each of the last 10 "
                           "steps, 120.0 MiB in total; 10 blocks still live");
    CHECK(found[0].level == cuota::severity::problem);
    CHECK(found[0].bytes == 120_MiB);
    CHECK(found[0].reference_bytes == 12_MiB);
    CHECK(found[0].count == 10);
    CHECK(found[0].steps == 10);
    CHECK(found[0].name == cuota::tag{"log"});
    CHECK(found[0].where.line == 17);
    CHECK(found[0].subject == "work");
}

TEST_CASE("a leak needs three steps and one MiB in total, and is a problem from six steps on",
          "[report][diagnosis]") {
    CHECK(leaks_in(leaking(2, 12_MiB)).empty());
    REQUIRE(leaks_in(leaking(3, 12_MiB)).size() == 1);
    CHECK(leaks_in(leaking(3, 12_MiB))[0].level == cuota::severity::warning);
    CHECK(leaks_in(leaking(5, 12_MiB))[0].level == cuota::severity::warning);
    CHECK(leaks_in(leaking(6, 12_MiB))[0].level == cuota::severity::problem);
    CHECK(leaks_in(leaking(4, 256_KiB)).size() == 1);
    CHECK(leaks_in(leaking(4, 256_KiB - 1)).empty());

    script more = leaking(3, 12_MiB);
    static_cast<void>(more.take(1, 1, 1_GiB));  // in a step that has not ended
    CHECK(leaks_in(more)[0].bytes == 36_MiB);
    CHECK(leaks_in(more)[0].steps == 3);
}

TEST_CASE("allocations of the first step are not growth", "[report][diagnosis]") {
    script s;
    auto const pool = s.pool("work");
    auto const site = s.site("weights");
    for (int i = 0; i != 3; ++i) {
        static_cast<void>(s.take(pool, site, 10_MiB));
        s.end_step(pool);
    }
    CHECK(leaks_in(s).empty());
    static_cast<void>(s.take(pool, site, 10_MiB));
    s.end_step(pool);
    REQUIRE(leaks_in(s).size() == 1);
    CHECK(leaks_in(s)[0].bytes == 30_MiB);
}

TEST_CASE("growth that stops before the last step is not a leak", "[report][diagnosis]") {
    std::uint32_t site = 0;
    auto const warming_up = [&](std::size_t growing) {
        site = 0;
        return steps_of(10, [&](script& s, std::uint16_t pool, std::size_t i) {
            if (site == 0) site = s.site("cache");
            if (i < growing) static_cast<void>(s.take(pool, site, 10_MiB));
        });
    };
    CHECK(leaks_in(warming_up(9)).empty());
    CHECK(leaks_in(warming_up(10)).size() == 1);
}

TEST_CASE("blocks that are replaced, also by larger ones, are not a leak", "[report][diagnosis]") {
    std::uint32_t site = 0;
    std::vector<std::uint64_t> held;
    auto const keeping = [&](std::size_t kept, std::size_t more) {
        site = 0;
        held.clear();
        return steps_of(20, [&](script& s, std::uint16_t pool, std::size_t i) {
            if (site == 0) site = s.site("batches");
            held.push_back(s.take(pool, site, 10_MiB + i * more));
            if (held.size() <= kept) return;
            s.give(held.front());
            held.erase(held.begin());
        });
    };
    CHECK(leaks_in(keeping(1, 0)).empty());      // one step's blocks
    CHECK(leaks_in(keeping(2, 0)).empty());      // double buffers
    CHECK(leaks_in(keeping(8, 0)).empty());      // a full cache
    CHECK(leaks_in(keeping(1, 1_MiB)).empty());  // slightly larger each time
    CHECK(leaks_in(keeping(2, 1_MiB)).empty());
    CHECK(leaks_in(keeping(20, 0)).size() == 1);
}

TEST_CASE("a leak beside temporary blocks is only the part that stays allocated", "[report][diagnosis]") {
    std::uint32_t site = 0;
    auto const s = steps_of(4, [&](script& made, std::uint16_t pool, std::size_t i) {
        if (site == 0) site = made.site("log");
        churn(made, pool, site, 50, 5, 1_MiB);
        static_cast<void>(made.take(pool, site, (i + 1) * 1_MiB));
    });
    auto const found = leaks_in(s);
    REQUIRE(found.size() == 1);
    CHECK(found[0].text == "leak in pool work: log (train.cpp:17) grew by 1.0 MiB to 4.0 MiB in each of the "
                           "last 4 steps, 10.0 MiB in total; 4 blocks still live");
}

TEST_CASE("a step that frees as much as it keeps ends a leak", "[report][diagnosis]") {
    auto const with = [](std::size_t given_back) {
        std::uint32_t site = 0;
        std::vector<std::uint64_t> held;
        return steps_of(8, [&, given_back](script& s, std::uint16_t pool, std::size_t i) {
            if (site == 0) site = s.site("log");
            held.push_back(s.take(pool, site, 10_MiB));
            for (std::size_t n = 0; i == 3 && n != given_back; ++n) s.give(held[n]);
        });
    };
    CHECK(leaks_in(with(0)).at(0).steps == 8);
    for (std::size_t const given_back : {1U, 2U}) {  // no growth, and shrinking
        auto const found = leaks_in(with(given_back));
        REQUIRE(found.size() == 1);
        CHECK(found[0].steps == 4);
        CHECK(found[0].bytes == 40_MiB);
        CHECK(found[0].text.find("grew by 10.0 MiB in each of the last 4 steps") != std::string::npos);
    }
}

TEST_CASE("a leak has one tag and call site, and one pool", "[report][diagnosis]") {
    script s;
    auto const a = s.pool("a");
    auto const b = s.pool("b");
    auto const here = s.site("log", 1);
    auto const there = s.site("log", 2);
    for (int i = 0; i != 5; ++i) {
        static_cast<void>(s.take(a, i % 2 == 0 ? here : there, 10_MiB));
        static_cast<void>(s.take(i % 2 == 0 ? a : b, 0, 10_MiB));
        s.end_step(a);
        s.end_step(b);
    }
    CHECK(leaks_in(s).empty());
}

TEST_CASE("dropped events neither cause a false leak nor hide a leak", "[report][diagnosis]") {
    // Blocks from before the recording are freed while new ones are allocated: their deallocations must count.
    std::uint32_t site = 0;
    std::vector<std::uint64_t> held;
    script turns = steps_of(12, [&](script& s, std::uint16_t pool, std::size_t) {
        if (site == 0) site = s.site("cache");
        held.push_back(s.take(pool, site, 10_MiB));
        if (held.size() <= 6) return;
        s.give(held.front());
        held.erase(held.begin());
    });
    for (std::size_t const dropped : {1U, 5U, 12U, 3U}) {
        turns.drop(dropped);
        CHECK(leaks_in(turns).empty());
    }
    script leak = leaking(10, 12_MiB);
    leak.drop(leak.events() - 9);  // the last four steps and one end of a step
    REQUIRE(leaks_in(leak).size() == 1);
    CHECK(leaks_in(leak)[0].steps == 4);
    leak.drop(3);
    CHECK(leaks_in(leak).empty());  // the first of three may have begun before
}

TEST_CASE("memory without steps uses the steps of the pool with the most steps", "[report][diagnosis]") {
    auto const with = [](bool second_pool) {
        script s;
        auto const pool = s.pool("work");
        auto const host = s.resource("host", cuota::memory_kind::pinned);
        auto const other = s.pool("other");
        auto const site = s.site("log");
        for (int i = 0; i != 7; ++i) {
            static_cast<void>(s.take(host, site, 12_MiB));
            s.end_step(pool);
            if (second_pool && i % 2 == 0) s.end_step(other);
        }
        return s;
    };
    for (bool const second_pool : {false, true}) {
        auto const found = leaks_in(with(second_pool));
        REQUIRE(found.size() == 1);
        CHECK(found[0].text == "leak in resource host: log (train.cpp:17) grew by 12.0 MiB in each of the "
                               "last 6 steps, 72.0 MiB in total; 6 blocks still live");
    }
    script none;
    auto const pool = none.pool("work");
    for (int i = 0; i != 10; ++i) static_cast<void>(none.take(pool, 0, 1_GiB));
    CHECK(leaks_in(none).empty());  // steps are needed for this rule
}

TEST_CASE("blocks of two tags at the same address are different blocks", "[report][diagnosis]") {
    // Blocks of two tags at the same address, one after the other.
    script s;
    auto const pool = s.pool("work");
    auto const a = s.site("a");
    auto const b = s.site("b");
    s.end_step(pool);
    for (int i = 0; i != 6; ++i) {
        s.give(s.take(pool, a, 10_MiB));
        s.give(s.take(pool, b, 10_MiB));
        s.end_step(pool);
    }
    cuota::recording same = s.made();
    for (cuota::memory_event& e : same.events) e.address = 4096;
    CHECK(only(finding_kind::leak, cuota::diagnose(same)).empty());
}

TEST_CASE("memory that is allocated and freed many times in each step is churn", "[report][diagnosis]") {
    auto const found = churn_in(churning(5, 400, 2));
    REQUIRE(found.size() == 1);
    CHECK(found[0].text ==
          "churn in pool work: scratch (train.cpp:17) was allocated and freed at least 400 times in each of "
          "the last 5 steps, at most 2.0 MiB at once: allocate it once and reuse it");
    CHECK(found[0].level == cuota::severity::note);
    CHECK(found[0].bytes == 2_MiB);
    CHECK(found[0].reference_bytes == 400_MiB);
    CHECK(found[0].count == 400);
    CHECK(found[0].steps == 5);
}

TEST_CASE("churn needs three steps, a hundred blocks and four turns", "[report][diagnosis]") {
    CHECK(churn_in(churning(3, 100, 25)).size() == 1);
    CHECK(churn_in(churning(2, 100, 25)).empty());
    CHECK(churn_in(churning(3, 99, 1)).empty());
    CHECK(churn_in(churning(3, 100, 26)).empty());  // nearly a third of it at once
}

TEST_CASE("blocks that outlive their step or are older than the recording are not churn",
          "[report][diagnosis]") {
    auto const with = [](std::size_t kept_steps) {
        std::uint32_t site = 0;
        std::vector<std::uint64_t> held;
        return steps_of(5, [site, held, kept_steps](script& s, std::uint16_t pool, std::size_t) mutable {
            if (site == 0) site = s.site("scratch");
            churn(s, pool, site, 400, 2, 1_MiB);
            if (kept_steps == 0) return;
            held.push_back(s.take(pool, site, 1_MiB));
            if (held.size() < kept_steps) return;
            s.give(held.front());
            held.erase(held.begin());
        });
    };
    CHECK(churn_in(with(0)).size() == 1);
    CHECK(churn_in(with(1)).size() == 1);  // freed in its own step
    CHECK(churn_in(with(2)).empty());      // freed in the next
    CHECK(churn_in(with(9)).empty());

    // A single older block that is freed meanwhile does not hide the rule.
    script from_setup;
    auto const pool = from_setup.pool("work");
    auto const site = from_setup.site("scratch");
    auto const older = from_setup.take(pool, site, 1_MiB);
    from_setup.end_step(pool);
    for (int i = 0; i != 3; ++i) {
        churn(from_setup, pool, site, 400, 2, 1_MiB);
        if (i == 1) from_setup.give(older);
        from_setup.end_step(pool);
    }
    REQUIRE(churn_in(from_setup).size() == 1);
    CHECK(churn_in(from_setup)[0].steps == 3);

    script stopped = churning(5, 400, 2);
    stopped.end_step(1);
    CHECK(churn_in(stopped).empty());
}
