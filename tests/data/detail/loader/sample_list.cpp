// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/sample_list.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"

using cuota::detail::sample_list;
using numbers = std::vector<std::uint64_t>;

TEST_CASE("a sample_list is filled and shortened within its capacity without allocating, and so is a copy",
          "[data][sample_list]") {
    sample_list const room = sample_list::with_room(5, 2);
    sample_list list = room;
    support::heap_watch const watch;
    list.clear();
    std::size_t const none = list.size();
    for (std::uint64_t i = 0; i != 5; ++i) {
        list.numbers.push_back(i * i);
        for (numbers& offsets : list.row_offsets) offsets.push_back(offsets.back() + i);
    }
    list.shorten(4);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
    CHECK(none == 0);
    CHECK(list.numbers == numbers{0, 1, 4, 9});
    CHECK(list.row_offsets == std::vector<numbers>(2, {0, 0, 1, 3, 6}));
    CHECK(list.rows(1) == 6);
    CHECK(list.size() == 4);
}
