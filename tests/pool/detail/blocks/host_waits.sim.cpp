// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A thread that waits for a stream holds no lock: others can use the pool meanwhile, also one that the stream's work depends on.
#include <cuota/pool/detail/blocks/host_waits.hpp>

#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <cuota/pool/detail/blocks/block_pool.hpp>
#include <cuota/pool/detail/pool_observer.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::while_waiting;

namespace simulator = cuota::simulator;

namespace {

// A pool with one large block, freed on `a`, which has not written it yet, and a small rest.
struct scene {
    cuota::stream const a{};
    cuota::stream const b{};
    cuota::budget budget{"trainer", 1_MiB + 64_KiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB + 64_KiB, .growth = cuota::pool_growth::segments}};
    void* const large = pool.allocate(a, 1_MiB);
    support::gate gate{a};

    void free_large() {
        support::write_words(a, large, 1_MiB, 1);
        pool.deallocate(a, large, 1_MiB);
    }
    // Uses the pool like another thread.
    void use_rest() {
        void* const p = pool.allocate(b, 4_KiB);
        CHECK(pool.stats().live_blocks >= 1);
        pool.deallocate(b, p, 4_KiB);
    }
};

// A plan of a step with one allocation. The second step, the first planned one, waits behind the gate on `a`.
struct planned_scene {
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const a{};
    cuota::stream const b{};
    cuota::stream const captured{};
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    std::optional<support::gate> gate{};
    std::optional<cuota::graph_exec> graph{};
    void* at = nullptr;  // of the last step

    planned_scene() {
        step(a);
        plan.prepare();
        gate.emplace(a);
        step(a);
    }
    void step(cuota::stream_ref s) {
        auto const scope = plan.begin();
        at = memory.allocate(s, 1_MiB);
        support::write_words(s, at, 1_MiB, 1);
        memory.deallocate(s, at, 1_MiB);
    }
    void capture() {
        graph = cuota::capture(captured, [this] { step(captured); });
    }
};

// Records the tags of allocations and frees.
class diary final : public cuota::detail::pool_observer {
public:
    void allocated(cuota::detail::observed_block const& b) noexcept override { add('+', b); }
    void free_requested(cuota::detail::observed_block const& b) noexcept override { add('-', b); }
    void free_completed(cuota::detail::observed_block const&) noexcept override {}
    void segment_allocated(void const*, std::size_t, cuota::source_location) noexcept override {}
    void segment_freed(void const*, std::size_t) noexcept override {}
    void step_begun(cuota::source_location) noexcept override {}
    void step_ended() noexcept override {}
    void ended() noexcept override {}

    [[nodiscard]] std::string take() { return std::exchange(all_, {}); }

private:
    void add(char what, cuota::detail::observed_block const& b) { all_ += what + std::string{b.name.text()}; }

    std::string all_;
};

struct observed {
    explicit observed(cuota::scoped_pool& of) : blocks{cuota::detail::pool_access::state(of).blocks()} {
        blocks.observe(cuota::detail::intrusive_ptr<cuota::detail::pool_observer>::of(*told));
    }
    // The peak of the blocks with this tag since the observation began.
    [[nodiscard]] std::size_t peak_of(std::string const& name) const {
        std::size_t found = 0;
        blocks.at_rest([&](auto const&, auto const&, cuota::detail::tag_peaks const* peaks) {
            peaks->for_each([&](cuota::tag t, std::size_t peak) {
                if (t.text() == name) found = peak;
            });
        });
        return found;
    }

    cuota::detail::block_pool& blocks;
    cuota::detail::intrusive_ptr<diary> told = cuota::detail::intrusive_ptr<diary>::make();
};

}  // namespace

TEST_CASE("a pool is usable while an allocate_sync waits", "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    on.free_large();
    void* p = nullptr;
    while_waiting(
        on.gate, "cudaEventSynchronize", [&] { p = on.pool.resource().allocate_sync(1_MiB); },
        [&] { on.use_rest(); });
    CHECK(p == on.large);
    CHECK(on.a.is_idle());
    on.pool.resource().deallocate_sync(p, 1_MiB);
}

TEST_CASE("an allocate_sync whose wait fails leaves its block free", "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    on.free_large();
    on.gate.open();
    auto const before = on.pool.stats();
    simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(on.pool.resource().allocate_sync(1_MiB), cuota::cuda_error);
    CHECK(on.pool.stats().live_blocks == before.live_blocks);
    CHECK(on.pool.stats().requested == before.requested);
    void* const p = on.pool.resource().allocate_sync(1_MiB);
    CHECK(p == on.large);
    on.pool.resource().deallocate_sync(p, 1_MiB);
}

TEST_CASE("after an allocate_sync that could not wait, the next user of the block waits for its earlier work",
          "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    std::size_t const all = on.budget.limit();  // else the rest of the block would keep its waits
    on.free_large();
    simulator::fail_randomly("cudaEventSynchronize", 1, 1, cudaErrorUnknown);
    CHECK_THROWS_AS(on.pool.resource().allocate_sync(all), cuota::cuda_error);
    simulator::clear_faults();
    void* const p = on.pool.allocate(on.b, all);
    CHECK(p == on.large);
    support::write_words(on.b, p, all, 2);
    on.gate.open();
    on.a.synchronize();
    on.b.synchronize();
    CHECK(simulator::race_reports().empty());
    on.pool.deallocate(on.b, p, all);
}

TEST_CASE("an allocate_sync that can neither wait nor store the block's waits drains the streams",
          "[pool][host_waits][failure]") {
    support::machine const machine;
    simulator::set_schedule(simulator::schedule::late);
    std::size_t refused = 0;
    for (std::size_t allowed = 0; allowed != 40; ++allowed) {
        CAPTURE(allowed);
        scene on;
        std::size_t const all = on.budget.limit();
        void* const rest = on.pool.allocate(on.b, 64_KiB);
        support::write_words(on.b, rest, 64_KiB, 1);
        on.pool.deallocate(on.b, rest, 64_KiB);
        on.gate.open();
        on.free_large();  // merged with the rest: waits for both streams
        simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
        {
            support::failing_heap const heap{allowed};
            try {
                (void)on.pool.resource().allocate_sync(all);
                FAIL("the wait fails");
            } catch (cuota::cuda_error const&) {
            } catch (std::bad_alloc const&) {}
            refused += heap.refused();
        }
        simulator::clear_faults();
        cuota::stream const c;
        void* const p = on.pool.allocate(c, all);
        support::write_words(c, p, all, 2);
        cuota::device::current().synchronize();
        REQUIRE(simulator::race_reports().empty());
        on.pool.deallocate(c, p, all);
    }
    CHECK(refused > 0);
}

TEST_CASE("a peak includes an allocate_sync only if its wait succeeds", "[pool][host_waits]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 4_MiB},
                            {.initial_size = 2_MiB, .growth = cuota::pool_growth::segments}};
    support::gate gate{a};
    void* const p = pool.allocate(a, 256_KiB);
    support::write_words(a, p, 256_KiB, 1);
    pool.deallocate(a, p, 256_KiB);
    SECTION("one that fails is in no peak") {
        gate.open();
        simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
        CHECK_THROWS_AS(pool.resource().allocate_sync(1_MiB), cuota::cuda_error);
        CHECK(pool.stats().peak_requested == 256_KiB);
        CHECK(pool.stats().peak_allocated == 256_KiB);
    }
    SECTION("one that waits is in no peak of others; one that succeeds is in it together with them") {
        void* q = nullptr;
        void* other = nullptr;
        while_waiting(
            gate, "cudaEventSynchronize", [&] { q = pool.resource().allocate_sync(1_MiB); },
            [&] {
                other = pool.allocate(b, 512_KiB);
                CHECK(pool.stats().peak_requested == 512_KiB);
                CHECK(pool.stats().peak_allocated == 512_KiB);
            });
        CHECK(pool.stats().peak_requested == 1_MiB + 512_KiB);
        CHECK(pool.stats().peak_allocated == 1_MiB + 512_KiB);
        pool.deallocate(b, other, 512_KiB);
        pool.resource().deallocate_sync(q, 1_MiB);
    }
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("an observer sees an allocate_sync once its wait has succeeded", "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    SECTION("one that fails is in no peak of its tag") {
        observed const by{on.pool};
        on.free_large();
        on.gate.open();
        (void)by.told->take();
        simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
        CHECK_THROWS_AS(on.pool.resource().allocate_sync(1_MiB, 256, cuota::label{"x"}), cuota::cuda_error);
        CHECK(by.told->take().empty());
        CHECK(by.peak_of("x") == 0);
    }
    SECTION("one that succeeds is seen afterwards, also by an observer that joins during the wait") {
        on.free_large();
        std::optional<observed> by;
        void* p = nullptr;
        while_waiting(
            on.gate, "cudaEventSynchronize",
            [&] { p = on.pool.resource().allocate_sync(1_MiB, 256, cuota::label{"x"}); },
            [&] {
                by.emplace(on.pool);
                CHECK(by->peak_of("x") == 0);
            });
        CHECK(by->told->take() == "+x");
        CHECK(by->peak_of("x") == 1_MiB);
        on.pool.resource().deallocate_sync(p, 1_MiB);
        CHECK(by->told->take() == "-x");
        CHECK(by->peak_of("x") == 1_MiB);
    }
    on.pool.close();
}

TEST_CASE("an allocation that waits while its pool is closed is refused, and the pool ends",
          "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    on.free_large();
    cuota::any_resource const kept = on.pool.resource();
    std::string refused;
    bool const fails = GENERATE(false, true);
    CAPTURE(fails);
    if (fails) simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
    while_waiting(
        on.gate, "cudaEventSynchronize",
        [&] {
            try {
                (void)on.pool.resource().allocate_sync(1_MiB);
            } catch (cuota::usage_error const& error) {
                refused = error.what();
            } catch (cuota::cuda_error const&) { refused = "failed"; }
        },
        [&] { cuota::detail::pool_access::state(on.pool).close_to_requests(); });
    if (fails) CHECK(refused == "failed");
    else CHECK(refused.find("allocation after close() or destruction") != std::string::npos);
    CHECK(on.pool.stats().live_blocks == 0);
    on.pool.trim();
    CHECK(on.budget.held() == 0);
}

TEST_CASE("a pool is usable while an allocation on a captured stream waits", "[pool][host_waits]") {
    support::machine const machine;
    scene on;
    on.free_large();
    cuota::stream const captured;
    std::optional<cuota::graph_exec> graph;
    while_waiting(
        on.gate, "cudaEventSynchronize",
        [&] {
            graph = cuota::capture(captured, [&] {
                void* const p = on.pool.allocate(captured, 1_MiB);
                CHECK(p == on.large);
                support::write_words(captured, p, 1_MiB, 2);
                on.pool.deallocate(captured, p, 1_MiB);
            });
        },
        [&] { on.use_rest(); });
    graph->launch(captured);
    captured.synchronize();
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a pool is usable while a free whose order cannot be recorded waits", "[pool][host_waits]") {
    support::machine machine;
    scene on;
    support::write_words(on.a, on.large, 1_MiB, 1);
    simulator::fail_call("cudaStreamGetId", 1, cudaErrorUnknown);
    while_waiting(
        on.gate, "cudaStreamSynchronize", [&] { on.pool.deallocate(on.a.get(), on.large, 1_MiB); },
        [&] { on.use_rest(); });
    CHECK(machine.errors.take().size() == 1);
    CHECK(on.a.is_idle());
    CHECK(on.pool.stats().live_blocks == 0);
}

TEST_CASE("a step_plan is usable while prepare waits for the slab of an earlier plan", "[pool][host_waits]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const a;
    cuota::stream const b;
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    auto const step = [&](std::size_t bytes) {
        auto const scope = plan.begin();
        void* const p = memory.allocate(a, bytes);
        support::write_words(a, p, bytes, 1);
        memory.deallocate(a, p, bytes);
    };
    step(1_MiB);
    plan.prepare();
    support::gate gate{a};
    step(1_MiB);
    REQUIRE(plan.stats().served == 1);
    while_waiting(
        gate, "cudaEventSynchronize", [&] { plan.rerecord(); },
        [&] {
            memory.deallocate(b, memory.allocate(b, 4_KiB), 4_KiB);
            CHECK(plan.stats().served == 1);
        });
    step(2_MiB);
    plan.prepare();
    step(2_MiB);
    CHECK(plan.stats().served == 2);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a step_plan is usable while a planned allocation on a captured stream waits",
          "[pool][host_waits]") {
    support::machine const machine;
    planned_scene on;
    while_waiting(
        *on.gate, "cudaEventSynchronize", [&] { on.capture(); },
        [&] { on.memory.deallocate_sync(on.memory.allocate_sync(4_KiB), 4_KiB); });
    CHECK(on.plan.stats().served == 2);
    on.graph->launch(on.captured);
    on.captured.synchronize();
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("after a captured step that could not wait, the next user of its memory waits for earlier work",
          "[step_plan][graph][host_waits]") {
    support::machine const machine;
    planned_scene on;
    void* const planned = on.at;
    simulator::fail_randomly("cudaEventSynchronize", 1, 1, cudaErrorUnknown);
    CHECK_THROWS_AS(on.capture(), cuota::cuda_error);
    simulator::clear_faults();
    bool const is_again_captured = GENERATE(false, true);
    if (is_again_captured) {
        while_waiting(
            *on.gate, "cudaEventSynchronize", [&] { on.capture(); }, [] {});
        on.graph->launch(on.captured);
        on.captured.synchronize();
    } else {
        on.step(on.b);
        on.gate->open();
        on.b.synchronize();
    }
    CHECK(on.at == planned);
    on.a.synchronize();
    CHECK(simulator::race_reports().empty());
}
