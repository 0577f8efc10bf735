// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/detail/bucket_layout.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace {

using cuota::detail::bucket_layout;
using cuota::detail::bucket_piece;

std::vector<bucket_piece> pieces_of(bucket_layout const& layout, std::size_t bucket) {
    auto const all = layout.pieces(bucket);
    return {all.begin(), all.end()};
}

TEST_CASE("gradients are stored one after the other in buckets of one size, with a shorter last bucket",
          "[training][bucket_layout]") {
    bucket_layout const layout{{3, 6, 0, 2}, 4, {}};
    REQUIRE(layout.size() == 3);
    CHECK(pieces_of(layout, 0) == std::vector<bucket_piece>{{0, 0, 0, 3}, {1, 0, 3, 1}});
    CHECK(pieces_of(layout, 1) == std::vector<bucket_piece>{{1, 1, 0, 4}});
    CHECK(pieces_of(layout, 2) == std::vector<bucket_piece>{{1, 5, 0, 1}, {3, 0, 1, 2}});
    CHECK(layout.elements(0) == 4);
    CHECK(layout.elements(2) == 3);
}

TEST_CASE("every element has exactly one position, for any bucket size", "[training][bucket_layout]") {
    for (std::size_t capacity = 1; capacity != 9; ++capacity) {
        std::vector<std::size_t> const counts{5, 1, 0, 7, 3};
        bucket_layout const layout{counts, capacity, {}};
        CHECK(layout.size() == (16 + capacity - 1) / capacity);
        std::vector<std::size_t> next(counts.size());
        for (std::size_t b = 0; b != layout.size(); ++b) {
            std::size_t at = 0;
            for (bucket_piece const& p : layout.pieces(b)) {
                CHECK(p.at == at);
                CHECK(p.from == next[p.gradient]);
                at += p.count;
                next[p.gradient] += p.count;
            }
            CHECK(layout.elements(b) == at);
            CHECK(at <= capacity);
        }
        CHECK(next == counts);
    }
}

TEST_CASE("no elements require no bucket, and buckets of 0 elements are refused",
          "[training][bucket_layout]") {
    CHECK(bucket_layout{{}, 4, {}}.size() == 0);
    CHECK(bucket_layout{{0, 0}, 4, {}}.size() == 0);
    CHECK_THROWS_AS((bucket_layout{{1}, 0, {}}), cuota::usage_error);
}

}  // namespace
