// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/live_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <random>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::live_map;
using cuota::detail::live_record;

static_assert(sizeof(live_record) == 64);

namespace {

void* live_map_address(std::uintptr_t n) { return reinterpret_cast<void*>(n); }
live_record live_map_record(std::uintptr_t at, std::uint64_t number = 0) {
    live_record r;
    r.at = live_map_address(at);
    r.number = number;
    return r;
}
void add(live_map& to, std::uintptr_t at, std::uint64_t number = 0) {
    to.reserve();
    to.insert(live_map_record(at, number));
}

}  // namespace

TEST_CASE("a live_map finds the addresses that it contains and no others", "[guard][live_map]") {
    live_map map;
    CHECK(map.find(live_map_address(16)) == nullptr);
    add(map, 16, 1);
    add(map, 17, 2);
    REQUIRE(map.find(live_map_address(16)));
    CHECK(map.find(live_map_address(16))->number == 1);
    CHECK(map.find(live_map_address(17))->number == 2);
    CHECK(map.find(live_map_address(18)) == nullptr);
    map.erase(*map.find(live_map_address(16)));
    CHECK(map.find(live_map_address(16)) == nullptr);
    CHECK(map.count() == 1);
}

TEST_CASE("a live_map agrees with std::map over random insertions and removals", "[guard][live_map]") {
    live_map map;
    std::map<std::uintptr_t, std::uint64_t> shadow;
    std::mt19937 random{5};
    std::uintptr_t const step = GENERATE(1U, 256U, 1'731'840U, 1U << 21);
    for (std::uint64_t i = 1; i != 4000; ++i) {
        std::uintptr_t const at = (1 + random() % 600) * step;
        if (live_record* const known = map.find(live_map_address(at))) {
            REQUIRE(shadow.at(at) == known->number);
            map.erase(*known);
            shadow.erase(at);
        } else {
            REQUIRE(!shadow.contains(at));
            add(map, at, i);
            shadow[at] = i;
        }
        REQUIRE(map.count() == shadow.size());
    }
    std::map<std::uintptr_t, std::uint64_t> all;
    map.for_each([&](live_record const& r) { all[reinterpret_cast<std::uintptr_t>(r.at)] = r.number; });
    CHECK(all == shadow);
}

TEST_CASE("insertions after reserve, and removals, need no host memory", "[guard][live_map]") {
    live_map map;
    CHECK(!map.try_reserve());
    for (int i = 0; i != 100; ++i) map.reserve();
    std::size_t refused = 0;
    {
        support::failing_heap const none{0};
        for (std::uintptr_t at = 1; at != 101; ++at) map.insert(live_map_record(at));
        for (std::uintptr_t at = 1; at != 101; ++at) map.erase(*map.find(live_map_address(at)));
        refused = none.refused();
    }
    CHECK(map.count() == 0);
    CHECK(refused == 0);
}

TEST_CASE("a live_map that cannot grow is unchanged, and a cancelled reservation can be reused",
          "[guard][live_map]") {
    live_map map;
    for (std::size_t allowed = 0; allowed != 2; ++allowed) {
        bool refused = false;
        {
            support::failing_heap const few{allowed};
            try {
                map.reserve();
            } catch (std::bad_alloc const&) { refused = true; }
        }
        CHECK(refused);
    }
    map.reserve();
    int more = 1;
    for (; map.try_reserve(); ++more) continue;
    CHECK(more == 48);
    map.cancel();
    CHECK(map.try_reserve());
    CHECK(!map.try_reserve());
    for (std::uintptr_t at = 1; at != 49; ++at) map.insert(live_map_record(at));
    bool refused = false;
    {
        support::failing_heap const none{0};
        try {
            map.reserve();
        } catch (std::bad_alloc const&) { refused = true; }
    }
    CHECK(refused);
    for (std::uintptr_t at = 1; at != 49; ++at) CHECK(map.find(live_map_address(at)) != nullptr);
}

TEST_CASE("a live_map keeps the records that were removed last", "[guard][live_map]") {
    live_map map;
    map.for_each_gone([](live_record const&) { FAIL("nothing has gone"); });
    for (std::uint64_t i = 1; i != 41; ++i) {
        add(map, 256, i);
        map.erase(*map.find(live_map_address(256)));
    }
    std::uint64_t least = 100;
    std::size_t count = 0;
    map.for_each_gone([&](live_record const& r) {
        least = std::min(least, r.number);
        ++count;
    });
    CHECK(count == 32);
    CHECK(least == 9);
}
