// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/filled_vector.hpp>

#include "support/catch.hpp"

TEST_CASE("a vector is filled by a function of a span, also one of bool", "[buffer][filled_vector]") {
    using cuota::detail::filled_vector;
    auto const count_up = [](std::span<int> to) {
        for (std::size_t i = 0; i != to.size(); ++i) to[i] = static_cast<int>(i);
    };
    CHECK(filled_vector<int>(3, count_up) == std::vector<int>{0, 1, 2});
    CHECK(filled_vector<int>(0, count_up).empty());
    auto const alternate = [](std::span<bool> to) {
        for (std::size_t i = 0; i != to.size(); ++i) to[i] = i % 2 == 0;
    };
    CHECK(filled_vector<bool>(3, alternate) == std::vector<bool>{true, false, true});
}
