// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/pool_release.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <cuota/pool/detail/growth/pool_grower.hpp>

#include "pool/fake_memory.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::detail::block;
using cuota::detail::pool_memory;
using cuota::detail::pool_release;

namespace {

struct segments {
    explicit segments(std::initializer_list<std::size_t> sizes) {
        for (std::size_t const bytes : sizes) {
            REQUIRE(memory.node().try_charge(bytes));
            memory.blocks().add(memory.take_segment(bytes, nullptr).value());
        }
    }
    cuota::budget budget{"test", 64_MiB};
    pool_tests::recorded_source source;
    pool_memory memory{budget, source, std::nullopt, "main", nullptr, block::granularity};
    pool_release release{memory};
};

// Pages: 2 MiB in use, 2 MiB free, 2 MiB in use, 4 MiB free.
struct pages {
    pages() {
        std::vector<void*> all;
        for (std::size_t const bytes : {2_MiB, 2_MiB, 2_MiB, 4_MiB})
            all.push_back(pool->allocate_sync(bytes, 256, {}));
        pool->deallocate_sync(all[1], 2_MiB);
        pool->deallocate_sync(all[3], 4_MiB);
        REQUIRE(mapped == 10_MiB);
    }
    cuota::budget budget{"test", 64_MiB};
    std::size_t mapped = 0;
    pool_tests::shared_pool pool = pool_tests::pool_of_pages(budget, mapped, 64_MiB);
};

}  // namespace

TEST_CASE(
    "reclaim releases the segments that cover the request with the least excess, and returns their bytes",
    "[pool][pool_release]") {
    segments s{1_MiB, 2_MiB, 4_MiB};

    CHECK(s.release.reclaimable(1) == 1_MiB);
    CHECK(s.release.reclaim(1) == 1_MiB);
    CHECK(s.release.reclaim(3_MiB) == 4_MiB);
    CHECK(s.budget.held() == 2_MiB);
    CHECK(s.release.reclaimable(64_MiB) == 2_MiB);
    CHECK(s.release.reclaim(64_MiB) == 2_MiB);
    CHECK(s.release.reclaim(1) == 0);
    CHECK(s.source.taken() == 0);
    CHECK(s.budget.held() == 0);
}

TEST_CASE("live blocks are not released", "[pool][pool_release]") {
    segments s{1_MiB, 2_MiB};
    void* const used = s.memory.blocks().try_take(nullptr, {2_MiB, {}});
    REQUIRE(used);

    CHECK(s.release.trim(0) == 1_MiB);
    CHECK(s.budget.held() == 2_MiB);
    s.memory.blocks().give(nullptr, used, 2_MiB, [](bool) {});
    CHECK(s.release.trim(0) == 2_MiB);
}

TEST_CASE("trim releases down to the bytes to keep, or below by part of a segment or page",
          "[pool][pool_release]") {
    segments s{1_MiB, 2_MiB, 4_MiB};
    CHECK(s.release.trim(7_MiB) == 0);
    CHECK(s.release.trim(6_MiB) == 1_MiB);
    CHECK(s.release.trim(5_MiB) == 2_MiB);
    CHECK(s.release.trim(1) == 4_MiB);

    pages p;
    CHECK(p.pool->trim(9_MiB) == 2_MiB);
    CHECK(p.mapped == 8_MiB);
    CHECK(p.pool->trim(0) == 4_MiB);
    CHECK(p.mapped == 4_MiB);
}

TEST_CASE("kept addresses apply to one pool in one thread until their scope ends", "[pool][pool_release]") {
    segments a{2_MiB, 4_MiB};
    segments b{2_MiB, 4_MiB};
    cuota::detail::kept_addresses const some{nullptr, nullptr, 1};
    cuota::detail::kept_addresses const more{nullptr, nullptr, 2};
    {
        pool_release::keeping const outer{a.release, some};
        CHECK(pool_release::keeping::here(b.release).idle == 0);
        {
            pool_release::keeping const inner{a.release, more};
            pool_release::keeping const other{b.release, some};
            CHECK(pool_release::keeping::here(a.release).idle == 2);
            CHECK(pool_release::keeping::here(b.release).idle == 1);
            std::size_t elsewhere = 1;
            std::thread{[&] { elsewhere = pool_release::keeping::here(a.release).idle; }}.join();
            CHECK(elsewhere == 0);
        }
        CHECK(pool_release::keeping::here(a.release).idle == 1);
    }
    CHECK(pool_release::keeping::here(a.release).idle == 0);
}

TEST_CASE("kept addresses are neither reclaimable nor released", "[pool][pool_release]") {
    cuota::budget budget{"test", 64_MiB};
    std::size_t mapped = 0;
    pool_memory memory = pool_tests::paged_memory(budget, mapped, 64_MiB);
    pool_release release{memory};
    cuota::detail::pool_grower growth{memory, release};
    growth.reserve(8_MiB, {});
    auto const at = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    {
        pool_release::keeping const keep{release, {at, at + 6_MiB, 6_MiB}};
        CHECK(release.reclaimable(8_MiB) == 2_MiB);
        CHECK(release.reclaim(8_MiB) == 2_MiB);
        CHECK(release.reclaim(8_MiB) == 0);
    }
    CHECK(mapped == 6_MiB);
    CHECK(release.reclaim(8_MiB) == 6_MiB);
    CHECK(budget.held() == 0);
}
