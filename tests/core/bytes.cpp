// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/bytes.hpp>

#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::unlimited;

namespace {

template <unsigned long long n>
concept is_so_many_gib = requires {
    typename std::integral_constant<std::size_t, operator""_GiB(n)>;
};
template <unsigned long long n>
concept is_so_many_kib = requires {
    typename std::integral_constant<std::size_t, operator""_KiB(n)>;
};

// Passes the number as a type: not every compiler accepts floating-point numbers or lambdas as template arguments.
template <class Number>
concept is_a_part_of_gib = requires {
    typename std::integral_constant<std::size_t, operator""_GiB(Number{}())>;
};
struct just_enough {
    constexpr long double operator()() const { return 0x1p34L - 0.5L; }
};
struct one_too_many {
    constexpr long double operator()() const { return 0x1p34L; }
};
struct infinitely_many {
    constexpr long double operator()() const { return std::numeric_limits<long double>::infinity(); }
};
struct less_than_none {
    constexpr long double operator()() const { return -0.5L; }
};

static_assert(is_so_many_gib<(1ull << 34) - 1> && !is_so_many_gib<(1ull << 34)>);
static_assert(is_so_many_kib<(1ull << 54) - 1> && !is_so_many_kib<(1ull << 54)>);
static_assert(is_a_part_of_gib<just_enough> && !is_a_part_of_gib<one_too_many>);
static_assert(!is_a_part_of_gib<infinitely_many> && !is_a_part_of_gib<less_than_none>);

}  // namespace

TEST_CASE("literals count in powers of 1024", "[core][bytes]") {
    STATIC_REQUIRE(0_KiB == 0);
    STATIC_REQUIRE(3_KiB == 3072);
    STATIC_REQUIRE(1_MiB == 1'048'576);
    STATIC_REQUIRE(8_GiB == 8'589'934'592);
}

TEST_CASE("literals with fractions are rounded up to whole bytes", "[core][bytes]") {
    STATIC_REQUIRE(0.0_KiB == 0);
    STATIC_REQUIRE(0.5_KiB == 512);
    STATIC_REQUIRE(1.5_MiB == 1536_KiB);
    STATIC_REQUIRE(2.0_GiB == 2_GiB);
    STATIC_REQUIRE(1.1_KiB == 1127);  // 1126.4
    STATIC_REQUIRE(0.0001_KiB == 1);
    STATIC_REQUIRE(2.1_MiB == 2'202'010);  // 2'202'009.6
    STATIC_REQUIRE(1023.9_GiB == 1'099'404'253'594);
}

TEST_CASE("checked_add is exact up to the largest size and reports an overflow", "[core][bytes]") {
    REQUIRE(cuota::checked_add(0, 0) == 0u);
    REQUIRE(cuota::checked_add(unlimited, 0) == unlimited);
    REQUIRE(cuota::checked_add(0, unlimited) == unlimited);
    REQUIRE(cuota::checked_add(unlimited - 7, 7) == unlimited);
    REQUIRE(!cuota::checked_add(unlimited - 7, 8));
    REQUIRE(!cuota::checked_add(unlimited, unlimited));
}

TEST_CASE("checked_mul is exact up to the largest size and reports an overflow", "[core][bytes]") {
    STATIC_REQUIRE(cuota::checked_mul(unlimited, 0) == 0u);
    STATIC_REQUIRE(cuota::checked_mul(unlimited / 3, 3) == unlimited);
    STATIC_REQUIRE(!cuota::checked_mul(unlimited / 3 + 1, 3));
    std::size_t const half = std::size_t{1} << 32;
    REQUIRE(cuota::checked_mul(0, unlimited) == 0u);
    REQUIRE(cuota::checked_mul(unlimited, 0) == 0u);
    REQUIRE(cuota::checked_mul(unlimited, 1) == unlimited);
    REQUIRE(cuota::checked_mul(unlimited / 3, 3) == unlimited);
    REQUIRE(cuota::checked_mul(half, half - 1) == unlimited - (half - 1));
    REQUIRE(!cuota::checked_mul(half, half));
    REQUIRE(!cuota::checked_mul(unlimited, 2));
    REQUIRE(!cuota::checked_mul(unlimited / 3 + 1, 3));
}

TEST_CASE("rounding up is exact up to the largest size, and an overflow is reported or saturates",
          "[core][bytes]") {
    REQUIRE(cuota::checked_round_up(0, 512) == 0u);
    REQUIRE(cuota::checked_round_up(1, 512) == 512u);
    REQUIRE(cuota::checked_round_up(512, 512) == 512u);
    REQUIRE(cuota::checked_round_up(513, 512) == 1024u);
    REQUIRE(cuota::checked_round_up(unlimited, 1) == unlimited);
    REQUIRE(cuota::checked_round_up(unlimited - 511, 512) == unlimited - 511);
    REQUIRE(!cuota::checked_round_up(unlimited - 510, 512));
    REQUIRE(cuota::round_up(unlimited - 510, 512) == unlimited);
    REQUIRE(cuota::round_up(700, 256) == 768);
}

TEST_CASE("rounding down returns the largest multiple that is not greater", "[core][bytes]") {
    REQUIRE(cuota::round_down(0, 512) == 0);
    REQUIRE(cuota::round_down(511, 512) == 0);
    REQUIRE(cuota::round_down(512, 512) == 512);
    REQUIRE(cuota::round_down(unlimited, 1) == unlimited);
    REQUIRE(cuota::round_down(unlimited, 512) == unlimited - 511);
}

TEST_CASE("is_power_of_two is false for 0", "[core][bytes]") {
    STATIC_REQUIRE(!cuota::is_power_of_two(0));
    STATIC_REQUIRE(cuota::is_power_of_two(1));
    STATIC_REQUIRE(!cuota::is_power_of_two(3));
    STATIC_REQUIRE(cuota::is_power_of_two(std::size_t{1} << 63));
}

TEST_CASE("bytes are printed in the largest binary unit with one decimal", "[core][bytes]") {
    std::vector<std::pair<std::size_t, char const*>> const table{
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1023_KiB, "1023.0 KiB"},
        {1_MiB - 1, "1.0 MiB"},  // not 1024.0 KiB
        {1_MiB, "1.0 MiB"},
        {800'000'000, "762.9 MiB"},
        {1_GiB - 1, "1.0 GiB"},
        {8_GiB, "8.0 GiB"},
        {5'000_GiB, "4.9 TiB"},
        {std::size_t{1} << 50, "1.0 PiB"},
        {std::size_t{1} << 60, "1.0 EiB"},
        {unlimited, "16.0 EiB"},
    };
    for (auto const& [bytes, text] : table) CHECK(cuota::bytes_text(bytes) == text);
}

TEST_CASE("sizes are parsed as they are printed and written", "[core][bytes]") {
    using cuota::parse_bytes;
    STATIC_REQUIRE(parse_bytes("6GiB") == 6_GiB);
    std::vector<std::pair<char const*, std::size_t>> const table{
        {"0", 0},
        {"65536", 65536},
        {"512 B", 512},
        {"7B", 7},
        {"1.5 KiB", 1536},
        {"2.1MiB", 2.1_MiB},
        {"0.1 GiB", 0.1_GiB},
        {"0.000000001 KiB", 1},
        {"1.000000001KiB", 1025},
        {"0.5 B", 1},
        {"3 TiB", std::size_t{3} << 40},
        {"1.25PiB", (std::size_t{5} << 50) / 4},
        {"0.999999999 EiB", (std::size_t{1} << 60) - (std::size_t{1} << 60) / 1'000'000'000},
        {"15.999999999EiB",
         (std::size_t{15} << 60) + (std::size_t{1} << 60) - (std::size_t{1} << 60) / 1'000'000'000},
        {"18446744073709551615", unlimited},
    };
    for (auto const& [text, bytes] : table) {
        CAPTURE(text);
        CHECK(parse_bytes(text) == bytes);
    }
    for (char const* const wrong : {"",
                                    " ",
                                    "B",
                                    "GiB",
                                    "-1",
                                    "+1",
                                    " 1",
                                    "1 ",
                                    "1  B",
                                    "6GB",
                                    "6G",
                                    "6 gib",
                                    "6GiBs",
                                    "6iB",
                                    "1.",
                                    "22.1",
                                    ".5",
                                    "1.5.2",
                                    "1,5",
                                    "1e3",
                                    "0x10",
                                    "1'000",
                                    "1.0000000001GiB",
                                    "16 EiB",
                                    "16.0 EiB",
                                    "18446744073709551616",
                                    "17179869184GiB",
                                    "15.9999999999EiB",
                                    "99999999999999999999999"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_bytes(wrong));
    }
}

TEST_CASE("each size that is printed is parsed as a size that is printed alike", "[core][bytes]") {
    for (unsigned shift = 0; shift != 63; ++shift)
        for (std::size_t const more : {0U, 1U, 77U}) {
            std::size_t const bytes = (std::size_t{1} << shift) + (std::size_t{more} << shift) / 100;
            std::string const text = cuota::bytes_text(bytes);
            CAPTURE(text);
            auto const parsed = cuota::parse_bytes(text);
            REQUIRE(parsed);
            CHECK(cuota::bytes_text(*parsed) == text);
        }
}

TEST_CASE("counts are printed in groups of three digits", "[core][bytes]") {
    std::vector<std::pair<std::uint64_t, char const*>> const table{
        {0, "0"},
        {7, "7"},
        {999, "999"},
        {1000, "1'000"},
        {12'345, "12'345"},
        {131'120'576, "131'120'576"},
        {unlimited, "18'446'744'073'709'551'615"},
    };
    for (auto const& [count, text] : table) CHECK(cuota::count_text(count) == text);
}
