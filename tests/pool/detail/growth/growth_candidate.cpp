// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/growth_candidate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include <cuota/core/bytes.hpp>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::detail::block;
using cuota::detail::block_index;
using cuota::detail::growth_aim;
using cuota::detail::growth_candidate;
using pool_tests::address;

namespace {

constexpr std::size_t page = pool_tests::paged_blocks::page;

// Pages of a range, and the window that a request would get.
struct pages : pool_tests::paged_blocks {
    using paged_blocks::paged_blocks;

    [[nodiscard]] std::optional<growth_candidate> choose(std::size_t size,
                                                         growth_aim aim = growth_aim::least_missing) const {
        return cuota::detail::choose_window(index, size, aim);
    }
};

bool lies_at(std::optional<growth_candidate> const& w, std::size_t from, std::size_t until) {
    return w && w->at == address(from) && w->end == address(until);
}

}  // namespace

TEST_CASE("a new range is one hole, of which all but the last page can be allocated",
          "[pool][growth_candidate]") {
    pages p{4};
    auto const one = p.choose(256);
    CHECK(lies_at(one, 0, page));
    CHECK(one->missing == page);
    CHECK(one->idle == 0);
    CHECK(p.choose(3 * page));
    CHECK_FALSE(p.choose(3 * page + 256));
    CHECK(p.index.mapped_runs() == 0);
}

TEST_CASE("a window begins with the free bytes before a hole, and maps only the missing pages",
          "[pool][growth_candidate]") {
    pages p{8};
    p.map(0, 2 * page);
    p.take(0, 512);
    auto const w = p.choose(2 * page);
    CHECK(lies_at(w, 512, 3 * page));
    CHECK(w->missing == page);
    CHECK(w->idle == page);
}

TEST_CASE("a window ends with the free bytes behind a hole when that maps fewer pages",
          "[pool][growth_candidate]") {
    pages p{16};
    p.map(0, page);
    p.take(0, page);
    p.map(5 * page, 8 * page);
    p.take(5 * page, 3 * page);
    p.map(4 * page, 5 * page);  // free, between a hole and a live block
    auto const w = p.choose(2 * page);
    CHECK(lies_at(w, 3 * page, 5 * page));
    CHECK(w->missing == page);
}

TEST_CASE("a window spans several holes, and avoids live blocks", "[pool][growth_candidate]") {
    pages p{16};
    p.map(page, 2 * page);
    p.map(3 * page, 4 * page);
    p.map(5 * page, 6 * page);
    p.take(5 * page, page);
    auto const w = p.choose(4 * page);
    CHECK(lies_at(w, 0, 4 * page));
    CHECK(w->missing == 2 * page);
    CHECK(w->idle == 2 * page);
    CHECK(p.choose(5 * page)->at == address(0));
    CHECK(p.choose(6 * page)->at == address(6 * page));  // only five pages precede the live block
    CHECK_FALSE(p.choose(10 * page));
}

TEST_CASE("growth_aim::least_in_all counts the free pages that a window uses", "[pool][growth_candidate]") {
    pages p{16};
    p.map(0, page);
    p.take(0, page / 2);  // half a page is free before the hole
    p.map(8 * page, 11 * page);
    std::size_t const size = 3 * page + page / 2;
    CHECK(p.choose(size)->missing == page);
    CHECK(p.choose(size)->idle == 3 * page);
    auto const w = p.choose(size, growth_aim::least_in_all);
    CHECK(lies_at(w, page / 2, 4 * page));
    CHECK(w->missing == 3 * page);
    CHECK(w->idle == 0);
}

TEST_CASE("largest_window counts parts of pages", "[pool][growth_candidate]") {
    pages p{16};
    CHECK(cuota::detail::largest_window(p.index, 4 * page + 1) == 4 * page);
    p.map(0, 2 * page);
    p.take(0, 512);
    CHECK(cuota::detail::largest_window(p.index, page) == 2 * page - 512);
    CHECK(cuota::detail::largest_window(p.index, cuota::unlimited) == 15 * page - 512);
    CHECK(cuota::detail::largest_window(block_index{}, page) == 0);
}

TEST_CASE("a window that uses a part of a mapping counts the whole mapping", "[pool][growth_candidate]") {
    pages p{32};
    p.map(0, 8 * page, 8 * page);
    p.take(0, page);
    p.map(16 * page, 24 * page, 8 * page);
    auto const beside = p.choose(20 * page, growth_aim::least_in_all);
    REQUIRE(beside);
    CHECK(beside->at == address(page));  // seven pages of a mapping that cannot be unmapped
    CHECK(beside->missing == 8 * page);
    CHECK(beside->idle == 8 * page);
}

TEST_CASE("largest_window returns the largest size that can be chosen", "[pool][growth_candidate]") {
    bool const has_large_mappings = GENERATE(false, true);
    std::mt19937 random{5};
    for (int round = 0; round != 300; ++round) {
        pages p{24};
        for (std::size_t at = random() % 3; at < 20;) {
            std::size_t const until = at + 1 + random() % 4;
            p.map(at * page, until * page, has_large_mappings ? page * (1 + random() % 4) : page);
            for (std::size_t from = at * page; from < until * page;) {
                std::size_t const bytes = std::min(256 * (1 + random() % 20'000), until * page - from);
                block& b = p.take(from, bytes);
                if (random() % 2 == 0) p.index.release(b, {});
                from += bytes;
            }
            at = until + random() % 3;
        }
        std::size_t const spent = page * (random() % 24);
        std::size_t const most = cuota::detail::largest_window(p.index, spent);
        auto const fits = [&](std::size_t size) {
            auto const w = p.choose(size, growth_aim::least_in_all);
            return w && w->missing + w->idle <= spent;
        };
        if (most != 0) REQUIRE(fits(most));
        REQUIRE_FALSE(fits(most + 256));
    }
}

TEST_CASE("a held window is not chosen again, and undo restores it", "[pool][growth_candidate]") {
    pages p{8};
    p.map(0, 2 * page);
    p.take(0, page);
    auto w = p.choose(3 * page);
    REQUIRE(lies_at(w, page, 4 * page));
    block& held = p.index.hold_window(*w->first, w->at, w->end);
    CHECK(p.index.free_blocks() == 0);
    CHECK(p.choose(page)->at == address(4 * page));
    std::size_t holes = 0;
    block_index::for_each_part(held, w->end,
                               [&](block const& b) { holes += b.has_state(block::state::growing); });
    CHECK(holes == 1);

    p.index.undo_window(held, w->end);
    CHECK(p.index.free_blocks() == 1);
    CHECK(p.index.largest_free() == page);
    CHECK(lies_at(p.choose(3 * page), page, 4 * page));
    CHECK(p.index.mapped_runs() == 1);
}
