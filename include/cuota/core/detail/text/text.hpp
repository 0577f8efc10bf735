// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Text that fits on a screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::size_t screen_columns = 110;

[[nodiscard]] constexpr bool continues_utf8(char c) noexcept {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Returns the length in bytes of the well-formed UTF-8 character at `at`, or 0.
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
    auto const byte = [&](std::size_t i) -> unsigned {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    unsigned const first = byte(0);
    if (first < 0x80) return at < text.size() ? 1 : 0;
    if (first < 0xC2 || first > 0xF4) return 0;
    // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
    unsigned const low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned const high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(1) < low || byte(1) > high) return 0;
    std::size_t const length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    for (std::size_t i = 2; i < length; ++i)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    return length;
}

/// Replaces control characters and bytes that are not UTF-8 by question marks.
[[nodiscard]] std::string printable(std::string_view text);

/// Cuts the text to `most` (4 or more) bytes with dots in the middle, without splitting characters.
[[nodiscard]] std::string cut(std::string text, std::size_t most);

/// Returns the plural, or for a count of 1 its singular: "sample in a batch".
[[nodiscard]] std::string unit_of(std::uint64_t count, std::string_view plural);
/// For example "1 sample" or "2 samples".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view plural);
/// Returns the shortest decimal text that reads back as this number.
[[nodiscard]] std::string real_text(double number);

/// Returns a name, printable and cut to `most` bytes.
[[nodiscard]] std::string shown(std::string_view name, std::size_t most);

/// For example "train.cpp:17", cut to `most` bytes.
[[nodiscard]] std::string shown(source_location where, std::size_t most);

/// Returns the columns on a terminal, at most the number of bytes: CJK, Hangul and emoji take two.
[[nodiscard]] constexpr std::size_t columns_of(std::string_view text) noexcept {
    std::size_t columns = 0;
    for (char const c : text)
        if (!continues_utf8(c)) columns += static_cast<unsigned char>(c) >= 0xE3 ? 2 : 1;
    return columns;
}

/// Returns the spaces to append in a column of `width`, at least two.
[[nodiscard]] constexpr std::size_t padding(std::string_view text, std::size_t width) noexcept {
    std::size_t const columns = columns_of(text);
    return columns + 2 < width ? width - columns : 2;
}

[[nodiscard]] std::string padded(std::string text, std::size_t width);

/// Formats like bytes_text, but rounds up.
[[nodiscard]] std::string at_least_text(std::size_t bytes);

[[nodiscard]] constexpr std::size_t saturating_add(std::size_t a, std::size_t b) noexcept {
    return checked_add(a, b).value_or(unlimited);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cstdio>
#include <cstdlib>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string unit_of(std::uint64_t count, std::string_view plural) {
    std::string text{plural};
    if (count != 1) return text;
    std::string_view const word = plural.substr(0, plural.find(' '));
    std::size_t cut_off = 0;
    if (word.ends_with("ches") || word.ends_with("sses") || word.ends_with("xes")) cut_off = 2;
    else if (word.ends_with('s') && !word.ends_with("ss")) cut_off = 1;
    return text.erase(word.size() - cut_off, cut_off);
}

CUOTA_INLINE std::string counted(std::uint64_t count, std::string_view plural) {
    return std::to_string(count) + ' ' + unit_of(count, plural);
}

CUOTA_INLINE std::string real_text(double number) {
    char text[32];
    for (int digits = 6; digits <= 17; ++digits) {
        std::snprintf(text, sizeof text, "%.*g", digits, number);
        if (std::strtod(text, nullptr) == number) break;
    }
    return text;
}

CUOTA_INLINE std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at != text.size();) {
        std::size_t const length = utf8_length(text, at);
        auto const first = static_cast<unsigned char>(text[at]);
        if (length == 0 || first < 0x20 || first == 0x7F) result += '?';
        else result += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    return result;
}

CUOTA_INLINE std::string cut(std::string text, std::size_t most) {
    if (text.size() <= most) return text;
    std::size_t const kept = most - 3;
    std::size_t head = kept - kept / 2;
    std::size_t tail = text.size() - kept / 2;
    while (head != 0 && continues_utf8(text[head])) --head;
    while (tail != text.size() && (continues_utf8(text[tail]) || text[tail] == '.'))
        ++tail;  // three dots, not four
    return text.replace(head, tail - head, "...");
}

CUOTA_INLINE std::string shown(std::string_view name, std::size_t most) { return cut(printable(name), most); }

CUOTA_INLINE std::string shown(source_location where, std::size_t most) {
    return shown(source_location_text(where), most);
}

CUOTA_INLINE std::string padded(std::string text, std::size_t width) {
    return text.append(padding(text, width), ' ');
}

CUOTA_INLINE std::string at_least_text(std::size_t bytes) {
    if (bytes < 1024) return bytes_text(bytes);
    unsigned shift = 10;
    while (shift != 60 && bytes >> shift >= 1024) shift += 10;
    std::size_t const below_one = (std::size_t{1} << shift) - 1;
    std::size_t const tenths = ((bytes & below_one) * 10 + below_one) >> shift;
    char text[32];
    std::snprintf(text, sizeof text, "%zu.%zu %ciB", (bytes >> shift) + tenths / 10, tenths % 10,
                  "KMGTPE"[shift / 10 - 1]);
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
