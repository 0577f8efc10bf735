// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Byte counts: literals, checked arithmetic, and texts, which throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

/// The largest byte count: "no limit", or a product that overflowed.
inline constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

namespace detail {

consteval std::size_t literal(unsigned long long n, unsigned shift) {
    return n <= unlimited >> shift ? static_cast<std::size_t>(n) << shift
                                   : throw "the size exceeds the range of std::size_t";
}
// Rounds up: a limit typed in as printed is never below the printed one.
consteval std::size_t literal(long double n, unsigned shift) {
    if (!(n >= 0)) throw "the size is negative";
    long double const bytes = n * static_cast<long double>(std::size_t{1} << shift);
    if (!(bytes < 0x1p64L)) throw "the size exceeds the range of std::size_t";
    auto const whole = static_cast<std::size_t>(bytes);
    return static_cast<long double>(whole) < bytes ? whole + 1 : whole;
}

}  // namespace detail

/// Literals for byte counts, after `using namespace cuota::literals`. A size above the range of std::size_t does not compile; fractions are
/// rounded up to whole bytes. Example: examples/first.cpp
inline namespace literals {

/// `n * 1024` bytes.
consteval std::size_t operator""_KiB(unsigned long long n) { return detail::literal(n, 10); }
/// Accepts a fraction.
consteval std::size_t operator""_KiB(long double n) { return detail::literal(n, 10); }
/// `n * 1024 * 1024` bytes.
consteval std::size_t operator""_MiB(unsigned long long n) { return detail::literal(n, 20); }
/// Accepts a fraction: `2.1_MiB`.
consteval std::size_t operator""_MiB(long double n) { return detail::literal(n, 20); }
/// `n * 1024 * 1024 * 1024` bytes.
consteval std::size_t operator""_GiB(unsigned long long n) { return detail::literal(n, 30); }
/// Accepts a fraction.
consteval std::size_t operator""_GiB(long double n) { return detail::literal(n, 30); }

}  // namespace literals

/// Returns a + b, or nullopt on overflow.
[[nodiscard]] constexpr std::optional<std::size_t> checked_add(std::size_t a, std::size_t b) noexcept {
    if (b > unlimited - a) return std::nullopt;
    return a + b;
}

/// Returns a * b, or nullopt on overflow.
[[nodiscard]] constexpr std::optional<std::size_t> checked_mul(std::size_t a, std::size_t b) noexcept {
    // A division would cost more than the rest of a small allocation.
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
