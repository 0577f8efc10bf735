// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/guarded/guard_bytes_store.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::guard_bytes;
using cuota::detail::guard_bytes_store;

TEST_CASE("records have pinned memory for both sides of a block, which does not overlap",
          "[guard][guard_bytes_store]") {
    std::size_t const redzone = GENERATE(1, 1000, std::size_t{1} << 17);
    guard_bytes_store store{redzone, cuota::tag{}};
    std::vector<guard_bytes*> records;
    for (int i = 0; i != 150; ++i) records.push_back(&store.take());
    std::vector<unsigned char*> seen;
    for (guard_bytes* const record : records) seen.push_back(record->seen);
    std::sort(seen.begin(), seen.end());
    for (std::size_t i = 1; i != seen.size(); ++i)
        CHECK(static_cast<std::size_t>(seen[i] - seen[i - 1]) >= 2 * redzone);
    for (unsigned char* const p : seen) std::fill_n(p, 2 * redzone, static_cast<unsigned char>(1));
    for (guard_bytes* const record : records) store.put_back(*record);
}

TEST_CASE("a record that was put back is the next one", "[guard][guard_bytes_store]") {
    guard_bytes_store store{1000, cuota::tag{}};
    guard_bytes& first = store.take();
    guard_bytes& second = store.take();
    CHECK(&first != &second);
    store.put_back(first);
    CHECK(&store.take() == &first);
    store.put_back(second);
    store.put_back(first);
    for (int i = 0; i != 1000; ++i) {
        guard_bytes& again = store.take();
        CHECK(&again == &first);
        store.put_back(again);
    }
}

TEST_CASE("without host memory, a store throws, and existing records stay valid",
          "[guard][guard_bytes_store]") {
    // With 64 KiB on each side of a block, records are allocated one by one.
    guard_bytes_store store{std::size_t{1} << 16, cuota::tag{}};
    guard_bytes& first = store.take();
    // The number of host allocations per record depends on the runtime: the simulated one allocates host memory, too.
    guard_bytes* second = nullptr;
    std::size_t allowed = 0;
    for (; !second; ++allowed) {
        support::failing_heap const few{allowed};
        try {
            second = &store.take();
        } catch (std::bad_alloc const&) { continue; }
    }
    CHECK(allowed > 1);
    CHECK(second->seen != first.seen);
    store.put_back(first);
    CHECK(&store.take() == &first);
}

TEST_CASE("no two threads have the same record", "[guard][guard_bytes_store]") {
    guard_bytes_store store{1000, cuota::tag{}};
    auto const of = [&](std::size_t mark) {
        std::size_t strange = 0;
        for (int round = 0; round != 100; ++round) {
            std::vector<guard_bytes*> mine;
            for (int i = 0; i != 20; ++i) {
                mine.push_back(&store.take());
                mine.back()->bytes = mark;
            }
            for (guard_bytes* const record : mine) {
                strange += record->bytes != mark;
                store.put_back(*record);
            }
        }
        return strange;
    };
    std::size_t strange_there = 0;
    std::thread other{[&] { strange_there = of(1); }};
    std::size_t const strange_here = of(2);
    other.join();
    CHECK(strange_here == 0);
    CHECK(strange_there == 0);
}
