// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/export/columns.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "support/catch.hpp"

namespace screen = cuota::detail::screen;
using cuota::detail::columns_of;
using cuota::detail::printable;
using namespace cuota::literals;

TEST_CASE("control characters and invisible characters are shown as question marks", "[report][columns]") {
    CHECK(screen::harmless("a\nb\x1b[m\x7F\xFF") == "a?b?[m??");
    for (char const* unseen :
         {"\xC2\x80", "\xC2\x9B", "\xC2\x9F", "\xE2\x80\x8B", "\xE2\x80\x8F", "\xE2\x80\xA8", "\xE2\x80\xAE",
          "\xE2\x81\xA0", "\xE2\x81\xAF", "\xEF\xBB\xBF"})
        CHECK(screen::harmless(unseen) == "?");
    for (char const* seen : {"\xC2\xA0", "ä", "\xE2\x80\x8A", "\xE2\x80\x90", "\xE2\x80\xA7", "\xE2\x80\xAF",
                             "\xE2\x81\x9F", "\xE2\x81\xB0", "\xE2\x82\xAC", "\xEF\xBB\xBE", "😀", "予"})
        CHECK(screen::harmless(seen) == seen);
}

TEST_CASE("a name is shortened in its middle, by columns and not by bytes", "[report][columns]") {
    CHECK(screen::fitted("", 4) == "");
    CHECK(screen::fitted("12345678", 8) == "12345678");
    CHECK(screen::fitted("123456789", 8) == "123...89");
    CHECK(screen::fitted("äöüäöüäö", 8) == "äöüäöüäö");
    CHECK(screen::fitted("äöüäöüäöü", 8) == "äöü...öü");
    CHECK(screen::fitted("予算予算", 8) == "予算予算");
    CHECK(screen::fitted("予算予算a", 8) == "予...a");
    CHECK(screen::fitted(std::string(100'000, 'x'), 5) == "x...x");
}

TEST_CASE("a shortened name fits its width and has no broken character", "[report][columns]") {
    std::string name;
    for (int i = 0; i != 40; ++i) {
        name += i % 3 == 0 ? "€" : i % 3 == 1 ? "😀" : "ab";
        for (std::size_t columns = 4; columns != 50; ++columns) {
            std::string const text = screen::fitted(name, columns);
            REQUIRE(columns_of(text) <= columns);
            REQUIRE(columns_of(text) + 3 >= std::min(columns, columns_of(name)));
            REQUIRE(printable(text) == text);
        }
    }
}

TEST_CASE("texts and sizes are aligned left or right in their column", "[report][columns]") {
    CHECK(screen::left("ä", 3) == "ä  ");
    CHECK(screen::left("too wide", 3) == "too wide");
    CHECK(screen::right("予", 4) == "  予");
    CHECK(screen::right("too wide", 3) == " too wide");
    CHECK(screen::right(1_MiB, 10) == "   1.0 MiB");
    CHECK(screen::right(cuota::unlimited, 10) == " unlimited");
}

TEST_CASE("a share is rounded to 0 % or 100 % only if it is exact", "[report][columns]") {
    auto const told = [](std::size_t part, std::size_t whole) {
        return screen::percent_text(screen::share_of(part, whole));
    };
    CHECK(told(0, 0) == "-");
    CHECK(told(1, cuota::unlimited) == "-");
    CHECK(told(0, 10) == "0 %");
    CHECK(told(1, 1000) == "<1 %");
    CHECK(told(1, 2) == "50 %");
    CHECK(told(999, 1000) == "99 %");
    CHECK(told(1000, 1000) == "100 %");
    CHECK(told(999, 100) == "999 %");
    CHECK(told(1000, 100) == ">999 %");
}

TEST_CASE("a bar has exactly the requested width", "[report][columns]") {
    CHECK(screen::bar_text(0.5, 8, false) == "####....");
    CHECK(screen::bar_text(0.999, 8, false) == "#######.");
    CHECK(screen::bar_text(-1, 4, false) == "....");
    CHECK(screen::bar_text(7, 4, false) == "####");
    CHECK(screen::bar_text(0.5 + 1.0 / 64, 8, true) == "████▏░░░");
    CHECK(screen::bar_text(0.5 + 7.0 / 64, 8, true) == "████▉░░░");
    CHECK(screen::bar_text(1, 3, true) == "███");
    for (int i = 0; i <= 100; ++i) CHECK(columns_of(screen::bar_text(i / 100.0, 13, true)) == 13);
}

TEST_CASE("counts and remainders are written in correct English", "[report][columns]") {
    CHECK(screen::counted(1, "block") == "1 block");
    CHECK(screen::counted(1234, "block") == "1'234 blocks");
    CHECK(screen::rest_text(12, 1_MiB) == "and 12 more, 1.0 MiB");
}
