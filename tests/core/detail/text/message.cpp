// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/message.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/text.hpp>

#include "support/catch.hpp"

using namespace cuota::detail;

TEST_CASE("message replaces each pair of braces of the pattern by a value", "[core][message]") {
    REQUIRE(message("nothing to put in", {}) == "nothing to put in");
    REQUIRE(message("{}", {"alone"}) == "alone");
    REQUIRE(message("{} of {} bytes, {}", {"weights", 12U, "read"}) == "weights of 12 bytes, read");
    REQUIRE(message("a {single} brace { stays }", {}) == "a {single} brace { stays }");
}

TEST_CASE("message accepts text of each kind", "[core][message]") {
    std::string const text = "string";
    REQUIRE(message("{}{}{}{}", {"literal", std::string_view{"view of more"}.substr(0, 4), text,
                                 cuota::tag{"tag"}}) == "literalviewstringtag");
    REQUIRE(message("{}|{}", {cuota::source_location{"src/train.cpp", 17}, cuota::source_location{}}) ==
            "train.cpp:17|");
    REQUIRE(message("{}", {as_location({"a/very_long_name_of_a_file.cpp", 1234}, 20)}) ==
            shown(cuota::source_location{"a/very_long_name_of_a_file.cpp", 1234}, 20));
    REQUIRE(message("{}", {as_name("bell\a of a long name", 12)}) == shown("bell\a of a long name", 12));
}

TEST_CASE("message writes numbers in full", "[core][message]") {
    REQUIRE(message("{} {} {}", {std::numeric_limits<std::int64_t>::min(), -1, std::int8_t{-7}}) ==
            "-9223372036854775808 -1 -7");
    REQUIRE(message("{} {}", {std::numeric_limits<std::uint64_t>::max(), std::uint8_t{200}}) ==
            "18446744073709551615 200");
    REQUIRE(message("{}", {0.25}) == "0.25");
    REQUIRE(message("a share of {}", {1.0000001}) == "a share of 1.0000001");
    REQUIRE(message("{} {} {}", {as_bytes(1536), as_count(131'120'576), at_least(1025)}) ==
            "1.5 KiB 131'120'576 1.1 KiB");
}

TEST_CASE("a value is padded to the width of its column", "[core][message]") {
    REQUIRE(message("{}|{}|", {message_value{"held"}.padded_to(8), as_bytes(512).padded_to(6)}) ==
            "held    |512 B  |");
    REQUIRE(message("{}|", {message_value{"größer"}.padded_to(10)}) == padded("größer", 10) + '|');
}

TEST_CASE("append_message appends, and values without braces are left out", "[core][message]") {
    std::string text = "begin";
    append_message(text, ", {}", {"then", "never seen"});
    REQUIRE(text == "begin, then");
    append_message(text, "; {}", {});
    REQUIRE(text == "begin, then; {}");
}
