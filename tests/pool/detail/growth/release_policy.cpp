// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/release_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::detail::block;
using cuota::detail::block_index;
using cuota::detail::choose_idle;
using cuota::detail::could_be_idle;
using cuota::detail::idle_memory;
using cuota::detail::kept_addresses;
using pool_tests::address;

namespace {

constexpr std::size_t page = pool_tests::paged_blocks::page;

// 32 pages as one free block; all but the last are backed by memory.
struct mapped_range : pool_tests::paged_blocks {
    mapped_range() : paged_blocks{32} { map(0, 31 * page); }
    [[nodiscard]] block& whole() {
        block* first = nullptr;
        index.for_each_free([&](block& b) { first = &b; });
        return *first;
    }
    void drop(idle_memory const& idle) {
        if (idle.is_paged) index.let_go(index.hold_pages(*idle.in, idle.at, idle.bytes));
        else index.remove_segment(*idle.in);
    }
};

bool is_pages(std::optional<idle_memory> const& idle, std::size_t from, std::size_t until) {
    return idle && idle->is_paged && idle->at == address(from) && idle->bytes == until - from;
}

}  // namespace

TEST_CASE("a page is idle when one free block covers it", "[pool][idle_choice]") {
    mapped_range r;
    CHECK(r.index.free_pages() == 31 * page);
    r.take(0, page + 256);
    CHECK(r.index.free_pages() == 29 * page);
    r.take(page + 256, 29 * page - 512);
    CHECK(r.index.free_pages() == page);
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, {}), 30 * page, 31 * page));
    CHECK(could_be_idle(r.index, cuota::unlimited, {}) == page);
}

TEST_CASE("no more pages are released than requested, rounded up to a page", "[pool][idle_choice]") {
    mapped_range r;
    CHECK(could_be_idle(r.index, 1, {}) == page);
    CHECK(could_be_idle(r.index, 3 * page, {}) == 3 * page);
    CHECK(could_be_idle(r.index, 3 * page + 1, {}) == 4 * page);
    CHECK(is_pages(choose_idle(r.index, 3 * page, {}), 28 * page, 31 * page));
    // The fourth page would be next.
    CHECK(is_pages(choose_idle(r.index, 3 * page + 1, {}), 28 * page, 31 * page));
    CHECK(is_pages(choose_idle(r.index, 1, {}), 30 * page, 31 * page));
}

TEST_CASE("pages beside a hole and in the smallest block are released first", "[pool][idle_choice]") {
    mapped_range r;
    block& first = r.take(0, 4 * page);
    r.take(4 * page, page);
    r.index.release(first, {});
    CHECK(is_pages(choose_idle(r.index, page, {}), 3 * page, 4 * page));
    r.drop({&first, address(0), page, true});
    CHECK(is_pages(choose_idle(r.index, page, {}), page, 2 * page));
    CHECK(r.index.mapped_runs() == 1);
}

TEST_CASE("kept addresses are not chosen", "[pool][idle_choice]") {
    mapped_range r;
    kept_addresses const end{address(28 * page + 256), address(40 * page), 2 * page};
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, end), 0, 28 * page));
    kept_addresses const start{address(0), address(page + 1), 2 * page};
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, start), 2 * page, 31 * page));
    kept_addresses const all{address(0), address(32 * page), 31 * page};
    CHECK_FALSE(choose_idle(r.index, 1, all));
    CHECK(could_be_idle(r.index, 1, all) == 0);
}

TEST_CASE("a segment is chosen when it exceeds the request by less than a page", "[pool][idle_choice]") {
    mapped_range r;
    r.index.add_segment(address(100 * page), 1_MiB);
    r.index.add_segment(address(200 * page), 16_MiB);
    CHECK(choose_idle(r.index, 1_MiB, {})->bytes == 1_MiB);
    CHECK(could_be_idle(r.index, 1_MiB, {}) == 1_MiB);
    CHECK(choose_idle(r.index, 1_MiB + 1, {})->bytes == page);
    CHECK(could_be_idle(r.index, page + 1, {}) == page + 1_MiB);
    CHECK(could_be_idle(r.index, cuota::unlimited, {}) == 31 * page + 17_MiB);
}

TEST_CASE("a mapping is released as a whole, and only when all of it is free", "[pool][idle_choice]") {
    pool_tests::paged_blocks r{32};
    r.map(0, 16 * page, 8 * page);
    r.map(16 * page, 18 * page);
    CHECK(r.index.free_pages() == 18 * page);
    CHECK(is_pages(choose_idle(r.index, 9 * page, {}), 16 * page, 18 * page));
    CHECK(is_pages(choose_idle(r.index, 10 * page, {}), 8 * page, 18 * page));
    CHECK(is_pages(choose_idle(r.index, 18 * page, {}), 0, 18 * page));

    block& live = r.take(8 * page - 256, 256);
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, {}), 8 * page, 18 * page));
    CHECK(could_be_idle(r.index, cuota::unlimited, {}) == 10 * page);
    r.take(16 * page, 2 * page);
    CHECK(is_pages(choose_idle(r.index, page, {}), 8 * page, 16 * page));  // nothing smaller is free
    CHECK(could_be_idle(r.index, page, {}) == 8 * page);
    r.index.release(live, {});
    CHECK(could_be_idle(r.index, cuota::unlimited, {}) == 16 * page);
}

TEST_CASE("memory no larger than the request is released first, else the smallest that covers it",
          "[pool][idle_choice]") {
    pool_tests::paged_blocks r{64};
    r.map(0, 4 * page, 4 * page);
    r.map(8 * page, 10 * page, 2 * page);
    r.map(16 * page, 32 * page, 16 * page);
    CHECK(is_pages(choose_idle(r.index, 3 * page, {}), 8 * page, 10 * page));
    CHECK(could_be_idle(r.index, 3 * page, {}) == 6 * page);  // 2 pages, then 4 for the last one
    CHECK(is_pages(choose_idle(r.index, page, {}), 8 * page, 10 * page));
    CHECK(is_pages(choose_idle(r.index, 7 * page, {}), 8 * page, 10 * page));
    r.index.add_segment(address(100 * page), page);
    CHECK(choose_idle(r.index, page, {})->bytes == page);
    CHECK(could_be_idle(r.index, 3 * page, {}) == 3 * page);
}

TEST_CASE("a mapping of which a part is kept is not chosen", "[pool][idle_choice]") {
    pool_tests::paged_blocks r{32};
    r.map(0, 16 * page, 4 * page);
    kept_addresses const start{address(0), address(5 * page), 8 * page};
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, start), 8 * page, 16 * page));
    kept_addresses const end{address(11 * page), address(32 * page), 8 * page};
    CHECK(is_pages(choose_idle(r.index, cuota::unlimited, end), 0, 8 * page));
}

TEST_CASE("only usable blocks are chosen", "[pool][idle_choice]") {
    pool_tests::paged_blocks r{32};
    r.map(0, 8 * page);
    block& live = r.take(3 * page, page);
    auto const choose = [&](std::size_t surplus, auto is_usable) {
        return choose_idle(r.index, surplus, {}, is_usable);
    };
    REQUIRE(is_pages(choose(page, cuota::detail::any_block{}), 2 * page, 3 * page));
    CHECK(is_pages(choose(page, [&](block const& b) { return b.at() > live.at(); }), 7 * page, 8 * page));
    CHECK_FALSE(choose(page, [](block const&) { return false; }));
    r.index.add_segment(address(100 * page), 4 * page);
    CHECK(choose(4 * page, [](block const& b) { return b.is_whole_segment(); })->bytes == 4 * page);
    CHECK_FALSE(choose(4 * page, [](block const&) { return false; }));
}

TEST_CASE("could_be_idle equals the bytes that choose_idle releases", "[pool][idle_choice]") {
    std::mt19937 random{3};
    for (int round = 0; round != 400; ++round) {
        mapped_range r;
        if (round % 2 == 1)
            for (std::size_t at = 0; at != 31;) {
                std::size_t const until = std::min<std::size_t>(31, at + 1 + random() % 9);
                if (at == 0) r.drop({&r.whole(), address(0), 31 * page, true});
                r.map(at * page, until * page, (until - at) * page);
                at = until;
            }
        std::vector<block*> live;
        for (std::size_t at = 0; at < 30 * page;) {
            std::size_t const bytes = std::min(256 * (1 + random() % 20'000), 31 * page - at);
            live.push_back(&r.take(at, bytes));
            at += bytes;
        }
        for (block* b : live)
            if (random() % 2 == 0) r.index.release(*b, {});
        for (std::size_t i = random() % 4; i != 0; --i)
            r.index.add_segment(address(100 * page * i), 256 * (1 + random() % 20'000));
        std::size_t const wanted = 1 + random() % (40 * page);
        std::size_t const could = could_be_idle(r.index, wanted, {});
        std::size_t given = 0;
        while (given < wanted) {
            auto const idle = choose_idle(r.index, wanted - given, {});
            if (!idle) break;
            given += idle->bytes;
            r.drop(*idle);
        }
        REQUIRE(given == could);
    }
}

TEST_CASE("the largest free blocks may release their mappings first", "[pool][idle_choice]") {
    mapped_range r;
    r.take(3 * page, page);
    auto const chosen = [&](std::size_t surplus, cuota::detail::idle_order order) {
        return choose_idle(r.index, surplus, {}, cuota::detail::any_block{}, order);
    };
    CHECK(is_pages(chosen(2 * page, cuota::detail::idle_order::smallest_first), page, 3 * page));
    CHECK(is_pages(chosen(2 * page, cuota::detail::idle_order::largest_first), 29 * page, 31 * page));
}
