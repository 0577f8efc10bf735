// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Byte counts: literals, checked arithmetic, and texts, which throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

/// The largest byte count: "no limit", or a product that overflowed.
inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

namespace detail {

CUOTA_CONSTEVAL std::size_t literal(unsigned long long n, unsigned shift) {
    return n <= unlimited >> shift ? static_cast<std::size_t>(n) << shift
                                   : throw "the size exceeds the range of std::size_t";
}
// Rounds up: a limit typed in as printed is never below the printed one.
CUOTA_CONSTEVAL std::size_t literal(long double n, unsigned shift) {
    if (!(n >= 0)) throw "the size is negative";
    long double const bytes = n * static_cast<long double>(std::size_t{1} << shift);
    if (!(bytes < 0x1p64L)) throw "the size exceeds the range of std::size_t";
    auto const whole = static_cast<std::size_t>(bytes);
    return static_cast<long double>(whole) < bytes ? whole + 1 : whole;
}

}  // namespace detail

/// Literals for byte counts, after `using namespace cuota::literals`. A size above the range of std::size_t does not compile; clang 14
/// compiles it outside of constant expressions, and the program throws a char const*. Fractions are rounded up to whole bytes.
/// Example: examples/first.cpp
inline namespace literals {

/// `n * 1024` bytes.
CUOTA_CONSTEVAL std::size_t operator""_KiB(unsigned long long n) { return detail::literal(n, 10); }
/// Accepts a fraction.
CUOTA_CONSTEVAL std::size_t operator""_KiB(long double n) { return detail::literal(n, 10); }
/// `n * 1024 * 1024` bytes.
CUOTA_CONSTEVAL std::size_t operator""_MiB(unsigned long long n) { return detail::literal(n, 20); }
/// Accepts a fraction: `2.1_MiB`.
CUOTA_CONSTEVAL std::size_t operator""_MiB(long double n) { return detail::literal(n, 20); }
/// `n * 1024 * 1024 * 1024` bytes.
CUOTA_CONSTEVAL std::size_t operator""_GiB(unsigned long long n) { return detail::literal(n, 30); }
/// Accepts a fraction.
CUOTA_CONSTEVAL std::size_t operator""_GiB(long double n) { return detail::literal(n, 30); }

}  // namespace literals

/// Returns a + b, or nullopt on overflow.
[[nodiscard]] constexpr std::optional<std::size_t> checked_add(std::size_t a, std::size_t b) noexcept {
    if (b > unlimited - a) return std::nullopt;
    return a + b;
}

/// Returns a * b, or nullopt on overflow.
[[nodiscard]] constexpr std::optional<std::size_t> checked_mul(std::size_t a, std::size_t b) noexcept {
    // nvcc does not evaluate the builtin at compile time. At run time, a division costs more than the rest of a small allocation.
    if (std::is_constant_evaluated()) {
        if (b != 0 && a > unlimited / b) return std::nullopt;
        return a * b;
    }
    std::size_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

/// Returns whether n is a power of two; false for 0.
[[nodiscard]] constexpr bool is_power_of_two(std::size_t n) noexcept {
    // std::popcount is a call on targets without the instruction.
    return n != 0 && (n & (n - 1)) == 0;
}

/// Rounds `bytes` up to a multiple of `granularity` (a power of two); returns nullopt on overflow.
[[nodiscard]] constexpr std::optional<std::size_t> checked_round_up(std::size_t bytes,
                                                                    std::size_t granularity) noexcept {
    auto const bumped = checked_add(bytes, granularity - 1);
    if (!bumped) return std::nullopt;
    return *bumped & ~(granularity - 1);
}

/// Rounds up likewise, but returns `unlimited` on overflow.
[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t granularity) noexcept {
    return bytes > unlimited - (granularity - 1) ? unlimited
                                                 : (bytes + (granularity - 1)) & ~(granularity - 1);
}

/// Rounds `bytes` down to a multiple of `granularity` (a power of two).
[[nodiscard]] constexpr std::size_t round_down(std::size_t bytes, std::size_t granularity) noexcept {
    return bytes & ~(granularity - 1);
}

/// Formats a size in binary units: "762.9 MiB", "512 B".
[[nodiscard]] std::string bytes_text(std::size_t bytes);

/// Parses a size as bytes_text and people write it: "6GiB", "1.5 MiB", "512 B", "65536". Units are B and KiB to EiB, or none for bytes; one
/// space may precede the unit. Fractions of at most 9 digits need a unit and are rounded up to whole bytes, as by the literals. Returns
/// nullopt for any other text and for sizes that exceed the range of std::size_t.
[[nodiscard]] constexpr std::optional<std::size_t> parse_bytes(std::string_view text) noexcept {
    std::size_t at = 0;
    auto const is_digit = [&] { return at != text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (!is_digit()) return std::nullopt;
    std::optional<std::size_t> whole = 0;
    for (; is_digit(); ++at) {
        whole = checked_mul(*whole, 10);
        if (whole) whole = checked_add(*whole, static_cast<std::size_t>(text[at] - '0'));
        if (!whole) return std::nullopt;
    }
    std::size_t fraction = 0;  // in billionths
    bool const has_fraction = at != text.size() && text[at] == '.';
    if (has_fraction) {
        ++at;
        if (!is_digit()) return std::nullopt;
        for (std::size_t place = 100'000'000; is_digit(); ++at, place /= 10) {
            if (place == 0) return std::nullopt;
            fraction += place * static_cast<std::size_t>(text[at] - '0');
        }
    }
    if (at + 1 < text.size() && text[at] == ' ') ++at;
    std::string_view const unit = text.substr(at);
    unsigned shift = 0;
    if (has_fraction && unit.empty()) return std::nullopt;
    if (!unit.empty() && unit != "B") {
        constexpr std::string_view prefixes = "KMGTPE";
        std::size_t const prefix = prefixes.find(unit[0]);
        if (unit.size() != 3 || unit[1] != 'i' || unit[2] != 'B' || prefix == prefixes.npos)
            return std::nullopt;
        shift = 10 * (static_cast<unsigned>(prefix) + 1);
    }
    auto const bytes = checked_mul(*whole, std::size_t{1} << shift);
    if (!bytes) return std::nullopt;
    // fraction < 2^30 and a unit is at most 2^60: multiplied in two halves of 30 bits, so that nothing overflows.
    constexpr std::size_t billion = 1'000'000'000;
    unsigned const low = shift < 30 ? shift : 30;
    std::size_t const first = fraction << low;
    std::size_t const high = (first / billion) << (shift - low);
    std::size_t const rest = (first % billion) << (shift - low);
    return checked_add(*bytes, high + rest / billion + (rest % billion != 0 ? 1 : 0));
}

/// Formats a count in groups of three digits: "131'120'576".
[[nodiscard]] std::string count_text(std::uint64_t count);

namespace detail {

void append_number(std::string& text, std::uint64_t n);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstdio>

#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void detail::append_number(std::string& text, std::uint64_t n) {
    char digits[20];
    char* at = std::end(digits);
    do *--at = static_cast<char>('0' + n % 10);
    while ((n /= 10) != 0);
    text.append(at, std::end(digits));
}

CUOTA_INLINE std::string bytes_text(std::size_t bytes) {
    char text[32];
    if (bytes < 1024) {
        std::snprintf(text, sizeof text, "%zu B", bytes);
        return text;
    }
    static constexpr char const* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = static_cast<double>(bytes) / 1024.0;
    std::size_t unit = 0;
    while (value >= 1023.95 && unit < 5) {
        value /= 1024.0;
        ++unit;
    }
    std::snprintf(text, sizeof text, "%.1f %s", value, units[unit]);
    return text;
}

CUOTA_INLINE std::string count_text(std::uint64_t count) {
    std::string digits;
    detail::append_number(digits, count);
    for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, '\'');
    return digits;
}

}  // namespace cuota::inline v0

#endif
