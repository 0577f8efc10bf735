// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A planned step that is captured: each launch uses the same addresses, and steps and launches do not disturb each other.
#include <cuota/pool/detail/steps/step_in_graph.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t kilo = 1024;
constexpr std::size_t count = 16 * kilo / sizeof(support::word);

template <class Action>
std::string why_refused(Action action) {
    return support::thrown<cuota::usage_error>(action).what();
}

struct add_words {
    support::word* to;
    support::word const* a;
    support::word const* b;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = a[i] + b[i] * 3; }
};

// A block of words from a plan.
struct block {
    cuota::step_resource memory;
    cuota::stream_ref s;
    std::size_t bytes = 16 * kilo;
    support::word* at = static_cast<support::word*>(memory.allocate(s, bytes));
    std::optional<cuota::rt::access_annotation> known{std::in_place, s, at, bytes,
                                                      true};  // for the race checker
    block(cuota::step_resource from, cuota::stream_ref on) : memory{std::move(from)}, s{on} {}
    block(cuota::step_resource from, cuota::stream_ref on, std::size_t size)
        : memory{std::move(from)}, s{on}, bytes{size} {}
    block(block const&) = delete;
    block& operator=(block const&) = delete;
    ~block() {
        known.reset();
        memory.deallocate(s, at, bytes);
    }
};

// Runs a step of three blocks, of which the last reuses the bytes of the first, and adds to `into`. Returns their addresses.
std::array<void*, 3> run_step(cuota::step_plan& plan, support::word* into, cuota::stream_ref s) {
    auto const memory = plan.resource();
    std::array<void*, 3> used{};
    std::optional<block> a{std::in_place, memory, s};
    used[0] = a->at;
    cuota::for_each_index(s, count, support::write_word{a->at, 5});
    block const b{memory, s};
    used[1] = b.at;
    cuota::for_each_index(s, count, add_words{b.at, a->at, into});
    a.reset();
    block const c{memory, s};
    used[2] = c.at;
    cuota::for_each_index(s, count, add_words{c.at, b.at, into});
    cuota::for_each_index(s, count, add_words{into, c.at, b.at});
    return used;
}

struct scene {
    cuota::stream const s{};
    cuota::stream const other{};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::step_plan plan{pool};
    support::word* const into = static_cast<support::word*>(pool.allocate(s, 16 * kilo));

    scene() {
        support::write_words(s, into, 16 * kilo, 1);
        auto const step = plan.begin();
        run_step(plan, into, s);
    }
    ~scene() { pool.deallocate(s, into, 16 * kilo); }
    scene(scene const&) = delete;
    scene& operator=(scene const&) = delete;

    std::array<void*, 3> step(cuota::stream_ref on) {
        auto const scope = plan.begin();
        return run_step(plan, into, on);
    }
    [[nodiscard]] std::vector<support::word> result() const { return support::words(s, into, 16 * kilo); }
};

}  // namespace

TEST_CASE("a captured planned step has the addresses and the results of the uncaptured step",
          "[pool][graph]") {
    support::machine const machine;
    std::vector<support::word> expected;
    {
        scene eager;
        for (int i = 0; i != 6; ++i) eager.step(eager.s);
        expected = eager.result();
    }
    scene on;
    auto const planned = on.step(on.s);
    std::array<void*, 3> captured{};
    auto graph = cuota::capture(on.s, [&] { captured = on.step(on.s); });
    CHECK(captured == planned);
    auto const before = on.plan.stats();
    calls_since const allocations{"cudaMalloc"};
    calls_since const pages{"cuMemCreate"};
    for (int i = 0; i != 5; ++i) graph.launch(on.s);

    CHECK(on.result() == expected);
    CHECK(allocations.count() == 0);
    CHECK(pages.count() == 0);
    CHECK(before.served == 6);
    CHECK(on.plan.stats().served == 6);
    CHECK(on.plan.stats().not_plannable + on.plan.stats().missed_size + on.plan.stats().missed_busy == 0);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("steps and launches may alternate on different streams", "[pool][graph]") {
    support::machine const machine;
    std::vector<support::word> expected;
    {
        scene eager;
        for (int i = 0; i != 12; ++i) eager.step(eager.s);
        expected = eager.result();
    }
    scene on;
    on.step(on.s);
    auto graph = cuota::capture(on.s, [&] { on.step(on.s); });
    auto const hand_over = [](cuota::stream const& from, cuota::stream const& to) {
        to.wait(cuota::event{from});
    };
    graph.launch(on.s);
    on.step(on.s);
    on.step(on.s);
    hand_over(on.s, on.other);  // orders accesses to `into`, which is not in the plan
    on.step(on.other);
    graph.launch(on.other);
    graph.launch(on.other);
    hand_over(on.other, on.s);
    on.step(on.s);
    graph.launch(on.s);
    hand_over(on.s, on.other);
    graph.launch(on.other);
    on.step(on.other);
    on.step(on.other);
    hand_over(on.other, on.s);

    CHECK(on.result() == expected);
    CHECK(on.plan.stats().missed_busy == 0);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("the slab orders steps and launches of different streams", "[pool][graph]") {
    support::machine const machine;
    scene on;
    on.step(on.s);
    auto const other_into = static_cast<support::word*>(on.pool.allocate(on.other, 16 * kilo));
    support::write_words(on.other, other_into, 16 * kilo, 1);
    auto graph = cuota::capture(on.s, [&] { on.step(on.s); });
    for (int i = 0; i != 4; ++i) {
        {
            auto const scope = on.plan.begin();
            run_step(on.plan, other_into, on.other);
        }
        graph.launch(on.s);
    }
    std::vector<support::word> const mine = on.result();
    std::vector<support::word> const others = support::words(on.other, other_into, 16 * kilo);
    on.pool.deallocate(on.other, other_into, 16 * kilo);
    CHECK(simulator::race_reports().empty());

    scene alone;
    for (int i = 0; i != 3; ++i) alone.step(alone.s);
    CHECK(others == alone.result());
    for (int i = 0; i != 2; ++i) alone.step(alone.s);
    CHECK(mine == alone.result());
}

TEST_CASE("a plan and its slab are made in the capture if they were not made before", "[pool][graph]") {
    support::machine const machine;
    scene on;
    auto graph = cuota::capture(on.s, [&] { on.step(on.s); });
    CHECK(on.plan.stats().served == 3);
    graph.launch(on.s);
    on.step(on.s);
    CHECK(on.plan.stats().served == 6);
    auto const mine = on.result();
    scene alone;
    for (int i = 0; i != 2; ++i) alone.step(alone.s);
    CHECK(mine == alone.result());
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a step that is recorded in a capture is planned after it, and the graph keeps its memory",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    on.plan.rerecord();
    auto graph = cuota::capture(on.s, [&] { on.step(on.s); });
    graph.launch(on.s);
    on.step(on.s);
    CHECK(on.plan.stats().served == 3);
    auto const mine = on.result();
    scene alone;
    for (int i = 0; i != 2; ++i) alone.step(alone.s);
    CHECK(mine == alone.result());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a deviation from the plan in a capture is misuse, and f decides whether the capture continues",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    on.step(on.s);
    auto const refused = [&] {
        return why_refused([&] {
            (void)cuota::capture(on.s, [&] {
                auto const step = on.plan.begin();
                block const a{on.plan.resource(), on.s};
                block const odd{on.plan.resource(), on.s, 3 * kilo};
            });
        });
    };
    CHECK(refused().find("the request of 3.0 KiB deviates from the recorded step") != std::string::npos);
    auto graph = cuota::capture(on.s, [&] {
        auto const step = on.plan.begin();
        CHECK_THROWS_AS((block{on.plan.resource(), on.s, 3 * kilo}), cuota::usage_error);
        run_step(on.plan, on.into, on.s);  // continues where it was
    });
    on.step(on.s);
    graph.launch(on.s);
    auto const mine = on.result();
    scene alone;
    for (int i = 0; i != 3; ++i) alone.step(alone.s);
    CHECK(mine == alone.result());
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a launch while a later step holds bytes of the slab is refused, and names the holder",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    on.step(on.s);
    auto graph = cuota::capture(on.s, [&] { on.step(on.s); });
    {
        auto const step = on.plan.begin();
        void* const held =
            on.plan.resource().allocate(on.s, 16 * kilo, 256, {"held", cuota::source_location::current()});
        calls_since const launches{"cudaGraphLaunch"};
        std::string const why = why_refused([&] { graph.launch(on.s); });
        CHECK(why.find("16.0 KiB of the graph's step_plan slab are in use by a later step: held "
                       "(step_in_graph.sim.cpp:") != std::string::npos);
        CHECK(launches.count() == 0);
        on.plan.resource().deallocate(on.s, held, 16 * kilo);
        graph.launch(on.s);
    }
    graph.launch(on.s);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a block that the captured step has not freed stays valid after the launch", "[pool][graph]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    cuota::step_plan plan{pool};
    for (int i = 0; i != 2; ++i) {
        auto const step = plan.begin();
        block const a{plan.resource(), s};
    }
    std::optional<block> kept;
    auto graph = cuota::capture(s, [&] {
        auto const step = plan.begin();
        kept.emplace(plan.resource(), s);
        cuota::for_each_index(s, count, support::write_word{kept->at, 9});
    });
    graph.launch(s);
    CHECK(support::all_are(support::words(s, kept->at, 16 * kilo), 9));
    kept.reset();
}

TEST_CASE("a slab is kept as long as a graph uses it, also after its plan is destroyed", "[pool][graph]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    std::optional<cuota::step_plan> plan{std::in_place, pool};
    auto* const into = static_cast<support::word*>(pool.allocate(s, 16 * kilo));
    support::write_words(s, into, 16 * kilo, 1);
    auto const step = [&] {
        auto const scope = plan->begin();
        run_step(*plan, into, s);
    };
    step();
    step();
    std::optional<cuota::graph_exec> graph{cuota::capture(s, step)};
    plan->rerecord();
    step();
    step();
    graph->launch(s);
    plan.reset();
    CHECK(pool.stats().live_blocks == 2);
    graph->launch(s);
    graph.reset();
    CHECK(pool.stats().live_blocks == 1);
    s.synchronize();
    pool.deallocate(s, into, 16 * kilo);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("passing bytes between streams of a capture is refused before the capture is invalidated",
          "[pool][graph]") {
    support::machine const machine;
    scene on;
    on.step(on.s);
    auto const graph = cuota::capture({on.s, on.other}, [&] {
        auto const step = on.plan.begin();
        { block const a{on.plan.resource(), on.s}; }
        block const b{on.plan.resource(), on.other};  // shares no bytes with the first
        CHECK(why_refused([&] {
                  block const c{on.plan.resource(), on.other};
              }).find("use a single stream") != std::string::npos);
    });
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("no CUDA failure around a capture of a planned step leaks memory", "[pool][graph]") {
    support::machine machine;
    scene on;
    auto const program = [&] {
        {
            cuota::step_plan plan{on.pool};
            auto const step = [&](cuota::stream_ref s) {
                auto const scope = plan.begin();
                run_step(plan, on.into, s);
            };
            step(on.s);
            step(on.s);
            on.s.synchronize();
            step(on.other);
            on.other.synchronize();
            auto graph = cuota::capture(on.s, [&] { step(on.s); });
            graph.launch(on.s);
            on.s.synchronize();
            graph.launch(on.other);
            on.other.synchronize();
            step(on.s);
        }
        on.pool.trim();
    };
    program();
    CHECK(support::survives_every_failure(machine, program, {cudaErrorUnknown}).silent == 0);
    CHECK(on.pool.stats().live_blocks == 1);
}
