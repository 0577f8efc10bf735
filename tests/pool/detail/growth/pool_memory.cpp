// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/pool_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "pool/fake_memory.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::detail::block;
using cuota::detail::growth_aim;
using cuota::detail::growth_candidate;
using cuota::detail::pool_memory;
using support::has;
using support::thrown;

TEST_CASE("an upstream that returns misaligned memory is refused, and the memory is freed",
          "[pool][pool_memory]") {
    struct askew {
        void* allocate(cuota::stream_ref, std::size_t, std::size_t) { return take(); }
        void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept { --*taken; }
        void* allocate_sync(std::size_t, std::size_t) { return take(); }
        void deallocate_sync(void*, std::size_t, std::size_t) noexcept { --*taken; }
        std::size_t granularity() const noexcept { return 1; }
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
    pool_memory memory{budget, askew{&taken}, std::nullopt, "main", nullptr, block::granularity};
    REQUIRE(memory.node().try_charge(1_MiB));

    auto const refused = thrown<cuota::usage_error>([&] { (void)memory.take_segment(1_MiB, nullptr); });

    CHECK(has(refused.what(), "pool main"));
    CHECK(has(refused.what(), "256"));
    CHECK(taken == 0);
    CHECK(budget.held() == 0);
}

TEST_CASE("a segment that the upstream refuses is refunded", "[pool][pool_memory]") {
    cuota::budget budget{"test", 64_MiB};
    pool_memory memory{
        budget, pool_tests::recorded_source{2_MiB}, std::nullopt, "main", nullptr, block::granularity};

    REQUIRE(memory.node().try_charge(2_MiB));
    auto const held = memory.take_segment(2_MiB, nullptr);
    REQUIRE(held);
    REQUIRE(memory.node().try_charge(1_MiB));
    CHECK_FALSE(memory.take_segment(1_MiB, nullptr));

    CHECK(budget.held() == 2_MiB);
    memory.give_back(*held);
    CHECK(budget.held() == 0);
}

TEST_CASE("a window that does not become a block is refunded and restored", "[pool][pool_memory]") {
    cuota::budget budget{"test", 64_MiB};
    std::size_t mapped = 0;
    pool_memory memory = pool_tests::paged_memory(budget, mapped, 8_MiB);
    auto const grow = [&](std::size_t bytes, auto enter) {
        auto const window = memory.blocks().hold(bytes, growth_aim::least_missing, bytes);
        REQUIRE(memory.node().try_charge(window.value().missing));
        return memory.map(*window, window->missing, {}, enter);
    };
    auto const add = [&](growth_candidate const& window) -> void* {
        memory.blocks().add_grown(window);
        return window.at;
    };
    auto const is_as_after_4_MiB = [&] {
        return mapped == 4_MiB && budget.held() == 4_MiB && memory.blocks().largest_free() == 4_MiB;
    };
    REQUIRE(grow(4_MiB, add));
    REQUIRE(is_as_after_4_MiB());

    CHECK_FALSE(grow(10_MiB, add));  // the device has too little memory
    CHECK(is_as_after_4_MiB());
    CHECK_THROWS_AS(grow(6_MiB, [](growth_candidate const&) -> void* { throw std::bad_alloc{}; }),
                    std::bad_alloc);
    CHECK(is_as_after_4_MiB());

    CHECK(grow(8_MiB, add));
    CHECK(mapped == 8_MiB);
}

TEST_CASE("destroying a pool frees and refunds all of its memory", "[pool][pool_memory]") {
    cuota::budget budget{"test", 64_MiB};
    pool_tests::recorded_source source;
    std::size_t mapped = 0;
    {
        auto const pool = pool_tests::pool_of(budget, source, mapped, 64_MiB);
        (void)pool->allocate_sync(2_MiB, 256, {});  // never freed
        pool->reserve(1_MiB, {});
        REQUIRE(mapped == 2_MiB);
        REQUIRE(source.taken() == 1_MiB);
    }
    CHECK(mapped == 0);
    CHECK(source.taken() == 0);
    CHECK(budget.held() == 0);
}

TEST_CASE("pages that were mapped for a failed request and cannot be unmapped stay charged and are not used",
          "[pool][pool_memory]") {
    // Maps only 4 MiB at first, and its first unmap fails.
    class stubborn_pages final : public cuota::detail::mapped_range {
    public:
        explicit stubborn_pages(std::size_t& mapped) : pages_{mapped, 64_MiB} {}
        [[nodiscard]] std::byte* at() const noexcept override { return pages_.at(); }
        [[nodiscard]] std::size_t bytes() const noexcept override { return pages_.bytes(); }
        [[nodiscard]] std::size_t page() const noexcept override { return pages_.page(); }
        [[nodiscard]] bool map(std::byte* p, std::size_t bytes, cuota::detail::mapping_sizes& sizes,
                               cuota::label const& who, std::size_t& done) override {
            if (is_stubborn_) return (void)pages_.map(p, 4_MiB, sizes, who, done), false;
            return pages_.map(p, bytes, sizes, who, done);
        }
        bool unmap(std::byte* p, std::size_t bytes) noexcept override {
            return !std::exchange(is_stubborn_, false) && pages_.unmap(p, bytes);
        }

    private:
        pool_tests::fake_pages pages_;
        bool is_stubborn_ = true;
    };
    cuota::budget budget{"test", 64_MiB};
    std::size_t mapped = 0;
    {
        pool_memory memory{budget,
                           pool_tests::empty_source{},
                           std::nullopt,
                           "main",
                           cuota::detail::light_unique_ptr<stubborn_pages>::make(mapped),
                           block::granularity};
        auto const grow = [&](std::size_t bytes) {
            auto const window = memory.blocks().hold(bytes, growth_aim::least_missing, bytes);
            REQUIRE(memory.node().try_charge(window.value().missing));
            return memory.map(*window, window->missing, {}, [&](growth_candidate const& grown) -> void* {
                memory.blocks().add_grown(grown);
                return grown.at;
            });
        };
        CHECK_FALSE(grow(8_MiB));
        CHECK(mapped == 4_MiB);
        CHECK(budget.held() == 4_MiB);
        CHECK(memory.blocks().stats().reserved == 4_MiB);
        CHECK(memory.blocks().largest_free() == 0);

        CHECK(grow(2_MiB));  // at other addresses
        CHECK(memory.blocks().largest_free() == 2_MiB);
        CHECK(budget.held() == mapped);
    }
    CHECK(mapped == 0);
    CHECK(budget.held() == 0);
}
