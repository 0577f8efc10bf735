// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A pool as a holder of its budget that can release memory. Its use as memory is tested in scoped_pool.cpp.
#include <cuota/pool/detail/pool_state.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "pool/fake_memory.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"

using namespace cuota::literals;
using cuota::detail::pool_state;

namespace {

cuota::detail::intrusive_ptr<pool_state> pool_on(cuota::budget const& budget) {
    return cuota::detail::intrusive_ptr<pool_state>::make(budget, cuota::device_memory{},
                                                          cuota::device::current(), cuota::tag{"main"});
}

std::map<std::string, std::size_t> allocation_groups(pool_state const& pool) {
    std::vector<cuota::allocation_group> all;
    pool.allocation_groups(all);
    std::map<std::string, std::size_t> by_name;
    for (cuota::allocation_group const& h : all)
        by_name[std::string{h.name.text()} + ' ' + cuota::source_location_text(h.where)] += h.bytes;
    return by_name;
}

}  // namespace

TEST_CASE("a pool lists one holder for each tag and call site, and one for its cached bytes",
          "[pool][pool_state]") {
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const stream;
    auto const pool = pool_on(budget);
    CHECK(allocation_groups(*pool).empty());

    std::vector<void*> blocks;
    for (int i = 0; i != 3; ++i)
        blocks.push_back(pool->allocate(stream, 1000, 256, {"weights", {"a/train.cpp", 7}}));
    blocks.push_back(pool->allocate(stream, 1000, 256, {"weights", {"a/train.cpp", 8}}));
    blocks.push_back(pool->allocate(stream, 1000, 256, {}));
    pool->reserve(1_MiB, {});

    auto const held = allocation_groups(*pool);
    std::size_t all = 0;
    for (auto const& [name, bytes] : held) all += bytes;
    CHECK(held.at("weights train.cpp:7") == 3072);
    CHECK(held.at("weights train.cpp:8") == 1024);
    CHECK(held.at(" ") == 1024);
    CHECK(held.at("cached in pool main ") == pool->stats().reserved - 5 * 1024);
    CHECK(all == budget.held());
    for (void* p : blocks) pool->deallocate(stream, p, 1000);
}

TEST_CASE("a closed pool releases a segment once it has no live block", "[pool][pool_state]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const stream;
    auto const pool = pool_on(budget);
    void* const large = pool->allocate(stream, 4_MiB, 256, {});
    void* const first = pool->allocate(stream, 64_KiB, 256, {});
    void* const second = pool->allocate(stream, 64_KiB, 256, {});
    REQUIRE(pool->stats().segments == 2);
    pool->close_to_requests();

    pool->deallocate(stream, first, 64_KiB);
    CHECK(pool->stats().segments == 2);
    pool->deallocate(stream, second, 64_KiB);
    CHECK(pool->stats().segments == 1);
    CHECK(budget.held() == 4_MiB);
    pool->deallocate_sync(large, 4_MiB);
    CHECK(pool->stats().segments == 0);
    CHECK(budget.held() == 0);
    CHECK(pool->survivors().empty());
    CHECK(errors.take().empty());
}

TEST_CASE("a reclaimer that is called for a pool's request may use that pool", "[pool][pool_state]") {
    cuota::budget budget{"test", 6_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_tests::pool_of_pages(budget, mapped, 64_MiB);
    void* const first = pool->allocate(s, 3_MiB, 256, {});
    void* const cached = pool->allocate(s, 3_MiB, 256, {});
    REQUIRE(budget.held() == 6_MiB);
    bool is_cached = true;
    cuota::reclaimer const cache{budget, "cache",
                                 [&](std::size_t) { return is_cached ? 2_MiB : std::size_t{0}; },
                                 [&](std::size_t) {
                                     std::size_t const before = budget.held();
                                     if (is_cached) pool->deallocate(s, cached, 3_MiB);
                                     is_cached = false;
                                     pool->trim(4_MiB);
                                     return before - budget.held();
                                 }};
    void* const p = pool->allocate(s, 2_MiB, 256, {});
    CHECK_FALSE(is_cached);
    CHECK(mapped == budget.held());
    pool->deallocate(s, p, 2_MiB);
    pool->deallocate(s, first, 3_MiB);
}

TEST_CASE("a reclaimer that frees blocks of the pool is called until the request fits",
          "[pool][pool_state]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 8_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_tests::pool_of_pages(budget, mapped, 64_MiB);
    std::vector<void*> entries;
    for (int i = 0; i != 16; ++i) entries.push_back(pool->allocate(s, 512_KiB, 256, {}));
    REQUIRE(budget.held() == 8_MiB);
    std::size_t calls = 0;
    cuota::reclaimer const cache{budget, "entries", [&](std::size_t) { return entries.size() * 512_KiB; },
                                 [&](std::size_t) {
                                     ++calls;
                                     if (entries.empty()) return std::size_t{0};
                                     pool->deallocate(s, entries.back(), 512_KiB);
                                     entries.pop_back();
                                     return 512_KiB;
                                 }};
    budget.charge(4_MiB);  // the pool can release whole pages only, of four entries each
    CHECK(calls == 8);
    CHECK(entries.size() == 8);
    CHECK(errors.take().empty());
    budget.refund(4_MiB);
    for (void* const entry : entries) pool->deallocate(s, entry, 512_KiB);
}

TEST_CASE("a request fails when a reclaimer reports bytes that it has not freed", "[pool][pool_state]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 16_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_tests::pool_of_pages(budget, mapped, 64_MiB);
    void* const weights = pool->allocate(s, 8_MiB, 256, {});
    std::size_t calls = 0;
    cuota::reclaimer const cache{budget, "cache", [](std::size_t) { return 12_MiB; },
                                 [&](std::size_t wanted) {
                                     if (++calls == 1000) throw std::runtime_error{"asked too often"};
                                     return wanted;
                                 }};
    CHECK_THROWS_AS(pool->allocate(s, 12_MiB, 256, {}), cuota::budget_exceeded);
    CHECK(calls == 1);  // although pages were tried in two ways, and a segment
    CHECK(errors.take().size() == 1);
    pool->deallocate(s, weights, 8_MiB);
}
