// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/check_part.hpp>

#include <cstddef>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::check_part;

TEST_CASE("a part is within its array, also an empty one at its end", "[buffer][check_part]") {
    auto const is_refused = [](std::size_t offset, std::size_t count, std::size_t size) {
        try {
            check_part("x", "a buffer", offset, count, size, {});
            return false;
        } catch (cuota::usage_error const&) { return true; }
    };
    CHECK_FALSE(is_refused(0, 0, 0));
    CHECK_FALSE(is_refused(2, 3, 5));
    CHECK_FALSE(is_refused(5, 0, 5));
    CHECK(is_refused(6, 0, 5));
    CHECK(is_refused(2, 4, 5));
    CHECK(is_refused(1, cuota::unlimited, 5));
    CHECK(is_refused(cuota::unlimited, 1, 5));
    auto const error = support::thrown<cuota::usage_error>([] {
        check_part("pinned_buffer", "device memory", 2, 3, 4, {"train.cpp", 7});
    });
    CHECK(support::has(error.what(), "pinned_buffer: elements [2, 2 + 3) are outside device memory of 4"));
    CHECK(support::has(error.what(), "train.cpp:7"));
}
