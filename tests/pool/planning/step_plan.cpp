// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/step_plan.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

struct planned_pool {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream stream{};
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();

    void* take(std::size_t bytes) { return memory.allocate(stream, bytes); }
    void give(void* p, std::size_t bytes) { memory.deallocate(stream, p, bytes); }
    /// Allocates blocks of these sizes in turn, frees them in the same order, and returns their addresses.
    std::vector<void*> step(std::vector<std::size_t> const& sizes) {
        auto const scope = plan.begin();
        std::vector<void*> blocks;
        for (std::size_t const bytes : sizes) blocks.push_back(take(bytes));
        for (std::size_t i = 0; i != sizes.size(); ++i) give(blocks[i], sizes[i]);
        return blocks;
    }
};

std::size_t total(std::vector<std::size_t> const& sizes) {
    std::size_t sum = 0;
    for (std::size_t const bytes : sizes) sum += cuota::round_up(bytes, 256);
    return sum;
}

}  // namespace

TEST_CASE("step_plan records a step and serves later steps from one slab", "[pool][step_plan]") {
    planned_pool p;
    std::vector<std::size_t> const sizes{1000, 70'000, 300, 1000};
    {
        auto const scope = p.plan.begin();
        CHECK(scope.is_recorded());
        p.give(p.take(1000), 1000);
        void* const kept = p.take(500);
        p.give(p.take(2000), 2000);
        p.give(kept, 500);
    }
    CHECK_FALSE(p.plan.stats().has_slab);
    CHECK(p.plan.stats().recorded == 3);
    CHECK(p.plan.planned().requests.empty());

    for (int i = 0; i != 3; ++i) {
        auto const scope = p.plan.begin();
        CHECK_FALSE(scope.is_recorded());
        CHECK(p.plan.stats().peak == 512 + 2048);
        void* const first = p.take(1000);
        p.give(first, 1000);
        void* const kept = p.take(500);
        void* const last = p.take(2000);
        CHECK((last == first || kept == first));  // reuses the bytes of first
        p.give(last, 2000);
        p.give(kept, 500);
    }
    auto const stats = p.plan.stats();
    CHECK(stats.has_slab);
    CHECK(stats.served == 9);
    CHECK(stats.fallbacks() == 0);
    CHECK(stats.skipped == 0);
    CHECK(stats.outside == 0);
    CHECK(stats.steps == 4);
    CHECK(stats.requests == 3);
    CHECK(stats.lower_bound == 512 + 2048);
    CHECK(stats.ratio() == 1);
    CHECK(p.pool.stats().requested == stats.peak);  // the slab is the pool's only allocation
}

TEST_CASE("step_plan behaves as a resource, in steps and between them", "[pool][step_plan]") {
    planned_pool p;
    std::optional<cuota::step_scope> scope;
    int const what = GENERATE(0, 1, 2);
    if (what != 0) (void)p.step({1000, 5000, 40'000, 40'000});
    if (what != 1) scope.emplace(p.plan.begin());
    support::behaves_as_a_resource(p.memory);
}

TEST_CASE("step_plan serves buffers", "[pool][step_plan]") {
    planned_pool p;
    for (int i = 0; i != 3; ++i) {
        auto const scope = p.plan.begin();
        cuota::device_buffer<float> const x{1000, 1.5F, p.stream, p.plan};
        cuota::device_buffer<float> const y{3000, 2.5F, p.stream, p.plan};
        CHECK(x.to_vector(p.stream) == std::vector<float>(1000, 1.5F));
        CHECK(y.to_vector(p.stream) == std::vector<float>(3000, 2.5F));
    }
    CHECK(p.plan.stats().served == 4);
    CHECK(p.plan.stats().fallbacks() == 0);
}

TEST_CASE("step_plan counts deviations by reason, and continues with the plan", "[pool][step_plan]") {
    planned_pool p;
    std::vector<std::size_t> const sizes{1000, 2000, 3000, 4000, 5000};
    (void)p.step(sizes);
    auto const base = p.step(sizes);
    CHECK(p.plan.stats().served == 5);

    SECTION("another size, and one additional request") {
        auto const blocks = p.step({1000, 2000, 9999, 3000, 4000, 5000});
        CHECK(blocks[0] == base[0]);
        CHECK(blocks[3] == base[2]);
        CHECK(blocks[5] == base[4]);
        CHECK(p.plan.stats().served == 10);
        CHECK(p.plan.stats().missed_size == 1);
        CHECK(p.plan.stats().skipped == 0);
    }
    SECTION("missing requests") {
        auto const blocks = p.step({1000, 4000});
        CHECK(blocks[1] == base[3]);
        CHECK(p.plan.stats().served == 7);
        CHECK(p.plan.stats().skipped == 3);
        CHECK(p.step(sizes) == base);
    }
    SECTION("more requests than recorded") {
        (void)p.step({1000, 2000, 3000, 4000, 5000, 1000, 1});
        CHECK(p.plan.stats().missed_beyond_plan == 2);
    }
    SECTION("a request that is too far ahead") {
        std::vector<std::size_t> many(17, 256);
        many.push_back(512);
        p.plan.rerecord();
        (void)p.step(many);
        (void)p.step({512});
        CHECK(p.plan.stats().missed_size == 1);
        (void)p.step({256, 256, 512});
        CHECK(p.plan.stats().missed_size == 1);
        CHECK(p.plan.stats().served == 5 + 3);
    }
    SECTION("between steps, and without a stream") {
        void* const q = p.take(1000);
        CHECK(q != base[0]);
        p.give(q, 1000);
        p.memory.deallocate_sync(p.memory.allocate_sync(1000), 1000);
        CHECK(p.plan.stats().outside == 2);
    }
    SECTION("a larger alignment than a plan's blocks, which the upstream provides") {
        {
            auto const step = p.plan.begin();
            void* const q = p.memory.allocate(p.stream, 1000, 4096);
            CHECK(reinterpret_cast<std::uintptr_t>(q) % 4096 == 0);
            p.memory.deallocate(p.stream, q, 1000, 4096);
            void* const r = p.memory.allocate_sync(1000, 4096);
            CHECK(reinterpret_cast<std::uintptr_t>(r) % 4096 == 0);
            p.memory.deallocate_sync(r, 1000, 4096);
            CHECK(p.memory.allocate(p.stream, 0, 4096) == nullptr);
            CHECK_THROWS_AS(p.memory.allocate(p.stream, 1000, 4_MiB), cuota::usage_error);
            CHECK_THROWS_AS(p.memory.allocate(p.stream, 1000, 3), cuota::usage_error);
        }
        CHECK(p.plan.stats().outside == 3);
        CHECK(p.plan.stats().served == 5);
    }
    CHECK(p.plan.stats().missed_busy == 0);
    CHECK(p.plan.stats().live == 0);
}

TEST_CASE("step_plan: a block that outlives its step keeps its bytes and is listed", "[pool][step_plan]") {
    planned_pool p;
    (void)p.step({1000, 2000});
    auto const base = p.step({1000, 2000});
    void* loss = nullptr;
    {
        auto const scope = p.plan.begin();
        loss = p.memory.allocate(p.stream, 1000, 256, {"loss", {"train.cpp", 7}});
        CHECK(p.plan.outlived().empty());  // it may still be freed
    }
    auto const left = p.plan.outlived();
    REQUIRE(left.size() == 1);
    CHECK(left[0].name == cuota::tag{"loss"});
    CHECK(left[0].where.line == 7);
    CHECK(left[0].bytes == 1000);
    for (int i = 0; i != 2; ++i) {
        auto const blocks = p.step({1000, 2000});
        CHECK(blocks[0] != loss);
        CHECK(blocks[1] == base[1]);
    }
    CHECK(p.plan.stats().missed_busy == 2);
    p.give(loss, 1000);
    CHECK(p.plan.outlived().empty());
    CHECK(p.step({1000, 2000}) == base);
}

TEST_CASE("step_plan: a block that outlived the recorded step is served by the pool and listed",
          "[pool][step_plan]") {
    planned_pool p;
    std::vector<void*> kept;
    for (int i = 0; i != 3; ++i) {
        auto const scope = p.plan.begin();
        p.give(p.take(2000), 2000);
        kept.push_back(p.memory.allocate(p.stream, 1000, 256, {"moment", {"train.cpp", 3}}));
    }
    CHECK(p.plan.stats().peak == 2048);
    CHECK(p.plan.stats().served == 2);
    CHECK(p.plan.stats().not_plannable == 2);
    REQUIRE(p.plan.outlived().size() == 1);
    CHECK(p.plan.outlived()[0].name == cuota::tag{"moment"});
    for (void* const q : kept) p.give(q, 1000);
}

TEST_CASE("rerecord makes step_plan record again, and earlier blocks stay valid", "[pool][step_plan]") {
    planned_pool p;
    (void)p.step({1000, 2000});
    (void)p.step({1000, 2000});
    void* kept = nullptr;
    {
        auto const scope = p.plan.begin();
        kept = p.take(1000);
        REQUIRE_THROWS_AS(p.plan.rerecord(), cuota::usage_error);
    }
    p.plan.rerecord();
    CHECK_FALSE(p.plan.stats().has_slab);
    CHECK(p.plan.stats().live == 1);
    for (int i = 0; i != 3; ++i) (void)p.step({5000, 6000, 7000});
    CHECK(p.plan.stats().requests == 3);
    CHECK(p.plan.stats().peak == total({5000, 6000, 7000}));
    CHECK(p.pool.stats().live_blocks == 2);
    p.give(kept, 1000);
    (void)p.step({5000, 6000, 7000});
    CHECK(p.pool.stats().live_blocks == 1);  // the old slab was freed
    CHECK(p.plan.stats().fallbacks() == 0);
}

TEST_CASE("step_plan ignores a recorded step that an exception ended or that was empty",
          "[pool][step_plan]") {
    planned_pool p;
    REQUIRE_THROWS_AS(
        [&] {
            auto const scope = p.plan.begin();
            p.give(p.take(1000), 1000);
            throw std::runtime_error{"no"};
        }(),
        std::runtime_error);
    CHECK(p.plan.begin().is_recorded());
    (void)p.step({1000});
    CHECK_FALSE(p.plan.begin().is_recorded());
    CHECK(p.plan.stats().recorded == 2);
}

TEST_CASE("step_plan works without a slab when it is refused, and prepare throws the reason",
          "[pool][step_plan]") {
    cuota::budget const budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    cuota::step_plan plan{pool};
    auto const step = [&] {
        auto const scope = plan.begin();
        for (int i = 0; i != 2; ++i)
            plan.resource().deallocate(stream, plan.resource().allocate(stream, 768_KiB), 768_KiB);
    };
    auto const held = budget.held();
    step();
    void* const other = pool.allocate(stream, 512_KiB, 256);
    auto const before = pool.stats();
    REQUIRE_THROWS_AS(plan.prepare(), cuota::budget_exceeded);
    CHECK(pool.stats().requested == before.requested);
    CHECK(budget.held() >= held);
    {
        auto const scope = plan.begin();
        void* const small = plan.resource().allocate(stream, 1000);
        plan.resource().deallocate(stream, small, 1000);
    }
    CHECK(plan.stats().missed_no_slab == 1);
    CHECK_FALSE(plan.stats().has_slab);
    CHECK(plan.planned().requests.size() == 2);
    pool.deallocate(stream, other, 512_KiB);
    plan.prepare();
    CHECK(plan.stats().has_slab);
    step();
    CHECK(plan.stats().served == 2);
}

TEST_CASE("step_plan uses a saved plan in place of a recorded step", "[pool][step_plan]") {
    support::temp_folder const folder;
    std::vector<std::size_t> const sizes{1000, 70'000, 300, 1000};
    {
        planned_pool p;
        REQUIRE_THROWS_AS(p.plan.save(folder.path("step.plan")), cuota::usage_error);
        (void)p.step(sizes);
        p.plan.prepare();
        p.plan.save(folder.path("step.plan"));
    }
    planned_pool p;
    p.plan.load(folder.path("step.plan"));
    (void)p.step(sizes);
    CHECK(p.plan.stats().recorded == 0);
    CHECK(p.plan.stats().served == 4);
    auto const bad = folder.write("bad.plan", "nonsense");
    auto const planned = p.plan.planned();
    auto const refused = thrown<cuota::data_error>([&] { p.plan.load(bad); });
    CHECK(has(refused.why(), "line 1"));
    CHECK(p.plan.planned() == planned);
    (void)p.step(sizes);
    CHECK(p.plan.stats().served == 8);
}

TEST_CASE("step_plan serves the first step as well when its requests are given", "[pool][step_plan]") {
    planned_pool p;
    std::vector<cuota::lifetime> const requests{{0, 3, 1000}, {1, 2, 70'000}, {4, 5, 2000}};
    auto const step = [&] {
        auto const scope = p.plan.begin();
        CHECK_FALSE(scope.is_recorded());
        void* const kept = p.take(1000);
        p.give(p.take(70'000), 70'000);
        p.give(kept, 1000);
        p.give(p.take(2000), 2000);
    };
    p.plan.set_plan(requests);
    p.plan.prepare();
    CHECK(p.plan.planned().peak == 1024 + 70'144);
    for (std::size_t i = 1; i != 4; ++i) {
        step();
        CHECK(p.plan.stats().served == 3 * i);
    }
    CHECK(p.plan.stats().recorded == 0);

    auto const planned = p.plan.planned();
    auto const refused = [&](std::vector<cuota::lifetime> const& wrong) {
        return std::string{thrown<cuota::usage_error>([&] { p.plan.set_plan(wrong); }).what()};
    };
    CHECK(has(refused({{0, 3, 10}, {0, 2, 10}}), "request 1 does not come after the previous one"));
    CHECK(has(refused({{0, 3, 10}, {4, 4, 10}}), "row 1: the lifetime"));
    {
        auto const scope = p.plan.begin();
        CHECK_THROWS_AS(p.plan.set_plan(requests), cuota::usage_error);
    }
    CHECK(p.plan.planned() == planned);
}

TEST_CASE("step_plan refuses invalid calls and frees", "[pool][step_plan]") {
    support::captured_errors errors;
    planned_pool p;
    (void)p.step({1000, 2000});
    auto const base = p.step({1000, 2000});
    {
        auto const scope = p.plan.begin();
        CHECK(has(thrown<cuota::usage_error>([&] { (void)p.plan.begin(); }).what(), "while a step is open"));
        REQUIRE_THROWS_AS(p.plan.prepare(), cuota::usage_error);
        REQUIRE_THROWS_AS(p.plan.load("nothing"), cuota::data_error);
        void* const q = p.take(1000);
        auto const told = [&] {
            auto const all = errors.take();
            return all.size() == 1 ? all[0] : std::to_string(all.size()) + " errors";
        };
        p.give(q, 999);
        CHECK(has(told(), "deallocate with the wrong size: 999 B of 1000 B"));
        p.give(static_cast<char*>(q) + 256, 1000);
        CHECK(has(told(), "unknown pointer"));
        p.give(base[1], 2000);
        CHECK(has(told(), "unknown pointer"));
        p.give(q, 1000);
        CHECK(errors.count() == 0);
        p.give(q, 1000);
        CHECK(has(told(), "double free"));
        CHECK(p.plan.stats().live == 0);
    }
    cuota::step_plan fresh{p.pool};
    REQUIRE_THROWS_AS(fresh.prepare(), cuota::usage_error);
}

TEST_CASE("step_plan: live blocks at its destruction are reported, and keep the slab until they are freed",
          "[pool][step_plan]") {
    support::captured_errors errors;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const stream;
    std::optional<cuota::step_plan> plan{std::in_place, pool};
    std::optional<cuota::step_resource> memory{plan->resource()};
    void* p = nullptr;
    for (int i = 0; i != 2; ++i) {
        auto const scope = plan->begin();
        p = memory->allocate(stream, 1000, 256, {"state", {"train.cpp", 9}});
        if (i == 0) memory->deallocate(stream, p, 1000);
    }
    plan.reset();
    auto const told = errors.take();
    REQUIRE(told.size() == 1);
    CHECK(has(told[0], "step_plan destroyed while 1 allocation is still alive: state 1000 B (train.cpp:9)"));
    REQUIRE_THROWS_AS(memory->allocate(stream, 10), cuota::usage_error);
    cuota::rt::fill_bytes(p, 1, 1000, stream);
    CHECK(pool.stats().live_blocks == 1);
    memory->deallocate(stream, p, 1000);
    memory.reset();
    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.count() == 0);
}

TEST_CASE("a refused request may be repeated, and the rest of its step is served as planned",
          "[pool][step_plan]") {
    planned_pool p;
    void* lasting = nullptr;
    {
        auto const scope = p.plan.begin();
        lasting = p.take(4_MiB);  // outlives the step, so it is not planned
        for (std::size_t const bytes : {1_MiB, 4_MiB, 2_MiB}) p.give(p.take(bytes), bytes);
    }
    p.give(lasting, 4_MiB);
    auto const scope = p.plan.begin();
    void* const other = p.pool.allocate(p.stream, 58_MiB);

    for (int i = 0; i != 2; ++i) CHECK_THROWS_AS(p.take(4_MiB), cuota::budget_exceeded);
    p.pool.deallocate(p.stream, other, 58_MiB);
    lasting = p.take(4_MiB);
    for (std::size_t const bytes : {1_MiB, 4_MiB, 2_MiB}) p.give(p.take(bytes), bytes);

    auto const stats = p.plan.stats();
    CHECK(stats.served == 3);
    CHECK(stats.not_plannable == 3);
    CHECK(stats.missed_size == 0);
    CHECK(stats.missed_busy == 0);
    CHECK(stats.skipped == 0);
    p.give(lasting, 4_MiB);
}
