// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/guard_violation.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::guard_bytes_error;
using cuota::guard_violation;

static_assert(std::is_nothrow_copy_constructible_v<guard_bytes_error> &&
              std::is_base_of_v<cuota::usage_error, guard_bytes_error>);

TEST_CASE("the text of a violation is a line with the block, the count, the offset and the bytes found",
          "[guard][guard_violation]") {
    guard_violation const behind{"weights", {"src/train.cpp", 10}, nullptr, 400, 400,
                                 4,         {1, 0, 0x80, 0x3f},    false};
    CHECK(behind.text() ==
          "weights 400 B (train.cpp:10): 4 bytes written past its end, from offset 400: 01 00 80 3f");
    guard_violation const in_front{{}, {}, nullptr, 400, -8, 1, {0xff}, true};
    CHECK(in_front.text() == "untagged 400 B: 1 byte written before its beginning, from offset -8: ff "
                             "(found when it was freed)");
}

TEST_CASE("the text of guard_bytes_error names some violations, and its data has all",
          "[guard][guard_violation]") {
    std::vector<guard_violation> const many(7, guard_violation{"ids", {}, nullptr, 8, 8, 1, {0}, false});
    guard_bytes_error const error{"guarded memory x", many, {"a.cpp", 3}};
    std::string const text = error.what();
    CHECK(support::has(text,
                       "cuota::usage_error: guarded memory x: ids 8 B: 1 byte written past its end, from "
                       "offset 8: 00; ids 8 B"));
    CHECK(support::has(text, "; and 3 more blocks (a.cpp:3)"));
    CHECK(error.violations().size() == 7);
}
