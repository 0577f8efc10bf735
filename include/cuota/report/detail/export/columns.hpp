// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats columns of a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail::screen {

// Returns whether a terminal interprets or hides the character although `printable` passes it: C1 controls, bidirectional controls, line
// separators and zero-width characters.
[[nodiscard]] constexpr bool is_unseen(std::string_view character) noexcept {
    auto const at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
    if (character.size() == 2) return at(0) == 0xC2 && at(1) < 0xA0;
    if (character.size() != 3) return false;
    if (at(0) == 0xEF) return at(1) == 0xBB && at(2) == 0xBF;
    if (at(0) != 0xE2) return false;
    if (at(1) == 0x80) return (at(2) >= 0x8B && at(2) <= 0x8F) || (at(2) >= 0xA8 && at(2) <= 0xAE);
    return at(1) == 0x81 && at(2) >= 0xA0 && at(2) <= 0xAF;
}

/// Replaces unseen characters by question marks.
[[nodiscard]] std::string harmless(std::string_view name);

/// Cuts the name to `columns` (4 or more) columns, in the middle and between characters.
[[nodiscard]] std::string fitted(std::string_view name, std::size_t columns);

[[nodiscard]] std::string left(std::string text, std::size_t width);
/// Pads the text on the left, by at least one blank.
[[nodiscard]] std::string right(std::string const& text, std::size_t width);
[[nodiscard]] std::string right(std::size_t bytes, std::size_t width);

/// Returns part / whole; nothing if `whole` is 0 or `unlimited`.
[[nodiscard]] std::optional<double> share_of(std::size_t part, std::size_t whole) noexcept;

/// Formats "42 %", or "-". Only 1 is 100 %, and only 0 is 0 %.
[[nodiscard]] std::string percent_text(std::optional<double> share);

/// Returns a bar, filled by whole cells, or in UTF-8 by eighths.
[[nodiscard]] std::string bar_text(double share, std::size_t width, bool utf8);

/// Formats "and 12 more, 3.2 MiB".
[[nodiscard]] std::string rest_text(std::size_t count, std::size_t bytes);

/// Formats "12 blocks".
[[nodiscard]] std::string counted(std::size_t count, char const* one);

}  // namespace cuota::inline v0::detail::screen

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::screen {

CUOTA_INLINE std::string harmless(std::string_view name) {
    std::string const text = printable(name);
    std::string result;
    for (std::size_t at = 0; at != text.size();) {
        std::string_view const next = std::string_view{text}.substr(at, utf8_length(text, at));
        if (is_unseen(next)) result += '?';
        else result += next;
        at += next.size();
    }
    return result;
}

CUOTA_INLINE std::string fitted(std::string_view name, std::size_t columns) {
    std::string text = harmless(name);
    if (columns_of(text) <= columns) return text;
    std::size_t const for_tail = (columns - 3) / 2;
    std::size_t const for_head = columns - 3 - for_tail;
    std::size_t head = 0;
    for (std::size_t used = 0; head != text.size();) {
        std::size_t const length = utf8_length(text, head);
        used += columns_of(std::string_view{text}.substr(head, length));
        if (used > for_head) break;
        head += length;
    }
    std::size_t tail = text.size();
    for (std::size_t used = 0; tail != head;) {
        std::size_t before = tail - 1;
        while (continues_utf8(text[before])) --before;
        used += columns_of(std::string_view{text}.substr(before, tail - before));
        if (used > for_tail) break;
        tail = before;
    }
    return text.replace(head, tail - head, "...");
}

CUOTA_INLINE std::string left(std::string text, std::size_t width) {
    std::size_t const columns = columns_of(text);
    return text.append(columns < width ? width - columns : 0, ' ');
}

CUOTA_INLINE std::string right(std::string const& text, std::size_t width) {
    std::size_t const columns = columns_of(text);
    return std::string(columns < width ? width - columns : 1, ' ') + text;
}

CUOTA_INLINE std::string right(std::size_t bytes, std::size_t width) {
    return right(bytes == unlimited ? "unlimited" : bytes_text(bytes), width);
}

CUOTA_INLINE std::optional<double> share_of(std::size_t part, std::size_t whole) noexcept {
    if (whole == 0 || whole == unlimited) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(whole);
}

CUOTA_INLINE std::string percent_text(std::optional<double> share) {
    if (!share) return "-";
    if (*share > 0.0 && *share < 0.005) return "<1 %";
    if (*share > 9.99) return ">999 %";
    double const percent = *share * 100.0;
    double const nearest = *share < 1.0 ? std::min(percent, 99.0) : percent;
    char text[32];
    (void)std::snprintf(text, sizeof text, "%.0f %%", nearest);
    return text;
}

CUOTA_INLINE std::string bar_text(double share, std::size_t width, bool utf8) {
    static constexpr char const* eighths[] = {"▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double const cells = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
    std::size_t const full = std::min(width, static_cast<std::size_t>(cells));
    if (!utf8) return std::string(full, '#') + std::string(width - full, '.');
    auto const part = static_cast<std::size_t>((cells - static_cast<double>(full)) * 8.0);
    std::string bar;
    for (std::size_t i = 0; i != full; ++i) bar += "█";
    if (part != 0) bar += eighths[part - 1];
    for (std::size_t i = full + (part != 0); i < width; ++i) bar += "░";
    return bar;
}

CUOTA_INLINE std::string rest_text(std::size_t count, std::size_t bytes) {
    return "and " + count_text(count) + " more, " + bytes_text(bytes);
}

CUOTA_INLINE std::string counted(std::size_t count, char const* one) {
    return count_text(count) + ' ' + one + (count == 1 ? "" : "s");
}

}  // namespace cuota::inline v0::detail::screen

#endif
