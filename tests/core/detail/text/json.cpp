// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/json.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace cuota::detail;
using namespace std::string_literals;

TEST_CASE("json_string escapes any text", "[core][json]") {
    REQUIRE(json_string("") == R"("")");
    REQUIRE(json_string("weights, größer 😀") == R"("weights, größer 😀")");
    REQUIRE(json_string(R"(a"b\c/d)") == R"("a\"b\\c/d")");
    REQUIRE(json_string("\0\x01\n\t\r\x1F\x7F"s) == R"("\u0000\u0001\n\t\u000d\u001f\u007f")");
}

TEST_CASE("each byte that is not valid UTF-8 becomes U+FFFD", "[core][json]") {
    REQUIRE(json_string("a\xFF\xC0\x80z") == R"("a\ufffd\ufffd\ufffdz")");
    REQUIRE(json_string("\xE2\x82") == R"("\ufffd\ufffd")");
    REQUIRE(json_string("\xED\xA0\x80!") == R"("\ufffd\ufffd\ufffd!")");
}

TEST_CASE("json_size writes an integer, and null for unlimited", "[core][json]") {
    REQUIRE(json_size(0) == "0");
    REQUIRE(json_size(cuota::unlimited - 1) == std::to_string(cuota::unlimited - 1));
    REQUIRE(json_size(cuota::unlimited) == "null");
}

TEST_CASE("json_object writes its members in the order of the calls", "[core][json]") {
    REQUIRE(json_object{}.text() == "{}");
    REQUIRE(json_object{}
                .add("a", "x\n")
                .add("b", std::size_t{7})
                .add("c", true)
                .add("d", false)
                .add_json("e", json_object{}.add("f", "").text())
                .text() == R"({"a":"x\n","b":7,"c":true,"d":false,"e":{"f":""}})");
}

TEST_CASE("json_list writes at most the given number of elements", "[core][json]") {
    std::vector<std::size_t> const numbers{1, 2, 3};
    REQUIRE(json_list(numbers, json_size) == "[1,2,3]");
    REQUIRE(json_list(numbers, json_size, 2) == "[1,2]");
    REQUIRE(json_list(numbers, json_size, 0) == "[]");
    REQUIRE(json_list(std::vector<std::size_t>{}, json_size) == "[]");
}
