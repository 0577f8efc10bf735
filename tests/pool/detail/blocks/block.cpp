// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/block.hpp>

#include <cstdint>
#include <new>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "pool/paged_blocks.hpp"
#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::block;
using cuota::detail::block_metadata;
using cuota::detail::block_store;
using cuota::detail::wait_point;
using cuota::detail::wait_set;
using pool_tests::address;

namespace {

// Checks the members that a free block uses. The others are set when it becomes live.
bool is_new(block const& b, std::byte* at, std::size_t size) {
    return b.at() == at && b.size == size && !b.before && !b.after && !b.left && !b.right &&
           b.has_state(block::state::free) && b.waits.is_empty();
}

void fill(block& b, block& other) {
    b.before = b.after = b.left = b.right = &other;
    b.become(block::state::live);
    b.waits = wait_set{{1, 2}};
    wait_set more{wait_point{3, 4}};
    b.waits.merge(more);
}

}  // namespace

TEST_CASE("a block without neighbours is a whole segment", "[pool][block]") {
    block a;
    block b;

    CHECK(a.is_whole_segment());
    a.after = &b;
    b.before = &a;
    CHECK_FALSE(a.is_whole_segment());
    CHECK_FALSE(b.is_whole_segment());
}

TEST_CASE("a live block can be claimed once, by its first byte only", "[pool][block]") {
    block b;
    b.size = 512;
    b.stand_at(address(512), block::state::free);
    CHECK_FALSE(b.claim(b.at()));
    CHECK(b.may_merge());
    b.become(block::state::live);
    CHECK_FALSE(b.may_merge());

    for (std::size_t const off : {0u, 256u, 511u, 513u, 514u, 515u, 768u, 1024u})
        CHECK_FALSE(b.claim(address(off)));
    CHECK_FALSE(b.claim(nullptr));
    CHECK(b.claim(address(512)));
    CHECK(b.has_state(block::state::in_transition));
    CHECK_FALSE(b.claim(address(512)));
    CHECK_FALSE(b.may_merge());
}

TEST_CASE("a block keeps its address in every state", "[pool][block]") {
    block b;
    for (auto const now : {block::state::live, block::state::in_transition, block::state::hole,
                           block::state::growing, block::state::free}) {
        b.stand_at(address(768), now);
        CHECK(b.at() == address(768));
        CHECK(b.has_state(now));
        b.become(block::state::in_transition);
        CHECK(b.at() == address(768));
    }
    b.size = 512;
    CHECK(b.end() == address(768 + 512));
}

TEST_CASE("a block is aligned to a cache line, and its number is stored beside its waits", "[pool][block]") {
    std::vector<block> const blocks(3);
    for (block const& b : blocks) CHECK(reinterpret_cast<std::uintptr_t>(&b) % 64 == 0);

    block b;
    b.mark = 17;
    b.waits = wait_set{{1, 2}};
    wait_set more{wait_point{3, 4}};
    b.waits.merge(more);
    CHECK(b.mark == 17);
    b.mark = ~std::uint32_t{0};
    std::vector<wait_point> points;
    b.waits.for_each([&](wait_point point) { points.push_back(point); });
    CHECK(points == std::vector<wait_point>{{1, 2}, {3, 4}});
    b.waits = {};
    CHECK(b.mark == ~std::uint32_t{0});

    b.mark = 17;
    CHECK_FALSE(b.keeps_stream());
    b.keeps_stream(true);
    CHECK(b.keeps_stream());
    CHECK(b.number() == 17);
    b.keeps_stream(false);
    CHECK_FALSE(b.keeps_stream());
    CHECK(b.number() == 17);
}

TEST_CASE("a block_store makes distinct blocks with initial values", "[pool][block]") {
    block_store store;
    std::set<block*> made;

    for (std::size_t i = 0; i != 1000; ++i) {
        block& b = store.make(address(i * 256), 256);
        REQUIRE(is_new(b, address(i * 256), 256));
        REQUIRE(made.insert(&b).second);
        fill(b, b);
    }
}

TEST_CASE("blocks keep their addresses and contents while others are made and dropped", "[pool][block]") {
    block_store store;
    std::mt19937 random{20'261'121};
    struct entry {
        block* at;
        std::size_t size;
    };
    std::vector<entry> live;
    std::set<block*> taken;
    std::size_t next = 1;

    for (int step = 0; step != 50'000; ++step) {
        if (live.empty() || random() % 100 < 52) {
            std::size_t const size = 256 * next++;
            block& b = store.make(address(size), size);
            REQUIRE(is_new(b, address(size), size));
            REQUIRE(taken.insert(&b).second);
            fill(b, b);
            live.push_back({&b, size});
            continue;
        }
        std::swap(live[random() % live.size()], live.back());
        auto const [at, size] = live.back();
        live.pop_back();
        REQUIRE(at->size == size);
        REQUIRE(at->at() == address(size));
        REQUIRE(at->before == at);
        taken.erase(at);
        store.drop(*at);
    }

    REQUIRE(live.size() > 500);
    for (entry const& one : live) {
        CHECK(one.at->size == one.size);
        CHECK(one.at->has_state(block::state::live));
    }
}

TEST_CASE("dropped blocks are reused with initial values, without host allocations", "[pool][block]") {
    block_store store;
    std::vector<block*> first;
    for (std::size_t i = 0; i != 300; ++i) first.push_back(&store.make(address(i * 256), 256));
    for (block* b : first) fill(*b, *first.front());
    for (block* b : first) store.drop(*b);

    std::set<block*> again;
    std::size_t clean = 0;
    std::vector<block*> made(first.size());
    {
        support::failing_heap const heap{0};
        for (std::size_t i = 0; i != made.size(); ++i) {
            made[i] = &store.make(address(i * 512), 512);
            clean += is_new(*made[i], address(i * 512), 512);
        }
        CHECK(heap.refused() == 0);
    }
    again.insert(made.begin(), made.end());

    CHECK(clean == first.size());
    CHECK(again == std::set<block*>(first.begin(), first.end()));
}

TEST_CASE("the block that was dropped last is made again first", "[pool][block]") {
    block_store store;
    block& a = store.make(address(0), 256);
    block& b = store.make(address(256), 256);
    store.drop(b);
    store.drop(a);

    CHECK(&store.make(address(0), 512) == &a);
    CHECK(&store.make(address(0), 512) == &b);
}

TEST_CASE("a dropped block has no waits", "[pool][block]") {
    block_store store;
    block& b = store.make(address(0), 256);
    fill(b, b);

    store.drop(b);

    CHECK(b.waits.is_empty());
}

TEST_CASE("a block_store is unchanged when the host has no memory for more blocks", "[pool][block]") {
    block_store store;
    std::set<block*> made;
    std::size_t failed = 0;

    for (std::size_t i = 0; i != 1000; ++i) {
        std::size_t const count = made.size();
        block* b = nullptr;
        for (std::size_t allowed = 0; !b; ++allowed) {
            REQUIRE(allowed < 100);
            support::failing_heap const heap{allowed};
            try {
                b = &store.make(address(i * 256), 256);
            } catch (std::bad_alloc const&) { ++failed; }
        }
        REQUIRE(is_new(*b, address(i * 256), 256));
        made.insert(b);
        REQUIRE(made.size() == count + 1);
    }
    CHECK(failed >= 7);                             // at least once for each 143 records
    for (block* b : made) REQUIRE(b->size == 256);  // earlier records are unchanged
    for (block* b : made) store.drop(*b);
    support::failing_heap const heap{0};
    for (std::size_t i = 0; i != 1000; ++i) (void)store.make(address(0), 256);
    CHECK(heap.refused() == 0);
}

TEST_CASE("every block is found by its number", "[pool][block]") {
    block_store store;
    std::vector<block*> made;
    for (std::size_t i = 0; i != 1000; ++i) made.push_back(&store.make(address(i * 256), 256));
    for (std::size_t i = 0; i < made.size(); i += 3) store.drop(*made[i]);

    std::set<std::uint32_t> numbers;
    for (block* b : made) {
        CHECK(&store[b->number()] == b);
        CHECK(numbers.insert(b->number()).second);
    }
}

TEST_CASE("notes are distinct, and dropped ones are reused without host allocations", "[pool][block]") {
    block_store store;
    std::set<block_metadata*> first;
    for (std::size_t i = 0; i != 300; ++i) {
        store.reserve_note();
        REQUIRE(first.insert(&store.make_note()).second);
    }

    std::vector<block_metadata*> again;
    again.reserve(first.size());
    {
        support::failing_heap const heap{0};
        for (block_metadata* note : first) store.drop_note(*note);
        for (std::size_t i = 0; i != first.size(); ++i) {
            store.reserve_note();
            again.push_back(&store.make_note());
        }
        CHECK(heap.refused() == 0);
    }
    CHECK(std::set<block_metadata*>(again.begin(), again.end()) == first);
}

TEST_CASE("reserve_note throws without host memory, and loses no note", "[pool][block]") {
    block_store store;
    {
        support::failing_heap const heap{0};
        CHECK_THROWS_AS(store.reserve_note(), std::bad_alloc);
    }
    store.reserve_note();
    block_metadata& made = store.make_note();
    store.drop_note(made);
    CHECK(&store.make_note() == &made);
}
