// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/planned_slab.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::plan_answer;
using cuota::detail::planned_slab;
using support::has;
using support::thrown;

namespace {

std::byte* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);

cuota::planned_step placed(std::vector<cuota::lifetime> const& blocks) {
    cuota::planned_step step;
    for (cuota::lifetime const& l : blocks) step.requests.push_back({l});
    cuota::detail::place_requests(step, {});
    return step;
}
/// Requests of these sizes, each freed before the next, so that all share the same bytes.
cuota::planned_step one_by_one(std::vector<std::size_t> const& sizes) {
    std::vector<cuota::lifetime> blocks;
    for (std::size_t const bytes : sizes) blocks.push_back({blocks.size(), blocks.size() + 1, bytes});
    return placed(blocks);
}
/// Requests of these sizes that all live to the end, so that none shares bytes.
cuota::planned_step together(std::vector<std::size_t> const& sizes) {
    std::vector<cuota::lifetime> blocks;
    for (std::size_t const bytes : sizes) blocks.push_back({blocks.size(), 100'000, bytes});
    return placed(blocks);
}

/// A slab and a stream that requests memory from it.
struct requested {
    explicit requested(cuota::planned_step const& plan) : step{plan}, slab{plan, base} { slab.begin_step(); }

    planned_slab::result take(std::size_t bytes, cuota::label const& who = {}) {
        return slab.try_take(order, stream, order.index_of(stream), bytes, who);
    }
    plan_answer answer(std::size_t bytes) { return take(bytes).answer; }
    void give(void const* p, std::size_t bytes) {
        std::uint32_t const stream_index = order.index_of(stream);
        slab.expect(stream_index);
        slab.give_back(slab.find_live(p, bytes), order.release_on(stream_index));
    }
    void suggestion() {
        slab.end_step();
        slab.begin_step();
    }
    std::byte* place_of(std::size_t request) const { return base + step.requests[request].offset; }

    cuota::planned_step step;
    cuota::detail::stream_order order{};
    cuota::stream stream{};
    planned_slab slab;
};

}  // namespace

TEST_CASE("planned_slab serves each request at its planned offset, in every step", "[pool][planned_slab]") {
    requested a{placed({{0, 3, 1000}, {1, 2, 300}, {2, 4, 512}})};
    CHECK(a.slab.at() == base);
    CHECK(a.slab.bytes() == 1536);
    CHECK(a.slab.holds(base + 1535));
    CHECK_FALSE(a.slab.holds(base + 1536));
    CHECK_FALSE(a.slab.holds(base - 1));
    CHECK(a.place_of(1) == a.place_of(2));
    for (int i = 0; i != 3; ++i) {
        auto const first = a.take(1000);
        CHECK(first.answer == plan_answer::served);
        CHECK(first.at == a.place_of(0));
        void* const second = a.take(300).at;
        CHECK(second == a.place_of(1));
        CHECK(a.slab.live() == 2);
        a.give(second, 300);
        void* const third = a.take(512).at;
        CHECK(third == second);
        a.give(first.at, 1000);
        a.give(third, 512);
        CHECK(a.answer(1) == plan_answer::missed_beyond_plan);
        a.suggestion();
    }
    CHECK(a.slab.live() == 0);
    CHECK(a.slab.skipped() == 0);
    CHECK(a.order.waits() == 0);
}

TEST_CASE("planned_slab searches the next sixteen requests for a match", "[pool][planned_slab]") {
    std::vector<std::size_t> sizes(20, 256);
    sizes[15] = 512;
    sizes[17] = 1024;
    requested a{together(sizes)};
    CHECK(a.answer(1024) == plan_answer::missed_size);  // the eighteenth request
    CHECK(a.answer(0) == plan_answer::missed_size);
    CHECK(a.answer(cuota::unlimited) == plan_answer::missed_size);
    CHECK(a.slab.skipped() == 0);
    CHECK(a.take(512).at == a.place_of(15));
    CHECK(a.slab.skipped() == 15);
    CHECK(a.take(1024).at == a.place_of(17));
    CHECK(a.slab.skipped() == 16);
    CHECK(a.answer(512) == plan_answer::missed_size);  // these requests were skipped
    CHECK(a.take(256).at == a.place_of(18));
    a.slab.end_step();
    CHECK(a.slab.skipped() == 17);
    a.slab.end_step();
    CHECK(a.slab.skipped() == 17);
    CHECK(a.answer(256) == plan_answer::missed_beyond_plan);
}

TEST_CASE("planned_slab never serves bytes of a live block", "[pool][planned_slab]") {
    requested a{one_by_one({1000, 2000, 3000})};
    SECTION("of this step") {
        void* const p = a.take(1000).at;
        CHECK(a.answer(2000) == plan_answer::missed_busy);
        CHECK(a.answer(3000) == plan_answer::missed_busy);
        CHECK(a.answer(1000) == plan_answer::missed_beyond_plan);
        a.give(p, 1000);
        a.suggestion();
        CHECK(a.answer(1000) == plan_answer::served);
    }
    SECTION("of the previous step, until it is freed") {
        a.take(1000);
        void* const p = base;
        a.suggestion();
        CHECK(a.answer(1000) == plan_answer::missed_busy);
        a.give(p, 1000);
        CHECK(a.answer(2000) == plan_answer::served);
    }
    SECTION("of an earlier step, with steps without requests in between") {
        a.take(3000);
        for (int i = 0; i != 4; ++i) a.suggestion();
        CHECK(a.answer(1000) == plan_answer::missed_busy);
        a.give(base, 3000);
        CHECK(a.answer(3000) == plan_answer::served);
    }
    CHECK(a.slab.live() == 1);
}

TEST_CASE("planned_slab checks live blocks when the step deviates from the plan", "[pool][planned_slab]") {
    // The third request uses the bytes of the first two, the fourth those beside it, and the last one all of them.
    requested a{placed({{0, 3, 256}, {1, 4, 512}, {5, 8, 768}, {6, 9, 256}, {10, 11, 1024}})};
    REQUIRE(a.slab.bytes() == 1024);
    REQUIRE(a.place_of(4) == base);
    void* const p = a.take(512).at;  // the first request is left out
    REQUIRE(p == a.place_of(1));
    SECTION("an overlapping live block is found") {
        CHECK(a.answer(768) == plan_answer::missed_busy);
        CHECK(a.answer(256) == plan_answer::served);
        a.give(p, 512);
        CHECK(a.answer(1024) == plan_answer::missed_busy);
    }
    SECTION("a freed block is not found") {
        a.give(p, 512);
        CHECK(a.answer(768) == plan_answer::served);
        CHECK(a.answer(1024) == plan_answer::missed_busy);
        a.suggestion();
        CHECK(a.answer(256) == plan_answer::missed_busy);
    }
}

TEST_CASE("planned_slab reserves no bytes for requests that outlived the recorded step",
          "[pool][planned_slab]") {
    cuota::planned_step step{{{{0, 2, 1000}}, {{1, 3, 500}, 0, false}, {{2, 3, 1000}}}};
    cuota::detail::place_requests(step, {});
    requested a{step};
    a.give(a.take(1000).at, 1000);
    CHECK(a.answer(500) == plan_answer::not_plannable);
    CHECK(a.take(1000).at == a.place_of(2));
    CHECK(a.slab.skipped() == 0);
}

TEST_CASE("planned_slab with an empty plan serves and holds nothing", "[pool][planned_slab]") {
    cuota::detail::stream_order order;
    cuota::stream const s;
    cuota::planned_step const lost{{{{0, 1, 1000}, 0, false}}};
    for (cuota::planned_step const& step : {cuota::planned_step{}, lost}) {
        planned_slab slab{step, nullptr};
        CHECK_FALSE(slab.holds(nullptr));
        CHECK_FALSE(slab.holds(base));
        slab.begin_step();
        CHECK(slab.try_take(order, s, order.index_of(s), 1000, {}).answer ==
              (step.requests.empty() ? plan_answer::missed_beyond_plan : plan_answer::not_plannable));
        slab.end_step();
        CHECK(slab.skipped() == 0);
        CHECK(slab.live() == 0);
    }
}

TEST_CASE("planned_slab throws for an invalid free and changes nothing", "[pool][planned_slab]") {
    requested a{together({1000, 2000})};
    void* const p = a.take(1000, {"loss", {"train.cpp", 7}}).at;
    void* const q = a.take(2000).at;
    auto const told = [&](void const* at, std::size_t bytes) {
        return std::string{thrown<cuota::usage_error>([&] { (void)a.slab.find_live(at, bytes); }).what()};
    };
    CHECK(has(told(p, 1001), "deallocate with the wrong size: 1001 B of 1000 B loss"));
    CHECK(has(told(p, 1001), "train.cpp:7"));
    CHECK(has(told(q, cuota::unlimited), "of 2.0 KiB"));
    CHECK(has(told(static_cast<std::byte*>(p) + 1, 1000), "unknown pointer"));
    CHECK(has(told(static_cast<std::byte*>(p) + 256, 1000), "unknown pointer"));
    CHECK(a.slab.live() == 2);
    a.give(p, 1000);
    CHECK(has(told(p, 1000), "double free"));
    a.give(q, 2000);
    CHECK(a.slab.live() == 0);
}

TEST_CASE("planned_slab lists live blocks in the order of the sequence", "[pool][planned_slab]") {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i != 150; ++i) sizes.push_back(256 * (i + 1));
    requested a{together(sizes)};
    std::vector<void*> all;
    for (std::size_t const bytes : sizes) all.push_back(a.take(bytes, {"x", {"train.cpp", 1}}).at);
    for (std::size_t const i : {149U, 0U, 70U}) a.give(all[i], sizes[i]);
    std::vector<cuota::allocation_group> left;
    a.slab.allocation_groups(left, false);
    CHECK(left.empty());
    a.suggestion();
    CHECK(a.take(256).answer == plan_answer::served);
    a.slab.allocation_groups(left, false);
    REQUIRE(left.size() == 147);
    CHECK(left[0].bytes == 512);
    CHECK(left[69].bytes == 256 * 72);
    CHECK(left[146].bytes == 256 * 149);
    CHECK(left[0].name == cuota::tag{"x"});
    CHECK(left[0].where.line == 1);
    left.clear();
    a.slab.allocation_groups(left, true);
    CHECK(left.size() == 148);
    CHECK(left[0].bytes == 256);
}

TEST_CASE("planned_slab's constructor throws without host memory, and a later failure changes nothing",
          "[pool][planned_slab]") {
    auto const step = together({1000, 2000, 3000});
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        std::optional<planned_slab> slab;
        support::failing_heap const heap{allowed};
        try {
            slab.emplace(step, base);
            break;
        } catch (std::bad_alloc const&) { ++refused; }
        REQUIRE(refused < 100);
    }
    CHECK(refused > 3);

    requested a{step};
    void* const p = a.take(1000).at;
    {
        support::failing_heap const heap{0};
        REQUIRE_THROWS_AS(a.slab.expect(3), std::bad_alloc);
        std::vector<cuota::allocation_group> into;
        REQUIRE_THROWS_AS(a.slab.allocation_groups(into, true), std::bad_alloc);
    }
    CHECK(a.slab.live() == 1);
    a.give(p, 1000);
    CHECK(a.answer(2000) == plan_answer::served);
}

TEST_CASE("go_back makes planned_slab repeat a refused request, unless later requests were served",
          "[pool][planned_slab]") {
    cuota::planned_step step{{{{0, 9, 300}}, {{1, 9, 500}, 0, false}, {{2, 9, 1000}}, {{3, 9, 2000}}}};
    cuota::detail::place_requests(step, {});
    requested a{step};
    CHECK(a.answer(500) == plan_answer::not_plannable);  // request 0 is skipped
    REQUIRE(a.slab.position() == 2);
    CHECK(a.slab.skipped() == 1);
    a.slab.go_back(0, 2);
    CHECK(a.slab.position() == 0);
    CHECK(a.slab.skipped() == 0);

    CHECK(a.answer(300) == plan_answer::served);
    CHECK(a.answer(500) == plan_answer::not_plannable);
    CHECK(a.answer(1000) == plan_answer::served);
    a.slab.go_back(1, 2);  // too late
    CHECK(a.slab.position() == 3);
    CHECK(a.answer(700) == plan_answer::missed_size);
    a.slab.go_back(3, 3);
    CHECK(a.slab.position() == 3);
    CHECK(a.answer(2000) == plan_answer::served);
    CHECK(a.slab.skipped() == 0);
}
