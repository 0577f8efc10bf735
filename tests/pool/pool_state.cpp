// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// What a pool is to its budget: somebody who holds, and can give back. Its use as memory stands in scoped_pool.cpp.
#include <cuota/pool/pool_state.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/shared.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/watch.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::detail::pool_state;
using support::has;
using support::thrown;

namespace {

// Pages that nothing is behind: a pool never touches them. Counts what is mapped; `most` is what there is.
class counted_pages final : public cuota::detail::page_range {
public:
    counted_pages(std::size_t& mapped, std::size_t most) : mapped_{&mapped}, most_{most} {}
    [[nodiscard]] std::byte* at() const noexcept override {
        return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return 1_GiB; }
    [[nodiscard]] std::size_t page() const noexcept override { return 2_MiB; }
    [[nodiscard]] bool map(std::byte*, std::size_t bytes, cuota::label const&) override {
        if (bytes > most_ - *mapped_) return false;
        *mapped_ += bytes;
        return true;
    }
    std::size_t unmap(std::byte*, std::size_t bytes) noexcept override {
        *mapped_ -= bytes;
        return bytes;
    }

private:
    std::size_t* mapped_;
    std::size_t most_;
};

// A source that has nothing, and takes nothing from the heap to say so.
struct nothing {
    void* allocate(cuota::stream_ref, std::size_t, std::size_t) {
        throw cuota::out_of_memory{cuota::refusal{}};
    }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t, std::size_t) { throw cuota::out_of_memory{cuota::refusal{}}; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    std::size_t granule() const noexcept { return 256; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    bool operator==(nothing const&) const noexcept { return true; }
};

cuota::shared<pool_state> pool_of_pages(cuota::budget const& budget, std::size_t& mapped, std::size_t most) {
    return cuota::shared<pool_state>::make(budget, nothing{}, std::nullopt, cuota::tag{"main"}, 0,
                                           std::make_unique<counted_pages>(mapped, most));
}

cuota::shared<pool_state> pool_on(cuota::budget const& budget) {
    return cuota::shared<pool_state>::make(budget, cuota::device_memory{}, cuota::device::current(),
                                           cuota::tag{"main"});
}

std::map<std::string, std::size_t> holdings(pool_state const& pool) {
    std::vector<cuota::holding> all;
    pool.holdings(all);
    std::map<std::string, std::size_t> by_name;
    for (cuota::holding const& h : all)
        by_name[std::string{h.name.text()} + ' ' + cuota::place_text(h.where)] += h.bytes;
    return by_name;
}

}  // namespace

TEST_CASE("a pool holds one entry for each tag and place, and one for what lies free", "[pool][pool_state]") {
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const stream;
    auto const pool = pool_on(budget);
    CHECK(holdings(*pool).empty());

    std::vector<void*> blocks;
    for (int i = 0; i != 3; ++i)
        blocks.push_back(pool->allocate(stream, 1000, 256, {"weights", {"a/train.cpp", 7}}));
    blocks.push_back(pool->allocate(stream, 1000, 256, {"weights", {"a/train.cpp", 8}}));
    blocks.push_back(pool->allocate(stream, 1000, 256, {}));
    pool->reserve(1_MiB, {});

    auto const held = holdings(*pool);
    std::size_t all = 0;
    for (auto const& [name, bytes] : held) all += bytes;
    CHECK(held.at("weights train.cpp:7") == 3072);
    CHECK(held.at("weights train.cpp:8") == 1024);
    CHECK(held.at(" ") == 1024);
    CHECK(held.at("free in pool main ") == pool->stats().reserved - 5 * 1024);
    CHECK(all == budget.held());
    for (void* p : blocks) pool->deallocate(stream, p, 1000);
}

TEST_CASE("a pool that is asked to give back says what it really gave", "[pool][pool_state]") {
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const stream;
    auto const pool = pool_on(budget);
    for (std::size_t const bytes : {1_MiB, 2_MiB, 4_MiB}) pool->reserve(bytes, {});
    void* const used = pool->allocate(stream, 2_MiB, 256, {});

    CHECK(pool->reclaim(1) == 1_MiB);
    CHECK(pool->reclaim(1_MiB) == 4_MiB);  // the smallest that is free
    CHECK(pool->reclaim(1) == 0);
    CHECK(budget.held() == 2_MiB);

    pool->deallocate(stream, used, 2_MiB);
    CHECK(pool->reclaim(64_MiB) == 2_MiB);
    CHECK(budget.held() == 0);
}

TEST_CASE("a closed pool gives a segment back as soon as nobody uses it", "[pool][pool_state]") {
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

TEST_CASE("who watches a budget may ask the pool that charges it, also when the host has no memory",
          "[pool][pool_state]") {
    // Takes nothing from the heap that fails.
    struct from_malloc {
        void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t a) {
            return std::aligned_alloc(a, bytes);
        }
        void deallocate(cuota::stream_ref, void* p, std::size_t, std::size_t) noexcept { std::free(p); }
        void* allocate_sync(std::size_t bytes, std::size_t a) { return std::aligned_alloc(a, bytes); }
        void deallocate_sync(void* p, std::size_t, std::size_t) noexcept { std::free(p); }
        std::size_t granule() const noexcept { return 1; }
        static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
        bool operator==(from_malloc const&) const noexcept { return true; }
    };
    cuota::budget budget{"test", 64_MiB};
    auto const pool =
        cuota::shared<pool_state>::make(budget, from_malloc{}, std::nullopt, cuota::tag{"main"});
    std::size_t calls = 0;
    std::size_t reserved = 0;
    cuota::watch_options options;
    options.falling = true;
    cuota::watch const w{budget,
                         {1},
                         1,
                         [&](cuota::watch_event const&) {
                             ++calls;
                             reserved += pool->stats().reserved;
                         },
                         options};
    void* p = nullptr;
    std::size_t refused = 0;
    for (std::size_t allowed = 0; !p && allowed != 100; ++allowed) {
        try {
            support::failing_heap const heap{allowed};
            p = pool->allocate_sync(1_MiB, 256, {});
        } catch (std::bad_alloc const&) {
            ++refused;
            CHECK(budget.held() == 0);
        }
    }
    REQUIRE(p);
    CHECK(refused > 0);
    CHECK(calls == 2 * refused + 1);  // each time a segment was charged, and given back
    CHECK(reserved == 0);
    pool->deallocate_sync(p, 1_MiB);
}

TEST_CASE("a source that does not align what it gives is refused, and has it back", "[pool][pool_state]") {
    struct askew {
        void* allocate(cuota::stream_ref, std::size_t, std::size_t) { return take(); }
        void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept { --*taken; }
        void* allocate_sync(std::size_t, std::size_t) { return take(); }
        void deallocate_sync(void*, std::size_t, std::size_t) noexcept { --*taken; }
        std::size_t granule() const noexcept { return 1; }
        static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
        bool operator==(askew const&) const noexcept { return true; }

        void* take() {
            ++*taken;
            return reinterpret_cast<void*>(std::uintptr_t{0x10'0040});
        }
        int* taken;
    };
    cuota::budget budget{"test", 64_MiB};
    int taken = 0;
    auto const pool =
        cuota::shared<pool_state>::make(budget, askew{&taken}, std::nullopt, cuota::tag{"main"});

    auto const refused = thrown<cuota::misuse>([&] { (void)pool->allocate_sync(1_MiB, 256, {}); });

    CHECK(has(refused.what(), "pool main"));
    CHECK(has(refused.what(), "256"));
    CHECK(taken == 0);
    CHECK(budget.held() == 0);
}

TEST_CASE("a pool that grows when the host has no memory has taken nothing, or all that was asked",
          "[pool][pool_state]") {
    cuota::stream const a;
    cuota::stream const b;
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        REQUIRE(allowed < 500);
        support::captured_errors errors;
        cuota::budget budget{"test", 12_MiB};
        std::size_t mapped = 0;
        auto const pool = pool_of_pages(budget, mapped, 64_MiB);
        std::vector<void*> blocks;
        for (int i = 0; i != 6; ++i) blocks.push_back(pool->allocate(a, 2_MiB, 256, {}));
        pool->deallocate(a, blocks[1], 2_MiB);
        pool->deallocate(b, blocks[3], 2_MiB);
        pool->deallocate(b, blocks[5], 2_MiB);
        void* p = nullptr;
        try {
            support::failing_heap const heap{allowed};
            p = pool->allocate(a, 6_MiB, 256, {});
        } catch (std::bad_alloc const&) { ++refused; }
        CHECK(budget.held() == pool->stats().reserved);
        CHECK(mapped == pool->stats().reserved);
        CHECK(pool->stats().live_blocks == (p ? 4 : 3));
        pool->deallocate(a, p, 6_MiB);
        for (std::size_t const i : {0u, 2u, 4u}) pool->deallocate(a, blocks[i], 2_MiB);
        CHECK(pool->trim(0) != 0);
        CHECK(mapped == 0);
        CHECK(budget.held() == 0);
        (void)errors.take();
        if (p) break;
    }
    CHECK(refused > 5);
}

TEST_CASE("a pool whose device has fewer pages than the budget allows serves what is there",
          "[pool][pool_state]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 64_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_of_pages(budget, mapped, 8_MiB);
    void* const p = pool->allocate(s, 7_MiB, 256, {});
    CHECK_THROWS_AS(pool->allocate(s, 2_MiB, 256, {}), cuota::out_of_memory);
    CHECK(mapped == 8_MiB);
    CHECK(budget.held() == 8_MiB);
    void* const rest = pool->allocate(s, 1_MiB, 256, {});
    pool->deallocate(s, p, 7_MiB);
    pool->deallocate(s, rest, 1_MiB);
    CHECK(pool->reclaim(3_MiB) == 4_MiB);
    CHECK(mapped == 4_MiB);
    CHECK(errors.take().empty());
}

TEST_CASE("a cache that is asked for what a pool lacks may use that pool", "[pool][pool_state]") {
    cuota::budget budget{"test", 6_MiB};
    cuota::stream const s;
    std::size_t mapped = 0;
    auto const pool = pool_of_pages(budget, mapped, 64_MiB);
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
