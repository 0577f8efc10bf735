// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/growth/mapping_table.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using namespace cuota::literals;
using cuota::detail::mapping_sizes;
using cuota::detail::mapping_table;

namespace {

constexpr std::size_t page = 2_MiB;

std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 40) + offset);
}
std::size_t from(mapping_table const& t, std::size_t offset) {
    return t.edge_from(reinterpret_cast<std::uintptr_t>(address(offset))) - (std::uintptr_t{1} << 40);
}
std::size_t up_to(mapping_table const& t, std::size_t offset) {
    return t.edge_up_to(reinterpret_cast<std::uintptr_t>(address(offset))) - (std::uintptr_t{1} << 40);
}

// Returns the sizes of the mappings that fill a hole.
std::vector<std::size_t> filled(std::size_t hole, mapping_sizes sizes) {
    std::vector<std::size_t> all;
    for (std::size_t done = 0; done != hole; done += all.back()) all.push_back(sizes.next(hole - done));
    return all;
}

}  // namespace

TEST_CASE("a hole is filled with the largest mappings while much memory is available",
          "[pool][mapping_table]") {
    mapping_sizes const plenty{page, 64_MiB, 1024, cuota::unlimited};
    CHECK(filled(2_MiB, plenty) == std::vector<std::size_t>{2_MiB});
    CHECK(filled(64_MiB, plenty) == std::vector<std::size_t>{64_MiB});
    CHECK(filled(150_MiB, plenty) == std::vector<std::size_t>{64_MiB, 64_MiB, 22_MiB});
}

TEST_CASE("a mapping is a fraction of the remaining memory, and at least one page", "[pool][mapping_table]") {
    CHECK(filled(8_MiB, {page, 64_MiB, 2, 16_MiB}) == std::vector<std::size_t>{8_MiB});
    CHECK(filled(16_MiB, {page, 64_MiB, 2, 16_MiB}) == std::vector<std::size_t>{8_MiB, 4_MiB, 2_MiB, 2_MiB});
    CHECK(filled(4_MiB, {page, 64_MiB, 1024, 0}) == std::vector<std::size_t>{page, page});
    CHECK(filled(4_MiB, {page, page / 2, 1, cuota::unlimited}) == std::vector<std::size_t>{page, page});
    // Memory that one hole has taken is not available to the next.
    mapping_sizes sizes{page, 64_MiB, 2, 16_MiB};
    CHECK(sizes.next(8_MiB) == 8_MiB);
    CHECK(sizes.next(8_MiB) == 4_MiB);
}

TEST_CASE("without mappings, every page boundary is an edge", "[pool][mapping_table]") {
    mapping_table const t{address(0), page};
    CHECK(from(t, 0) == 0);
    CHECK(from(t, 1) == page);
    CHECK(from(t, 300 * page) == 300 * page);
    CHECK(up_to(t, 300 * page - 1) == 299 * page);
    CHECK(up_to(t, page - 1) == 0);
}

TEST_CASE("a mapping has no inner edges until it is unmapped", "[pool][mapping_table]") {
    // Mappings within a word of the table, across the end of one, and over several.
    for (std::size_t const first : {0U, 3U, 60U, 63U, 64U, 130U})
        for (std::size_t const pages : {1U, 2U, 4U, 32U, 64U, 200U}) {
            mapping_table t{address(0), page};
            t.reserve(address((first + pages) * page));
            t.join(address(first * page), pages * page);
            for (std::size_t i = first * page + 1; i <= (first + pages) * page; i += page / 2) {
                std::size_t const inside = i / page - first;
                REQUIRE(from(t, i) == (first + pages) * page);
                REQUIRE(up_to(t, i) == (inside == pages ? first + pages : first) * page);
            }
            REQUIRE(from(t, first * page) == first * page);
            REQUIRE(from(t, (first + pages) * page + 1) == (first + pages + 1) * page);
            t.part(address(first * page), pages * page);
            REQUIRE(from(t, first * page + 1) == (first + 1) * page);
            REQUIRE(up_to(t, (first + pages) * page - 1) == (first + pages - 1) * page);
        }
}

TEST_CASE("mappings are counted when they are made and when they are removed", "[pool][mapping_table]") {
    mapping_table t{address(0), page};
    t.reserve(address(200 * page));
    t.join(address(0), 70 * page);
    t.join(address(70 * page), page);
    t.join(address(71 * page), 2 * page);
    CHECK(t.made() == 3);
    CHECK(t.removed() == 0);
    t.part(address(0), 71 * page);
    CHECK(t.removed() == 2);
    t.join(address(0), 71 * page);
    t.part(address(0), 73 * page);
    CHECK(t.made() == 4);
    CHECK(t.removed() == 4);
}

TEST_CASE("edges match the mappings in a random walk", "[pool][mapping_table]") {
    constexpr std::size_t pages = 400;
    std::mt19937 random{11};
    mapping_table t{address(0), page};
    std::vector<std::size_t> begins(pages);  // first page of each page's mapping
    for (std::size_t i = 0; i != pages; ++i) begins[i] = i;
    for (int round = 0; round != 2'000; ++round) {
        std::size_t const at = begins[random() % pages];
        std::size_t end = at + 1;
        while (end != pages && begins[end] == at) ++end;
        if (end - at > 1) {
            t.part(address(at * page), (end - at) * page);
            for (std::size_t i = at; i != end; ++i) begins[i] = i;
        } else {
            while (end != pages && begins[end] == end && random() % 8 != 0 &&
                   (end + 1 == pages || begins[end + 1] != end))
                ++end;
            t.reserve(address(end * page));
            t.join(address(at * page), (end - at) * page);
            for (std::size_t i = at; i != end; ++i) begins[i] = at;
        }
        std::size_t const requested = random() % pages;
        std::size_t next = requested + 1;
        while (next != pages && begins[next] != next) ++next;
        REQUIRE(up_to(t, requested * page + random() % page) == begins[requested] * page);
        REQUIRE(from(t, requested * page + 1 + random() % page) == next * page);
    }
}

TEST_CASE("a mapping_table is unchanged when the host has no memory for it", "[pool][mapping_table]") {
    mapping_table t{address(0), page};
    t.reserve(address(8 * page));
    t.join(address(0), 8 * page);
    {
        support::failing_heap const heap{0};
        CHECK_THROWS_AS(t.reserve(address(10'000 * page)), std::bad_alloc);
        t.reserve(address(64 * page));
    }
    CHECK(from(t, 1) == 8 * page);
    CHECK(from(t, 9'000 * page + 1) == 9'001 * page);
}
