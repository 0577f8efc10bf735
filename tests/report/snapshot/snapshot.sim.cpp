// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Snapshots while the host waits for a block's earlier use.
#include <cuota/report/snapshot/snapshot.hpp>

#include <cstddef>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/words.hpp"

using namespace cuota::literals;

namespace {

// Two blocks that fill a segment, or begin a range of pages.
struct scene {
    explicit scene(cuota::pool_growth growth) : pool{budget, {.initial_size = 2_MiB, .growth = growth}} {}

    cuota::stream const a{};
    cuota::budget budget{"trainer", 8_MiB};
    cuota::scoped_pool pool;
    void* const first = pool.allocate(a, 1_MiB, 256, "first");
    void* const second = pool.allocate(a, 512_KiB, 256, "second");
    support::gate gate{a};

    void free_first() {
        support::write_words(a, first, 1_MiB, 1);
        pool.deallocate(a, first, 1_MiB);
    }
    [[nodiscard]] cuota::pool_info checked() const {
        cuota::memory_snapshot const now = cuota::snapshot_of(budget, cuota::snapshot_detail::blocks);
        CHECK_NOTHROW(cuota::check_snapshot(now));
        REQUIRE(now.pools.size() == 1);
        return now.pools[0];
    }
};

}  // namespace

TEST_CASE("a snapshot is consistent while an allocate_sync waits", "[report][snapshot]") {
    support::machine const machine;
    scene on{GENERATE(cuota::pool_growth::segments, cuota::pool_growth::automatic)};
    on.free_first();
    void* p = nullptr;
    support::while_waiting(
        on.gate, "cudaEventSynchronize",
        [&] { p = on.pool.resource().allocate_sync(1_MiB, 256, cuota::label{"late"}); },
        [&] {
            cuota::pool_info const now = on.checked();
            CHECK(now.stats.live_blocks == 1);
            CHECK(now.stats.allocated == 512_KiB);
        });
    CHECK(on.checked().stats.allocated == 1_MiB + 512_KiB);
    on.pool.resource().deallocate_sync(p, 1_MiB);
    on.pool.deallocate(on.a, on.second, 512_KiB);
}

TEST_CASE("a snapshot is consistent while a free waits because its order cannot be recorded",
          "[report][snapshot]") {
    support::machine machine;
    scene on{GENERATE(cuota::pool_growth::segments, cuota::pool_growth::automatic)};
    support::write_words(on.a, on.first, 1_MiB, 1);
    cuota::simulator::fail_call("cudaStreamGetId", 1, cudaErrorUnknown);
    support::while_waiting(
        on.gate, "cudaStreamSynchronize", [&] { on.pool.deallocate(on.a.get(), on.first, 1_MiB); },
        [&] {
            cuota::pool_info const now = on.checked();
            CHECK(now.stats.live_blocks == 2);
            CHECK(now.stats.allocated == 1_MiB + 512_KiB);
        });
    CHECK(machine.errors.take().size() == 1);
    CHECK(on.checked().stats.live_blocks == 1);
    on.pool.deallocate(on.a, on.second, 512_KiB);
}
