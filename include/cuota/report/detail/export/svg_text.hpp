// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats and places text in SVG.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail {

/// Returns whether XML forbids the character, or it affects text around it: C1 and bidirectional controls, non-characters.
[[nodiscard]] constexpr bool is_unfit_for_xml(std::string_view character) noexcept {
    auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
    if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
    if (character.size() != 3) return false;
    if (byte(0) == 0xEF) return byte(1) == 0xBF && byte(2) >= 0xBE;
    if (byte(0) != 0xE2) return false;
    unsigned const low = byte(2);
    return byte(1) == 0x80 ? low == 0x8E || low == 0x8F || (low >= 0xA8 && low <= 0xAE)
                           : byte(1) == 0x81 && low >= 0xA6 && low <= 0xA9;
}

/// Replaces unfit characters by question marks.
[[nodiscard]] std::string drawable(std::string_view text);

[[nodiscard]] std::string xml_text(std::string_view text);

/// Formats "12.5", "-3", in every locale.
[[nodiscard]] std::string svg_number(double x);

/// Returns a width in em, at least that of common sans-serif fonts.
[[nodiscard]] constexpr double em_of(std::string_view character) noexcept {
    constexpr std::string_view narrow = " .,:;'|!ijltfrI()[]-/";
    constexpr std::string_view wide = "mwMWQO@%+=<>~_&";
    char const c = character[0];
    if (character.size() == 1) {
        if (narrow.find(c) != narrow.npos) return 0.38;
        if (wide.find(c) != wide.npos) return 1.0;
        return c >= 'A' && c <= 'Z' ? 0.76 : 0.65;
    }
    if (character.size() == 2) return 0.8;
    return static_cast<unsigned char>(c) >= 0xE3 ? 1.1 : 1.0;
}

[[nodiscard]] constexpr double text_width(std::string_view text, double font_size) noexcept {
    double ems = 0;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t const length = std::max<std::size_t>(utf8_length(text, at), 1);
        ems += em_of(text.substr(at, length));
        at += length;
    }
    return ems * font_size;
}

/// Makes text drawable and cuts it to a width, in the middle and between characters.
[[nodiscard]] std::string fitted(std::string_view text, double width, double font_size);

/// Cuts at the end instead, for sentences.
[[nodiscard]] std::string fitted_head(std::string_view text, double width, double font_size);

/// A rectangle; y points down.
struct svg_box {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;

    [[nodiscard]] constexpr bool touches(svg_box const& b) const noexcept {
        return x < b.x + b.width && b.x < x + width && y < b.y + b.height && b.y < y + height;
    }
    [[nodiscard]] constexpr bool is_in(svg_box const& b) const noexcept {
        return x >= b.x && y >= b.y && x + width <= b.x + b.width && y + height <= b.y + b.height;
    }
};

class label_layout {
public:
    explicit label_layout(svg_box whole) : whole_{whole} {}

    void take(svg_box b) { taken_.push_back(b); }
    /// Reserves and returns the first free box inside the whole.
    [[nodiscard]] std::optional<svg_box> place(std::span<svg_box const> wishes);

private:
    svg_box whole_;
    std::vector<svg_box> taken_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string drawable(std::string_view text) {
    std::string const clean = printable(text);
    std::string result;
    for (std::size_t at = 0; at != clean.size();) {
        std::string_view const character{clean.data() + at, utf8_length(clean, at)};
        if (is_unfit_for_xml(character)) result += '?';
        else result += character;
        at += character.size();
    }
    return result;
}

CUOTA_INLINE std::string xml_text(std::string_view text) {
    std::string result;
    for (char const c : drawable(text)) {
        if (c == '<') result += "&lt;";
        else if (c == '>') result += "&gt;";
        else if (c == '&') result += "&amp;";
        else if (c == '"') result += "&quot;";
        else if (c == '\'') result += "&#39;";
        else result += c;
    }
    return result;
}

CUOTA_INLINE std::string svg_number(double x) {
    long long const tenths = std::llround(x * 10);
    std::string result = tenths < 0 ? "-" : "";
    unsigned long long const size = static_cast<unsigned long long>(tenths < 0 ? -tenths : tenths);
    result += std::to_string(size / 10);
    if (size % 10 != 0) (result += '.') += static_cast<char>('0' + size % 10);
    return result;
}

CUOTA_INLINE std::string fitted(std::string_view text, double width, double font_size) {
    std::string whole = drawable(text);
    if (text_width(whole, font_size) <= width) return whole;
    std::vector<std::string_view> characters;
    std::string_view const view = whole;
    for (std::size_t at = 0; at != view.size(); at += characters.back().size())
        characters.push_back(view.substr(at, utf8_length(view, at)));
    double left = width / font_size - 1.0;  // minus the ellipsis
    std::string head;
    std::string_view tail = view.substr(view.size());
    for (std::size_t first = 0, last = characters.size(); first != last;) {
        bool const at_head = head.size() <= tail.size();
        std::string_view const next = at_head ? characters[first] : characters[last - 1];
        if ((left -= em_of(next)) < 0) break;
        if (at_head) head += next, ++first;
        else tail = view.substr(view.size() - tail.size() - next.size()), --last;
    }
    return head + "\xE2\x80\xA6" + std::string{tail};
}

CUOTA_INLINE std::string fitted_head(std::string_view text, double width, double font_size) {
    std::string whole = drawable(text);
    if (text_width(whole, font_size) <= width) return whole;
    double left = width / font_size - 1.0;
    std::size_t at = 0;
    while (true) {
        std::string_view const next{whole.data() + at, utf8_length(whole, at)};
        if ((left -= em_of(next)) < 0) return whole.substr(0, at) + "\xE2\x80\xA6";
        at += next.size();
    }
}

CUOTA_INLINE std::optional<svg_box> label_layout::place(std::span<svg_box const> wishes) {
    for (svg_box const& b : wishes) {
        auto const is_in_the_way = [&](svg_box const& other) { return b.touches(other); };
        if (!b.is_in(whole_) || std::ranges::any_of(taken_, is_in_the_way)) continue;
        taken_.push_back(b);
        return b;
    }
    return std::nullopt;
}

}  // namespace cuota::inline v0::detail

#endif
