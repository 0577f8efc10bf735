// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/block_heap.hpp>

#include <cstdint>
#include <new>
#include <random>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/dynamic_array.hpp>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using cuota::lifetime_hint;
using cuota::detail::block;
using cuota::detail::block_heap;
using cuota::detail::block_request;
using cuota::detail::block_user;
using cuota::detail::idle_memory;
using cuota::detail::stream_order;
using cuota::detail::wait_set;
using pool_tests::address;
using pool_tests::offset_of;

namespace {

block* take(block_heap& heap, std::size_t bytes, std::size_t alignment = block::granularity,
            lifetime_hint lifetime = lifetime_hint::scratch, block_user const& user = {}) {
    block_request const r{bytes, {}, lifetime, alignment};
    block* const b = heap.find(r, user.stream_index);
    if (!b) return nullptr;
    block& taken = heap.take(*b, r, user);
    if (auto const left = heap.order().take_host_waits()) {
        left->wait();
        heap.arrived(taken);
    }
    return &taken;
}

}  // namespace

TEST_CASE("a block_heap counts live, active and reserved bytes and their peaks", "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(0), 1_MiB});
    block* const a = take(heap, 1000);
    block* const b = take(heap, 2000);
    REQUIRE((a && b));
    CHECK(heap.would_peak(1));
    heap.give(*a, {});
    CHECK_FALSE(heap.would_peak(1000));
    CHECK(heap.would_peak(1001));  // a peak of the requested bytes
    CHECK(heap.counters().lend(700) == 700);
    CHECK_FALSE(heap.would_peak(300));
    CHECK(heap.would_peak(301));
    CHECK(heap.counters().lend(5000) == 300);
    heap.counters().take_back(1000);

    cuota::pool_stats const now = heap.stats();
    CHECK(now.requested == 2000);
    CHECK(now.peak_requested == 3000);
    CHECK(now.allocated == 2048);
    CHECK(now.peak_allocated == 3072);
    CHECK(now.active == 2048);
    CHECK(now.peak_active == 3072);
    CHECK(now.reserved == 1_MiB);
    CHECK(now.live_blocks == 1);
    CHECK(now.free_blocks == 2);
    CHECK(now.segments == 1);
}

TEST_CASE("sizes are multiples of a block_heap's granularity", "[pool][block_heap]") {
    block_heap heap{4096};
    heap.add({address(0), 64_KiB});
    block* const b = take(heap, 1, 4096);
    REQUIRE(b);
    CHECK(b->size == 4096);
    CHECK(b->requested == 1);
    CHECK(heap.stats().largest_free == 60_KiB);
}

TEST_CASE("the bytes before an aligned block stay free", "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(256), 1_MiB});
    lifetime_hint const lifetime =
        GENERATE(lifetime_hint::scratch, lifetime_hint::step, lifetime_hint::persistent);
    heap.steps().go_on();
    block* const b = take(heap, 1000, 4096, lifetime);
    REQUIRE(b);
    CHECK(offset_of(*b) % 4096 == 0);
    CHECK(b->size == 1024);
    CHECK(heap.stats().free_blocks == 2);
    CHECK(heap.stats().allocated == 1024);
    heap.give(*b, {});
    CHECK(heap.stats().free_blocks == 1);
    CHECK(heap.stats().largest_free == 1_MiB);
}

TEST_CASE("an aligned block is found in a free block that it fits exactly", "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(4096), 4096});
    heap.add({address(64_KiB + 256), 4096});  // as large, but no aligned block fits
    block* const b = take(heap, 4096, 4096);
    REQUIRE(b);
    CHECK(offset_of(*b) == 4096);
    CHECK(!take(heap, 4096, 4096));
}

TEST_CASE("an aligned block is found behind any number of free blocks that do not fit",
          "[pool][block_heap]") {
    block_heap heap;
    for (std::size_t i = 1; i != 100; ++i) heap.add({address(i * 64_KiB + 256), 4096});
    CHECK(!take(heap, 4096, 4096));
    heap.add({address(0), 8192 - 256});
    block* const b = take(heap, 4096, 4096);
    REQUIRE(b);
    CHECK(offset_of(*b) == 0);
}

TEST_CASE("the remainders on both sides of an aligned block keep the waits of the whole block",
          "[pool][block_heap]") {
    support::machine const machine;
    block_heap heap;
    heap.add({address(256), 64_KiB});
    cuota::stream const a;
    cuota::stream const b;
    std::uint32_t const of_a = heap.order().index_of(a);
    std::uint32_t const of_b = heap.order().index_of(b);
    cuota::stream_ref const s = b;
    block* const whole = take(heap, 64_KiB);
    REQUIRE(whole);
    {
        support::gate gate{a};
        heap.give(*whole, wait_set{heap.order().release_on(of_a)});
        block* const middle = take(heap, 4096, 16_KiB, lifetime_hint::scratch, {&s, of_b});
        REQUIRE(middle);
        CHECK(heap.stats().stream_waits == 1);
        CHECK(middle->waits.is_empty());
        REQUIRE(middle->before);
        REQUIRE(middle->after);
        CHECK_FALSE(middle->before->waits.is_empty());
        CHECK_FALSE(middle->after->waits.is_empty());
        CHECK(heap.stats().active == 64_KiB);
        heap.give(*middle, wait_set{heap.order().release_on(of_b)});
    }
    CHECK(heap.stats().free_blocks == 1);
    heap.wait_for_freed();
    CHECK(heap.stats().active == 0);
}

TEST_CASE("without host memory, an aligned request is served or changes nothing", "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(256), 1_MiB});
    std::vector<block*> live;
    for (int i = 0; i != 300; ++i) {  // enough for records to run out several times
        std::size_t const before = heap.stats().free_blocks;
        block* b = nullptr;
        for (std::size_t allowed = 0; !b; ++allowed) {
            support::failing_heap const failing{allowed};
            try {
                b = take(heap, 256, 1024);
            } catch (std::bad_alloc const&) {
                REQUIRE(heap.stats().free_blocks == before);
                REQUIRE(heap.stats().allocated == 256 * live.size());
            }
        }
        live.push_back(b);
    }
    for (block* const b : live) {
        CHECK(offset_of(*b) % 1024 == 0);
        heap.give(*b, {});
    }
    CHECK(heap.stats().largest_free == 1_MiB);
}

TEST_CASE("in a random walk, aligned requests are served where they fit, and all freed blocks merge",
          "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(768), 4_MiB});
    heap.steps().go_on();
    std::mt19937_64 random{7};
    struct live_block {
        block* b;
        std::size_t alignment;
    };
    std::vector<live_block> live;
    std::size_t allocated = 0;
    for (int i = 0; i != 20'000; ++i) {
        if (random() % 2 == 0 || live.empty()) {
            std::size_t const alignment = std::size_t{1} << random() % 18;
            std::size_t const bytes = 1 + random() % 20'000;
            auto const lifetime = static_cast<lifetime_hint>(random() % 3);
            block* const b = take(heap, bytes, alignment, lifetime);
            if (!b) {
                REQUIRE(heap.stats().largest_free < cuota::round_up(bytes, 256) + alignment);
                continue;
            }
            REQUIRE(reinterpret_cast<std::uintptr_t>(b->at()) % alignment == 0);
            REQUIRE(b->size == cuota::round_up(bytes, 256));
            allocated += b->size;
            live.push_back({b, alignment});
        } else {
            std::swap(live[random() % live.size()], live.back());
            allocated -= live.back().b->size;
            heap.give(*live.back().b, {});
            live.pop_back();
        }
        REQUIRE(heap.stats().allocated == allocated);
    }
    for (live_block const& l : live) heap.give(*l.b, {});
    CHECK(heap.stats().largest_free == 4_MiB);
    CHECK(heap.stats().free_blocks == 1);
}

TEST_CASE("a segment that is taken out of a block_heap counts as reserved until its release is recorded",
          "[pool][block_heap]") {
    block_heap heap;
    heap.add({address(0), 1_MiB});
    heap.add({address(2_MiB), 2_MiB});
    auto out = heap.take_out(1_MiB, {});
    REQUIRE(out);
    CHECK_FALSE(heap.order().has_host_waits());
    CHECK(out->bytes == 1_MiB);
    CHECK(heap.counters().reserved() == 3_MiB);
    CHECK(heap.counters().leaving() == 1_MiB);
    CHECK(heap.counters().staying() == 2_MiB);
    CHECK(heap.stats().largest_free == 2_MiB);
    heap.gone(*out, 0);  // releasing it failed
    CHECK(heap.counters().leaving() == 0);
    CHECK(heap.stats().segments == 2);
    out = heap.take_out(1_MiB, {});
    REQUIRE(out);
    heap.gone(*out, 1_MiB);
    CHECK(heap.counters().reserved() == 2_MiB);
    CHECK(heap.stats().peak_reserved == 3_MiB);
    CHECK(heap.stats().segments == 1);
}

TEST_CASE("the host waits of a failed allocation are not kept for the next allocation",
          "[pool][block_heap]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    block_heap heap;
    heap.add({address(0), 2_MiB});
    block* const low = take(heap, 1_MiB);
    block* const high = take(heap, 1_MiB);
    support::gate gates[]{support::gate{a}, support::gate{b}};
    stream_order& order = heap.order();
    heap.give(*low, wait_set{order.release_on(order.index_of(a))});
    heap.give(*high, wait_set{order.release_on(order.index_of(b))});
    block_request const whole{2_MiB, {}};
    block* const free = heap.find(whole, stream_order::no_stream);
    REQUIRE(free);
    cuota::simulator::fail_call("cudaEventRecord", 2, cudaErrorUnknown);
    CHECK_THROWS_AS(heap.take(*free, whole, block_user{}), cuota::cuda_error);
    CHECK_FALSE(order.has_host_waits());
    for (support::gate& g : gates) g.open();
    CHECK(take(heap, 2_MiB) == free);
}
