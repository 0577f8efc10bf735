// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/block_pool.hpp>

#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::block_pool;
using cuota::detail::idle_memory;
using cuota::detail::segment;
using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

// These addresses are not backed by memory: a pool never accesses its blocks.
void* address(std::size_t offset) { return reinterpret_cast<void*>(std::uintptr_t{1} << 40 | offset); }

void* take(block_pool& pool, cuota::stream_ref s, std::size_t bytes) {
    return pool.try_take(&s, {bytes, {}});
}
void give(block_pool& pool, cuota::stream_ref s, void* p, std::size_t bytes) {
    pool.give(&s, p, bytes, [](bool) { FAIL("the pool is not closed"); });
}
// Releases the memory that take_out_above(0) selects, if any.
std::optional<idle_memory> drop(block_pool& pool) {
    std::optional<idle_memory> const out = pool.take_out_above(0);
    if (out) pool.gone(*out, out->bytes);
    return out;
}

}  // namespace

TEST_CASE("a block_pool serves exactly the memory that was added to it", "[pool][block_pool]") {
    cuota::stream const s;
    block_pool pool{"main"};
    CHECK(!take(pool, s, 1));
    pool.add({address(0), 4096});
    CHECK(pool.reserved() == 4096);
    void* const p = take(pool, s, 4000);
    CHECK(p == address(0));
    CHECK(!take(pool, s, 1));
    CHECK(pool.stats().requested == 4000);
    CHECK(pool.stats().allocated == 4096);
    give(pool, s, p, 4000);
    CHECK(pool.largest_free() == 4096);
    CHECK(pool.stats().peak_requested == 4000);
}

TEST_CASE("a new segment is added and split, or nothing changes when the host has no memory",
          "[pool][block_pool]") {
    cuota::stream const s;
    cuota::stream_ref const in_order = s;
    block_pool pool{"main"};
    void* p = nullptr;
    std::size_t refused = 0;
    for (std::size_t allowed = 0; !p; ++allowed) {
        REQUIRE(allowed < 100);
        try {
            support::failing_heap const heap{allowed};
            p = pool.take_of_new({address(0), 1_MiB}, &in_order, {1000, {}});
        } catch (std::bad_alloc const&) { ++refused; }
        if (p) break;
        CHECK(pool.reserved() == 0);
        CHECK(pool.stats().segments == 0);
        CHECK(pool.stats().free_blocks == 0);
        CHECK(pool.stats().requested == 0);
    }
    CHECK(refused > 2);
    CHECK(p == address(0));
    CHECK(pool.stats().allocated == 1024);
    give(pool, s, p, 1000);
}

TEST_CASE("segments without live blocks are taken out, as few bytes as suffice", "[pool][block_pool]") {
    cuota::stream const s;
    block_pool pool{"main"};
    pool.add({address(0), 1_MiB});
    pool.add({address(16_MiB), 4_MiB});
    pool.add({address(32_MiB), 2_MiB});
    void* const p = take(pool, s, 1_MiB);

    CHECK(pool.could_take_out(1) == 2_MiB);
    CHECK(pool.could_take_out(3_MiB) == 4_MiB);
    CHECK(pool.could_take_out(5_MiB) == 6_MiB);
    CHECK(pool.could_take_out(cuota::unlimited) == 6_MiB);
    CHECK(!pool.take_out_above(7_MiB));
    std::optional<idle_memory> const least = pool.take_out_above(6_MiB);
    REQUIRE(least);
    CHECK((least->at == address(32_MiB) && least->bytes == 2_MiB));
    CHECK(!pool.take_out_above(5_MiB));  // memory that was taken out counts as released
    CHECK(pool.could_take_out(cuota::unlimited) == 6_MiB);
    CHECK(pool.reserved() == 7_MiB);
    pool.gone(*least, 2_MiB);
    CHECK(pool.reserved() == 5_MiB);
    std::optional<idle_memory> const kept = pool.take_out(1);
    REQUIRE(kept);
    CHECK(pool.largest_free() == 0);
    pool.gone(*kept, 0);  // releasing it failed
    CHECK(pool.largest_free() == 4_MiB);
    CHECK(drop(pool)->bytes == 4_MiB);
    CHECK(!drop(pool));
    CHECK(pool.reserved() == 1_MiB);
    give(pool, s, p, 1_MiB);
    CHECK(drop(pool)->at == address(0));
    CHECK(pool.stats().segments == 0);
    CHECK(pool.stats().peak_reserved == 7_MiB);
}

TEST_CASE("a closed block_pool refuses requests, and reports the free of the last block that keeps it",
          "[pool][block_pool]") {
    cuota::stream const s;
    cuota::stream_ref const in_order = s;
    block_pool pool{"main"};
    pool.add({address(0), 16_MiB});
    void* const p = take(pool, s, 512);
    void* const ready = take(pool, s, 512);
    give(pool, s, ready, 512);
    void* const keeps[]{pool.try_take(&in_order, {512, {}, cuota::lifetime_hint::scratch, 256, true}),
                        pool.try_take(&in_order, {512, {}, cuota::lifetime_hint::scratch, 256, true})};

    CHECK(pool.close());
    CHECK_FALSE(pool.close());  // already closed

    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)pool.try_take(&in_order, {512, {{}, {"late.cpp", 3}}});
              }).what(),
              "pool main: allocation after close()"));
    CHECK(has(pool.survivors(), "3 allocations are still alive"));
    std::vector<bool> was_last;
    for (void* const back : {keeps[0], p, keeps[1]})
        pool.give(&in_order, back, 512, [&](bool is_last) { was_last.push_back(is_last); });
    CHECK(was_last == std::vector{false, false, true});
    CHECK(pool.survivors().empty());
    CHECK(drop(pool)->bytes == 16_MiB);
}

TEST_CASE("cached blocks are not part of a peak, also after a new segment", "[pool][block_pool]") {
    cuota::stream const s;
    cuota::stream_ref const in_order = s;
    block_pool pool{"main"};
    pool.add({address(0), 16_MiB});
    void* const p = take(pool, s, 4096);
    void* const q = take(pool, s, 4096);
    give(pool, s, p, 4096);
    give(pool, s, q, 4096);
    CHECK(pool.stats().peak_allocated == 8192);
    void* const again = take(pool, s, 4096);
    give(pool, s, again, 4096);

    void* const large = pool.take_of_new({address(64_MiB), 32_MiB}, &in_order, {32_MiB, {}});

    CHECK(pool.stats().peak_allocated == 32_MiB);
    CHECK(pool.stats().peak_requested == 32_MiB);
    give(pool, s, large, 32_MiB);
}

TEST_CASE("an invalid free on a block_pool is reported and changes nothing", "[pool][block_pool]") {
    support::captured_errors errors;
    cuota::stream const s;
    block_pool pool{"main"};
    pool.add({address(0), 1_MiB});
    void* const p = take(pool, s, 512);
    give(pool, s, p, 513);
    give(pool, s, address(512), 512);
    CHECK(errors.take().size() == 2);
    CHECK(pool.stats().requested == 512);
    give(pool, s, p, 512);
    give(pool, s, nullptr, 512);
    CHECK(errors.take().empty());
    CHECK(pool.stats().requested == 0);
}

TEST_CASE("a persistent request on a new stream merges the blocks of the thread cache",
          "[pool][block_pool][lifetime_hint]") {
    cuota::stream const s;
    cuota::stream const fresh;
    cuota::stream_ref const in_order = fresh;
    block_pool pool{"main"};
    pool.add({address(0), 64_MiB});
    give(pool, s, take(pool, s, 2_MiB), 2_MiB);  // so that the requests below set no peak
    void* const small = take(pool, s, 4096);
    give(pool, s, small, 4096);  // in the thread cache; the rest is one free block
    CHECK(pool.try_take(&in_order, {1_MiB, {}, cuota::lifetime_hint::persistent}) == small);
    CHECK(pool.stats().thread_cache_hits == 0);
    CHECK(pool.stats().free_blocks == 1);
    CHECK(pool.largest_free() == 63_MiB);
    give(pool, fresh, small, 1_MiB);
    CHECK(pool.largest_free() == 64_MiB);
}
