// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/live_table.hpp>

#include <cstdint>
#include <new>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/rounds.hpp"

using cuota::detail::block;
using cuota::detail::block_store;
using cuota::detail::live_table;

namespace {

// The table never accesses the memory, so any addresses will do.
std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>(std::uintptr_t{0x7f3a'4000'0000} + offset);
}

// Records of one store at regular distances, and a table of them.
struct records {
    block_store store;
    std::vector<block*> blocks;
    explicit records(std::size_t count, std::size_t distance = 256) {
        for (std::size_t i = 0; i != count; ++i)
            blocks.push_back(&store.make(address(i * distance), block::granularity));
    }
    block& operator[](std::size_t i) { return *blocks[i]; }
    [[nodiscard]] std::size_t size() const { return blocks.size(); }
};

void enter(live_table& table, block& b) {
    table.reserve_one();
    table.insert(b);
}

std::set<block const*> visited(live_table const& table) {
    std::set<block const*> found;
    table.for_each([&](block const& b) { REQUIRE(found.insert(&b).second); });
    REQUIRE(found.size() == table.count());
    return found;
}

}  // namespace

TEST_CASE("an empty live_table finds nothing", "[pool][live_table]") {
    block_store const none;
    live_table table{none};

    CHECK(table.count() == 0);
    CHECK_FALSE(table.find(address(0)));
    CHECK_FALSE(table.find(nullptr));
    CHECK(visited(table).empty());
    table.reserve_one();
    CHECK(table.count() == 0);
    CHECK_FALSE(table.find(address(0)));
    CHECK_FALSE(table.find(nullptr));
}

TEST_CASE("a live_table finds a block by its first byte only", "[pool][live_table]") {
    records blocks{1};
    live_table table{blocks.store};
    block& b = blocks[0];
    b.size = 1024;
    enter(table, b);

    CHECK(table.find(address(0)) == &b);
    for (std::size_t inside : {1u, 255u, 256u, 512u, 1023u, 1024u}) CHECK_FALSE(table.find(address(inside)));
    CHECK_FALSE(table.find(nullptr));
    table.erase(b);
    CHECK_FALSE(table.find(address(0)));
    CHECK(table.count() == 0);
}

TEST_CASE("a live_table finds all blocks while it grows", "[pool][live_table]") {
    std::size_t const distance = GENERATE(std::size_t{256}, std::size_t{512}, std::size_t{1'731'840},
                                          std::size_t{1} << 21, std::size_t{1} << 30);
    records blocks{5000, distance};
    live_table table{blocks.store};

    for (std::size_t i = 0; i != blocks.size(); ++i) {
        enter(table, blocks[i]);
        REQUIRE(table.count() == i + 1);
        REQUIRE(table.find(blocks[i].at()) == &blocks[i]);
        REQUIRE(table.find(blocks[i / 2].at()) == &blocks[i / 2]);
    }

    for (block* b : blocks.blocks) REQUIRE(table.find(b->at()) == b);
    CHECK(visited(table).size() == blocks.size());
    CHECK_FALSE(table.find(address(blocks.size() * distance)));
    for (block* b : blocks.blocks) {
        table.erase(*b);
        REQUIRE_FALSE(table.find(b->at()));
    }
    CHECK(visited(table).empty());
}

TEST_CASE("a live_table distinguishes blocks that are terabytes apart", "[pool][live_table]") {
    constexpr std::size_t terabyte = std::size_t{1} << 40;
    records blocks{120, terabyte};
    live_table table{blocks.store};
    for (std::size_t i = 0; i < blocks.size(); i += 2) enter(table, blocks[i]);

    for (std::size_t i = 0; i != blocks.size(); ++i)
        CHECK(table.find(blocks[i].at()) == (i % 2 == 0 ? &blocks[i] : nullptr));
    for (std::size_t i = 0; i < blocks.size(); i += 4) table.erase(blocks[i]);
    for (std::size_t i = 0; i != blocks.size(); ++i)
        CHECK(table.find(blocks[i].at()) == (i % 4 == 2 ? &blocks[i] : nullptr));
}

TEST_CASE("expect does not change which blocks a live_table finds", "[pool][live_table]") {
    records blocks{100};
    live_table table{blocks.store};
    table.expect(blocks[0].at());
    for (std::size_t i = 0; i != 50; ++i) enter(table, blocks[i]);
    for (std::size_t i = 0; i != 100; ++i) table.expect(blocks[i].at());
    table.expect(nullptr);

    for (std::size_t i = 0; i != 100; ++i)
        CHECK(table.find(blocks[i].at()) == (i < 50 ? &blocks[i] : nullptr));
}

TEST_CASE("slots of erased blocks are reused without host allocations", "[pool][live_table]") {
    records blocks{4000};
    live_table table{blocks.store};
    for (std::size_t i = 0; i != 20; ++i) enter(table, blocks[i]);

    support::failing_heap const heap{0};
    for (std::size_t i = 20; i != blocks.size(); ++i) {
        table.erase(blocks[i - 20]);
        enter(table, blocks[i]);
    }

    CHECK(heap.refused() == 0);
    CHECK(table.count() == 20);
}

// The table starts with 64 slots and is filled up to three quarters. With the many addresses used here, colliding runs, some of them across
// the table's end, occur thousands of times.
TEST_CASE("a small live_table matches a map over many random steps", "[pool][live_table]") {
    std::mt19937_64 random{20'261'121};
    records blocks{48};

    for (int round = 0; round != support::rounds(2000); ++round) {
        live_table table{blocks.store};
        std::unordered_map<std::byte*, block*> expected;
        std::vector<std::byte*> gone;
        for (int step = 0; step != 200; ++step) {
            block& b = blocks[random() % blocks.size()];
            if (auto const found = expected.find(b.at()); found != expected.end() && found->second == &b) {
                table.erase(b);
                expected.erase(b.at());
                gone.push_back(b.at());
            } else {
                b.stand_at(address((random() % (1 << 20)) * block::granularity), block::state::free);
                if (expected.contains(b.at())) continue;
                enter(table, b);
                expected[b.at()] = &b;
            }
            bool right = table.count() == expected.size();
            for (auto const& [at, one] : expected) right = right && table.find(at) == one;
            for (std::byte* at : gone) {
                auto const found = expected.find(at);
                right = right && table.find(at) == (found == expected.end() ? nullptr : found->second);
            }
            if (!right) FAIL("what is found differs in round " << round << " after step " << step);
        }
        std::set<block const*> all;
        for (auto const& [at, one] : expected) all.insert(one);
        if (visited(table) != all) FAIL("what is visited differs after round " << round);
    }
}

TEST_CASE("a large live_table matches a map over many random steps", "[pool][live_table]") {
    std::mt19937_64 random{20'261'122};
    records blocks{3000};
    std::vector<char> is_in(blocks.size());
    live_table table{blocks.store};
    std::unordered_map<std::byte*, block*> expected;
    std::size_t const distance = GENERATE(std::size_t{256}, std::size_t{1} << 16);

    for (int step = 0; step != support::rounds(500'000); ++step) {
        std::size_t const i = random() % blocks.size();
        block& b = blocks[i];
        if (is_in[i]) {
            table.erase(b);
            expected.erase(b.at());
            is_in[i] = false;
        } else {
            b.stand_at(address(random() % 6000 * distance), block::state::free);
            if (expected.contains(b.at())) continue;
            enter(table, b);
            expected[b.at()] = &b;
            is_in[i] = true;
        }
        std::byte* const at = address(random() % 6000 * distance);
        auto const found = expected.find(at);
        block* const wanted = found == expected.end() ? nullptr : found->second;
        if (table.find(at) != wanted || table.count() != expected.size())
            FAIL("what is found differs after step " << step);
        if (step % 5000 != 0) continue;
        for (auto const& [key, one] : expected)
            if (table.find(key) != one) FAIL("a block is lost after step " << step);
        if (visited(table).size() != expected.size()) FAIL("what is visited differs after step " << step);
    }
}

TEST_CASE("a live_table is unchanged when the host has no memory for it to grow", "[pool][live_table]") {
    records blocks{1000};
    live_table table{blocks.store};
    std::size_t failed = 0;

    for (std::size_t i = 0; i != blocks.size(); ++i) {
        bool refused = false;
        {
            support::failing_heap const heap{0};
            try {
                table.reserve_one();
            } catch (std::bad_alloc const&) { refused = true; }
        }
        if (refused) {
            ++failed;
            REQUIRE(table.count() == i);
            for (std::size_t j = 0; j != blocks.size(); ++j)
                REQUIRE(table.find(blocks[j].at()) == (j < i ? &blocks[j] : nullptr));
            REQUIRE(visited(table).size() == i);
            table.reserve_one();
        }
        table.insert(blocks[i]);
        if (i % 2 == 0) continue;
        table.erase(blocks[i - 1]);
        REQUIRE_FALSE(table.find(blocks[i - 1].at()));
        enter(table, blocks[i - 1]);
    }

    CHECK(failed == 6);  // at 64 slots, 128, ... 2048
    for (block* b : blocks.blocks) REQUIRE(table.find(b->at()) == b);
}
