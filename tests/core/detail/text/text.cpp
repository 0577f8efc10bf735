// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/text.hpp>

#include <string>
#include <string_view>

#include "support/catch.hpp"

using namespace cuota::detail;
using namespace cuota::literals;
using namespace std::string_literals;

TEST_CASE("utf8_length is the length of a valid sequence, and 0 for an invalid one", "[core][text]") {
    REQUIRE(utf8_length("", 0) == 0);
    REQUIRE(utf8_length("a", 0) == 1);
    REQUIRE(utf8_length("a", 1) == 0);
    REQUIRE(utf8_length("\0"s, 0) == 1);
    // The first and last code point of each length.
    for (char const* good : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                             "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
        REQUIRE(utf8_length(good, 0) == std::string_view{good}.size());
    // A lone continuation byte, overlong forms, surrogates, code points above U+10FFFF, truncated sequences, missing continuations.
    for (char const* bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC2",
                            "\xE2\x82", "\xF0\x9F\x98", "\xC2z", "\xE2\x82z", "\xF0\x9F\x98z"})
        REQUIRE(utf8_length(bad, 0) == 0);
}

TEST_CASE("printable replaces control characters and invalid bytes by question marks", "[core][text]") {
    REQUIRE(printable("") == "");
    REQUIRE(printable("weights, größer") == "weights, größer");
    REQUIRE(printable("a\nb\tc\x1B[31m\x7F\0d"s) == "a?b?c?[31m??d");
    REQUIRE(printable("\xFFz\xE2\x82") == "?z??");
}

TEST_CASE("cut keeps the beginning and the end of a long text", "[core][text]") {
    REQUIRE(cut("", 8) == "");
    REQUIRE(cut("12345", 4) == "1...");
    REQUIRE(cut("12345678", 8) == "12345678");
    REQUIRE(cut("123456789", 8) == "123...89");
    REQUIRE(cut(std::string(300, 'a') + "z", 9) == "aaa...aaz");
}

TEST_CASE("cut does not split a character", "[core][text]") {
    std::string text;
    for (int i = 0; i != 100; ++i) text += "ä€😀";
    for (std::size_t most = 4; most != 60; ++most) {
        std::string const short_text = cut(text, most);
        REQUIRE(short_text.size() <= most);
        REQUIRE(printable(short_text) == short_text);
    }
}

TEST_CASE("padded counts columns in characters and leaves at least two blanks", "[core][text]") {
    REQUIRE(padded("", 4) == "    ");
    REQUIRE(padded("ab", 5) == "ab   ");
    REQUIRE(padded("abc", 5) == "abc  ");
    REQUIRE(padded("abcd", 5) == "abcd  ");
    REQUIRE(padded("äöü€", 7) == "äöü€   ");
    REQUIRE(columns_of("予算a😀") == 7);
}

TEST_CASE("at_least_text never rounds down", "[core][text]") {
    REQUIRE(at_least_text(0) == "0 B");
    REQUIRE(at_least_text(1023) == "1023 B");
    REQUIRE(at_least_text(1024) == "1.0 KiB");
    REQUIRE(at_least_text(1025) == "1.1 KiB");
    REQUIRE(at_least_text(1_MiB - 1) == "1024.0 KiB");
    REQUIRE(at_least_text(512_MiB) == "512.0 MiB");
    REQUIRE(at_least_text(512_MiB + 1) == "512.1 MiB");
    REQUIRE(at_least_text(cuota::unlimited) == "16.0 EiB");
    REQUIRE(at_least_text(2_MiB + 96_KiB) == "2.1 MiB");
    REQUIRE(2.1_MiB >= 2_MiB + 96_KiB);
    REQUIRE(at_least_text((cuota::unlimited >> 1) + 2) == "8.1 EiB");
}

TEST_CASE("saturating_add stops at the largest size", "[core][text]") {
    REQUIRE(saturating_add(1, 2) == 3);
    REQUIRE(saturating_add(cuota::unlimited, 0) == cuota::unlimited);
    REQUIRE(saturating_add(cuota::unlimited - 1, 2) == cuota::unlimited);
}

TEST_CASE("counted writes a singular unit for 1", "[core][text]") {
    using cuota::detail::counted;
    CHECK(counted(0, "samples") == "0 samples");
    CHECK(counted(1, "samples") == "1 sample");
    CHECK(counted(2, "samples") == "2 samples");
    CHECK(counted(1, "samples in a batch") == "1 sample in a batch");
    CHECK(counted(1, "processes") == "1 process");
    CHECK(counted(1, "batches") == "1 batch");
    CHECK(counted(1, "bytes") == "1 byte");
    CHECK(counted(1, "class") == "1 class");
    CHECK(counted(1, "") == "1 ");
}

TEST_CASE("real_text writes as many digits as a number needs to be read back exactly", "[core][text]") {
    using cuota::detail::real_text;
    CHECK(real_text(1.0000001) == "1.0000001");
    CHECK(real_text(1) == "1");
    CHECK(real_text(-0.5) == "-0.5");
    CHECK(real_text(0.1) == "0.1");
    CHECK(real_text(0.1 + 0.2) == "0.30000000000000004");
    CHECK(real_text(1e300) == "1e+300");
}
