// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/planned_slabs.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using cuota::detail::planned_slab;
using cuota::detail::planned_slabs;

namespace simulator = cuota::simulator;

namespace {

std::byte* address(std::size_t number) { return reinterpret_cast<std::byte*>(number << 30); }

std::unique_ptr<planned_slab> slab_at(std::size_t number) {
    cuota::planned_step step{{{{0, 1, 1000}}}};
    cuota::detail::place_requests(step, {});
    return std::make_unique<planned_slab>(step, address(number));
}
std::byte* take(planned_slabs& slabs, cuota::stream_ref s) {
    slabs.begin_step();
    return static_cast<std::byte*>(slabs.try_take(s, 1000, {"x", {"train.cpp", 1}}).at);
}
void give(planned_slabs& slabs, cuota::stream_ref s, std::byte* p) {
    planned_slab& slab = *slabs.find(p);
    slabs.give_back(slab, slab.find_live(p, 1000), s);
}
std::unique_ptr<planned_slab> take_idle(planned_slabs& slabs) {
    for (;;) {
        if (auto idle = slabs.take_idle(); idle || !slabs.order().has_host_waits()) return idle;
        slabs.order().take_host_waits()->wait();
    }
}
cuota::step_plan_stats counted(planned_slabs const& slabs) {
    cuota::step_plan_stats stats;
    slabs.count(stats);
    return stats;
}

}  // namespace

TEST_CASE("planned_slabs keep a retired slab until all of its blocks are freed", "[pool][planned_slabs]") {
    support::machine const machine;
    cuota::stream const s;
    planned_slabs slabs;
    CHECK_FALSE(slabs.has_slab());
    CHECK(slabs.find(address(1)) == nullptr);
    slabs.end_step();
    slabs.retire();
    CHECK(take_idle(slabs) == nullptr);

    slabs.put(slab_at(1));
    std::byte* const first = take(slabs, s);
    REQUIRE(first == address(1));
    slabs.end_step();
    slabs.begin_step();
    slabs.end_step();
    slabs.retire();
    CHECK_FALSE(slabs.has_slab());
    CHECK(take_idle(slabs) == nullptr);
    slabs.put(slab_at(2));
    std::byte* const second = take(slabs, s);
    REQUIRE(second == address(2));
    CHECK(counted(slabs).live == 2);
    CHECK(counted(slabs).skipped == 1);
    std::vector<cuota::allocation_group> left;
    slabs.allocation_groups(left, false);
    CHECK(left.size() == 1);
    slabs.allocation_groups(left, true);
    CHECK(left.size() == 3);

    give(slabs, s, first);
    auto const idle = take_idle(slabs);
    REQUIRE(idle);
    CHECK(idle->at() == first);
    CHECK(slabs.find(first) == nullptr);
    CHECK(slabs.find(second) != nullptr);
    CHECK(take_idle(slabs) == nullptr);
    CHECK(counted(slabs).live == 1);
    CHECK(counted(slabs).skipped == 1);  // includes the idle slab's
    slabs.retire();
    CHECK(take_idle(slabs) == nullptr);
    CHECK(slabs.take_any()->at() == second);
    CHECK(slabs.take_any() == nullptr);
}

TEST_CASE("planned_slabs return a retired slab after a wait for the streams that have used it",
          "[pool][planned_slabs]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    planned_slabs slabs;
    slabs.put(slab_at(1));
    give(slabs, a, take(slabs, a));
    give(slabs, b, take(slabs, b));
    slabs.retire();
    std::size_t failed = 0;
    for (char const* const call : {"cudaStreamGetCaptureInfo", "cudaEventCreateWithFlags", "cudaEventRecord",
                                   "cudaEventSynchronize", static_cast<char const*>(nullptr)}) {
        if (call) simulator::fail_call(call, 1, cudaErrorUnknown);
        try {
            auto const idle = take_idle(slabs);
            simulator::clear_faults();
            CHECK(idle != nullptr);
            break;
        } catch (cuota::cuda_error const&) { ++failed; }
        simulator::clear_faults();
        REQUIRE(slabs.find(address(1)) != nullptr);
    }
    CHECK(failed == 4);
    CHECK(slabs.take_any() == nullptr);

    slabs.put(slab_at(2));
    give(slabs, b, take(slabs, b));
    support::calls_since const waits{"cudaEventSynchronize"};
    slabs.retire();
    CHECK(take_idle(slabs) != nullptr);
    CHECK(waits.count() == 1);  // a has not used this slab
}

TEST_CASE("planned_slabs are unchanged when the host has no memory to retire a slab",
          "[pool][planned_slabs]") {
    support::machine const machine;
    cuota::stream const s;
    planned_slabs slabs;
    slabs.put(slab_at(1));
    std::byte* const p = take(slabs, s);
    {
        support::failing_heap const heap{0};
        REQUIRE_THROWS_AS(slabs.retire(), std::bad_alloc);
    }
    CHECK(slabs.has_slab());
    CHECK(counted(slabs).live == 1);
    give(slabs, s, p);
    CHECK(take(slabs, s) == p);
    slabs.retire();
    CHECK(counted(slabs).live == 1);
}
