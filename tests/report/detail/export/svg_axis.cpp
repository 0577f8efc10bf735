// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/export/svg_axis.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

using cuota::detail::axis_ticks;
using cuota::detail::byte_ticks;
using cuota::detail::time_text;
using cuota::detail::time_ticks;

std::string ticks_text(axis_ticks const& all) {
    std::string result = all.unit;
    for (cuota::detail::axis_tick const& t : all.ticks) result += ' ' + t.text;
    return result;
}

}  // namespace

TEST_CASE("ticks of bytes are round numbers in binary units", "[report][svg_axis]") {
    CHECK(ticks_text(byte_ticks(1, 7)) == "B 0 1");
    CHECK(ticks_text(byte_ticks(1000, 7)) == "B 0 200 400 600 800 1000");
    CHECK(ticks_text(byte_ticks(1024, 7)) == "KiB 0.0 0.2 0.4 0.6 0.8 1.0");
    CHECK(ticks_text(byte_ticks(0x1p30 * 8.6, 7)) == "GiB 0 2 4 6 8");
    CHECK(ticks_text(byte_ticks(0x1p30 * 80, 7)) == "GiB 0 20 40 60 80");
    CHECK(ticks_text(byte_ticks(0x1p20 * 3.1, 7)) == "MiB 0.0 0.5 1.0 1.5 2.0 2.5 3.0");
    CHECK(byte_ticks(0x1p30 * 8.6, 7).ticks[2].value == 4 * 0x1p30);
    CHECK(ticks_text(byte_ticks(0x1p64, 7)) == "EiB 0 5 10 15");
}

TEST_CASE("ticks of times are round numbers within the range", "[report][svg_axis]") {
    CHECK(ticks_text(time_ticks(0, 1, 8)) == "ns 0 1");
    CHECK(ticks_text(time_ticks(0, 1999, 8)) == "ns 0 500 1000 1500");
    CHECK(ticks_text(time_ticks(0, 2000, 4)) == "us 0.0 0.5 1.0 1.5 2.0");
    CHECK(ticks_text(time_ticks(2.1e6, 13.4e6, 8)) == "ms 4 6 8 10 12");
    CHECK(ticks_text(time_ticks(0, 8e9, 8)) == "s 0 1 2 3 4 5 6 7 8");
    CHECK(ticks_text(time_ticks(0, 3600e9, 8)) == "min 0 10 20 30 40 50 60");
    CHECK(ticks_text(time_ticks(0, 48 * 3600e9, 8)) == "h 0 10 20 30 40");
    CHECK(time_ticks(0, 48 * 3600e9, 8).ticks[1].value == 36'000e9);
}

TEST_CASE("the number of ticks stays within its bounds", "[report][svg_axis]") {
    for (double last = 1; last < 1e19; last *= 1.07) {
        for (std::size_t const most : {4U, 7U, 8U}) {
            CHECK(byte_ticks(last, most).ticks.size() <= most + 1);
            CHECK(byte_ticks(last, most).ticks.size() >= 2);
            CHECK(time_ticks(0, last, most).ticks.size() <= most + 1);
            CHECK(time_ticks(last / 3, last * 4 / 3, most).ticks.size() <= most + 1);
        }
        for (cuota::detail::axis_tick const& t : byte_ticks(last, 7).ticks) CHECK(t.value <= last);
    }
}

TEST_CASE("a time has one decimal in the largest unit of which it has at least one", "[report][svg_axis]") {
    CHECK(time_text(0) == "0 ns");
    CHECK(time_text(999) == "999 ns");
    CHECK(time_text(1000) == "1.0 us");
    CHECK(time_text(4'130'000) == "4.1 ms");
    CHECK(time_text(59'000'000'000) == "59.0 s");
    CHECK(time_text(90'000'000'000) == "1.5 min");
    CHECK(time_text(7'200'000'000'000) == "2.0 h");
}
