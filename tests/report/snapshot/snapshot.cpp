// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/snapshot/snapshot.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::block_use;

namespace {

std::string tree_of(cuota::memory_snapshot const& now) {
    std::string all;
    for (cuota::budget_entry const& b : now.budgets) {
        all += std::string(b.depth, '.') + b.facts.name + ':' + std::to_string(b.facts.held);
        if (b.parent) all += '^' + now.budgets[*b.parent].facts.name;
        all += ' ';
    }
    return all;
}

// "x1000/1024 -512": tag, requested and allocated bytes of live blocks, and sizes of free ones.
std::string blocks_of(cuota::segment_info const& s) {
    std::string all;
    std::uint64_t at = s.address;
    for (cuota::block_info const& b : s.blocks) {
        REQUIRE(b.address == at);
        at += b.size;
        if (!all.empty()) all += ' ';
        if (b.use == block_use::live) all += b.name.text() + std::to_string(b.requested) + '/';
        else all += b.use == block_use::free ? '-' : b.use == block_use::pending ? '~' : '!';
        all += std::to_string(b.size);
    }
    REQUIRE(at == s.address + s.size);
    return all;
}

}  // namespace

TEST_CASE("snapshot_of lists the budgets as a tree, each after its parent", "[report][snapshot]") {
    cuota::budget root{"root", 1000};
    cuota::budget left{"left", 500, root};
    cuota::budget right{"right", 400, root};
    cuota::budget leaf{"leaf", 100, left};
    leaf.charge(10);
    left.charge(20);
    right.charge(30);
    {
        auto const reserved = left.reserve(100, "r");
        cuota::memory_snapshot const now = cuota::snapshot_of(root);
        REQUIRE(tree_of(now) == "root:160 .left:130^root ..leaf:10^left ..r:0^left .right:30^root ");
        REQUIRE(now.budgets[3].facts.is_reservation);
        REQUIRE(now.holders.size() == 1);
        REQUIRE(now.holders[0].name == "reservation r");
        REQUIRE(now.holders[0].budget == 1);
        REQUIRE(now.pools.empty());
        REQUIRE(now.devices.empty());
        REQUIRE(tree_of(cuota::snapshot_of(left)) == "left:130 .leaf:10^left .r:0^left ");
    }
    leaf.refund(10);
    left.refund(20);
    right.refund(30);
}

TEST_CASE("snapshot_of lists each block of each segment", "[report][snapshot]") {
    cuota::budget budget{"b", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.name = "p", .growth = cuota::pool_growth::segments}};
    auto const take = [&](std::size_t n, cuota::tag name) { return pool.allocate(stream, n, 256, name); };
    void* const a = take(1000, "a");
    void* const b = take(1'000'000, "b");
    stream.synchronize();
    pool.deallocate(stream, a, 1000);
    stream.synchronize();

    cuota::memory_snapshot const now = cuota::snapshot_of(pool);
    REQUIRE(now.pools.size() == 1);
    cuota::pool_info const& p = now.pools[0];
    REQUIRE(p.name == "p");
    REQUIRE(p.device == cuota::device::current().ordinal());
    REQUIRE(p.memory == cuota::memory_kind::device);
    REQUIRE(now.budgets[p.budget].facts.name == "b");
    REQUIRE(p.segments.size() == 2);
    std::vector<std::string> found{blocks_of(p.segments[0]), blocks_of(p.segments[1])};
    std::sort(found.begin(), found.end());
    std::size_t const spare = p.stats.reserved - 1024 - 1'000'192;
    REQUIRE(found[0] == "-1024");
    REQUIRE(found[1] == "b1000000/1000192" + (spare == 0 ? std::string{} : " -" + std::to_string(spare)));
    REQUIRE_FALSE(p.segments[0].is_paged);
    REQUIRE(p.tags.size() == 1);
    REQUIRE(p.tags[0].requested == 1'000'000);
    REQUIRE(p.tags[0].allocated == 1'000'192);
    REQUIRE_FALSE(p.tags[0].peak);  // unobserved: no peak by tag

    REQUIRE(now.devices.size() == 1);
    REQUIRE(now.devices[0].own >= p.stats.reserved);
    REQUIRE(cuota::snapshot_of(pool, cuota::snapshot_detail::totals).pools[0].segments.empty());
    pool.deallocate(stream, b, 1'000'000);
}

TEST_CASE("snapshot_of lists runs of pages without holes", "[report][snapshot]") {
    cuota::budget budget{"b", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    std::vector<void*> blocks;
    for (int i = 0; i != 3; ++i) blocks.push_back(pool.allocate(stream, 2_MiB, 256, "x"));
    pool.deallocate(stream, blocks[1], 2_MiB);
    stream.synchronize();
    cuota::memory_snapshot now = cuota::snapshot_of(pool);
    if (!now.pools[0].segments[0].is_paged) {
        pool.deallocate(stream, blocks[0], 2_MiB);
        pool.deallocate(stream, blocks[2], 2_MiB);
        CUOTA_SKIP("the device has no virtual memory");
    }
    REQUIRE(now.pools[0].segments.size() == 1);
    REQUIRE(blocks_of(now.pools[0].segments[0]) == "x2097152/2097152 -2097152 x2097152/2097152");
    REQUIRE(pool.trim() == 2_MiB);
    now = cuota::snapshot_of(pool);
    REQUIRE(now.pools[0].segments.size() == 2);
    REQUIRE(blocks_of(now.pools[0].segments[0]) == "x2097152/2097152");
    REQUIRE(blocks_of(now.pools[0].segments[1]) == "x2097152/2097152");
    pool.deallocate(stream, blocks[0], 2_MiB);
    pool.deallocate(stream, blocks[2], 2_MiB);
}

namespace {

// Gives the same address again and again: to a second owner while the first one's release is still under way.
class one_address {
public:
    struct state {
        alignas(256) std::byte bytes[64 * 1024];
        std::atomic<bool> is_released = false;  // the address may be given again
        std::atomic<bool> may_return = true;    // else a release waits here
    };
    explicit one_address(state& of) noexcept : state_{&of} {}

    [[nodiscard]] void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t alignment) {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        deallocate_sync(p, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t, std::size_t) { return state_->bytes; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {
        state_->is_released = true;
        state_->is_released.notify_all();
        state_->may_return.wait(false);
    }
    [[nodiscard]] std::size_t granularity() const noexcept { return 256; }
    [[nodiscard]] cuota::memory_kind kind() const noexcept { return cuota::memory_kind::pinned; }
    friend bool operator==(one_address const&, one_address const&) noexcept = default;

private:
    state* state_;
};

}  // namespace

TEST_CASE("a segment that is being released may share its addresses with a new one",
          "[report][snapshot][threads]") {
    std::size_t const again_bytes = GENERATE(8'192u, 4'096u);
    auto const memory = std::make_unique<one_address::state>();
    cuota::budget const budget{"root", 1_MiB};
    cuota::scoped_pool pool{budget, cuota::any_resource{one_address{*memory}}, {.name = "pool"}};
    cuota::stream const s;
    pool.deallocate(s, pool.allocate(s, 8'192), 8'192);
    s.synchronize();
    memory->may_return = false;
    std::jthread const trims{[&] { pool.trim(); }};
    struct let_return {
        one_address::state& of;
        ~let_return() {
            of.may_return = true;
            of.may_return.notify_all();
        }
    };
    let_return const at_end{*memory};
    memory->is_released.wait(false);

    void* const again = pool.allocate(s, again_bytes, 256, "again");
    auto const now = cuota::snapshot_of(budget);
    cuota::check_snapshot(now);
    REQUIRE(now.pools.size() == 1);
    std::size_t leaving = 0;
    std::size_t live = 0;
    for (cuota::segment_info const& segment : now.pools[0].segments)
        for (cuota::block_info const& block : segment.blocks) {
            leaving += block.use == cuota::block_use::releasing ? block.size : 0;
            live += block.use == cuota::block_use::live ? block.size : 0;
        }
    CHECK(leaving == 8'192);
    CHECK(live == again_bytes);

    pool.deallocate(s, again, again_bytes);
}

TEST_CASE("snapshot_of has steps, lifetime hints and other holders", "[report][snapshot]") {
    cuota::budget budget{"b", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    cuota::budgeted pinned{budget, cuota::pinned_memory{}};
    void* const host = pinned.allocate_sync(4096, 256, cuota::label{"staging", {}});
    void* const w = pool.persistent().allocate(stream, 4096, 256, {"w", cuota::source_location::current()});
    {
        auto const step = pool.begin_step();
        void* const a = step.allocate(stream, 4096, 256, "a");
        cuota::memory_snapshot const now = cuota::snapshot_of(budget);
        int seen = 0;
        for (cuota::segment_info const& s : now.pools[0].segments)
            for (cuota::block_info const& b : s.blocks) {
                if (b.name == cuota::tag{"w"})
                    REQUIRE((b.lifetime == cuota::lifetime_hint::persistent && b.age == 1 && ++seen));
                if (b.name == cuota::tag{"a"})
                    REQUIRE((b.lifetime == cuota::lifetime_hint::step && b.age == 0 && ++seen));
            }
        REQUIRE(seen == 2);
        REQUIRE(now.holders.size() == 1);
        REQUIRE(now.holders[0].allocation_groups[0].name == cuota::tag{"staging"});
        REQUIRE(now.holders[0].allocation_groups[0].bytes == 4096);
        pool.deallocate(stream, a, 4096);
    }
    pool.deallocate(stream, w, 4096);
    pinned.deallocate_sync(host, 4096);
}
