// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/lifetimes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::lifetime;
namespace detail = cuota::detail;

std::vector<detail::lifetime_part> parts_of(std::vector<lifetime> const& blocks) {
    return detail::independent_parts(blocks, detail::checked_sizes(blocks, 1, {}));
}

bool live_together(lifetime const& a, lifetime const& b) { return a.from < b.until && b.from < a.until; }

}  // namespace

TEST_CASE("invalid lifetimes are refused, and the message names the row", "[pool][lifetimes]") {
    std::vector<lifetime> const good{{0, 1, 5}, {3, 4, cuota::unlimited - 5}};
    CHECK_NOTHROW(detail::checked_sizes(good, 1, {}));

    auto const refused = [](std::vector<lifetime> blocks, std::size_t alignment, char const* words) {
        INFO(words);
        auto const error = support::thrown<cuota::usage_error>(
            [&] { static_cast<void>(detail::checked_sizes(blocks, alignment, {})); });
        CHECK(std::string{error.what()}.find(words) != std::string::npos);
    };
    refused({{0, 1, 5}, {4, 3, 1}}, 1, "row 1: the lifetime [4, 3) of 1 B is reversed");
    refused({{4, 4, 0}}, 1, "row 0: the lifetime [4, 4) of 0 B is empty");
    refused({{0, 1, 5}, {0, 1, 0}, {3, 4, cuota::unlimited - 4}}, 1, "row 2");
    refused({{0, 1, cuota::unlimited}}, 256, "row 0");
    refused({{0, 1, 5}}, 0, "not a power of two");
    refused({{0, 1, 5}}, 24, "an alignment of 24 B");
}

TEST_CASE("checked_sizes rounds up to the alignment", "[pool][lifetimes]") {
    std::vector<lifetime> const blocks{{0, 1, 0}, {0, 1, 1}, {0, 1, 256}, {0, 1, 257}};
    CHECK(detail::checked_sizes(blocks, 256, {}) == std::vector<std::size_t>{0, 256, 256, 512});
}

TEST_CASE("independent_parts share no step, and contain no blocks of size zero", "[pool][lifetimes]") {
    CHECK(parts_of({}).empty());
    CHECK(parts_of({{0, 9, 0}}).empty());

    auto const parts =
        parts_of({{5, 8, 1}, {0, 3, 2}, {3, 5, 4}, {2, 3, 8}, {7, 9, 16}, {20, 21, 32}, {0, 30, 0}});
    REQUIRE(parts.size() == 4);  // [0, 3) and [3, 5) do not overlap
    CHECK(parts[0].blocks.size() == 2);
    CHECK(parts[0].most_alive == 10);
    CHECK(parts[1].most_alive == 4);
    CHECK(parts[2].most_alive == 17);
    CHECK(parts[3].blocks[0].row == 5);
}

TEST_CASE("sections keep the overlaps of blocks and the largest sum of live sizes", "[pool][lifetimes]") {
    std::mt19937_64 random{11};
    for (int round = 0; round != 2'000; ++round) {
        auto const blocks = support::random_lifetimes(random, support::pick(random, 1, 12), 10, 20);
        std::size_t most = 0;
        for (std::uint64_t step = 0; step != 10; ++step) {
            std::size_t alive = 0;
            for (lifetime const& b : blocks) alive += b.from <= step && step < b.until ? b.size : 0;
            most = std::max(most, alive);
        }
        std::size_t bound = 0, found = 0;
        for (detail::lifetime_part const& part : parts_of(blocks)) {
            bound = std::max(bound, part.most_alive);
            found += part.blocks.size();
            auto const alive = part.alive();
            REQUIRE(part.sections <= part.blocks.size());
            REQUIRE(part.most_alive == *std::max_element(alive.begin(), alive.end()));
            for (auto const& a : part.blocks) {
                REQUIRE(a.first < a.last);
                REQUIRE(a.last <= part.sections);
                for (auto const& b : part.blocks)
                    REQUIRE((a.first < b.last && b.first < a.last) ==
                            live_together(blocks[a.row], blocks[b.row]));
            }
        }
        REQUIRE(bound == most);
        REQUIRE(found == static_cast<std::size_t>(std::count_if(
                             blocks.begin(), blocks.end(), [](lifetime const& b) { return b.size != 0; })));
    }
}
