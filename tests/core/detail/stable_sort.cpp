// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/stable_sort.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::sort_stably;

TEST_CASE("sort_stably sorts as std::stable_sort does, for any number of elements", "[core][sort_stably]") {
    std::mt19937 random{7};
    for (std::size_t count = 0; count != 130; ++count)
        for (unsigned const kinds : {1U, 2U, 5U, 1000U}) {
            std::vector<std::pair<unsigned, std::size_t>> all;
            for (std::size_t i = 0; i != count; ++i) all.emplace_back(random() % kinds, i);
            auto expected = all;
            std::stable_sort(expected.begin(), expected.end(),
                             [](auto const& a, auto const& b) { return a.first < b.first; });
            sort_stably(all, {}, &std::pair<unsigned, std::size_t>::first);
            REQUIRE(all == expected);
        }
}

TEST_CASE("sort_stably accepts a comparison and sorts types that can only be moved", "[core][sort_stably]") {
    std::vector<std::unique_ptr<int>> all;
    for (int const i : {3, 1, 2}) all.push_back(std::make_unique<int>(i));
    sort_stably(all, std::greater{}, [](auto const& p) { return *p; });
    REQUIRE(*all[0] == 3);
    REQUIRE(*all[1] == 2);
    REQUIRE(*all[2] == 1);
}

TEST_CASE("sort_stably moves nothing when a comparison throws", "[core][sort_stably]") {
    std::vector<std::string> all{"c", "b", "a", "d"};
    int left = 3;
    REQUIRE_THROWS_AS(sort_stably(all,
                                  [&](std::string const& a, std::string const& b) {
                                      if (--left == 0) throw std::runtime_error{"enough"};
                                      return a < b;
                                  }),
                      std::runtime_error);
    REQUIRE(all == std::vector<std::string>{"c", "b", "a", "d"});
}
